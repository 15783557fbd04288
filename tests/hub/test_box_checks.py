"""Findings about boxes themselves, and what is deleted with time, in both databases."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from integrity.hub import schema
from integrity.hub.box_checks import CLOCK_LIMIT_S, BoxLimits, check_boxes
from integrity.hub.boxes import revoke_box
from integrity.hub.database import HubDatabase
from integrity.hub.findings import NoSuchFinding, acknowledge, find_findings, get_finding, mute
from integrity.hub.forgetting import retain
from integrity.hub.kinds import HubFindingKind
from integrity.hub.members import find_changed_sets
from integrity.model import FindingState
from support.hub_rows import DAY_S, NOW, HubRows, reported

LIMIT = 1 << 20


@pytest.fixture
def rows(hub_database: HubDatabase) -> Iterator[HubRows]:
    """Return the rows of an empty set."""
    with hub_database.transaction() as c:
        yield HubRows(c)


def check(rows: HubRows, now: int = NOW) -> list[tuple[HubFindingKind, str | None]]:
    """Check all boxes; return the unresolved findings."""
    check_boxes(rows.c, now, BoxLimits(DAY_S, LIMIT))
    unresolved = schema.finding.c.resolved_at.is_(None)
    return sorted((one.kind, one.box_name) for one in find_findings(rows.c, unresolved))


def resolutions(rows: HubRows) -> list[str | None]:
    """Return why findings ended."""
    return [one.resolution for one in find_findings(rows.c, schema.finding.c.resolved_at.is_not(None))]


def test_silent_box_is_a_finding_until_it_reports(rows: HubRows) -> None:
    """Also one that never reported."""
    rows.add_box("a", seen_ago_s=DAY_S)
    rows.add_box("b", seen_ago_s=None)

    assert [(HubFindingKind.BOX_SILENT, "b")] == check(rows)
    assert [(HubFindingKind.BOX_SILENT, "a"), (HubFindingKind.BOX_SILENT, "b")] == check(rows, NOW + 1)

    rows.c.execute(sa.update(schema.box).values(seen_at=NOW + 1))

    assert [] == check(rows, NOW + 2)
    assert ["the box reports again"] * 2 == resolutions(rows)


def test_box_that_only_reads_shared_trees_is_silent_when_its_workers_are(rows: HubRows) -> None:
    """Their calls are all that is known of it; of a box that reports they are no sign that it still does."""
    rows.add_box("a", seen_ago_s=None)
    rows.add_box("b", seen_ago_s=DAY_S)
    rows.c.execute(sa.update(schema.box).values(worked_at=NOW))

    assert [] == check(rows)
    assert [(HubFindingKind.BOX_SILENT, "b")] == check(rows, NOW + 1)
    assert [(HubFindingKind.BOX_SILENT, "a"), (HubFindingKind.BOX_SILENT, "b")] == check(rows, NOW + DAY_S + 1)
    said = {one.box_name: one.explanation for one in find_findings(rows.c)}
    assert said["a"].startswith("It read a shared tree last ")
    assert said["b"].startswith("It reported last ")


@pytest.mark.parametrize(("ahead", "words"), [(CLOCK_LIMIT_S + 1, "5 minutes ahead of"), (-DAY_S, "24 hours behind")])
def test_wrong_clock_is_a_finding(rows: HubRows, ahead: int, words: str) -> None:
    """Within the limit it is none; it ends when the clock is right."""
    rows.add_box("a", clock_ahead_s=ahead)
    rows.add_box("b", clock_ahead_s=CLOCK_LIMIT_S)

    assert [(HubFindingKind.CLOCK_WRONG, "a")] == check(rows)
    assert words in next(find_findings(rows.c)).explanation

    rows.c.execute(sa.update(schema.box).values(clock_ahead_s=0))

    assert [] == check(rows)
    assert ["the clock is right again"] == resolutions(rows)


def test_box_that_names_a_set_that_it_may_not_be_in_is_a_finding(rows: HubRows) -> None:
    """It says how to let it, and what else may be the matter."""
    rows.add_root(rows.add_box("a"), b"/srv/photos")
    rows.c.execute(sa.update(schema.member).values(refused_set="my photos"))

    assert [(HubFindingKind.SET_REFUSED, "a")] == check(rows)
    found = next(find_findings(rows.c))
    assert "a may not be in the replica set that it names" == found.headline
    assert "hub allow a --set 'my photos'`" in found.explanation
    assert "hub revoke a`" in found.explanation

    rows.c.execute(sa.update(schema.member).values(refused_set=None))
    assert [] == check(rows)


def test_full_box_is_a_finding_until_it_may_store_more(rows: HubRows) -> None:
    """It says what to do, as the owner of the hub types it; with a higher limit the finding ends."""
    rows.add_box("a")
    rows.c.execute(sa.update(schema.box_usage).values(stored_bytes=LIMIT, counted_at=NOW, full_since=NOW))

    assert [(HubFindingKind.BOX_FULL, "a")] == check(rows)
    assert "hub revoke --forget a" in next(find_findings(rows.c)).explanation

    check_boxes(rows.c, NOW, BoxLimits(DAY_S, LIMIT + 1))

    assert ["its reports are taken again"] == resolutions(rows)


def test_revoked_box_leaves_votes_and_ends_its_findings(rows: HubRows) -> None:
    """Its sets vote again without it."""
    for name in ("a", "b", "c"):
        rows.add_member(name, {b"": [reported(b"x")]}, seen_at=NOW - 2 * DAY_S)
    rows.report_finding("c", 1, "rot", b"x")
    rows.vote(NOW - 60)

    assert (HubFindingKind.REPLICA_DAMAGED, "c") in check(rows)

    revoke_box(rows.c, "c", NOW)
    check(rows)

    assert [rows.set_id] == find_changed_sets(rows.c)

    rows.vote(NOW + 1)

    assert [(HubFindingKind.BOX_SILENT, "a"), (HubFindingKind.BOX_SILENT, "b")] == check(rows)
    assert [] == find_changed_sets(rows.c)
    assert sorted(["the box was revoked", "no longer the case"]) == sorted(map(str, resolutions(rows)))


def test_findings_are_acknowledged_and_muted(rows: HubRows) -> None:
    """A change of what mends it opens an acknowledged one again; an ended one can't be changed."""
    rows.add_member("a", {b"": [reported(b"x")]})
    rows.add_member("b", {b"": [reported(b"x", verified_at=None)]})
    rows.report_finding("a", 1, "rot", b"x")
    (found,) = rows.vote()
    acknowledge(rows.c, found.id, NOW)
    rows.vote()

    assert FindingState.ACKNOWLEDGED is get_finding(rows.c, found.id).state

    rows.store_folder("b", b"", [reported(b"x")])
    rows.vote()

    assert FindingState.OPEN is get_finding(rows.c, found.id).state

    mute(rows.c, found.id, NOW + DAY_S, NOW)
    rows.resolve_finding("a", 1)
    rows.vote()

    assert FindingState.RESOLVED is get_finding(rows.c, found.id).state
    with pytest.raises(NoSuchFinding, match=f"finding {found.id}: there is none of this number, or it is resolved"):
        mute(rows.c, found.id, NOW, NOW)


