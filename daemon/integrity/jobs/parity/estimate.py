"""Tell what protecting takes before anything is written."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from integrity.copies.parity.program import Par2
from integrity.errors import ConfigError
from integrity.files.span import UNLIMITED
from integrity.jobs.parity.protect import DEFAULT_PERCENT, ProtectOptions, ProtectPlan, make_plan
from integrity.jobs.targets import find_target

if TYPE_CHECKING:
    from integrity.catalog.connection import Catalog
    from integrity.config import Config

_SAMPLE_BYTES = 32 << 20


class Estimate(NamedTuple):
    """
    What protecting a path takes.

    Attributes:
        path: absolute.
        options: completed.
        free_bytes: on the disk of the parity.
        duration_s: as fast as this machine computed a sample.
        is_same_disk: the parity is to be on the disk of the files.
    """

    path: bytes
    options: ProtectOptions
    plan: ProtectPlan
    free_bytes: int
    duration_s: float
    is_same_disk: bool


def estimate(catalog: Catalog, config: Config, paths: Sequence[bytes], options: ProtectOptions) -> Iterator[Estimate]:
    """
    Yield what each path takes.

    Raises:
        ConfigError: par2 is not installed, a path is not recorded, or there is no folder for the sets.
    """
    for path in paths:
        with catalog.read() as connection:
            target = find_target(connection, path)
            root = target.root
            whole = options.complete(connection, root, config.settings_for(root.path))
            plan = make_plan(connection, root.id, target.prefix, whole.percent)
        is_same = os.path.exists(path) and os.stat(whole.folder).st_dev == os.stat(path).st_dev
        duration_s = plan.size_bytes / measure_rate(whole.percent)
        yield Estimate(path, whole, plan, shutil.disk_usage(whole.folder).free, duration_s, is_same)


def estimate_time(size_bytes: int) -> float:
    """Return how long it takes to protect files of this size, without reading them; 0 if par2 is not installed."""
    try:
        return size_bytes / measure_rate(DEFAULT_PERCENT)
    except ConfigError:
        return 0.0


def measure_rate(percent: float) -> float:
    """Return how many bytes of files this machine protects in a second, by those of a sample."""
    with tempfile.TemporaryDirectory(prefix="integrity-parity-") as made:
        folder = os.fsencode(made)
        sample = os.path.join(folder, b"sample")
        with open(sample, "wb") as file:
            file.write(os.urandom(_SAMPLE_BYTES))
        slices = round(2000 * percent / 100) or 1
        started = time.perf_counter()
        par2 = Par2("a sample", lambda: False, UNLIMITED)
        par2.create(folder + b"/", os.path.join(folder, b"set.par2"), _SAMPLE_BYTES >> 11, slices, [sample])
        return _SAMPLE_BYTES / (time.perf_counter() - started)
