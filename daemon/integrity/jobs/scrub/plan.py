"""
Plan the work that ``verify_every`` requires, and whether it can be done.

Decides how much of a root each window verifies, so that the work is spread evenly and no file becomes overdue, and what
to advise when it is too much. Pure: the facts about a root and the opening times are arguments.

Work is measured in units that windows offer: open seconds, or openings where each stays open until all is done.
"""

from collections.abc import Iterator
from itertools import islice, takewhile
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from integrity.catalog.coverage import DueDay
    from integrity.jobs.options import ScrubOptions

_DAY_S = 86_400
_MOST_OPENINGS = 1000
_MARGIN = 1.1
"""Advice includes this margin, because disks are not equally fast everywhere."""

_LONGER_MIN = 30
_LONGEST_DAYS = 730


class OpenTimes(Protocol):
    """When work may be done. All times are seconds UTC. ``service.schedule.clock.Windows`` implements it."""

    @property
    def text(self) -> str | None:
        """The windows as spelled in the config; None if each stays open until all is done."""

    def is_open(self, at: int) -> bool:
        """Return whether work may begin."""

    def closes_at(self, at: int) -> int | None:
        """Return when the open window closes; ``at`` itself if none is open, None if it never closes by itself."""

    def next_opening(self, at: int) -> int | None:
        """Return when the next window after ``at`` opens; None if windows never close."""

    def open_seconds(self, begin: int, end: int) -> int:
        """Return the number of seconds in which work may be done."""

    def longer(self, minutes: int) -> "OpenTimes | None":
        """Return windows that close this much later, or None if that is impossible."""


class Overdue(NamedTuple):
    """What was not verified in time."""

    files: int
    bytes: int


NOTHING = Overdue(0, 0)


class Facts(NamedTuple):
    """
    What the catalog knows about a root's verifications.

    Args:
        days: files that can be verified, by the day they were last checked, oldest first.
        overdue: how much was not verified in time.
        bytes_apart: unreachable or known to be damaged, so that no window would help.
        rate_bytes_per_s: the measured rate of scrubs; None before the first.
        last_scrub_at: when the last scrub began.
    """

    days: "tuple[DueDay, ...]"
    overdue: Overdue = NOTHING
    bytes_apart: int = 0
    rate_bytes_per_s: float | None = None
    last_scrub_at: int | None = None

    @property
    def bytes_total(self) -> int:
        """The number of bytes that can be verified."""
        return sum(day.bytes for day in self.days)


class Plan(NamedTuple):
    """
    Whether ``verify_every`` is kept.

    Args:
        bytes_total: what can be verified.
        bytes_overdue: what was not verified in time.
        bytes_due_soon: what becomes due before the end of the window after the current or next one.
        bytes_apart: see ``Facts``; not included in the others.
        needed_bytes_per_s: the rate required in open windows from now on.
        measured_bytes_per_s: the rate reached so far.
        is_kept: nothing is overdue or will become overdue, as far as is known.
        met_at: when the last overdue file will be verified; None if never or unknown.
        advice: what would help.
    """

    bytes_total: int
    bytes_overdue: int
    bytes_due_soon: int
    bytes_apart: int
    needed_bytes_per_s: float
    measured_bytes_per_s: float | None
    is_kept: bool
    met_at: int | None
    advice: str | None


def make_plan(facts: Facts, windows: OpenTimes, *, verify_every_s: int, now: int) -> Plan:
    """Return what ``verify_every`` requires of a root, whether it is kept, and what would help."""
    end = _end_of(windows, _opens_at(windows, now))
    demand = _Demand(facts, windows, verify_every_s, now, end)
    rate, soon_at = facts.rate_bytes_per_s, _end_of_following(windows, end)
    soon = sum(day.bytes for day in facts.days if now <= day.oldest_at + verify_every_s < soon_at)
    needed = demand.needed()
    is_kept = not facts.overdue.files and (rate is None or not facts.days or needed <= rate)
    met_at = now if is_kept else None if rate is None else demand.met_at(rate)
    return Plan(
        bytes_total=facts.bytes_total,
        bytes_overdue=facts.overdue.bytes,
        bytes_due_soon=soon,
        bytes_apart=facts.bytes_apart,
        needed_bytes_per_s=needed,
        measured_bytes_per_s=rate,
        is_kept=is_kept,
        met_at=met_at,
        advice=None if is_kept else _advise(facts, windows, verify_every_s, now),
    )


