"""How a box is, from what it reported and how long ago; and the sentence about all of them."""

from __future__ import annotations

from typing import Any

import pytest

from integrity.hub.boxes import revoke_box
from integrity.hub.database import HubDatabase
from integrity.hub.fleet import BoxHealth, BoxOrder, BoxStatus, SetStatus, describe_agreement, load_boxes, load_sets
from integrity.hub.fleet_sentence import load_fleet, sum_up_fleet
from integrity.hub.kinds import HubFindingKind
from integrity.views.sentence import Gravity, Sentence
from support.hub_rows import DAY_S, NOW, HubRows

LARGEST = (1 << 63) - 1
WORKER = {"seen_at": None, "state": None, "sentence": None}
BOXES: tuple[tuple[dict[str, Any], dict[str, Any] | None, str | None, BoxHealth], ...] = (
    ({}, {}, None, BoxHealth.OK),
    ({"state": "gap"}, {}, None, BoxHealth.GAP),
    ({"state": "problem"}, {}, None, BoxHealth.PROBLEM),
    ({"state": "whatever a newer box says"}, {}, None, BoxHealth.GAP),
    ({"state": None}, {}, None, BoxHealth.GAP),
    ({"seen_at": NOW - DAY_S}, {}, None, BoxHealth.OK),
    ({"seen_at": NOW + DAY_S}, {}, None, BoxHealth.OK),
    ({"seen_at": NOW - DAY_S - 1}, {}, None, BoxHealth.SILENT),
    ({"seen_at": NOW - DAY_S - 1, "state": "problem"}, {}, None, BoxHealth.PROBLEM),
    ({"seen_at": NOW - DAY_S - 1, "state": "gap"}, {}, None, BoxHealth.SILENT),
    (WORKER, None, None, BoxHealth.WAITING),
    ({"revoked_at": NOW - 1, "state": "problem"}, {}, None, BoxHealth.REVOKED),
    ({}, None, None, BoxHealth.GAP),
    ({}, {"removed_at": NOW - 1}, None, BoxHealth.GAP),
    ({}, {}, HubFindingKind.REPLICA_DAMAGED, BoxHealth.PROBLEM),
    ({}, {}, HubFindingKind.CLOCK_WRONG, BoxHealth.GAP),
    (WORKER | {"worked_at": NOW - 60}, None, None, BoxHealth.WORKING),
    (WORKER | {"worked_at": NOW - 2 * DAY_S}, None, None, BoxHealth.SILENT),
    ({"seen_at": NOW - 2 * DAY_S, "worked_at": NOW}, {}, None, BoxHealth.SILENT),
    ({}, {"oldest_ago_s": 30 * DAY_S + 1}, None, BoxHealth.GAP),
    ({}, {"oldest_ago_s": -2 * DAY_S}, None, BoxHealth.GAP),
    ({}, {"oldest_ago_s": None, "files": 0}, None, BoxHealth.OK),
    ({"clock_ahead_s": 2 * DAY_S}, {"oldest_ago_s": 29 * DAY_S}, None, BoxHealth.GAP),
    ({"clock_ahead_s": -LARGEST}, {"oldest_verified_at": LARGEST, "verify_every_s": LARGEST}, None, BoxHealth.GAP),
    ({"clock_ahead_s": LARGEST}, {"oldest_verified_at": 0, "files": LARGEST, "size": LARGEST}, None, BoxHealth.GAP),
)
"""A box, the root that it reports (None: none), a finding of the hub about it, and how it is."""


class Hub:
    """The rows of a hub, and what is said about them."""

    def __init__(self, database: HubDatabase) -> None:
        self._database = database

    def add_box(
        self, name: str = "attic", *, root: dict[str, Any] | None = None, set_id: int | None = None, **box: Any
    ) -> int:
        """Add a box with a root."""
        with self._database.transaction() as c:
            rows = HubRows(c)
            box_id = rows.add_box(name, **{"sentence": "All is well.", "seen_at": NOW - 60} | box)
            if root is not None:
                given = {"files": 1000, "size": 5 << 30, "oldest_ago_s": 10 * DAY_S} | root
                rows.add_root(box_id, b"/srv/photos", set_id=set_id, **given)
            return box_id

    def add_set(self, name: str, *, voted_ago_s: int | None = 600) -> int:
        with self._database.transaction() as c:
            return HubRows(c).add_set(name, voted_ago_s=voted_ago_s)

    def add_findings(self, number: int, kind: HubFindingKind, subjects: int = 1, **about: int) -> None:
        with self._database.transaction() as c:
            for at in range(number):
                HubRows(c).add_finding(kind, b"%d" % at, headline="x", subjects=subjects, **about)

    def load(self, **wanted: Any) -> list[BoxStatus]:
        with self._database.read() as c:
            return load_boxes(c, NOW, DAY_S, **wanted)

    def load_sets(self) -> list[SetStatus]:
        with self._database.read() as c:
            return load_sets(c, NOW, DAY_S)

    def sum_up(self) -> Sentence:
        with self._database.read() as c:
            return sum_up_fleet(c, load_fleet(c, NOW, DAY_S), NOW)


@pytest.fixture
def hub(hub_database: HubDatabase) -> Hub:
    return Hub(hub_database)


def test_health_of_a_box(hub: Hub) -> None:
    """
    It is well only if it says so, said so lately, keeps its promise as of now, and no vote says otherwise.

    The clock of a box is corrected, and numbers of 64 bits break nothing.
    """
    for number, (box, root, kind, _) in enumerate(BOXES):
        box_id = hub.add_box(f"box{number:02}", root=root, **box)
        if kind is not None:
            hub.add_findings(1, HubFindingKind(kind), box_id=box_id)

    assert [health for *_, health in BOXES] == [one.health for one in hub.load()]
    assert [NOW - 31 * DAY_S] == [one.oldest_at for one in hub.load(part="22")]
    assert hub.sum_up().text


