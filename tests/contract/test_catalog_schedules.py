"""What the catalog remembers of schedules."""

from __future__ import annotations

from integrity.catalog import runs
from integrity.model import Outcome, RootId
from support.catalogs import DAY_S, NOW, CatalogBox, run_daily


def begin(box: CatalogBox, schedule: str, root_id: RootId | None, now: int) -> runs.ScheduleRunId:
    with box.catalog.transaction() as c:
        return runs.note_started(c, schedule, root_id, due_at=now - 5, now=now)


def last(box: CatalogBox, schedule: str, root_id: RootId | None = None) -> int | None:
    with box.catalog.read() as c:
        return runs.last_started(c, schedule, root_id)


def test_schedule_that_never_ran_has_no_last_start(box: CatalogBox) -> None:
    """Nothing is made up."""
    assert last(box, "scan") is None
    assert last(box, "scan", box.root.id) is None


def test_last_start_is_that_of_the_schedule_and_the_root(box: CatalogBox) -> None:
    """Schedules and roots are told apart; one for all roots is none for a single one."""
    begin(box, "scan", None, NOW)
    begin(box, "scan", box.root.id, NOW + 10)
    begin(box, "scrub", None, NOW + 20)
    begin(box, "scan", RootId(99), NOW + 30)

    assert NOW == last(box, "scan")
    assert NOW + 10 == last(box, "scan", box.root.id)
    assert NOW + 20 == last(box, "scrub")
    assert last(box, "compare") is None


def test_unfinished_run_counts_as_started(box: CatalogBox) -> None:
    """It was begun, and a kill is no reason to begin it twice; an older start does not become the last."""
    run_id = begin(box, "scan", None, NOW + 100)
    begin(box, "scan", None, NOW)
    box.reopen()
    assert NOW + 100 == last(box, "scan")
    with box.catalog.transaction() as c:
        runs.note_finished(c, run_id, Outcome.CLEAN.value, now=NOW + 200)
    with box.catalog.read() as c:
        row = c.row("SELECT * FROM schedule_run WHERE id = ?", run_id)

    assert (run_id, "scan", None, NOW + 95, NOW + 100, NOW + 200, "clean") == row


def test_old_runs_are_forgotten(box: CatalogBox) -> None:
    """An hourly schedule does not fill the catalog; those of other schedules stay."""
    begin(box, "compare", None, NOW)
    for day in range(3):
        begin(box, "scan", None, NOW + day * DAY_S)
    with box.catalog.transaction() as c:
        run_daily(c, NOW, NOW + 401 * DAY_S)
    begin(box, "scan", None, NOW + 401 * DAY_S)
    with box.catalog.read() as c:
        found = list(c.rows("SELECT schedule, started_at FROM schedule_run ORDER BY id"))

    assert [
        ("compare", NOW),
        ("scan", NOW + 2 * DAY_S),
        ("scan", NOW + 401 * DAY_S),
    ] == found


def test_run_without_an_end_is_found_until_it_has_one(box: CatalogBox) -> None:
    """Only the newest counts: whoever began another has given the former up."""
    begin(box, "compare:nightly", None, NOW)
    newest = begin(box, "compare:nightly", None, NOW + 10)
    begin(box, "compare:other", None, NOW + 20)
    with box.catalog.read() as c:
        assert (newest, NOW + 10) == runs.find_unfinished(c, "compare:nightly")
        assert runs.find_unfinished(c, "scan") is None
    with box.catalog.transaction() as c:
        runs.note_finished(c, newest, Outcome.CLEAN.value, now=NOW + 30)
    with box.catalog.read() as c:
        assert runs.find_unfinished(c, "compare:nightly") is None
