"""
Find out whether the mismatched content of a file is recorded of another file: then it was moved or copied here.

A flipped bit never yields content recorded under another name, but a misdirected write does. Where inodes are not
stable, more must fit: a file keeps its base name if its ctime did not move (only a renamed folder leaves it unmoved),
and the other name must be missing or have other recorded content. After a misdirected write the other name has its old
content or unknown content. A copy of the damage has the same content as well, but was recorded later.

``verdict.py`` decides what follows. Nothing here changes the catalog or the run, except the count of bytes read.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from integrity.catalog import files, versions
from integrity.catalog.rows import FileContent, FileRecord
from integrity.catalog.versions import FileVersion
from integrity.errors import ReadError
from integrity.files.buffers import Buffers
from integrity.files.open_beneath import stat_beneath
from integrity.files.span import ReadMode
from integrity.files.stamps import witness_of
from integrity.hashing.digests import is_blank, want_to_verify
from integrity.jobs.judge.confirm import Mismatch, read_whole
from integrity.jobs.presence import is_gone
from integrity.model import BaselineReason, Digests
from integrity.verdict import Elsewhere, compare_witness

if TYPE_CHECKING:
    from integrity.jobs.context import RootRun

_SECOND_NS = 1_000_000_000
_NAMES_LOOKED_AT = 16
"""Maximum number of names with the same content to check; a moved file makes one of them lose it."""


class _Found(NamedTuple):
    """Where the content of one mismatch is recorded, apart from its own record."""

    now: list[FileRecord]
    before: list[FileVersion]


def find_elsewhere(run: RootRun, mismatches: Sequence[Mismatch]) -> list[Elsewhere | None]:
    """
    Search the current and former records of the root for the content of mismatches.

    Returns:
        One answer per mismatch; None where the reading lacks the whole-file digests to decide.
    """
    contents = [
        FileContent(one.reading.witness.size_bytes, one.reading.digests, one.reading.blocks) for one in mismatches
    ]
    found = [
        _leave_out_impossible(run, mismatch, others)
        for mismatch, others in zip(
            mismatches,
            _look_up(run, [(one.record, content) for one, content in zip(mismatches, contents, strict=True)]),
            strict=True,
        )
    ]
    answers = [_answer(*each) for each in zip(mismatches, contents, found, strict=True)]
    for number, mismatch in enumerate(mismatches):
        is_known = answers[number] in (Elsewhere.RECORDED, Elsewhere.LEFT)
        if is_known and _was_copied(run, mismatch, found[number]):
            answers[number] = Elsewhere.COPIED
    if not run.capability.has_stable_inodes:
        undecided = {number: found[number] for number, answer in enumerate(answers) if answer is Elsewhere.RECORDED}
        for number in _find_left(run, mismatches, undecided):
            answers[number] = Elsewhere.LEFT
    return answers


def _answer(mismatch: Mismatch, content: FileContent, found: _Found) -> Elsewhere | None:
    """Answer from the catalog alone."""
    if content.blocks is None and not content.whole_digests:
        return None  # the file shrank below the blocks that were requested
    if mismatch.done.first_block > 0 or is_blank(*content) or not (found.now or found.before):
        return Elsewhere.NOWHERE
    if found.now:
        return Elsewhere.RECORDED
    if content.whole_digests:
        return Elsewhere.LEFT
    # Only the size fits. Very sparse files never have whole-file digests.
    return Elsewhere.NOWHERE if content.blocks and content.blocks.md5 else None


def _look_up(run: RootRun, wanted: Sequence[tuple[FileRecord, FileContent]]) -> list[_Found]:
    """Look up the records that have some content, without the record of its own file."""
    contents = [content for _, content in wanted]
    if not contents:
        return []
    with run.catalog.read() as connection:
        now = files.find_by_content(connection, run.root.id, contents)
        former = versions.find_by_former_content(connection, run.root.id, contents)
    return [
        _Found([one for one in current if one.id != own.id], [one for one in past if one.file_id != own.id])
        for (own, _), current, past in zip(wanted, now, former, strict=True)
    ]


def is_recorded_later(other: FileRecord | FileVersion, record: FileRecord) -> bool:
    """
    Return whether the other file was recorded after this one was last intact: its content may be a copy of the damage.

    Times of the catalog are whole seconds. In the second of the verification a file counts as earlier only if it was
    recorded when this one was, or before: no copy of the damage can have been.
    """
    right_at = record.recorded_at if record.verified_at is None else record.verified_at
    return other.recorded_at > (right_at if other.recorded_at != right_at else record.recorded_at)


def _leave_out_impossible(run: RootRun, mismatch: Mismatch, found: _Found) -> _Found:
    """Drop files that can't have been renamed to this name: a rename would have left a trace, or they are copies."""
    if run.capability.has_stable_inodes:
        return found
    before = [one for one in found.before if not _is_copy(mismatch, one)]
    shift = compare_witness(run.capability, mismatch.record.witness, mismatch.reading.witness)
    if not (run.capability.has_ctime and shift.is_ctime_equal):
        return _Found(found.now, before)
    name = mismatch.record.path.rpartition(b"/")[2]
    return _Found(
        [one for one in found.now if one.path.rpartition(b"/")[2] == name],
        [one for one in before if one.path.rpartition(b"/")[2] == name],
    )