def test_page_of_boxes_begins_behind_the_last_one(hub: Hub) -> None:
    """In each order, and with a limit, every box comes once."""
    for number, (box, root, *_) in enumerate(BOXES):
        hub.add_box(f"box{number:02}", root=root, **box)
    names = {one.name for one in hub.load()}

    for order in BoxOrder:
        found, after = list[str](), ""
        while page := hub.load(order=order, after=after, limit=4):
            found += [one.name for one in page]
            after = found[-1]
        assert sorted(names) == sorted(found)


def test_sentence_of_a_fleet_that_is_well(hub: Hub) -> None:
    """Files, sizes, the promise; and when boxes reported and sets were compared."""
    photos = hub.add_set("photos")
    hub.add_box(root={}, set_id=photos)
    hub.add_box("cellar", root={}, set_id=photos, seen_at=NOW - 240)
    sentence = hub.sum_up()

    assert Gravity.GOOD is sentence.gravity
    assert "All 2 boxes are well: all 2,000 files (10.0 GiB) were verified within 30 days." == sentence.text
    assert (
        "Every box reported within the last 4 min.",
        "1 replica set agrees on all boxes, compared within the last 10 min.",
    ) == sentence.more


def test_sentence_counts_files_and_not_findings(hub: Hub) -> None:
    """One finding may stand for all files of a box; what is damaged is not what is gone or missing."""
    photos = hub.add_set("photos")
    hub.add_box(root={}, set_id=photos)
    hub.add_findings(1, HubFindingKind.REPLICA_DAMAGED, 3, set_id=photos)
    hub.add_findings(5, HubFindingKind.REPLICA_LOST, set_id=photos)
    hub.add_findings(1, HubFindingKind.REPLICA_MISSING, 20_201, set_id=photos)
    hub.add_findings(1, HubFindingKind.TREE_OVERDUE)
    sentence = hub.sum_up()

    said = "Found: 3 damaged files, 5 files gone or unreadable, 20,201 files missing on a box."
    assert (Gravity.PROBLEM, said) == (sentence.gravity, sentence.text)
    assert ("Not everything could be checked: 1 shared tree is not verified in time.",) == sentence.more
    assert "20,201 files missing on a box" in describe_agreement(hub.load_sets()[0]).text


def test_box_that_only_reads_shared_trees_is_not_called_silent(hub: Hub) -> None:
    """It has no folders of its own, and it works."""
    hub.add_box("cellar", root={})
    hub.add_box(**WORKER, worked_at=NOW - 60)
    sentence = hub.sum_up()
    assert (Gravity.GOOD, "All 2 boxes are well: all 1,000 files (5.0 GiB) were verified within 30 days.") == (
        sentence.gravity,
        sentence.text,
    )
    hub.add_box("barn", **WORKER, worked_at=NOW - 3 * DAY_S)
    assert "stopped reporting: barn for 3 days" in hub.sum_up().text


def test_sentence_without_boxes_says_what_to_do(hub: Hub, hub_database: HubDatabase) -> None:
    """Boxes that may not report any more are none."""
    hub.add_box(root={})
    with hub_database.transaction() as c:
        revoke_box(c, "attic", NOW)
    sentence = hub.sum_up()

    assert (Gravity.WARNING, "No box reports here yet.") == (sentence.gravity, sentence.text)
    assert sentence.more[0].endswith("hub add BOX")


@pytest.mark.parametrize(
    ("box", "root", "expected"),
    [
        ({"seen_at": NOW - 5 * DAY_S}, {}, "1 box of 1 has stopped reporting: attic for 5 days."),
        (WORKER, None, "1 box has not reported yet: attic."),
        ({"state": "gap", "sentence": "tank is not mounted."}, {}, "attic: tank is not mounted."),
        ({}, None, "attic: it reports no folder."),
    ],
)
def test_sentence_of_what_is_not_known_is_no_praise(
    hub: Hub, box: dict[str, Any], root: dict[str, Any] | None, expected: str
) -> None:
    """Nothing green is said beside it."""
    hub.add_box(root=root, **box)

    assert (Gravity.WARNING, expected, ()) == hub.sum_up()


def test_set_agrees_only_as_far_as_it_is_known(hub: Hub) -> None:
    """Not with a silent member, not before it was compared, not while files are on their way."""
    for name, voted_ago_s, columns in (
        ("agrees", 600, {}),
        ("never", None, {}),
        ("partly", 600, {"settled_at": None}),
        ("silent", 600, {}),
    ):
        set_id = hub.add_set(name, voted_ago_s=voted_ago_s)
        hub.add_box(f"{name}-one", root={}, set_id=set_id)
        hub.add_box(f"{name}-two", root=columns, set_id=set_id, seen_at=NOW - (5 * DAY_S if name == "silent" else 60))
    hub.add_box("alone", root={}, set_id=hub.add_set("alone"))

    assert {
        "agrees": (Gravity.GOOD, "all boxes agree"),
        "alone": (None, "nothing to compare with"),
        "never": (None, "not compared yet"),
        "partly": (Gravity.WARNING, "no difference is known, but not all files were reported yet"),
        "silent": (Gravity.WARNING, "no difference is known, but 1 box stopped reporting"),
    } == {one.name: describe_agreement(one) for one in hub.load_sets()}
    assert (
        "1 replica set was not compared yet: never.",
        "1 replica set was compared only in parts, for not all files were reported yet: partly.",
    ) == hub.sum_up().more
