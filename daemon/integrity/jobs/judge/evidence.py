"""
Collect the evidence for the verdict on a file whose content differs from its record.

Decides what is looked up and how far it counts (R2): how the witness moved, whether machine or disk may have crashed
since, whether a growing file keeps its old content or was rotated, and whether the content is recorded of another file:
then it was moved or copied here. ``verdict.py`` decides the verdict, the assessor acts on it.

A flipped bit never yields content recorded under another name, but a misdirected write does. Where inodes are not
stable, more must fit: a file keeps its base name if its ctime did not move (only a renamed folder leaves it unmoved),
and the other name must be missing or have other recorded content. After a misdirected write the other name has its old
content or unknown content. A copy of the damage has the same content as well, but was recorded later.

I1  Collecting evidence changes neither the catalog nor the run, except the count of bytes read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from integrity.catalog import files, versions
from integrity.catalog.root_meta import find_move
from integrity.catalog.rows import FileContent, FileRecord
from integrity.catalog.runs import Interruption, find_interruption
from integrity.catalog.versions import FileVersion
from integrity.errors import ReadError, Unreadable
from integrity.files.buffers import Buffers
from integrity.files.open_beneath import stat_beneath
from integrity.files.span import ReadMode
from integrity.files.stamps import witness_of
from integrity.hashing.digests import ProbeHasher, have_equal_digests, is_blank, want_to_verify
from integrity.hashing.tasks import Done
from integrity.jobs.judge.confirm import Mismatch, read_whole
from integrity.jobs.judge.content_diff import (
    KEEPS_BEGINNING,
    Difference,
    as_former,
    as_record,
    compare_content,
    keeps_prefix,
    prefix_probe,
)
from integrity.jobs.judge.inodes import ReplacedInodes, as_last_seen, leads_to, was_born_before
from integrity.jobs.presence import is_gone
from integrity.model import BaselineReason, Digests, FileId, Policy, ReadHow, Reading, Witness
from integrity.same_time import is_unwritten
from integrity.verdict import (
    DAMAGE,
    Circumstances,
    Content,
    Elsewhere,
    Judgement,
    Shift,
    WitnessShift,
    compare_witness,
    judge,
)

if TYPE_CHECKING:
    from integrity.catalog.connection import Connection
    from integrity.jobs.context import RootRun


_BY_A_WRITE = (BaselineReason.EDITED, BaselineReason.ROLLED_BACK)
_SECOND_NS = 1_000_000_000
_NAMES_LOOKED_AT = 16
"""Maximum number of names with the same content to check; a moved file makes one of them lose it."""


class Evidence:
    """
    Judge files by their records and circumstances. ``replaced``: see ``ReplacedInodes``.

    Attributes:
        moved_together: files whose time moved together with others, with that time.
        move: the last move of the root.
    """

    def __init__(self, run: RootRun, replaced: ReplacedInodes) -> None:
        self._run = run
        self.replaced = replaced
        self.moved_together: dict[FileId, int] = {}
        with run.catalog.read() as connection:
            self.move = find_move(connection, run.root)
        self._interruptions: dict[tuple[int | None, str], Interruption | None] = {}

    def judge(
        self, connection: Connection, record: FileRecord, done: Done, elsewhere: Elsewhere = Elsewhere.NOWHERE
    ) -> Judgement:
        """Judge a reading that differs from the record; ``elsewhere``: where else its content is recorded."""
        run, reading = self._run, done.reading
        shift = self._compare_witness(connection, record, reading)
        circumstances = Circumstances(
            policy=run.settings.policy,
            is_baseline_racy=bool(record.witness.is_racy),
            rewrites_in_place=run.rewrites.covers(record.path),
            was_unclean=self.find_interruption(connection, record) is not None,
            is_unverified=record.verified_at is None or record.read_how is ReadHow.CACHE_POSSIBLE,
            elsewhere=elsewhere,
        )
        if run.settings.policy in KEEPS_BEGINNING:
            kept = keeps_prefix(connection, record, reading, done.probe)
            rotated = (
                not kept
                and run.settings.policy is Policy.GROWING
                and not shift.is_inode_equal
                and self._was_rotated(connection, record, reading)
            )
            circumstances = circumstances._replace(keeps_prefix=kept, was_rotated=rotated)
        return judge(run.capability, Content.DIFFERS, shift, circumstances)

    def judge_latest(
        self, connection: Connection, record: FileRecord, known: FileVersion | None, done: Done, difference: Difference
    ) -> tuple[FileRecord, Judgement, Difference]:
        """
        Judge a reading against the candidate (the content last seen) and against the baseline, which may be back.

        Damage of either is damage. Otherwise the reading is a change of the baseline, which it may replace. If the
        candidate is known damage, the witness is compared with the candidate's and the content with the baseline.

        Returns:
            The record that was compared (a candidate is converted to a record), the judgement and the difference.
        """
        against = [(record, difference)]
        latest = record if known is None else as_record(record, known)
        if known is not None and known.is_damage:
            return record, self.judge(connection, latest, done), difference
        if latest is not record:
            newer = compare_content(connection, latest, done.reading, done.first_block)
            if not newer.is_catalog_damaged:  # else it proves nothing; this reading replaces it
                against.insert(0, (latest, newer))
        judged = [(one, self.judge(connection, one, done), found) for one, found in against]
        return next((one for one in judged if one[1].verdict in DAMAGE), judged[-1])

    def sort_out_moved(
        self, mismatches: Sequence[Mismatch]
    ) -> tuple[list[Mismatch], list[tuple[Mismatch, Judgement]], list[Mismatch]]:
        """
        Separate mismatches that are no damage because another file is recorded with their content.

        Returns:
            Those that look like damage; the others with their judgement; those whose reading lacks the digests to tell.
        """
        possible: list[Mismatch] = []
        left: list[Mismatch] = []
        moved: list[tuple[Mismatch, Judgement]] = []
        undecided: list[Mismatch] = []
        with self._run.catalog.read() as connection:
            for one in mismatches:
                is_excused = (
                    self.judge(connection, one.record, one.done, elsewhere).verdict not in DAMAGE
                    for elsewhere in (Elsewhere.LEFT, Elsewhere.COPIED)
                )
                (possible if any(is_excused) else left).append(one)
        found = _find_elsewhere(self._run, possible)
        with self._run.catalog.read() as connection:
            for one, elsewhere in zip(possible, found, strict=True):
                if elsewhere is None:
                    undecided.append(one)
                    continue
                judgement = self.judge(connection, one.record, one.done, elsewhere)
                if judgement.verdict in DAMAGE:
                    left.append(one)
                else:
                    moved.append((one, judgement))
        return left, moved, undecided

    def _compare_witness(self, connection: Connection, record: FileRecord, reading: Reading) -> WitnessShift:
        """Compare a witness with the recorded one; a time that moved with others, or the root, shows no write."""
        seen = reading.witness
        shift = compare_witness(self._run.capability, record.witness, seen)
        is_together = self.moved_together.get(record.id) == seen.mtime_ns
        if self.move is not None and not record.is_candidate and self.move.is_unwritten(record, seen.mtime_ns):
            # Unless it was put back before the move.
            is_together |= not self._is_former_version(connection, record, reading)
        return shift._replace(mtime=Shift.TOGETHER) if is_together and shift.mtime is not Shift.EQUAL else shift

    def _is_former_version(self, connection: Connection, record: FileRecord, reading: Reading) -> bool:
        """Return whether a file has the content of a version that was edited later: somebody put it back."""
        former = versions.former_of(connection, self._run.root.id, record.path)
        return any(
            one.replaced_because in _BY_A_WRITE
            and one.witness.size_bytes == reading.witness.size_bytes
            and have_equal_digests(one.digests, reading.digests)
            for one in former
        )

    def find_interruption(self, connection: Connection, record: FileRecord) -> Interruption | None:
        """Return a possible crash since a file was last found intact."""
        key = record.boot_id, self._run.get_file_system(record.path)
        if key not in self._interruptions:
            self._interruptions[key] = find_interruption(connection, *key)
        return self._interruptions[key]

    def _was_rotated(self, connection: Connection, record: FileRecord, reading: Reading) -> bool:
        """
        Return whether the recorded file has another name now, or the file under this name had another name before.

        In the latter case the names were shifted (log.1 to log.2) and the oldest file was pushed out. If the file was
        appended to before it was renamed, it must begin with what is recorded of it.
        """
        run, seen = self._run, reading.witness
        written = next(self._find_written(connection, record, seen), None)
        if written is not None:
            return self._begins_with(connection, written, record.path, reading)
        if self.replaced.find(record.path, record.witness) is not None:
            return True
        if self.replaced.find_written(run.root_fd, as_last_seen(connection, record)) is not None:
            return True
        others = files.find_by_inode(connection, run.root.id, record.witness.inode)
        if any(other.id != record.id and other.digests.md5 == record.digests.md5 for other in others):
            return True
        return self.find_another(connection, record, seen) is not None

    def _begins_with(self, connection: Connection, record: FileRecord, path: bytes, reading: Reading) -> bool:
        """Return whether a file that was read under another name begins with its recorded content."""
        start, length = probe = prefix_probe(record)
        hasher = ProbeHasher(probe)
        try:
            with Buffers() as buffers, self._run.reader(ReadMode.DISK, use_holes=False).open(path) as file:
                for segment in file.segments(buffers, start):
                    hasher.feed(segment)
                    if segment.offset + segment.length >= start + length:
                        break
                self._run.counts.bytes_read += file.bytes_read
        except ReadError:
            return False
        return keeps_prefix(connection, record, reading, hasher.digest())

    def find_new_name(
        self, connection: Connection, record: FileRecord, known: FileVersion | None, seen: Witness
    ) -> bytes | None:
        """
        Return the other recorded name that a file with an open finding has now.

        Either a walk found it there, or it was renamed later and that name has already been given its baseline.
        """
        last = as_last_seen(connection, record)
        has_stable_inodes = self._run.capability.has_stable_inodes
        if not record.is_frozen or (has_stable_inodes and seen.inode == last.witness.inode):
            return None
        witnesses = (record.witness, None if known is None else known.witness)
        names = (self.replaced.find(record.path, one) for one in witnesses if one is not None)
        found = next((name for name in names if name is not None), None)
        if found is not None or not has_stable_inodes:
            return found
        found = self.replaced.find_written(self._run.root_fd, last)
        if found is not None:
            return found
        links = files.find_by_inode(connection, self._run.root.id, last.witness.inode)
        return next(
            (one.path for one in links if one.id != record.id and one.is_frozen and one.reason is BaselineReason.MOVED),
            None,
        )

    def find_damaged(self, connection: Connection, record: FileRecord, seen: Witness) -> FileRecord | None:
        """Return the record with an open finding whose file was written to since and has this name now."""
        return next((one for one in self._find_written(connection, record, seen) if one.is_frozen), None)

    def _find_written(self, connection: Connection, record: FileRecord, seen: Witness) -> Iterator[FileRecord]:
        """Yield the other records whose file was written to since and has this name now, by inode and birth time."""
        run = self._run
        if not run.capability.has_stable_inodes or seen.inode == record.witness.inode:
            return
        for one in files.find_by_inode(connection, run.root.id, seen.inode):
            last, known = as_last_seen(connection, one), versions.get_candidate(connection, one.id)
            is_newer = known is not None and not known.is_damage  # newer content, as last seen
            is_written = is_newer or not is_unwritten(last.witness, seen)
            if one.id != record.id and is_written and was_born_before(run.root_fd, record.path, last):
                yield one

    def may_be_elsewhere(
        self, connection: Connection, record: FileRecord, known: FileVersion | None, seen: Witness
    ) -> bool:
        """Return whether the name leads to another record's file, or its own damaged file may have another name now."""
        is_growing = self._run.settings.policy is Policy.GROWING
        if self.find_another(connection, record, seen) or any(
            one.is_frozen or is_growing for one in self._find_written(connection, record, seen)
        ):
            return True
        witnesses = (record.witness, None if known is None else known.witness)
        inodes = {one.inode for one in witnesses if one is not None}
        return record.is_frozen and self._run.capability.has_stable_inodes and seen.inode not in inodes

    def has_moved_on(self, connection: Connection, record: FileRecord, new_name: bytes) -> bool:
        """
        Return whether a damaged file that now has another recorded name took its finding there.

        Either the other name already has an open finding, or it is about to take over the content that this file had
        before it was damaged: someone restored it. A file that was merely replaced by newer content keeps its finding
        (R6).
        """
        there = files.find_file(connection, self._run.root.id, new_name)
        if there is None or there.is_frozen:
            return there is not None
        taken_over = versions.get_candidate(connection, there.id)
        return taken_over is not None and record.digests.md5 in {taken_over.digests.md5} - {None}

    def is_replaced(self, record: FileRecord, error: Unreadable) -> bool:
        """Return whether the unreadable file is neither the recorded one nor the one that has the name now."""
        seen = error.witness
        if seen is None:
            return False
        if self._run.capability.has_stable_inodes:
            is_recorded = seen.inode in (record.witness.inode, record.last_inode)
        else:
            is_recorded = is_unwritten(record.witness, seen)
        return not is_recorded and not leads_to(self._run.root_fd, record.path, seen)

    def find_another(self, connection: Connection, record: FileRecord, seen: Witness) -> FileRecord | None:
        """
        Return the other record whose file has this record's name now, by inode, size and mtime.

        Also of former baselines: a name whose file was renamed away during a run gets a new baseline before its own
        file is found elsewhere.
        """
        run = self._run
        if not run.capability.has_stable_inodes or seen.inode == record.witness.inode:
            return None
        for one in files.find_by_inode(connection, run.root.id, seen.inode):
            if one.id != record.id and is_unwritten(one.witness, seen):
                return one
        former = versions.find_former_of_inode(connection, run.root.id, seen)
        content = None if former is None else versions.load_version(connection, former, former.witness)
        return None if former is None or content is None else as_former(record, former, content)


