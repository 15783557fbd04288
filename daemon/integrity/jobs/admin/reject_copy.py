"""
End a conflict between a file and its copy in favor of the file, because a person says so.

What the copy has becomes a former version of the file. From then on a comparison finds the copy out of date, and a
backup run mends it, keeping what it replaces. Nothing is written into the copy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from integrity import program
from integrity.catalog import files, findings
from integrity.catalog.actions import Action, record_action
from integrity.catalog.history import add_history
from integrity.copies.protocol import CopyEntry, Kind
from integrity.errors import ConfigError, show_path
from integrity.files.span import UNLIMITED
from integrity.hashing.digests import have_equal_digests, want_to_record
from integrity.jobs.compare.read_back import read_from_copy
from integrity.jobs.compare.source import place_in_copy
from integrity.kinds import ENDED_BY_COMPARE
from integrity.model import ActionVerb, BaselineReason, Digests, Witness
from integrity.paths import absolute, shell_word

if TYPE_CHECKING:
    from integrity.catalog.rows import FileRecord
    from integrity.copies.protocol import Copy
    from integrity.jobs.compare.source import CopySource
    from integrity.jobs.context import Context
    from integrity.jobs.targets import Target


class CopyContent(NamedTuple):
    """What a copy has of a file."""

    size_bytes: int
    mtime_ns: int
    digests: Digests


def read_content(context: Context, target: Target, source: CopySource) -> CopyContent:
    """
    Read what a copy has of a file; of a list, what it states.

    Raises:
        ConfigError: the copy does not have the file, or states nothing that can be recorded.
        ReadError: its data can't be read.
        CopyUnreachable: the copy can't be reached.
    """
    path = absolute(target.root.path, target.prefix)
    place = place_in_copy(source, path)
    with source.open(must_stop=context.stop.is_set) as copy:
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


def reject_copy(context: Context, target: Target, source: CopySource, content: CopyContent, reason: str) -> int:
    """
    Record that a file is right and what its copy has is not.

    Returns:
        Number of findings that were resolved.

    Raises:
        ConfigError: both are equal, or the file is not recorded any more.
    """
    catalog, root, now = context.catalog, target.root, context.now()
    path = absolute(root.path, target.prefix)
    with catalog.transaction() as connection:
        record = files.find_file(connection, catalog.sealer, root.id, target.prefix)
        if record is None:
            raise ConfigError(f"{show_path(path)}: is not recorded any more: a scan was faster")
        if _is_same(record, content):
            raise ConfigError(
                f"{show_path(path)}: {source.name} has the recorded content: there is nothing to decide; compare again:"
                f" {program.command('compare', path, '--with', shell_word(source.name))}"
            )
        rejected = record._replace(
            witness=Witness(content.size_bytes, content.mtime_ns, 0, 0),
            digests=content.digests,
            block_size_bytes=None,
            recorded_at=now,
            reason=BaselineReason.REJECTED,
        )
        note = f"what {source.name} has: {reason}"
        add_history(connection, [rejected], because=BaselineReason.REJECTED, now=now, note=note)
        resolution = f"accepted: your file is right: {reason}"
        ended = findings.resolve_findings(
            connection, file_id=record.id, kinds=ENDED_BY_COMPARE, copy=source.name, resolution=resolution, now=now
        )
        numbers = tuple(sorted({one.incident_id for one in ended}))
        outcome = f"the file is right, not what {source.name} has"
        actor = context.find_actor()
        record_action(
            connection, Action(actor, ActionVerb.ACCEPT, outcome, root.path, target.prefix, numbers, reason), now
        )
    return len(numbers)


def _is_same(record: FileRecord, content: CopyContent) -> bool:
    return content.size_bytes in (0, record.witness.size_bytes) and have_equal_digests(record.digests, content.digests)