def _is_copy(mismatch: Mismatch, other: FileRecord | FileVersion) -> bool:
    """
    Return whether the other file is a copy of the damage.

    Not with times of whole seconds: there the content may be a new version with the old size and time.
    """
    record = mismatch.record
    return is_recorded_later(other, record) and record.witness.mtime_ns % _SECOND_NS != 0


def _find_left(run: RootRun, mismatches: Sequence[Mismatch], undecided: dict[int, _Found]) -> set[int]:
    """Return the mismatches whose content left another name: it is former, missing, rewritten, or has other content."""
    left = {number for number, found in undecided.items() if found.before}
    changed: list[tuple[int, FileRecord, FileContent]] = []
    with Buffers() as buffers:
        for number in undecided.keys() - left:
            for record in islice(undecided[number].now, _NAMES_LOOKED_AT):
                try:
                    content = _read_name(run, record, buffers)
                except (OSError, ReadError):
                    continue  # unreadable names prove nothing; the job that reads them reports the error
                if content is None and not _is_copy(mismatches[number], record):
                    left.add(number)
                elif content is not None and not set(content.whole_digests) & set(_of_record(record).whole_digests):
                    changed.append((number, record, content))
    found = _look_up(run, [(record, content) for _, record, content in changed])
    return left | {number for (number, _, _), others in zip(changed, found, strict=True) if others.now or others.before}


def _was_copied(run: RootRun, mismatch: Mismatch, found: _Found) -> bool:
    """
    Return whether the content written over a file was recorded of another file before this one was last intact.

    Then it was copied from there with its mtime, which was also the mtime of this file. The other file must still have
    the content on disk, or have been replaced or removed since. A file recorded later is a copy of the damage.
    """
    record, reading = mismatch.record, mismatch.reading
    shift = compare_witness(run.capability, record.witness, reading.witness)
    is_rewritten = run.capability.has_ctime and not shift.is_ctime_equal and shift.is_inode_equal
    if not is_rewritten or record.is_candidate:  # when newer content was last intact is not recorded
        return False
    if any(
        not (one.replaced_because is BaselineReason.INHERITED or is_recorded_later(one, record)) for one in found.before
    ):
        return True
    wanted = set(FileContent(reading.witness.size_bytes, reading.digests, None).whole_digests)
    others = (one for one in found.now if not is_recorded_later(one, record))
    with Buffers() as buffers:
        for other in islice(others, _NAMES_LOOKED_AT):
            try:
                content = _read_name(run, other, buffers)
            except (OSError, ReadError):
                continue  # unreadable names prove nothing; the job that reads them reports the error
            if content is None or wanted & set(content.whole_digests):
                return True
    return False


def _of_record(record: FileRecord) -> FileContent:
    return FileContent(record.witness.size_bytes, record.digests, None)


def _read_name(run: RootRun, record: FileRecord, buffers: Buffers) -> FileContent | None:
    """Read the file under the name of a record from the disk; return None if it is missing or was written to."""
    if is_gone(run.root_fd, record.path, stay_on_mount=not run.settings.cross_mounts):
        return None
    seen = witness_of(stat_beneath(run.root_fd, record.path))
    if compare_witness(run.capability, record.witness, seen).touches_content:
        return None
    with run.reader(ReadMode.DISK, use_holes=False).open(record.path) as file:
        pair = read_whole(file, buffers, want_to_verify(is_one_block=True, deep=True, blake3=False))
        run.counts.bytes_read += file.bytes_read
        file.finish()
    return FileContent(seen.size_bytes, Digests(pair.md5, pair.xxh3_128), None)