class _Found(NamedTuple):
    """Where the content of one mismatch is recorded, apart from its own record."""

    now: list[FileRecord]
    before: list[FileVersion]


def _find_elsewhere(run: RootRun, mismatches: Sequence[Mismatch]) -> list[Elsewhere | None]:
    """
    Search the current and former records of the root for the content of mismatches.

    Returns:
        One answer per mismatch; None where the reading lacks the whole-file digests to decide.
    """
    readings = [one.reading for one in mismatches]
    contents = [FileContent(one.witness.size_bytes, one.digests, one.blocks) for one in readings]
    others = _look_up(run, [(one.record, content) for one, content in zip(mismatches, contents, strict=True)])
    found = [_leave_out_impossible(run, *each) for each in zip(mismatches, others, strict=True)]
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
    shift = compare_witness(run.capability, mismatch.record.witness, mismatch.reading.witness)
    if not (run.capability.has_ctime and shift.is_ctime_equal):
        return _Found(found.now, [one for one in found.before if not _is_copy(mismatch, one)])

    def has_name(one: FileRecord | FileVersion) -> bool:
        return one.path.rpartition(b"/")[2] == mismatch.record.path.rpartition(b"/")[2]

    before = [one for one in found.before if has_name(one) and not _is_copy(mismatch, one)]
    return _Found(list(filter(has_name, found.now)), before)


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
    for number in undecided.keys() - left:
        for record, content in _read_names(run, undecided[number].now):
            known = FileContent(record.witness.size_bytes, record.digests, None)
            if content is None and not _is_copy(mismatches[number], record):
                left.add(number)
            elif content is not None and not set(content.whole_digests) & set(known.whole_digests):
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
    others = _read_names(run, (one for one in found.now if not is_recorded_later(one, record)))
    return any(content is None or bool(wanted & set(content.whole_digests)) for _, content in others)


def _read_names(run: RootRun, records: Iterable[FileRecord]) -> Iterator[tuple[FileRecord, FileContent | None]]:
    """
    Read some names from the disk; yield None for those that are missing or were written to.

    Unreadable names prove nothing and are left out; the job that reads them reports the error.
    """
    with Buffers() as buffers:
        for record in islice(records, _NAMES_LOOKED_AT):
            try:
                content = _read_name(run, record, buffers)
            except (OSError, ReadError):
                continue
            yield record, content


def _read_name(run: RootRun, record: FileRecord, buffers: Buffers) -> FileContent | None:
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
