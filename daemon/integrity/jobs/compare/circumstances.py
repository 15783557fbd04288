"""
Collect what is known of a copy with other content, besides that content: its times, and what stood there before.

``arbitration`` decides by it. Nothing is read here but the beginning of a file, where its copy is shorter.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from xxhash import xxh3_128

from integrity.arbitration import CopyCircumstances, CopyPast, CopyTime, Level
from integrity.catalog.copies import CopyFound, KnownFound
from integrity.catalog.versions import FileVersion
from integrity.copies.protocol import Kind
from integrity.errors import ReadError
from integrity.files.buffers import Buffers
from integrity.files.span import ReadMode
from integrity.jobs.compare.copy_answer import CopyAnswer, is_older
from integrity.jobs.compare.copy_habit import CopyHabit
from integrity.jobs.compare.own_witness import OwnWitness
from integrity.model import BaselineReason
from integrity.same_time import is_same_time

if TYPE_CHECKING:
    from integrity.catalog.rows import FileRecord
    from integrity.jobs.context import RootRun

_UNEXPLAINED = frozenset({BaselineReason.DELETED, BaselineReason.FORGOTTEN})
"""Why a version went, where what came after it under the same time was never explained by a write or a person."""

_DAY_NS = 86_400 * 10**9
_ZEROS = bytes(1 << 20)


class CopyTimes(NamedTuple):
    """
    Which file a copy is, and its times.

    Attributes:
        mtime_ns: as the copy keeps it, or of the upload; None if there is none.
        ctime_ns: None where the file system's can't be trusted.
        inode: None where there is none, or where it is given anew.
    """

    mtime_ns: int | None
    ctime_ns: int | None
    inode: int | None


class WrittenFile(NamedTuple):
    """The content of a file that its copy is held against: the recorded one, or a newer one that awaits a decision."""

    record: FileRecord
    mtime_ns: int


TIMES_OF_ONE_VERSION = (CopyTime.SAME, CopyTime.NONE)
"""Of two versions, the older may be the one that passes the checksum inside it."""


def find_circumstances(
    written: WrittenFile,
    answer: CopyAnswer,
    times: CopyTimes,
    known: KnownFound,
    former: Sequence[FileVersion],
    habit: CopyHabit,
    *,
    has_ctime: bool,
    rewrites_in_place: bool,
    is_beginning: bool,
    read_at: int | None,
    own_witness: OwnWitness | None,
    bad_since: int | None,
) -> CopyCircumstances:
    """
    Collect what is known.

    Args:
        known: what the copy had.
        former: former versions of the file's path.
        has_ctime: of the copy's file system.
        read_at: when the program that made a backup read what it has, in seconds; None if that is not known.
        own_witness: the side that fails the checksum inside it.
        bad_since: when the file was first found with other content than recorded; None if it was not.
    """
    record, time = written.record, habit.find_time(written.mtime_ns, times.mtime_ns)
    found = known.here
    has_same = found is not None and found.digest is not None and found.digest == find_digest(answer)
    copy_ns = None if times.mtime_ns is None or time is CopyTime.NONE else habit.take_off_shift(times.mtime_ns)
    # What grew began like its copy, so there the order of the times is enough.
    if _was_made_before(written.mtime_ns, times.mtime_ns, habit, clocks_ns=0 if is_beginning else _DAY_NS):
        time = CopyTime.OLDER
    same = [one for one in former if is_older([one], answer.size_bytes, answer.stated)]
    return CopyCircumstances(
        time=time,
        past=_find_past(record, answer, times, found, former, habit),
        has_ctime=has_ctime,
        rewrites_in_place=rewrites_in_place,
        is_beginning=is_beginning,
        has_former_time=copy_ns is not None
        and any(
            one.witness.size_bytes == answer.size_bytes and is_same_time(one.witness.mtime_ns, copy_ns)
            for one in former
        ),
        was_here=any(
            one.replaced_because in _UNEXPLAINED and is_same_time(one.witness.mtime_ns, record.witness.mtime_ns)
            for one in same
        )
        or (time is CopyTime.SAME and read_at is not None and read_at < record.recorded_at),
        failing=own_witness.side if own_witness is not None and time in TIMES_OF_ONE_VERSION else None,
        contradicts_store=answer.is_store_contradicted,
        had_recorded=known.recorded_at is not None or (found is not None and _is_recorded(record, found, former)),
        had_this=has_same and found is not None and (bad_since is None or found.found_at < bad_since),
    )


def _was_made_before(file_ns: int, copy_ns: int | None, habit: CopyHabit, *, clocks_ns: int) -> bool:
    """
    Return whether a copy without times was made before the file was last written.

    The clocks of two machines order two moments only if these are further apart than ``clocks_ns``.
    """
    return not habit.has_times and copy_ns is not None and copy_ns + clocks_ns < file_ns


def _find_past(
    record: FileRecord,
    answer: CopyAnswer,
    times: CopyTimes,
    found: CopyFound | None,
    former: Sequence[FileVersion],
    habit: CopyHabit,
) -> CopyPast:
    """Tell what was read earlier at the copy's place, under the size and time that it has now."""
    was_renamed = found is not None and found.found_as is not None and found.mtime_ns is None
    if found is None or was_renamed or not _is_other_content(record, answer, found, former):
        return CopyPast.UNKNOWN
    if found.mtime_ns is None or times.mtime_ns is None:
        return CopyPast.TOUCHED
    if not habit.is_kept_time(found.mtime_ns, times.mtime_ns):
        return CopyPast.UNKNOWN  # it was written since
    return CopyPast.UNTOUCHED if found.ctime_ns == times.ctime_ns else CopyPast.TOUCHED


