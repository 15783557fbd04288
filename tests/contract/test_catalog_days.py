"""Records age by the days on which the program ran, whatever the clock showed (I1 of ``days_run``)."""

from __future__ import annotations

import pytest

from integrity.catalog.connection import Connection
from integrity.catalog.rows import MOST_DAYS, is_outdated, note_day
from support.catalogs import DAY_S, NOW, CatalogBox, run_daily

KEEP = 90
YEARS_AHEAD = NOW + 4400 * DAY_S


def is_old(c: Connection, written_at: int, now: int) -> bool:
    """Return whether a record of this time is outdated now."""
    return bool(c.value(f"SELECT {is_outdated(c, str(written_at), KEEP, now)}"))


def test_record_is_outdated_after_so_many_days(box: CatalogBox) -> None:
    """Days on which the program did not run do not count, and several runs on one day count once."""
    with box.catalog.transaction() as c:
        run_daily(c, NOW, NOW + 50 * DAY_S)
        assert not is_old(c, NOW, NOW + 1000 * DAY_S)
        run_daily(c, NOW + 1000 * DAY_S, NOW + 1037 * DAY_S)
        for hour in range(24):
            assert not is_old(c, NOW, NOW + 1037 * DAY_S + hour)
        assert not is_old(c, NOW, NOW + 1038 * DAY_S)
        assert is_old(c, NOW, NOW + 1039 * DAY_S)


@pytest.mark.parametrize("wrong", [YEARS_AHEAD, 0, NOW - 200 * DAY_S], ids=["ahead", "1970", "months back"])
@pytest.mark.parametrize("is_flapping", [False, True])
def test_wrong_clock_ages_nothing(box: CatalogBox, wrong: int, is_flapping: bool) -> None:
    """One day, or each morning, with a wrong clock neither ages records of other days, nor records of that time."""
    with box.catalog.transaction() as c:
        run_daily(c, NOW - 100 * DAY_S, NOW)
        note_day(c, wrong)
        assert not any(is_old(c, at, wrong) for at in (NOW, wrong))
        for day in range(1, KEEP - 1):
            if is_flapping:
                note_day(c, wrong)
            assert not any(is_old(c, at, NOW + day * DAY_S) for at in (NOW, wrong))
        run_daily(c, NOW + KEEP * DAY_S, NOW + 2 * KEEP * DAY_S)

        assert all(is_old(c, at, NOW + 2 * KEEP * DAY_S) for at in (NOW, wrong))


def test_catalog_of_an_older_version_forgets_nothing_at_first(box: CatalogBox) -> None:
    """Without known days nothing is outdated, however old it looks."""
    with box.catalog.transaction() as c:
        assert not is_old(c, 0, NOW)
        run_daily(c, NOW, NOW + (KEEP - 2) * DAY_S)
        assert not is_old(c, 0, NOW + (KEEP - 2) * DAY_S)
        assert is_old(c, 0, NOW + (KEEP - 1) * DAY_S)


def test_number_of_days_is_bounded(box: CatalogBox) -> None:
    """As many days are kept as any record needs."""
    with box.catalog.transaction() as c:
        run_daily(c, NOW, NOW + 2 * MOST_DAYS * DAY_S)

        assert MOST_DAYS == len(note_day(c, NOW + 2 * MOST_DAYS * DAY_S))
