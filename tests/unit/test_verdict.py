"""The decision table over its full cross product, and the confirming re-read."""

from __future__ import annotations

from itertools import product

import pytest

from integrity.model import BaselineReason, Capability, Certainty, FindingKind, Policy, Witness
from integrity.verdict import (
    Circumstances,
    Confirmation,
    Content,
    Elsewhere,
    Judgement,
    Pair,
    Shift,
    Verdict,
    WitnessShift,
    compare_witness,
    confirm,
    finding_of,
    judge,
)

TRUSTED = Capability("ext4", True, True, 20_000_000, True, False)
FUSE = Capability("fuse", False, False, 1_000_000_000, False, True)
VFAT = Capability("vfat", False, True, 2_000_000_000, False, False)
OVERLAY = Capability("overlay", True, False, 20_000_000, True, False)
TMPFS = Capability("tmpfs", True, True, 20_000_000, False, False, shows_mapped_writes=False)
BOOLEANS = (False, True)
IN_PLACE = {"rewrites_in_place": True}
NO_WRITE = (BaselineReason.RACY, BaselineReason.REWRITTEN_IN_PLACE, BaselineReason.MOVED)


def every_case():
    for capability, content, size, mtime, ctime, inode in product(
        (TRUSTED, FUSE, VFAT, OVERLAY, TMPFS), Content, BOOLEANS, Shift, BOOLEANS, BOOLEANS
    ):
        if not capability.has_ctime and not ctime:
            continue  # compare_witness never says so
        if not capability.has_stable_inodes and not inode:
            continue
        for policy, elsewhere, *facts in product(Policy, Elsewhere, *[BOOLEANS] * 6):
            circumstances = Circumstances(policy, *facts, elsewhere=elsewhere)
            yield capability, content, WitnessShift(size, mtime, ctime, inode), circumstances


@pytest.fixture(scope="module")
def cases():
    """Judge each case once, when the first test asks: not each process that collects tests runs this one."""
    return [(*case, judge(*case)) for case in every_case()]


def row(capability, size, mtime, ctime, inode=True, **circumstances):
    shift = WitnessShift(size, mtime, ctime, inode)
    return judge(capability, Content.DIFFERS, shift, Circumstances(Policy.MUTABLE, **circumstances))


def test_same_content_is_intact_whatever_else_moved(cases):
    """I1: the bytes are what was recorded, so nothing is wrong."""
    for _, content, _, _, judgement in cases:
        if content is Content.SAME:
            assert Judgement(Verdict.INTACT) == judgement


def test_rot_needs_a_sound_baseline_and_no_write(cases):
    """I2: a racy baseline, or times that both moved, leave room for a write."""
    for capability, _, shift, circumstances, judgement in cases:
        if judgement.verdict is Verdict.ROT:
            assert not circumstances.is_baseline_racy
            assert shift.mtime is Shift.EQUAL or (capability.has_ctime and shift.is_ctime_equal)
            assert shift.is_ctime_equal


def test_time_that_moved_with_others_explains_nothing(cases):
    """I2, I4: it is no rot, and no write either, but for what explains other content without a time."""
    for capability, content, shift, circumstances, judgement in cases:
        if content is not Content.DIFFERS or shift.mtime is not Shift.TOGETHER:
            continue
        if circumstances.policy is Policy.GROWING or (capability.has_ctime and shift.is_ctime_equal):
            by_itself = judge(capability, content, shift._replace(mtime=Shift.NEWER), circumstances)
            assert by_itself == judgement
            continue
        assert judgement.because in (None, *NO_WRITE)
        if judgement.verdict is not Verdict.CHANGED:
            assert (Verdict.SILENT_REWRITE, Certainty.TIMES_MOVED_TOGETHER) == (judgement.verdict, judgement.certainty)


def test_certainty_is_never_overstated(cases):
    """I3: proven rot needs a trusted ctime, the recorded inode, trusted too, and no unclean shutdown."""
    for capability, _, shift, circumstances, judgement in cases:
        if judgement.certainty is Certainty.PROVEN:
            assert capability.has_ctime
            assert capability.shows_mapped_writes
            assert not circumstances.was_unclean
            assert capability.has_stable_inodes
            assert shift.is_inode_equal
        if judgement.verdict is Verdict.ROT and not (capability.has_ctime and capability.shows_mapped_writes):
            assert judgement.certainty is Certainty.NO_CTIME
        assert (judgement.certainty is None) == (judgement.verdict not in (Verdict.ROT, Verdict.SILENT_REWRITE))