def _is_other_content(record: FileRecord, answer: CopyAnswer, found: CopyFound, former: Sequence[FileVersion]) -> bool:
    """Return whether a copy is known to have other content than when it was found, of the size that it had then."""
    if found.version is None:
        now = find_digest(answer)
        is_other = None not in (now, found.digest) and now != found.digest
        return is_other and (found.size_bytes == answer.size_bytes or found.ctime_ns is not None)
    mine = [one for one in former if one.file_id == record.id and any(one.digests)]
    if any(one.number == found.version and is_older([one], answer.size_bytes, answer.stated) for one in mine):
        return False
    sizes = {one.number: one.witness.size_bytes for one in mine}
    size_bytes = (sizes | {record.version: record.witness.size_bytes}).get(found.version)
    return size_bytes is not None and (size_bytes == answer.size_bytes or found.ctime_ns is not None)


def _is_recorded(record: FileRecord, found: CopyFound, former: Sequence[FileVersion]) -> bool:
    """Return whether other content that a copy had is the record, or was it before, or has become it since."""
    contents = (record.digests.xxh3_128, *(one.digests.xxh3_128 for one in former))
    return found.digest is not None and found.digest in contents


def find_digest(answer: CopyAnswer) -> bytes | None:
    """Return the XXH3-128 of what was read of a copy; None if it is not known."""
    return next((one.value for one in answer.stated if one.kind is Kind.XXH3_128), None)


def remember_content(
    answer: CopyAnswer, times: CopyTimes, known: KnownFound, habit: CopyHabit, now: int
) -> CopyFound | None:
    """
    Return the witness to keep: the one there is while the copy is the same file, or else what was read of it now.

    Where a copy had the recorded content of a file under another name, that is kept: it may be the last good one.
    """
    if known.elsewhere is not None and known.elsewhere.version is not None:
        return known.elsewhere
    found, digest = known.here, find_digest(answer)
    if found is not None and found.inode == times.inode and habit.is_kept_time(found.mtime_ns, times.mtime_ns):
        return found._replace(mtime_ns=times.mtime_ns)
    if times.mtime_ns is None or digest is None or answer.level is not Level.READ:
        return found
    return CopyFound(None, digest, answer.size_bytes, now, *times, had_recorded_at=known.recorded_at)


def has_beginning(run: RootRun, record: FileRecord, answer: CopyAnswer) -> bool:
    """Return whether a file, as it is on its disk now, begins with the whole content of its shorter copy."""
    stated, length = find_digest(answer), answer.size_bytes
    if stated is None or length is None or length >= record.witness.size_bytes:
        return False
    hasher = xxh3_128()
    try:
        with Buffers() as buffers, run.reader(ReadMode.DISK).open(record.path) as file:
            for offset, size, data in file.segments(buffers):
                size = min(size, length - offset)
                if size <= 0 or run.context.stop.is_set():
                    break  # a run that was stopped decides nothing
                if data is not None:
                    hasher.update(data[:size])
                    continue
                for start in range(0, size, len(_ZEROS)):
                    hasher.update(_ZEROS[: size - start])
    except ReadError:
        return False  # it has a finding of its own, or the run was stopped
    return hasher.digest() == stated


def is_within_lag(
    written: WrittenFile,
    answer: CopyAnswer,
    circumstances: CopyCircumstances,
    copy_ns: int | None,
    former: Sequence[FileVersion],
    since: int,
    now: int,
) -> bool:
    """
    Return whether a backup that may lag behind since ``since`` may have this content: what the file had then, or later.

    Args:
        copy_ns: the time of the copy, in the clock of the file; None if it has none.
        since: seconds UTC; ``now`` likewise: times after it, by more than clocks differ, excuse nothing.
    """
    now_ns = now * 10**9 + _DAY_NS
    if is_older([one for one in former if one.replaced_at >= since], answer.size_bytes, answer.stated):
        return True
    known = [one.witness.mtime_ns for one in former if one.replaced_because is not BaselineReason.REJECTED]
    known.append(written.mtime_ns)
    due_ns = max((mtime_ns for mtime_ns in known if not since * 10**9 <= mtime_ns <= now_ns), default=None)
    if due_ns is None:
        return True  # all that is known of the file was written since
    if circumstances.time is CopyTime.NONE or copy_ns is None:
        return False
    if circumstances.time is CopyTime.NEWER:
        return since * 10**9 <= copy_ns <= now_ns
    return copy_ns >= due_ns or is_same_time(copy_ns, due_ns)
