"""The last 90 days: each event on its day, and a sentence that sums them up."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

from integrity.catalog.findings import IncidentSpan
from integrity.catalog.runs import ReadAt
from integrity.model import FindingKind
from integrity.web.drawings import DayRecord
from integrity.web.pages.runs import describe_gap, describe_timeline, make_days

LAST = date(2026, 11, 26)


def noon(back: int) -> int:
    """Return noon of a day, so many days before the last one, in the owner's time zone."""
    return int(datetime.combine(LAST - timedelta(days=back), datetime.min.time()).astimezone(UTC).timestamp()) + 43_200


def get_day(days: list[DayRecord], back: int) -> DayRecord:
    return days[-1 - back]


def test_events_stand_on_their_days() -> None:
    """What two scrubs of a day verified is added up; a finding counts when it opened and when it was resolved."""
    reads = [ReadAt(noon(3), 100), ReadAt(noon(3) + 60, 50), ReadAt(noon(200), 7)]
    spans = [
        IncidentSpan(FindingKind.ROT, noon(3), noon(1), 2),
        IncidentSpan(FindingKind.OVERDUE, noon(2), None, 1),
        IncidentSpan(FindingKind.ROT, noon(200), noon(1), 1),
    ]
    days = make_days(reads, spans, LAST)

    assert (90, LAST) == (len(days), days[-1].day)
    assert (150, 2, 0, 0, False) == get_day(days, 3)[1:]
    assert (0, 0, 1, 0, False) == get_day(days, 2)[1:]
    assert (0, 0, 0, 3, False) == get_day(days, 1)[1:]
    assert not days[0].has_any
    assert "In the last 90 days files were verified on 1 day, 3 findings opened." == describe_timeline(days)
    assert "Last verified 3 days ago." == describe_gap(days)


def test_disk_is_away_on_each_day_of_its_absence() -> None:
    """From the day it was missed to the day it was back; until today if it is still away; also if it left long ago."""
    suspended = FindingKind.ROOT_SUSPENDED
    spans = [IncidentSpan(suspended, noon(40), noon(38), 1), IncidentSpan(suspended, noon(1), None, 1)]
    days = make_days([], spans, LAST)
    long = make_days([], [IncidentSpan(suspended, noon(500), None, 1)], LAST)

    assert [40, 39, 38, 1, 0] == [back for back in range(89, -1, -1) if get_day(days, back).is_away]
    assert all(one.is_away for one in long)
    said = "In the last 90 days nothing was verified, 2 findings opened, a disk was away on 5 days."
    assert said == describe_timeline(days)
    assert "" == describe_gap(days)