def test_new_baseline_only_for_what_a_write_explains(cases):
    """I4: content that nobody wrote, that is gone, or that an archive holds never becomes the baseline."""
    for _, content, shift, circumstances, judgement in cases:
        if judgement.because is not None:
            assert content is Content.DIFFERS
            if circumstances.policy is Policy.ARCHIVE:
                assert (Verdict.COMPLETED, Shift.OLDER, False) == (judgement.verdict, shift.mtime, shift.is_size_equal)
                assert circumstances.keeps_prefix
            else:
                assert judgement.verdict in (Verdict.CHANGED, Verdict.ROLLED_BACK)


def test_inode_alone_never_excuses(cases):
    """I5: the same evidence with another inode gives the same verdict, if a less certain one."""
    for capability, content, shift, circumstances, moved in cases:
        if not shift.is_inode_equal and circumstances.elsewhere is Elsewhere.NOWHERE:
            unmoved = judge(capability, content, shift._replace(is_inode_equal=True), circumstances)
            assert unmoved.verdict is moved.verdict
            if unmoved.certainty is not moved.certainty:
                assert (Certainty.PROVEN, Certainty.INODE_MOVED) == (unmoved.certainty, moved.certainty)


def test_content_recorded_elsewhere_excuses_only_what_a_rename_can_have_brought(cases):
    """I9: not under the recorded inode; where inodes tell nothing, only content that the other name has lost."""
    for capability, content, shift, circumstances, judgement in cases:
        if circumstances.elsewhere is Elsewhere.NOWHERE:
            continue
        before = judge(capability, content, shift, circumstances._replace(elsewhere=Elsewhere.NOWHERE))
        if judgement == before:
            continue
        assert before.verdict in (Verdict.ROT, Verdict.SILENT_REWRITE)
        assert judgement.verdict is Verdict.CHANGED
        assert judgement.because in (BaselineReason.MOVED, None)
        was_copied = circumstances.elsewhere is Elsewhere.COPIED and capability.has_ctime and not shift.is_ctime_equal
        if capability.has_stable_inodes:
            assert was_copied or not shift.is_inode_equal
        else:
            assert was_copied or circumstances.elsewhere is Elsewhere.LEFT


@pytest.mark.parametrize(
    ("capability", "inode", "elsewhere", "expected"),
    [
        (TRUSTED, True, Elsewhere.LEFT, Verdict.ROT),  # the recorded inode: a misdirected write
        (TRUSTED, True, Elsewhere.COPIED, Verdict.ROT),  # the same: no copy leaves the ctime alone
        (TRUSTED, False, Elsewhere.NOWHERE, Verdict.ROT),
        (TRUSTED, False, Elsewhere.RECORDED, Verdict.CHANGED),
        (TRUSTED, False, Elsewhere.LEFT, Verdict.CHANGED),
        (OVERLAY, True, Elsewhere.RECORDED, Verdict.ROT),  # the other name still has it: no rename
        (OVERLAY, True, Elsewhere.LEFT, Verdict.CHANGED),
        (FUSE, True, Elsewhere.RECORDED, Verdict.ROT),
        (FUSE, True, Elsewhere.LEFT, Verdict.CHANGED),
        (VFAT, True, Elsewhere.LEFT, Verdict.ROT),
    ],
)
def test_file_with_the_content_of_another(capability, inode, elsewhere, expected):
    """Under unmoved times, by what the inode can tell."""
    assert expected is row(capability, True, Shift.EQUAL, True, inode, elsewhere=elsewhere).verdict


def test_record_that_was_never_verified_may_be_wrong_itself(cases):
    """It is said of what nobody wrote, of nothing else, and changes no verdict."""
    for capability, content, shift, circumstances, judgement in cases:
        is_accused = judgement.verdict in (Verdict.ROT, Verdict.SILENT_REWRITE)
        assert judgement.may_be_misrecorded == (is_accused and circumstances.is_unverified)
        verified = judge(capability, content, shift, circumstances._replace(is_unverified=False))
        assert judgement._replace(may_be_misrecorded=False) == verified


