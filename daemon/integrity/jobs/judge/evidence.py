"""
Collect the evidence for the verdict on a file whose content differs from its record.

Decides what is looked up and how far it counts (R2): how the witness moved, whether machine or disk may have crashed
since, whether a growing file keeps its old content or was rotated. ``verdict.py`` decides the verdict, the assessor
acts on it.

I1  Collecting evidence changes neither the catalog nor the run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from integrity.catalog import files, versions
from integrity.catalog.root_meta import find_move
from integrity.catalog.rows import FileRecord
from integrity.catalog.runs import Interruption, find_interruption
from integrity.hashing.digests import have_equal_digests
from integrity.hashing.tasks import Done
from integrity.jobs.judge.content_diff import KEEPS_BEGINNING, as_former, keeps_prefix
from integrity.jobs.judge.inodes import as_last_seen, was_born_before
from integrity.jobs.judge.replaced_inodes import ReplacedInodes
from integrity.model import BaselineReason, FileId, Policy, ReadHow, Reading, Witness
from integrity.same_time import is_unwritten
from integrity.verdict import (
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
    from integrity.catalog.versions import FileVersion
    from integrity.jobs.context import RootRun


_BY_A_WRITE = (BaselineReason.EDITED, BaselineReason.ROLLED_BACK)


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
                and self._was_rotated(connection, record, reading.witness)
            )
            circumstances = circumstances._replace(keeps_prefix=kept, was_rotated=rotated)
        return judge(run.capability, Content.DIFFERS, shift, circumstances)

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

    def _was_rotated(self, connection: Connection, record: FileRecord, seen: Witness) -> bool:
        """
        Return whether the recorded file has another name now, or the file under this name had another name before.

        In the latter case the names were shifted (log.1 to log.2) and the oldest file was pushed out.
        """
        if self.replaced.find(record.path, record.witness) is not None:
            return True
        run = self._run
        others = files.find_by_inode(connection, run.root.id, record.witness.inode)
        if any(other.id != record.id and other.digests.md5 == record.digests.md5 for other in others):
            return True
        return self.find_another(connection, record, seen) is not None

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
        run = self._run
        if not run.capability.has_stable_inodes or seen.inode == record.witness.inode:
            return None
        for one in files.find_by_inode(connection, run.root.id, seen.inode):
            if one.id != record.id and one.is_frozen:
                last, known = as_last_seen(connection, one), versions.get_candidate(connection, one.id)
                is_newer = known is not None and not known.is_damage  # newer content, as last seen
                if (not is_unwritten(last.witness, seen) or is_newer) and was_born_before(
                    run.root_fd, record.path, last
                ):
                    return one
        return None

    def find_renamed(self, connection: Connection, record: FileRecord, seen: Witness) -> FileRecord | None:
        """Return the other record whose file has this record's name now, by inode, size and mtime."""
        run = self._run
        if not run.capability.has_stable_inodes or seen.inode == record.witness.inode:
            return None
        here = files.find_by_inode(connection, run.root.id, seen.inode)
        return next((one for one in here if one.id != record.id and is_unwritten(one.witness, seen)), None)

    def find_another(self, connection: Connection, record: FileRecord, seen: Witness) -> FileRecord | None:
        """
        Return the record as ``find_renamed`` does, also searching former baselines.

        A name whose file was renamed away during a run gets a new baseline before its own file is found elsewhere.
        """
        run = self._run
        present = self.find_renamed(connection, record, seen)
        if present is not None or not run.capability.has_stable_inodes or seen.inode == record.witness.inode:
            return present
        former = versions.find_former_of_inode(connection, run.root.id, seen)
        content = None if former is None else versions.load_version(connection, former, former.witness)
        return None if former is None or content is None else as_former(record, former, content)
