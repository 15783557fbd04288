"""
The decision table of a file: from what was seen of it to what is said of it (R1, R2, R3, R6).

Pure: no I/O, no clock. What it leaves to others: reading the file, comparing digests, what follows from a verdict, and
what a copy of the file says (``arbitration``).

Invariants, each proved over the full cross product of evidence:

I1  The same content is intact, whatever else moved.
I2  Rot is never said of a racy baseline, nor of a file whose mtime and ctime both moved, by itself or with others.
I3  Without a trusted ctime rot is at most ``no_ctime``; after what may have been a crash at most
    ``after_crash``; under another inode at most ``inode_moved``; where inodes are not stable at most ``no_inode``.
I4  A new baseline is taken only for a verdict that somebody's write or rename explains; in archives only for a file
    that begins with its recorded content and got an older time when it was complete. A time that moved together
    with the times of other files, whose content did not change, explains nothing.
I5  The inode alone never excuses; where inodes are not stable it is not even looked at.
I9  Content that is recorded of another file excuses a mismatch only if
    - a rename explains it: the inode is another one, or, where inodes are not stable, the other name has it no longer;
    - a copy made before our last good read explains it, if ctime moved.
    A block that the disk wrote to a wrong place has neither, and is rot.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from integrity.model import BaselineReason, Capability, Certainty, FindingKind, Policy, Witness
from integrity.same_time import is_same_time


class Content(StrEnum):
    """What became of the bytes, as far as it could be read."""

    SAME = "same"
    DIFFERS = "differs"
    UNREADABLE = "unreadable"
    GONE = "gone"


class Shift(StrEnum):
    """Where a time stands against the recorded one."""

    EQUAL = "equal"
    OLDER = "older"
    NEWER = "newer"
    TOGETHER = "together"  # moved with the times of other files, or with the whole root: nobody wrote to this one


class Elsewhere(StrEnum):
    """Whether the content found in a file is recorded of another file of the root: damage never looks like that."""

    NOWHERE = "nowhere"  # or the content is what a disk without data gives, as zeros
    RECORDED = "recorded"  # it was moved or copied here, or the disk confused two places
    LEFT = "left"  # recorded under a name that is gone or has other content by now: it was moved
    COPIED = "copied"  # another name had it before our last good read of this file, and has it still or was replaced


class Verdict(StrEnum):
    """The outcome of judging one file once."""

    INTACT = "intact"
    ROT = "rot"
    SILENT_REWRITE = "silent_rewrite"
    ROLLED_BACK = "rolled_back"
    CHANGED = "changed"
    COMPLETED = "completed"  # a copy into an archive that had been interrupted when it was recorded
    SHRUNK = "shrunk"
    UNREADABLE = "unreadable"
    DELETED = "deleted"
    MISSING = "missing"


class WitnessShift(NamedTuple):
    """How a witness differs from the recorded one, as far as the file system can be trusted."""

    is_size_equal: bool
    mtime: Shift
    is_ctime_equal: bool
    is_inode_equal: bool

    @property
    def is_nothing(self) -> bool:
        """Say whether nothing moved, times as far as they were kept."""
        return self.is_size_equal and self.mtime is Shift.EQUAL and self.is_ctime_equal and self.is_inode_equal

    @property
    def touches_content(self) -> bool:
        """Say whether a write is the likely cause."""
        return not self.is_size_equal or self.mtime is not Shift.EQUAL


class Circumstances(NamedTuple):
    """
    What a verdict depends on besides content and witness.

    Args:
        is_baseline_racy: the recorded witness was (R1).
        rewrites_in_place: the path matches a pattern of programs that rewrite without touching the mtime.
        was_unclean: the machine or the file system may have crashed since the file was last found intact.
        keeps_prefix: in growing roots and archives: the old content is the beginning of the new one.
        was_rotated: in growing roots: the old content stands under another name, this is a new file.
        is_unverified: what is recorded was never verified by reading the file from the disk, for certain.
        elsewhere: whether the new content is recorded of another file.
    """

    policy: Policy
    is_baseline_racy: bool = False
    rewrites_in_place: bool = False
    was_unclean: bool = False
    keeps_prefix: bool = False
    was_rotated: bool = False
    is_unverified: bool = False
    elsewhere: Elsewhere = Elsewhere.NOWHERE


class Judgement(NamedTuple):
    """
    A verdict with its shades.

    Args:
        verdict: what is said.
        certainty: for rot and silent rewrites.
        because: why the new content becomes the baseline; None when it does not.
        is_structural: size moved though nobody wrote.
        is_odd: the witness contradicts itself (mtime moved under an unmoved ctime, another inode with the same times).
        may_be_misrecorded: the file may be right and the record wrong from the beginning, taken from bad memory.
        is_continued: in archives: the file grew and begins with its recorded content.
    """

    verdict: Verdict
    certainty: Certainty | None = None
    because: BaselineReason | None = None
    is_structural: bool = False
    is_odd: bool = False
    may_be_misrecorded: bool = False
    is_continued: bool = False


def compare_witness(capability: Capability, recorded: Witness, seen: Witness) -> WitnessShift:
    """
    Compare two witnesses of one path. Untrusted ctimes and inodes count as unmoved.

    This says what other content means. Whether a file is read is a question of exact equality (``same_time``).
    """
    mtime = Shift.NEWER if seen.mtime_ns > recorded.mtime_ns else Shift.OLDER
    if is_same_time(recorded.mtime_ns, seen.mtime_ns, kept_ns=capability.granularity_ns):
        mtime = Shift.EQUAL
    return WitnessShift(
        is_size_equal=seen.size_bytes == recorded.size_bytes,
        mtime=mtime,
        is_ctime_equal=not capability.has_ctime or seen.ctime_ns == recorded.ctime_ns,
        is_inode_equal=not capability.has_stable_inodes or seen.inode == recorded.inode,
    )


def judge(capability: Capability, content: Content, shift: WitnessShift, circumstances: Circumstances) -> Judgement:
    """
    Judge one file once.

    Args:
        capability: what the file system can be trusted with.
        content: against the baseline.
        shift: of the witness; for content that is gone or unreadable it is not looked at.
        circumstances: see there.
    """
    if content is Content.SAME:
        return Judgement(Verdict.INTACT)
    if content is Content.UNREADABLE:
        return Judgement(Verdict.UNREADABLE)
    if content is Content.GONE:
        return Judgement(Verdict.MISSING if circumstances.policy is Policy.ARCHIVE else Verdict.DELETED)
    is_written = shift.mtime in _WRITTEN or (shift.mtime is Shift.TOGETHER and circumstances.policy is Policy.GROWING)
    if is_written and not (capability.has_ctime and shift.is_ctime_equal):
        return _judge_write(shift, circumstances)
    return _judge_without_write(capability, shift, circumstances)


_WRITTEN = frozenset({Shift.OLDER, Shift.NEWER})
"""A time that moved by itself: somebody wrote. In growing roots the old content itself is the better witness."""


def _judge_write(shift: WitnessShift, circumstances: Circumstances) -> Judgement:
    """Judge content that differs under a moved mtime, with a ctime that moved or can't be asked: somebody wrote."""
    if circumstances.policy is Policy.GROWING:
        if circumstances.was_rotated:
            return Judgement(Verdict.CHANGED, because=BaselineReason.ROTATED)
        if not circumstances.keeps_prefix:
            return Judgement(Verdict.SHRUNK)
        return Judgement(Verdict.CHANGED, because=BaselineReason.GROWN)
    is_archive = circumstances.policy is Policy.ARCHIVE
    is_continued = is_archive and circumstances.keeps_prefix and not shift.is_size_equal
    if shift.mtime is Shift.OLDER:
        if is_continued:  # a copy gets the time of its source when it is complete
            return Judgement(Verdict.COMPLETED, because=BaselineReason.GROWN)
        return Judgement(Verdict.ROLLED_BACK, because=None if is_archive else BaselineReason.ROLLED_BACK)
    because = None if is_archive else BaselineReason.EDITED
    return Judgement(Verdict.CHANGED, because=because, is_continued=is_continued)