@pytest.mark.parametrize(
    ("size", "mtime", "ctime", "inode", "expected"),
    [
        (True, Shift.EQUAL, True, True, Judgement(Verdict.ROT, Certainty.PROVEN)),
        (False, Shift.EQUAL, True, True, Judgement(Verdict.ROT, Certainty.PROVEN, is_structural=True)),
        (True, Shift.EQUAL, True, False, Judgement(Verdict.ROT, Certainty.INODE_MOVED, is_odd=True)),
        (True, Shift.NEWER, True, True, Judgement(Verdict.ROT, Certainty.PROVEN, is_odd=True)),
        (True, Shift.OLDER, True, False, Judgement(Verdict.ROT, Certainty.INODE_MOVED, is_odd=True)),
        (True, Shift.EQUAL, False, True, Judgement(Verdict.SILENT_REWRITE, Certainty.CTIME_MOVED)),
        (False, Shift.EQUAL, False, True, Judgement(Verdict.SILENT_REWRITE, Certainty.CTIME_MOVED)),
        (True, Shift.EQUAL, False, False, Judgement(Verdict.SILENT_REWRITE, Certainty.CTIME_MOVED, is_odd=True)),
        (True, Shift.TOGETHER, False, True, Judgement(Verdict.SILENT_REWRITE, Certainty.TIMES_MOVED_TOGETHER)),
        (True, Shift.TOGETHER, True, True, Judgement(Verdict.ROT, Certainty.PROVEN, is_odd=True)),
        (True, Shift.OLDER, False, True, Judgement(Verdict.ROLLED_BACK, because=BaselineReason.ROLLED_BACK)),
        (False, Shift.NEWER, False, False, Judgement(Verdict.CHANGED, because=BaselineReason.EDITED)),
    ],
)
def test_each_row_of_the_table(size, mtime, ctime, inode, expected):
    """Each row where content differs, on a file system that can be trusted."""
    assert expected == row(TRUSTED, size, mtime, ctime, inode)


@pytest.mark.parametrize(
    ("capability", "ctime", "circumstances", "expected"),
    [
        (FUSE, True, {}, Judgement(Verdict.ROT, Certainty.NO_CTIME)),  # the same times do not exclude a write
        (OVERLAY, True, {}, Judgement(Verdict.ROT, Certainty.NO_INODE)),  # another file may have been moved here
        (TMPFS, True, {}, Judgement(Verdict.ROT, Certainty.NO_CTIME)),  # stores into a mapping move no time
        (TMPFS, False, {}, Judgement(Verdict.SILENT_REWRITE, Certainty.CTIME_MOVED)),
        (TMPFS, True, IN_PLACE, Judgement(Verdict.CHANGED, because=BaselineReason.REWRITTEN_IN_PLACE)),
        (TRUSTED, True, {"was_unclean": True}, Judgement(Verdict.ROT, Certainty.AFTER_CRASH)),
        (TRUSTED, True, {"is_baseline_racy": True}, Judgement(Verdict.CHANGED, because=BaselineReason.RACY)),
        (TRUSTED, False, IN_PLACE, Judgement(Verdict.CHANGED, because=BaselineReason.REWRITTEN_IN_PLACE)),
        (TRUSTED, True, IN_PLACE, Judgement(Verdict.ROT, Certainty.PROVEN)),  # bits that flip are no rewrite
    ],
)
def test_other_content_under_the_same_mtime(capability, ctime, circumstances, expected):
    """By what the file system can be trusted with, and what else may have happened."""
    assert expected == row(capability, True, Shift.EQUAL, ctime, **circumstances)


@pytest.mark.parametrize(
    ("keeps_prefix", "was_rotated", "expected"),
    [
        (True, False, Judgement(Verdict.CHANGED, because=BaselineReason.GROWN)),
        (False, True, Judgement(Verdict.CHANGED, because=BaselineReason.ROTATED)),
        (False, False, Judgement(Verdict.SHRUNK)),
    ],
)
def test_growing_file_must_keep_what_it_had(keeps_prefix, was_rotated, expected):
    """In a growing root the old content must be the beginning of the new one, unless it was rotated away."""
    circumstances = Circumstances(Policy.GROWING, keeps_prefix=keeps_prefix, was_rotated=was_rotated)
    assert expected == judge(TRUSTED, Content.DIFFERS, WitnessShift(False, Shift.NEWER, False, True), circumstances)


def test_absence_and_changes_are_findings_only_in_archives():
    """Files may go from mutable and growing roots; what is a finding in an archive is a count elsewhere."""
    shift = WitnessShift(True, Shift.EQUAL, True, True)
    verdicts = [judge(TRUSTED, Content.GONE, shift, Circumstances(policy)).verdict for policy in Policy]
    assert [Verdict.DELETED, Verdict.MISSING, Verdict.DELETED] == verdicts
    assert FindingKind.MISSING == finding_of(Verdict.MISSING, Policy.ARCHIVE)
    assert FindingKind.CHANGED == finding_of(Verdict.CHANGED, Policy.ARCHIVE)
    assert FindingKind.ROLLED_BACK == finding_of(Verdict.ROLLED_BACK, Policy.ARCHIVE)
    for verdict in (Verdict.DELETED, Verdict.CHANGED, Verdict.ROLLED_BACK):
        assert finding_of(verdict, Policy.MUTABLE) is None