def plan_window(facts: Facts, windows: OpenTimes, *, verify_every_s: int, now: int) -> "ScrubOptions":
    """
    Return what the open window should verify of a root.

    First all that becomes due before the end of the next window, which may be missed. Then what was touched, and a
    share, stalest first, that suffices if every later window does the same. Unrecorded files are left to scans.
    """
    from integrity.jobs.options import ScrubOptions  # here, for `status` scrubs nothing

    closes, end = windows.closes_at(now), _end_of(windows, now)
    margin = _end_of_following(windows, end) - now
    demand = _Demand(facts, windows, verify_every_s, now, end, margin_s=margin)
    share = demand.needed_per_unit() * max(1, demand.units(now, end))
    return ScrubOptions(
        touched=True,
        due_within_s=margin,
        at_least_bytes=-int(-share // 1),
        time_limit_s=None if closes is None else closes - now,
        scan_first=False,
    )


class _Demand:
    """
    How much must be verified by when, and how much time the windows offer until then.

    Args:
        verify_every_s: the deadline, counted from the last verification of a file.
        end: when the current or next window ends; overdue files count as due then.
        margin_s: be ready this much earlier.
    """

    def __init__(
        self, facts: Facts, windows: OpenTimes, verify_every_s: int, now: int, end: int, *, margin_s: int = 0
    ) -> None:
        self._facts = facts
        self._windows = windows
        self._every_s = max(1, verify_every_s - margin_s)
        self._now = now
        self._soonest = end
        self._has_closings = windows.text is not None

    def units(self, begin: int, end: int) -> int:
        """Return how many units the windows offer: seconds, or openings (including an open one) if they never close."""
        if self._has_closings:
            return self._windows.open_seconds(begin, end)
        is_open = self._windows.is_open(begin)
        return is_open + sum(1 for _ in takewhile(lambda at: at < end, _openings(self._windows, begin)))

    def needed(self) -> float:
        """Return the bytes per second of open windows required to verify everything in time."""
        steps = self._steps(self._windows.open_seconds)
        return max([self._steady(self._windows.open_seconds), *(size / max(1, seconds) for size, seconds, _ in steps)])

    def needed_per_unit(self) -> float:
        """Return the bytes per unit required to verify everything in time and evenly."""
        steps = self._steps(self.units)
        return max([self._steady(self.units), *(size / max(1, units) for size, units, _ in steps)])

    def met_at(self, rate: float) -> int | None:
        """Return when nothing will be overdue any more at this rate in bytes per second; None if never."""
        if self._steady(self._windows.open_seconds) > rate:
            return None
        late = [(size, due) for size, seconds, due in self._steps(self._windows.open_seconds) if size > rate * seconds]
        overdue = [(size, due) for size, _, due in self._steps(self._windows.open_seconds) if due < self._now]
        if not late and not overdue:
            return self._now
        return self._moment_after(max(late + overdue)[0] / rate)

    def _steps(self, offer: "_Offer") -> Iterator[tuple[int, int, int]]:
        """Iterate over (bytes due by then, units offered by then, due time), earliest first."""
        size, offered, seen = 0, 0, self._now
        for day in self._facts.days:
            due = day.oldest_at + self._every_s
            until = max(due, self._soonest)
            size += day.bytes
            if until > seen:
                offered, seen = offered + offer(seen, until), until
            yield size, offered, due

    def _steady(self, offer: "_Offer") -> float:
        """Return the bytes per unit required to verify everything once per ``verify_every``."""
        return self._facts.bytes_total / max(1, offer(self._now, self._now + self._every_s))

    def _moment_after(self, seconds: float) -> int | None:
        """Return when this many seconds of open windows will have passed."""
        at, left = self._now, seconds
        if not self._windows.is_open(at):
            at = next(iter(_openings(self._windows, at)), at)
        for _ in range(_LONGEST_DAYS):
            closes = self._windows.closes_at(at)
            if closes is None or closes - at >= left:
                return int(at + left)
            left -= closes - at
            opens = self._windows.next_opening(closes - 1) or closes
            at = opens
        return None


class _Offer(Protocol):
    def __call__(self, begin: int, end: int) -> int: ...


def _openings(windows: OpenTimes, after: int) -> Iterator[int]:
    for _ in range(_MOST_OPENINGS):
        opens = windows.next_opening(after)
        if opens is None:
            return
        yield opens
        after = opens


def _opens_at(windows: OpenTimes, now: int) -> int:
    """Return the start of the current or next window; ``now`` if one is open."""
    return now if windows.is_open(now) else windows.next_opening(now) or now


def _end_of(windows: OpenTimes, opens: int) -> int:
    """Return the end of a window: when it closes, else when the next one opens, at most a day later."""
    closes = windows.closes_at(opens)
    if closes is not None:
        return closes
    return min(opens + _DAY_S, windows.next_opening(opens) or opens + _DAY_S)


def _end_of_following(windows: OpenTimes, end: int) -> int:
    """Return the end of the window after one that ended."""
    return _end_of(windows, _opens_at(windows, end))


def _advise(facts: Facts, windows: OpenTimes, verify_every_s: int, now: int) -> str | None:
    """Return what would help."""
    rate = facts.rate_bytes_per_s
    since = None if facts.last_scrub_at is None else now - facts.last_scrub_at
    last = now - _LONGEST_DAYS * _DAY_S if since is None else now - since
    missed = sum(1 for _ in islice(takewhile(lambda at: at < now, _openings(windows, last)), 3))
    if missed >= 3:
        when = f" ({windows.text})" if windows.text else ""
        return f"no scrub has begun in the last windows{when}: is the machine on then, and the service running?"
    if rate is None or _is_enough(facts, windows, verify_every_s, now, rate):
        return None
    longer = windows.longer(_LONGER_MIN)
    minutes = _LONGER_MIN
    while longer is not None:
        if _is_enough(facts, longer, verify_every_s, now, rate):
            return f'open the window longer: "{longer.text}" would do'
        minutes += _LONGER_MIN
        longer = windows.longer(minutes)
    for days in range(verify_every_s // _DAY_S + 1, _LONGEST_DAYS):
        if _is_enough(facts, windows, days * _DAY_S, now, rate):
            return f'verify_every = "{days}d" could be kept'
    return "this much can't be verified at this rate: open more windows, or watch less"


def _is_enough(facts: Facts, windows: OpenTimes, verify_every_s: int, now: int, rate: float) -> bool:
    """Return whether the windows suffice to verify everything once per ``verify_every``."""
    return facts.bytes_total * _MARGIN <= rate * windows.open_seconds(now, now + verify_every_s)
