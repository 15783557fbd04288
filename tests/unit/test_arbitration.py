"""The second decision table, catalog against file against copy, over its full cross product."""

from __future__ import annotations

from itertools import product

import pytest

from integrity.arbitration import (
    REPAIR_FROM_COPY,
    Arbitration,
    CopyCircumstances,
    CopyPast,
    CopyTime,
    CopyVote,
    CopyWitness,
    FailingSide,
    FileState,
    arbitrate,
    find_stand,
)
from integrity.arbitration import ArbitrationOutcome as Outcome
from integrity.model import BaselineReason, Capability, FindingKind, Policy
from integrity.verdict import Circumstances, Content, Judgement, Shift, Verdict, WitnessShift, judge

BOOLEANS = (False, True)


def every_judgement() -> set[Judgement]:
    """Collect what the first table can say at all, over its own cross product."""
    found = set()
    for has_ctime, content, size, mtime, ctime, inode in product(BOOLEANS, Content, BOOLEANS, Shift, *[BOOLEANS] * 2):
        if not has_ctime and not ctime:
            continue
        capability = Capability("any", has_ctime, True, 20_000_000, True, False)
        for policy, racy, rewrites, unclean, prefix, rotated in product(Policy, *[BOOLEANS] * 5):
            circumstances = Circumstances(policy, racy, rewrites, unclean, prefix, rotated)
            found.add(judge(capability, content, WitnessShift(size, mtime, ctime, inode), circumstances))
    return found


JUDGEMENTS = sorted(every_judgement(), key=repr)
CASES = [
    (judgement, vote, are_equal, good, arbitrate(judgement, vote, are_equal=are_equal, has_good_blocks=good))
    for judgement, vote, are_equal, good in product(JUDGEMENTS, CopyVote, BOOLEANS, BOOLEANS)
]
CIRCUMSTANCES = [
    CopyCircumstances(time, past, *flags, failing)
    for time, past, failing in product(CopyTime, CopyPast, (None, *FailingSide))
    for flags in product(BOOLEANS, repeat=6)
]

GOOD = Judgement(Verdict.INTACT)
ROT = Judgement(Verdict.ROT)
REWRITE = Judgement(Verdict.SILENT_REWRITE)
EDITED = Judgement(Verdict.CHANGED, because=BaselineReason.EDITED)
ROLLED_BACK = Judgement(Verdict.ROLLED_BACK, because=BaselineReason.ROLLED_BACK)
IN_ARCHIVE = Judgement(Verdict.CHANGED)
SHRUNK = Judgement(Verdict.SHRUNK)
UNREADABLE = Judgement(Verdict.UNREADABLE)
MISSING = Judgement(Verdict.MISSING)
DELETED = Judgement(Verdict.DELETED)

TABLE = {
    # file, copy: when unequal, when equal; without any witness and any time
    (GOOD, CopyVote.SAME): (Outcome.IN_ORDER, Outcome.IN_ORDER),
    (GOOD, CopyVote.OLDER): (Outcome.COPY_STALE, Outcome.COPY_STALE),
    (GOOD, CopyVote.DIFFERS): (Outcome.COPY_CONFLICT, Outcome.COPY_CONFLICT),
    (GOOD, CopyVote.RENAMED): (Outcome.RENAMED, Outcome.RENAMED),
    (EDITED, CopyVote.RENAMED): (Outcome.COPY_STALE, Outcome.COPY_STALE),
    (EDITED, CopyVote.SAME): (Outcome.COPY_STALE, Outcome.COPY_STALE),
    (EDITED, CopyVote.OLDER): (Outcome.COPY_STALE, Outcome.MISSED_CHANGE),
    (EDITED, CopyVote.DIFFERS): (Outcome.COPY_CONFLICT, Outcome.MISSED_CHANGE),
    (ROLLED_BACK, CopyVote.OLDER): (Outcome.COPY_STALE, Outcome.MISSED_CHANGE),
    (ROT, CopyVote.OLDER): (Outcome.COPY_STALE, Outcome.MISSED_CHANGE),
    (ROT, CopyVote.DIFFERS): (Outcome.COPY_CONFLICT, Outcome.COPIED_DAMAGE),
    **{
        (file, vote): (Outcome.REPAIRABLE, Outcome.REPAIRABLE)
        for file in (ROT, REWRITE, IN_ARCHIVE, SHRUNK, UNREADABLE, MISSING)
        for vote in (CopyVote.SAME, CopyVote.RENAMED)
    },
    **{
        (file, CopyVote.DIFFERS): (Outcome.COPY_CONFLICT, Outcome.MISSED_CHANGE)
        for file in (REWRITE, IN_ARCHIVE, SHRUNK)
    },
    **{(file, CopyVote.OLDER): (Outcome.COPY_STALE, Outcome.COPY_STALE) for file in (UNREADABLE, MISSING)},
    **{(file, CopyVote.DIFFERS): (Outcome.COPY_CONFLICT, Outcome.COPY_CONFLICT) for file in (UNREADABLE, MISSING)},
}