def test_old_rows_are_deleted(hub_database: HubDatabase) -> None:
    """What is unresolved stays, and so does what is young by the clock of the hub, whatever a box says."""
    with hub_database.transaction() as c:
        rows = HubRows(c)
        rows.add_member("a", {b"": [reported(b"x")]})
        rows.store_folder("a", b"", [reported(b"x", b"new")], has_former=True)
        values = {"box_id": rows.boxes["a"], "kind": "run", "body": "{}"}
        c.execute(sa.insert(schema.box_event), [values | {"at": NOW}, *[values | {"at": NOW - 91 * DAY_S}] * 5001])
        for number in (1, 2):
            rows.report_finding("a", number, "rot", b"x")
        rows.resolve_finding("a", 2)
        rows.add_box("b", seen_ago_s=2 * DAY_S)
        check(rows)

    assert (5002, 2, 1, 1) == count(hub_database, NOW)
    assert (0, 1, 1, 0) == count(hub_database, NOW + 366 * DAY_S)


def count(database: HubDatabase, now: int) -> tuple[int, ...]:
    """Delete what is old; return the number of events, findings of boxes and of the hub, and former contents."""
    retain(database, now)
    tables = schema.box_event, schema.box_finding, schema.finding, schema.former_file
    with database.read() as c:
        return tuple(c.execute(sa.select(sa.func.count()).select_from(table)).scalar_one() for table in tables)
