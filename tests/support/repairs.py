"""Damaged files with copies, and killing a repair of them at each of its steps."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from integrity.config import load_config
from integrity.jobs.context import Context
from integrity.jobs.repair.apply import RepairedFile
from integrity.jobs.repair.plan import FilePlan
from integrity.jobs.repair.run import RepairOptions, RepairSummary
from integrity.jobs.repair.targets import find_wanted
from integrity.jobs.runner import repair
from support import AnyPath
from support.cli import Box
from support.jobs import open_context

KIB = 1024
BLOCK = 64 * KIB
CONFIG = '[defaults]\nblock_size = "64KiB"\n'

RENAMES = ("rename", "renameat", "renameat2", "link", "linkat", "unlink", "unlinkat", "mkdir", "mkdirat", "rmdir")
STEPS = (*RENAMES, "fsync", "fdatasync", "ftruncate", "fchmod", "fchown", "utimensat", "fsetxattr", "fremovexattr")
"""What changes something on a disk, or brings it there, but for writing bytes."""


def blocks(count: int, *, tail: int = 100, seed: int = 1) -> bytes:
    """Make content of so many blocks, and ``tail`` bytes more."""
    import random

    return random.Random(seed).randbytes(count * BLOCK + tail)


@dataclass
class Repaired:
    """What a repair told."""

    summary: RepairSummary
    plans: list[FilePlan]
    done: list[RepairedFile]


@contextmanager
def context_of(box: Box) -> Iterator[Context]:
    """Open the catalog of a box as a command would, with its configuration, in this process: a start costs time."""
    config = load_config(os.fsencode(box.home / "integrity.toml"))
    with open_context(box.catalog, config) as context:
        yield context


def run_repair(
    context: Context,
    paths: Sequence[AnyPath],
    copies: Sequence[AnyPath],
    options: RepairOptions = RepairOptions(applies=True),  # noqa: B008 (frozen)
) -> Repaired:
    """Repair in this process."""
    plans: list[FilePlan] = []
    done: list[RepairedFile] = []
    names = [os.fsdecode(copy) for copy in copies]
    wanted = find_wanted(context.catalog, context.config, [os.fsencode(path) for path in paths], names, None)
    summary = repair(context, wanted, options, plans.append, done.append)
    return Repaired(summary, plans, done)


def leftovers(folder: Path) -> list[Path]:
    """List what repairs made or kept."""
    return sorted(folder.rglob(".*.integrity-*"))