SAME, OLDER, NEWER, NONE = CopyTime.SAME, CopyTime.OLDER, CopyTime.NEWER, CopyTime.NONE
READING, OWN, BEGINNING = CopyWitness.EARLIER_READING, CopyWitness.OWN_CHECKSUM, CopyWitness.BEGINNING
UNTOUCHED, TOUCHED = CopyPast.UNTOUCHED, CopyPast.TOUCHED
OTHER_CONTENT = [
    # the second table row by row: a good file whose copy has content that was never recorded
    (CopyCircumstances(SAME), Outcome.COPY_CONFLICT, None),
    (CopyCircumstances(SAME, UNTOUCHED), Outcome.COPY_DIFFERS, READING),
    (CopyCircumstances(SAME, TOUCHED), Outcome.COPY_CONFLICT, READING),
    (CopyCircumstances(SAME, failing=FailingSide.COPY), Outcome.COPY_DIFFERS, OWN),
    (CopyCircumstances(SAME, failing=FailingSide.FILE), Outcome.FILE_DIFFERS, OWN),
    (CopyCircumstances(SAME, is_beginning=True), Outcome.COPY_INCOMPLETE, BEGINNING),
    (CopyCircumstances(NEWER, is_beginning=True), Outcome.COPY_INCOMPLETE, BEGINNING),
    (CopyCircumstances(OLDER, is_beginning=True), Outcome.COPY_STALE, CopyWitness.TIME),
    (CopyCircumstances(OLDER), Outcome.COPY_STALE, CopyWitness.TIME),
    (CopyCircumstances(OLDER, has_former_time=True), Outcome.COPY_CONFLICT, None),
    (CopyCircumstances(OLDER, UNTOUCHED, has_former_time=True), Outcome.COPY_DIFFERS, READING),
    (CopyCircumstances(NEWER), Outcome.COPY_NEWER, CopyWitness.TIME),
    (CopyCircumstances(NONE), Outcome.COPY_CONFLICT, None),
    (CopyCircumstances(NONE, contradicts_store=True), Outcome.COPY_DIFFERS, CopyWitness.STORE),
    (CopyCircumstances(SAME, UNTOUCHED, rewrites_in_place=True), Outcome.COPY_CONFLICT, READING),
    (CopyCircumstances(SAME, UNTOUCHED, has_ctime=True, rewrites_in_place=True), Outcome.COPY_DIFFERS, READING),
]


@pytest.mark.parametrize(("circumstances", "outcome", "witness"), OTHER_CONTENT, ids=str)
def test_each_row_of_other_content(circumstances, outcome, witness):
    """Who is right when the copy of a good file has content that was never recorded, and what decided."""
    found = arbitrate(GOOD, CopyVote.DIFFERS, circumstances)
    assert (outcome, witness) == (found.outcome, found.witness)


def test_no_copy_is_called_damaged_without_a_witness():
    """I10: an earlier reading of its own place, its store's checksum, its own checksum, or that it is just cut off."""
    for judgement, one in product(JUDGEMENTS, CIRCUMSTANCES):
        found = arbitrate(judgement, CopyVote.DIFFERS, one)
        if found.finding is FindingKind.COPY_DIFFERS:
            assert found.witness is not None
            assert found.witness is not CopyWitness.TIME
            may_be_rewritten = one.rewrites_in_place and not one.has_ctime
            assert (
                one.contradicts_store
                or one.is_beginning
                or one.failing is FailingSide.COPY
                or (one.past is CopyPast.UNTOUCHED and not may_be_rewritten)
            )
        if found.outcome is Outcome.COPY_CONFLICT and found.witness is None:
            assert one.time is not CopyTime.NEWER or find_stand(judgement) in (FileState.DAMAGED, FileState.LOST)