def _judge_without_write(capability: Capability, shift: WitnessShift, circumstances: Circumstances) -> Judgement:
    """Judge content that differs though the times do not tell of a write."""
    is_archive = circumstances.policy is Policy.ARCHIVE
    if circumstances.is_baseline_racy:
        return Judgement(Verdict.CHANGED, because=None if is_archive else BaselineReason.RACY)
    shows_writes = capability.has_ctime and capability.shows_mapped_writes
    excludes_write = shows_writes and shift.is_ctime_equal
    if circumstances.rewrites_in_place and not excludes_write:
        return Judgement(Verdict.CHANGED, because=None if is_archive else BaselineReason.REWRITTEN_IN_PLACE)
    if _was_moved_here(capability, shift, circumstances.elsewhere):
        return Judgement(Verdict.CHANGED, because=None if is_archive else BaselineReason.MOVED)
    moved_together = shift.mtime is Shift.TOGETHER and not (capability.has_ctime and shift.is_ctime_equal)
    if moved_together or not shift.is_ctime_equal:
        return Judgement(
            Verdict.SILENT_REWRITE,
            Certainty.TIMES_MOVED_TOGETHER if moved_together else Certainty.CTIME_MOVED,
            is_odd=not shift.is_inode_equal,
            may_be_misrecorded=circumstances.is_unverified,
        )
    certainty = Certainty.PROVEN
    if not shows_writes:
        certainty = Certainty.NO_CTIME
    elif circumstances.was_unclean:
        certainty = Certainty.AFTER_CRASH
    elif not capability.has_stable_inodes:
        certainty = Certainty.NO_INODE
    elif not shift.is_inode_equal:
        certainty = Certainty.INODE_MOVED
    return Judgement(
        Verdict.ROT,
        certainty,
        is_structural=not shift.is_size_equal,
        is_odd=shift.mtime is not Shift.EQUAL or not shift.is_inode_equal,
        may_be_misrecorded=circumstances.is_unverified,
    )


