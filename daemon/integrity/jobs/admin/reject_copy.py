"""
End a conflict between a file and its copy in favor of the file, because a person says so.

What the copy has becomes a former version of the file. From then on a comparison finds the copy out of date, and a
backup run mends it, keeping what it replaces. Nothing is written into the copy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from integrity import program
from integrity.catalog import files, findings
from integrity.catalog.runs import Action, record_action
from integrity.catalog.versions import keep
from integrity.copies.protocol import CopyEntry, Kind
from integrity.errors import ConfigError, show_path
from integrity.files.span import UNLIMITED
from integrity.hashing.digests import have_equal_digests, want_to_record
from integrity.jobs.admin.accept import read_file
from integrity.jobs.compare.read_back import read_from_copy
from integrity.jobs.compare.source import find_record, place_in_copy, require_disk
from integrity.kinds import ENDED_BY_COMPARE
from integrity.model import ActionVerb, BaselineReason, Digests, Witness
from integrity.paths import absolute, shell_word

if TYPE_CHECKING:
    from integrity.copies.protocol import Copy
    from integrity.jobs.compare.source import CopySource
    from integrity.jobs.context import Context
    from integrity.jobs.targets import Target


class CopyContent(NamedTuple):
    """What a copy has of a file."""

    size_bytes: int
    mtime_ns: int
    digests: Digests


def reject_copy(context: Context, target: Target, source: CopySource, reason: str) -> int:
    """
    Read a file and its copy, and record that the file is right and what its copy has is not.

    The file has to be what is recorded: what became of a file itself is decided by itself, after a look at it.

    Returns:
        Number of findings that were resolved.

    Raises:
        ConfigError: both are equal, the file is not what is recorded, or the copy does not have it.
        RootSuspended: its root is suspended.
        ReadError: a side can't be read.
        CopyUnreachable: the copy can't be reached, or is on another disk than the one that is meant.
    """
    catalog, root, now, name = context.catalog, target.root, context.now(), source.recorded_name
    path = absolute(root.path, target.prefix)
    content = _read_copy(context, target, source)
    reading = read_file(context.config, target)
    with catalog.transaction() as connection:
        record = files.find_file(connection, root.id, target.prefix)
        if record is None:
            raise ConfigError(f"{show_path(path)}: is not recorded any more: a scan was faster")
        is_size_equal = record.witness.size_bytes == reading.witness.size_bytes
        if not (is_size_equal and have_equal_digests(record.digests, reading.digests)):
            raise ConfigError(
                f"{show_path(path)}: is not what was recorded, so nothing is decided about its copy; first see what"
                f" became of the file itself: {program.command('scrub', path)}"
            )
        if content.size_bytes in (0, record.witness.size_bytes) and have_equal_digests(record.digests, content.digests):
            raise ConfigError(
                f"{show_path(path)}: {name} has the recorded content: there is nothing to decide; compare again:"
                f" {program.command('compare', path, '--with', shell_word(name))}"
            )
        rejected = record._replace(
            witness=Witness(content.size_bytes, content.mtime_ns, 0, 0),
            digests=content.digests,
            block_size_bytes=None,
            recorded_at=now,
            reason=BaselineReason.REJECTED,
        )
        note = f"what {name} has: {reason}"
        keep(connection, [rejected], because=BaselineReason.REJECTED, now=now, note=note)
        resolution = f"accepted: your file is right: {reason}"
        ended = findings.resolve_findings(
            connection, file_id=record.id, kinds=ENDED_BY_COMPARE, copy=name, resolution=resolution, now=now
        )
        numbers = tuple(sorted({one.incident_id for one in ended}))
        outcome = f"the file is right, not what {name} has"
        actor = context.find_actor()
        record_action(
            connection, Action(actor, ActionVerb.ACCEPT, outcome, root.path, target.prefix, numbers, reason), now
        )
    return len(numbers)


def _read_copy(context: Context, target: Target, source: CopySource) -> CopyContent:
    """Read what a copy has of a file; of a list, what it states."""
    path = absolute(target.root.path, target.prefix)
    place, record = place_in_copy(source, path), find_record(context.catalog, source.recorded_name, path)
    with source.open(must_stop=context.stop.is_set) as copy:
        if record is not None:
            require_disk(record, copy)
        if not copy.has_bytes:
            return _find_stated(copy, place, path)
        block_bytes = context.config.settings_for(target.root.path).block_size_bytes
        want = want_to_record(blake3=False)
        reading = read_from_copy(copy, place, block_bytes, pace=UNLIMITED, stop=context.stop, want=want)
    return CopyContent(reading.witness.size_bytes, reading.witness.mtime_ns, reading.digests)


def _find_stated(copy: Copy, place: bytes, path: bytes) -> CopyContent:
    entry = next((one for one in copy.list(place) if isinstance(one, CopyEntry) and one.path == place), None)
    if entry is None:
        raise ConfigError(f"{show_path(path)}: {copy.shown} does not have it, so there is nothing to decide")
    stated = {one.kind: one.value for one in entry.published}
    digests = Digests(stated.get(Kind.MD5), stated.get(Kind.XXH3_128), stated.get(Kind.BLAKE3))
    if not any(digests):
        raise ConfigError(
            f"{show_path(path)}: {copy.shown} has no checksum of it of a kind that is recorded (MD5, XXH3-128, BLAKE3),"
            " so a decision about it can't be kept; write the list again instead"
        )
    return CopyContent(entry.size_bytes or 0, 0, digests)