def test_no_advice_overwrites_where_nobody_knows():
    """A conflict and a newer copy are looked at; whoever overwrites keeps what is replaced."""
    for judgement, vote, one in product(JUDGEMENTS, CopyVote, CIRCUMSTANCES):
        found = arbitrate(judgement, vote, one)
        if found.outcome in (Outcome.COPY_CONFLICT, Outcome.COPY_NEWER):
            assert "up again" not in found.words
            assert found.command is not None
            assert "repair" not in found.command
        if "backup again" in found.words and found.outcome is Outcome.COPY_STALE:
            assert "--backup" in found.words


def test_circumstances_matter_only_where_the_content_is_another():
    """What is known besides the content excuses nothing that was found, and accuses nothing that was not."""
    for judgement, vote in product(JUDGEMENTS, set(CopyVote) - {CopyVote.DIFFERS, CopyVote.OLDER}):
        assert {arbitrate(judgement, vote)} == {arbitrate(judgement, vote, one) for one in CIRCUMSTANCES}


@pytest.mark.parametrize(("votes", "expected"), TABLE.items(), ids=str)
def test_each_row_of_the_table(votes, expected):
    """Who is right, when file and copy are unequal and when they are equal."""
    judgement, vote = votes
    assert expected == tuple(arbitrate(judgement, vote, are_equal=are_equal).outcome for are_equal in BOOLEANS)


def test_repair_is_proposed_only_from_a_proven_copy():
    """I6: the copy, or what is needed of it, is what was recorded, and the file's own content is nobody's intention."""
    for judgement, vote, are_equal, good_blocks, arbitration in CASES:
        if arbitration.outcome is Outcome.REPAIRABLE:
            assert vote in (CopyVote.SAME, CopyVote.RENAMED)
            assert judgement.verdict is not Verdict.INTACT
            assert judgement.because is None
        elif arbitration.command == REPAIR_FROM_COPY:
            assert good_blocks
            assert vote is CopyVote.DIFFERS
            assert find_stand(judgement) in (FileState.DAMAGED, FileState.LOST)
            assert not are_equal or find_stand(judgement) is FileState.LOST
        elif vote is CopyVote.SAME:
            assert judgement.because is not None or judgement.verdict in (Verdict.INTACT, Verdict.DELETED)


def test_damaged_file_is_never_to_be_backed_up():
    """I7: to back up is said only of files that are as recorded, or that somebody edited."""
    for judgement, *_, arbitration in CASES:
        if "backup again" in arbitration.words or "up again" in arbitration.words:
            assert judgement.verdict is Verdict.INTACT or judgement.because is not None


def test_nothing_is_in_order_but_what_was_found_to_be():
    """I8: only a copy that is what the good file is; and what was deleted on purpose needs none."""
    for judgement, vote, _, _, arbitration in CASES:
        if arbitration.outcome is Outcome.IN_ORDER:
            assert judgement.verdict is Verdict.DELETED or (GOOD, CopyVote.SAME) == (judgement, vote)
            assert Arbitration(Outcome.IN_ORDER, None) == arbitration
        elif arbitration.outcome is Outcome.RENAMED:
            assert (GOOD, CopyVote.RENAMED, None) == (judgement, vote, arbitration.finding)
        else:
            assert arbitration.words
            assert arbitration.command is not None


def test_what_the_copy_does_not_say_is_never_good():
    """I8: missing, unreadable and not comparable are just that, whatever became of the file."""
    outcomes = {
        CopyVote.MISSING: (Outcome.COPY_MISSING, FindingKind.COPY_MISSING),
        CopyVote.UNREADABLE: (Outcome.COPY_UNREADABLE, FindingKind.COPY_UNREADABLE),
        CopyVote.NOT_COMPARABLE: (Outcome.NOT_COMPARABLE, FindingKind.COPY_NOT_COMPARABLE),
    }
    for judgement, vote, _, _, arbitration in CASES:
        if vote in outcomes and judgement.verdict is not Verdict.DELETED:
            assert outcomes[vote] == (arbitration.outcome, arbitration.finding)


def test_copied_damage_needs_that_nobody_wrote():
    """Equal and not as recorded: damage where nobody wrote to the file; else a change, or what the copy had before."""
    for judgement, vote, had_recorded, had_this in product(JUDGEMENTS, CopyVote, BOOLEANS, BOOLEANS):
        known = CopyCircumstances(had_recorded=had_recorded, had_this=had_this)
        outcome = arbitrate(judgement, vote, known, are_equal=True).outcome
        is_unwritten = judgement.verdict is Verdict.ROT or (
            judgement.verdict is Verdict.SILENT_REWRITE and had_recorded
        )
        is_copied = is_unwritten and not had_this and vote is CopyVote.DIFFERS
        assert (outcome is Outcome.COPIED_DAMAGE) == is_copied
        if outcome is Outcome.MISSED_CHANGE:
            assert vote in (CopyVote.OLDER, CopyVote.DIFFERS)
            assert find_stand(judgement) not in (FileState.GOOD, FileState.LOST, FileState.DELETED)