def test_witness_is_compared_as_far_as_the_file_system_can_be_trusted():
    """Ctimes and inodes are not held against file systems that do not keep them; the same times are so everywhere."""
    recorded = Witness(10, 5_000_000_000, 7, 3)
    moved = Witness(10, 6_500_000_000, 8, 4)
    assert WitnessShift(True, Shift.NEWER, True, False) == compare_witness(VFAT, recorded, moved)
    for capability in (TRUSTED, FUSE, VFAT):
        assert Shift.EQUAL is compare_witness(capability, recorded, recorded._replace(mtime_ns=5_600_000_000)).mtime
    assert WitnessShift(True, Shift.NEWER, True, True) == compare_witness(FUSE, recorded, moved)
    assert WitnessShift(True, Shift.NEWER, False, False) == compare_witness(TRUSTED, recorded, moved)
    assert WitnessShift(True, Shift.OLDER, False, False) == compare_witness(TRUSTED, moved, recorded)


RIGHT, WRONG, OTHER = Pair(b"x", b"m"), Pair(b"y", b"n"), Pair(b"z", b"o")


@pytest.mark.parametrize(
    ("first", "rereads", "expected"),
    [
        (WRONG, [WRONG, WRONG], Confirmation.PERSISTENT),
        (Pair(b"y", None), [WRONG, WRONG], Confirmation.PERSISTENT),
        (WRONG, [WRONG, RIGHT], Confirmation.TRANSIENT),
        (WRONG, [RIGHT, WRONG], Confirmation.TRANSIENT),
        (WRONG, [OTHER, Pair(b"q", b"r")], Confirmation.UNSTEADY),
        (WRONG, [OTHER, OTHER], Confirmation.UNSTEADY),
        (Pair(b"y", None), [Pair(b"y", b"m")], Confirmation.CATALOG_DAMAGED),
        (Pair(None, b"n"), [Pair(b"x", b"n")], Confirmation.CATALOG_DAMAGED),
    ],
)
def test_confirmation_tells_disk_from_machine_from_catalog(first, rereads, expected):
    """Equal wrong readings are on the disk; a right one clears it; one right digest of two convicts the catalog."""
    assert expected == confirm(RIGHT, first, rereads)


@pytest.mark.parametrize(
    ("first", "rereads", "each_copy", "expected"),
    [
        (WRONG, [RIGHT, WRONG], [], Confirmation.ONE_COPY),  # not transient: nobody looked at the other copy
        (WRONG, [RIGHT, RIGHT], [RIGHT, WRONG], Confirmation.ONE_COPY),
        (WRONG, [WRONG, WRONG], [RIGHT, WRONG], Confirmation.ONE_COPY),
        (WRONG, [RIGHT, RIGHT], [RIGHT, RIGHT], Confirmation.TRANSIENT),  # neither copy is bad: it was the way to them
        (WRONG, [OTHER, WRONG], [], Confirmation.PERSISTENT),  # two copies, each with damage of its own
        (WRONG, [OTHER, Pair(b"q", b"r")], [], Confirmation.UNSTEADY),  # more readings than copies
        (WRONG, [WRONG, WRONG], [WRONG, OTHER], Confirmation.PERSISTENT),
        (Pair(b"y", None), [Pair(b"y", b"m")], [], Confirmation.CATALOG_DAMAGED),
    ],
)
def test_confirmation_on_a_mirror_trusts_no_single_reading(first, rereads, each_copy, expected):
    """A mirror answers from either copy: other readings are no unsteady machine, a right one is no proof of health."""
    assert expected == confirm(RIGHT, first, rereads, copies=2, each_copy=each_copy)


@pytest.mark.parametrize(
    ("rereads", "expected"),
    [
        ([WRONG, RIGHT], Confirmation.UNSTABLE),
        ([OTHER, Pair(b"q", b"r")], Confirmation.UNSTABLE),
        ([WRONG, WRONG], Confirmation.PERSISTENT),
        ([Pair(b"x", b"n"), WRONG], Confirmation.CATALOG_DAMAGED),
    ],
)
def test_readings_that_disagree_where_writes_leave_no_trace_blame_nothing(rereads, expected):
    """On a tmpfs a program may write between any two readings: neither memory nor a cable is to blame."""
    assert expected == confirm(Pair(b"x", b"m"), WRONG, rereads, shows_writes=False)


def test_confirmation_works_with_one_digest():
    """Sparse files have no MD5 of the whole file; then XXH3 alone decides."""
    baseline = Pair(b"x", None)
    assert Confirmation.TRANSIENT == confirm(baseline, Pair(b"y", None), [Pair(b"x", b"m")])
    assert Confirmation.PERSISTENT == confirm(baseline, Pair(b"y", None), [Pair(b"y", b"m"), Pair(b"y", b"m")])
