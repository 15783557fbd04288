"""How a box is, from what it reported and how long ago; and the sentence about all of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from integrity.hub.boxes import Box
from integrity.hub.fleet import BoxHealth, BoxRoot, BoxStatus
from integrity.hub.fleet_sentence import sum_up_fleet
from integrity.hub.kinds import HubFindingKind
from integrity.hub.open_findings import OpenFindings
from integrity.hub.replica_sets import SetStatus, describe_agreement
from integrity.views.sentence import Gravity

NOW = 1_800_000_000
DAY_S = 86400
ROOT = BoxRoot(
    *(1, 1, 1, 7, "photos", b"/srv/photos", "", "[]", "archive", 30 * DAY_S),
    *(1000, 5 << 30, NOW - 10 * DAY_S, b"t" * 16, b"t" * 16, NOW - 60),
)
BOX = Box(1, "attic", NOW - 90 * DAY_S, None, NOW - 60, 0, "attic.local", "1.0", "All is well.", "ok", None)
WELL = BoxStatus(BOX, (ROOT,), 0, OpenFindings(), NOW, DAY_S)
PHOTOS = SetStatus(7, "photos", NOW - 50 * DAY_S, NOW - 600, 900, (ROOT, ROOT._replace(id=2, box_id=2)), OpenFindings())


def find(*kinds: HubFindingKind, subjects: int = 1) -> OpenFindings:
    """Return a finding of each kind, which stands for so many files."""
    found = OpenFindings()
    for kind in kinds:
        found.add(kind, 1, subjects)
    return found


def change(*, roots: tuple[BoxRoot, ...] = (ROOT,), kinds: tuple[HubFindingKind, ...] = (), **box: object) -> BoxStatus:
    """Return a box that differs from one that is well."""
    return replace(WELL, box=BOX._replace(**box), roots=roots, hub_found=find(*kinds))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (WELL, BoxHealth.OK),
        (change(state="gap"), BoxHealth.GAP),
        (change(state="problem"), BoxHealth.PROBLEM),
        (change(state="whatever a newer box says"), BoxHealth.GAP),
        (change(state=None), BoxHealth.GAP),
        (change(seen_at=NOW - DAY_S), BoxHealth.OK),
        (change(seen_at=NOW - DAY_S - 1), BoxHealth.SILENT),
        (change(seen_at=NOW - DAY_S - 1, state="problem"), BoxHealth.PROBLEM),
        (change(seen_at=NOW - DAY_S - 1, state="gap"), BoxHealth.SILENT),
        (change(seen_at=None, state=None, roots=()), BoxHealth.WAITING),
        (change(revoked_at=NOW - 1, state="problem"), BoxHealth.REVOKED),
        (change(roots=()), BoxHealth.GAP),
        (change(kinds=(HubFindingKind.REPLICA_DAMAGED,)), BoxHealth.PROBLEM),
        (change(kinds=(HubFindingKind.CLOCK_WRONG,)), BoxHealth.GAP),
        (change(seen_at=None, worked_at=NOW - 60, state=None, roots=()), BoxHealth.WORKING),
        (change(seen_at=None, worked_at=NOW - 2 * DAY_S, state=None, roots=()), BoxHealth.SILENT),
        (change(seen_at=NOW - 2 * DAY_S, worked_at=NOW), BoxHealth.SILENT),
        (change(roots=(ROOT._replace(oldest_verified_at=NOW - 30 * DAY_S - 1),)), BoxHealth.GAP),
        (change(roots=(ROOT._replace(oldest_verified_at=NOW + 2 * DAY_S),)), BoxHealth.GAP),
        (change(roots=(ROOT._replace(oldest_verified_at=None, file_count=0),)), BoxHealth.OK),
    ],
)
def test_health_of_a_box(one: BoxStatus, expected: BoxHealth) -> None:
    """It is well only if it says so, said so lately, keeps its promise as of now, and no vote says otherwise."""
    assert expected is one.health


def test_clock_of_a_box_is_corrected() -> None:
    """A box whose clock is two days ahead has not verified two days later than it did."""
    late = change(clock_ahead_s=2 * DAY_S, roots=(ROOT._replace(oldest_verified_at=NOW - 29 * DAY_S),))

    assert NOW - 31 * DAY_S == late.oldest_at
    assert BoxHealth.GAP is late.health


def test_sentence_of_a_fleet_that_is_well() -> None:
    """Files, sizes, the promise; and when boxes reported and sets were compared."""
    other = replace(WELL, box=BOX._replace(id=2, name="cellar", seen_at=NOW - 240))
    sentence = sum_up_fleet([WELL, other], OpenFindings(), [PHOTOS], NOW)

    assert Gravity.GOOD is sentence.gravity
    assert "All 2 boxes are well: all 2,000 files (10.0 GiB) were verified within 30 days." == sentence.text
    assert (
        "Every box reported within the last 4 min.",
        "1 replica set agrees on all boxes, compared within the last 10 min.",
    ) == sentence.more


def test_sentence_counts_files_and_not_findings() -> None:
    """One finding may stand for all files of a box; what is damaged is not what is gone or missing."""
    found = find(HubFindingKind.REPLICA_DAMAGED, subjects=3)
    for kind, findings, subjects in (
        (HubFindingKind.REPLICA_LOST, 5, 5),
        (HubFindingKind.REPLICA_MISSING, 1, 20_201),
        (HubFindingKind.TREE_OVERDUE, 1, 1),
    ):
        found.add(kind, findings, subjects)
    sentence = sum_up_fleet([WELL], found, [], NOW)

    said = "Found: 3 damaged files, 5 files gone or unreadable, 20,201 files missing on a box."
    assert (Gravity.PROBLEM, said) == (sentence.gravity, sentence.text)
    assert ("Not everything could be checked: 1 shared tree is not verified in time.",) == sentence.more
    assert "20,201 files missing on a box" in describe_agreement(replace(PHOTOS, found=found), {1: WELL}).text


def test_box_that_only_reads_shared_trees_is_not_called_silent() -> None:
    """It has no folders of its own, and it works."""
    worker = change(seen_at=None, worked_at=NOW - 60, state=None, roots=())
    sentence = sum_up_fleet([WELL, worker], OpenFindings(), [], NOW)
    assert (Gravity.GOOD, "All 2 boxes are well: all 1,000 files (5.0 GiB) were verified within 30 days.") == (
        sentence.gravity,
        sentence.text,
    )
    gone = change(seen_at=None, worked_at=NOW - 3 * DAY_S, state=None, roots=())
    assert "stopped reporting: attic for 3 days" in sum_up_fleet([gone], OpenFindings(), [], NOW).text


def test_sentence_without_boxes_says_what_to_do() -> None:
    """Boxes that may not report any more are none."""
    sentence = sum_up_fleet([change(revoked_at=NOW)], OpenFindings(), [], NOW)

    assert (Gravity.WARNING, "No box reports here yet.") == (sentence.gravity, sentence.text)
    assert sentence.more[0].endswith("hub add BOX")


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (change(seen_at=NOW - 5 * DAY_S), "1 box of 1 has stopped reporting: attic for 5 days."),
        (change(seen_at=None, state=None, roots=()), "1 box has not reported yet: attic."),
        (change(state="gap", sentence="tank is not mounted."), "attic: tank is not mounted."),
        (change(roots=()), "attic: it reports no folder."),
    ],
)
def test_sentence_of_what_is_not_known_is_no_praise(one: BoxStatus, expected: str) -> None:
    """Nothing green is said beside it."""
    sentence = sum_up_fleet([one], OpenFindings(), [], NOW)

    assert (Gravity.WARNING, expected, ()) == sentence


def test_set_agrees_only_as_far_as_it_is_known() -> None:
    """Not with a silent member, not before it was compared, not while files are on their way."""
    silent = replace(WELL, box=BOX._replace(id=2, seen_at=NOW - 5 * DAY_S))
    partly = replace(PHOTOS, members=(ROOT, ROOT._replace(box_id=2, settled_at=None)))

    assert (Gravity.GOOD, "all boxes agree") == describe_agreement(PHOTOS, {1: WELL, 2: WELL})
    assert (Gravity.WARNING, "no difference is known, but 1 box stopped reporting") == describe_agreement(
        PHOTOS, {1: WELL, 2: silent}
    )
    assert Gravity.WARNING is describe_agreement(partly, {1: WELL, 2: WELL}).gravity
    assert (None, "not compared yet") == describe_agreement(replace(PHOTOS, voted_at=None), {1: WELL, 2: WELL})
    assert (None, "nothing to compare with") == describe_agreement(replace(PHOTOS, members=(ROOT,)), {1: WELL})