def test_equality_matters_only_where_the_votes_leave_it_open():
    """Where one of them is as recorded, or has no content, a caller's word on equality changes nothing."""
    for judgement, vote, are_equal, has_good, arbitration in CASES:
        if are_equal and not has_good and arbitration != arbitrate(judgement, vote):
            assert vote in (CopyVote.OLDER, CopyVote.DIFFERS)
            assert find_stand(judgement) in (FileState.WRITTEN, FileState.DAMAGED, FileState.CONTESTED)


def test_good_blocks_mend_a_damaged_file_and_accuse_nobody():
    """
    A file that is good, or that somebody wrote, is not mended by blocks of a copy that is something else.

    And blocks are no witness: where the copy differs from a record that was taken of damage, it is the good one.
    """
    stands = [GOOD, ROT, REWRITE, EDITED, ROLLED_BACK, IN_ARCHIVE]
    for judgement, circumstances, are_equal in product(stands, CIRCUMSTANCES, BOOLEANS):
        mended, other = (
            arbitrate(judgement, CopyVote.DIFFERS, circumstances, are_equal=are_equal, has_good_blocks=good)
            for good in (True, False)
        )
        assert mended._replace(words=other.words, command=other.command) == other
        if mended != other:
            assert find_stand(judgement) is FileState.DAMAGED
            assert other.outcome in (Outcome.COPY_DIFFERS, Outcome.COPY_CONFLICT)
            assert mended.command == REPAIR_FROM_COPY


def test_findings_speak_of_the_copy_only():
    """What is wrong with the file itself is a finding of the first table already."""
    kinds = {arbitration.finding for *_, arbitration in CASES}
    assert kinds - {None} <= {kind for kind in FindingKind if kind.value.startswith("copy_")}
    assert arbitrate(ROT, CopyVote.SAME).finding is None
    assert arbitrate(IN_ARCHIVE, CopyVote.DIFFERS, are_equal=True).finding is None
    assert FindingKind.COPY_DIFFERS is arbitrate(ROT, CopyVote.DIFFERS, are_equal=True).finding


def test_commands_name_what_the_caller_fills_in():
    """Every command can be filled in, and only ``repair`` from a proven copy names that copy as a source."""
    for *_, good_blocks, arbitration in CASES:
        if arbitration.command is not None:
            filled = arbitration.command.format(path="FILE", root="ROOT", copy="COPY")
            assert filled.startswith("integrity ")
            assert "{" not in filled
            is_source = "--from COPY" in filled
            assert is_source if arbitration.outcome is Outcome.REPAIRABLE else not is_source or good_blocks


def test_every_outcome_can_happen():
    """No row of the table is dead."""
    found = {arbitration.outcome for *_, arbitration in CASES}
    found |= {arbitrate(GOOD, vote, one).outcome for vote in CopyVote for one in CIRCUMSTANCES}
    assert set(Outcome) == found


def test_content_that_a_copy_had_before_is_damage_only_if_nobody_put_it_there():
    """
    A disk may lose a write and return what it had before; whoever restores an older version moves the ctime.

    Other content that history knows is an older version, unless it was first in the file's place.
    """
    for circumstances, had_recorded in product(CIRCUMSTANCES, BOOLEANS):
        known = circumstances._replace(had_recorded=had_recorded)
        outcome = arbitrate(GOOD, CopyVote.OLDER, known).outcome
        may_be_rewritten = known.rewrites_in_place and not known.has_ctime
        is_lost_write = known.past is CopyPast.UNTOUCHED and had_recorded and not may_be_rewritten
        assert (outcome is Outcome.COPY_DIFFERS) == is_lost_write
        if not had_recorded:
            later = Outcome.COPY_NEWER if known.time is CopyTime.NEWER else Outcome.COPY_STALE
            assert outcome is (Outcome.FILE_DIFFERS if known.was_here else later)
        assert Outcome.COPY_DIFFERS is not arbitrate(GOOD, CopyVote.OLDER, known, keeps_versions=True).outcome