def _was_moved_here(capability: Capability, shift: WitnessShift, elsewhere: Elsewhere) -> bool:
    """Say whether a rename, or a copy, explains content that another file is recorded with (I9)."""
    if elsewhere is Elsewhere.COPIED and capability.has_ctime and not shift.is_ctime_equal:
        return True
    if not capability.has_stable_inodes:
        return elsewhere is Elsewhere.LEFT
    return elsewhere is not Elsewhere.NOWHERE and not shift.is_inode_equal


DAMAGE = frozenset({Verdict.ROT, Verdict.SILENT_REWRITE})
"""The verdicts that are reported only when re-reading confirmed them (R3)."""

_FINDINGS = {
    Verdict.ROT: FindingKind.ROT,
    Verdict.SILENT_REWRITE: FindingKind.SILENT_REWRITE,
    Verdict.SHRUNK: FindingKind.SHRUNK,
    Verdict.UNREADABLE: FindingKind.UNREADABLE,
    Verdict.MISSING: FindingKind.MISSING,
}
_ARCHIVE_FINDINGS = {Verdict.CHANGED: FindingKind.CHANGED, Verdict.ROLLED_BACK: FindingKind.ROLLED_BACK}

FINDINGS_OF_ARCHIVES = frozenset(_ARCHIVE_FINDINGS.values())
"""One of them is open about a file at a time: the newest says what became of it."""

VERDICTS = {kind: verdict for verdict, kind in (_FINDINGS | _ARCHIVE_FINDINGS).items()}
"""The verdict behind each kind of finding about a file."""


def finding_of(verdict: Verdict, policy: Policy) -> FindingKind | None:
    """Tell which kind of finding a verdict opens; None for what is only counted or noted."""
    if policy is Policy.ARCHIVE and verdict in _ARCHIVE_FINDINGS:
        return _ARCHIVE_FINDINGS[verdict]
    return _FINDINGS.get(verdict)


class Confirmation(StrEnum):
    """What re-reading a mismatch showed (R3)."""

    PERSISTENT = "persistent"  # every reading gave the same wrong bytes: they are on the disk
    ONE_COPY = "one_copy"  # a reading gave the right bytes, another copy of the mirror holds wrong ones
    TRANSIENT = "transient"  # a reading gave the right bytes: memory, cable or controller
    UNSTEADY = "unsteady"  # no two readings agree
    UNSTABLE = "unstable"  # readings disagree where writes leave no trace: somebody may be writing
    CATALOG_DAMAGED = "catalog_damaged"  # one digest is right and the other wrong: the catalog was


class Pair(NamedTuple):
    """XXH3-128 and MD5 of the same bytes; ``md5`` is None where it was not computed."""

    xxh3_128: bytes | None
    md5: bytes | None


def confirm(
    baseline: Pair,
    first: Pair,
    rereads: Sequence[Pair],
    *,
    copies: int = 1,
    each_copy: Sequence[Pair] = (),
    shows_writes: bool = True,
) -> Confirmation:
    """
    Decide what a mismatch was, from readings of the same bytes at different moments.

    A mirror answers each reading from one of its copies. So where there are several, different readings are no sign of
    failing memory or cables, and a right one does not show that the others are; only reading each copy by itself does.

    Args:
        baseline: as recorded; a digest that is None there is not compared. Without any, as when only the size differs,
            no reading can be right.
        first: the reading that did not match.
        rereads: at least one later reading, each with every digest that the baseline has.
        copies: how many of the data the storage keeps.
        each_copy: what each of them holds; empty where they could not be read one by one.
        shows_writes: a write between two readings would have moved a time.
    """
    found = _confirm(baseline, first, rereads, copies, each_copy)
    if not shows_writes and found in (Confirmation.TRANSIENT, Confirmation.UNSTEADY):
        return Confirmation.UNSTABLE
    return found


def _confirm(
    baseline: Pair, first: Pair, rereads: Sequence[Pair], copies: int, each_copy: Sequence[Pair]
) -> Confirmation:
    if any(is_match(baseline, pair) for pair in (*rereads, *each_copy)):
        is_each_right = bool(each_copy) and all(is_match(baseline, pair) for pair in each_copy)
        return Confirmation.TRANSIENT if copies == 1 or is_each_right else Confirmation.ONE_COPY
    if any(any(_match(baseline, pair)) for pair in rereads):
        return Confirmation.CATALOG_DAMAGED
    readings = {pair.xxh3_128 for pair in (first, *rereads) if pair.xxh3_128 is not None}
    readings_md5 = {pair.md5 for pair in (first, *rereads) if pair.md5 is not None}
    is_steady = len(readings) <= copies and len(readings_md5) <= copies
    return Confirmation.PERSISTENT if is_steady else Confirmation.UNSTEADY


def is_match(baseline: Pair, read: Pair) -> bool:
    """Say whether a reading has all that was recorded; with nothing to compare it has not."""
    found = _match(baseline, read)
    return bool(found) and all(found)


def _match(baseline: Pair, read: Pair) -> list[bool]:
    pairs = (baseline.xxh3_128, read.xxh3_128), (baseline.md5, read.md5)
    return [recorded == seen for recorded, seen in pairs if recorded is not None and seen is not None]
