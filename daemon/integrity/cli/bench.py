"""
How fast this machine can check files, and how long its disks take.

``integrity bench``.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

import click

from integrity import program
from integrity.cli.exitcodes import ExitCode
from integrity.cli.params import PATH, examples
from integrity.cli.session import Session
from integrity.errors import CatalogMissing, show_path
from integrity.paths import path_fields

_MEASURE_S = 0.5
_DATA_BYTES = 32 << 20  # more than caches hold


@click.command(
    epilog=examples(
        ("integrity bench", "this machine, and the disks of all watched folders"),
        ("integrity bench /srv/photos", "the disk of one folder"),
    )
)
@click.argument("folders", nargs=-1, type=PATH, metavar="[FOLDER]...")
@click.pass_obj
def bench(session: Session, folders: Sequence[bytes]) -> int:
    """
    Measure how fast this machine can check files, and how long its disks take.

    Reads each FOLDER for a second from its disk, not from memory, and changes nothing; without FOLDER all watched
    folders. The size is that of the files that a short look counts, or of all that is on the disk.
    """
    _measure_processor(session)
    is_whole = _measure_disks(session, [os.path.realpath(folder) for folder in folders] or _find_watched(session))
    return ExitCode.OK if is_whole else ExitCode.INCOMPLETE


def _measure_processor(session: Session) -> None:
    from integrity.hashing.digests import digest_whole, want_to_record, want_to_verify
    from integrity.units import format_size
    from integrity.words.text import count, describe_core

    blake3, data = "blake3" in session.config.defaults.digests, memoryview(os.urandom(_DATA_BYTES))
    verify, record = (
        _measure_rate(lambda want=want: digest_whole(data, want))  # type: ignore[misc]
        for want in (want_to_verify(is_one_block=True, deep=False, blake3=blake3), want_to_record(blake3=blake3))
    )
    processors, core = len(os.sched_getaffinity(0)), describe_core()
    session.output.tell(
        f"{count(processors, 'processor')} (hash core: {core}); one verifies {format_size(verify)}/s, and records"
        f" {format_size(record)}/s of a large file"
    )
    session.output.give(
        "machine",
        {
            "processors": processors,
            "hash_core": core,
            "verify_bytes_per_s": round(verify),
            "record_bytes_per_s": round(record),
        },
    )


def _measure_rate(work: Callable[[], object]) -> float:
    """Return how many bytes a second one processor digests, without the time that it gave to others."""
    began, times = time.process_time(), 0
    while (spent := time.process_time() - began) < _MEASURE_S:
        work()
        times += 1
    return times * _DATA_BYTES / spent


def _find_watched(session: Session) -> list[bytes]:
    from integrity.catalog.roots import find_roots

    folders = [root.path for root in session.config.own_roots]
    with suppress(CatalogMissing), session.open_catalog(writes=False) as catalog, catalog.read() as connection:
        folders += [root.path for root in find_roots(connection)]
    return list(dict.fromkeys(folders))


def _measure_disks(session: Session, folders: Sequence[bytes]) -> bool:
    """Measure the disks of folders, each once. Return whether all could be."""
    from integrity.jobs.setup.look import look_only_at
    from integrity.views.setup import describe_workload

    output, config = session.output, session.config
    if not folders:
        output.tell(f"No folder is watched; to measure a disk: {program.command('bench')} FOLDER")
    view = look_only_at(folders)
    for path, reason in view.refused:
        output.warn(f"{show_path(path)}: {reason}; its disk was not measured")
    for load, paths in view.measure(folders):
        every_s = min(config.settings_for(path).verify_every_s for path in paths)
        output.tell(describe_workload(load, paths, config.schedule.scrub, every_s))
        output.give(
            "bench",
            {
                "device": load.device_name,
                "folders": [path_fields("path", path) for path in paths],
                "size_bytes": load.size_bytes,
                "bytes_per_s": load.rate_bytes_per_s and round(load.rate_bytes_per_s),
                "duration_s": round(load.duration_s),
                "days": load.days_needed(config.schedule.scrub),
            },
        )
    return not view.refused
