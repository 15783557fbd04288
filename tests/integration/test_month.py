"""Months on machines that are off at night: real files, catalog, scrubs and scheduler; only the clocks are made."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta, tzinfo
from pathlib import Path

import pytest

from integrity.catalog.connection import Catalog
from integrity.catalog.roots import find_roots, set_root_state
from integrity.config import Config, RootSettings
from integrity.files.span import UNLIMITED
from integrity.jobs import runner
from integrity.jobs.context import Context
from integrity.jobs.options import ScanOptions, ScrubOptions
from integrity.jobs.pace.throttle import Throttle
from integrity.jobs.report import Stop, Summary
from integrity.jobs.scrub import promise
from integrity.jobs.scrub.plan import OpenTimes, plan_window
from integrity.model import Finding, FindingKind, RootState
from integrity.pauses import Pauses
from integrity.service.schedule.clock import Openings, Recurrence, TriggerTimes, Windows, parse_windows
from integrity.units import read_schedule
from support.berlin import BERLIN
from support.jobs import Told
from support.planted import plant

BEGIN = datetime(2026, 10, 10, 8, tzinfo=BERLIN)  # clocks are put back on the 25th
FILES = 84
SIZE = 1000
pytestmark = pytest.mark.files(FILES, size_bytes=SIZE)
PER_WINDOW = 6  # files that the disk gives in two hours; three are needed
HOUR_S = 3600
DAY_S = 86_400
TICK_S = 600
OVERDUE = "SELECT count(*) FROM file WHERE coalesce(verified_at, recorded_at) < {} - 30 * 86400"


class Machine:
    """
    A machine with a catalog.

    Args:
        catalog: where to make it.
        config: of the program.
        begin: its clock at first, seconds UTC.
        zone: in which its days are counted.
        rate_bytes_per_s: of its disk.

    Attributes:
        large_bytes: larger files share the windows with the others.
    """

    def __init__(self, catalog: bytes, config: Config, *, begin: int, zone: tzinfo, rate_bytes_per_s: float) -> None:
        self.now = float(begin)
        self.begin = begin
        self.zone = zone
        self.told = Told()
        self.large_bytes = ScrubOptions().large_bytes
        self._lock = threading.Lock()
        self._catalog = Catalog.create(catalog)
        stop = Stop()
        self.context = Context(
            self._catalog,
            config,
            self.told,
            jobs=1,
            stop=stop,
            clock=lambda: self.now,
            monotonic=lambda: self.now - begin,
            wait=self._wait,
            boot_uuid="the-only-boot",
            pauses=Pauses(),
        )
        self._disk = Throttle(rate_bytes_per_s, stop, monotonic=self.context.monotonic, wait=self._wait)

    def __enter__(self) -> Machine:
        return self

    def __exit__(self, *_: object) -> None:
        self._catalog.close()

    @property
    def day(self) -> int:
        """The number of days since the beginning."""
        first = datetime.fromtimestamp(self.begin, self.zone).date()
        return (datetime.fromtimestamp(self.now, self.zone).date() - first).days

    def sleep_until(self, at: float) -> None:
        """Let nothing happen until a time."""
        self.now = max(self.now, at)

    def scan(self, path: bytes) -> Summary:
        """Record what is there, in no time."""
        self.context.pace = UNLIMITED
        return runner.scan(self.context, [path], ScanOptions())

    def scrub(self, path: bytes, windows: OpenTimes) -> Summary:
        """Do what the window that is open is to do, as fast as the disk is."""
        self.context.pace = self._disk
        with self._catalog.read() as connection:
            (root,) = find_roots(connection)
            every_s = self.context.config.settings_for(root.path).verify_every_s
            facts = promise.find_facts(connection, root, verify_every_s=every_s, now=int(self.now))
        options = plan_window(facts, windows, verify_every_s=every_s, now=int(self.now))
        return runner.scrub(self.context, [path], options._replace(large_bytes=self.large_bytes))

    def check(self, windows: OpenTimes) -> list[Finding]:
        """Look after the promise."""
        return promise.check(self.context, windows)

    def set_state(self, state: RootState) -> None:
        """Have the only root be paused, suspended or neither."""
        with self._catalog.transaction() as connection:
            (root,) = find_roots(connection)
            set_root_state(connection, root.id, state, None)

    def query(self, sql: str) -> list[tuple[object, ...]]:
        """Ask the catalog."""
        with self._catalog.read() as connection:
            return list(connection.rows(sql))

    def _wait(self, duration_s: float) -> bool:
        with self._lock:
            self.now += duration_s
        return False


@contextmanager
def machine_at(tmp_path: Path, *, rate_bytes_per_s: float) -> Iterator[Machine]:
    config = Config(defaults=replace(RootSettings(), block_size_bytes=1 << 16))
    begin, catalog = round(BEGIN.timestamp()), bytes(tmp_path / "catalog.db")
    with Machine(catalog, config, begin=begin, zone=BERLIN, rate_bytes_per_s=rate_bytes_per_s) as machine:
        yield machine


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    with machine_at(tmp_path, rate_bytes_per_s=PER_WINDOW * SIZE / (2 * HOUR_S)) as made:
        yield made


class Month:
    """
    Days of a machine that is on from 8 to 20.

    Attributes:
        scrubs: of each window that it was on in.
        found: the promise's finding as it was told, by the day.
    """

    def __init__(self, machine: Machine, root: Path, windows: Windows) -> None:
        self.machine = machine
        self.root = bytes(root)
        self.windows = windows
        self.scrubs: list[Summary] = []
        self.found: dict[int, Finding] = {}
        self.last_scan_at: int | None = None

    def live(self, days: int) -> None:
        """Let days pass."""
        for _ in range(days):
            self._spend_day()

    def _spend_day(self) -> None:
        machine = self.machine
        morning = BEGIN + timedelta(days=machine.day)
        machine.sleep_until(morning.timestamp())
        now = int(machine.now)
        scans = Recurrence(TriggerTimes(read_schedule("daily"), BERLIN), last_at=self.last_scan_at, now=now)
        openings = Openings(self.windows, last_at=now, now=now)
        while machine.now < morning.timestamp() + 12 * HOUR_S:
            now = int(machine.now)
            is_scan_due, (_, has_opened) = scans.take(now), openings.look(now)
            if is_scan_due:
                self._scan()
            if has_opened:
                self._scrub()
            machine.sleep_until(machine.now + TICK_S)
        machine.sleep_until((morning + timedelta(days=1)).timestamp())

    def _scan(self) -> None:
        self.last_scan_at = int(self.machine.now)
        self.machine.scan(self.root)
        self._check()

    def _scrub(self) -> None:
        self.scrubs.append(self.machine.scrub(self.root, self.windows))
        self._check()

    def _check(self) -> None:
        for finding in self.machine.check(self.windows):
            self.found.setdefault(self.machine.day, finding)


def overdue(machine: Machine) -> object:
    return machine.query(OVERDUE.format(int(machine.now)))[0][0]


def never_verified(machine: Machine) -> object:
    return machine.query("SELECT count(*) FROM file WHERE verified_at IS NULL")[0][0]


@pytest.mark.long
def test_every_byte_is_verified_within_the_promise(machine: Machine, root: Path) -> None:
    """Two hours at noon are enough: nothing ever falls due, and no window does much more than its share."""
    month = Month(machine, root, parse_windows("12:00-14:00", BERLIN))
    for _ in range(62):
        month.live(1)
        assert overdue(machine) == 0, machine.day
    files = [scrub.counts.verified for scrub in month.scrubs]

    assert len(files) == 62
    assert never_verified(machine) == 0
    assert sum(files) >= 2 * FILES
    assert max(files) <= 5
    assert min(files) >= 1
    assert month.found == {}
    assert machine.query("SELECT 1 FROM finding") == []


def test_windows_at_night_are_missed_and_the_finding_comes_on_its_day(machine: Machine, root: Path) -> None:
    """The machine is off then: on the thirty-first morning the promise is broken, and the reason is guessed."""
    month = Month(machine, root, parse_windows("01:00-03:00", BERLIN))
    month.live(30)
    assert month.found == {}
    month.live(2)
    (first, *_) = month.found.values()

    assert month.scrubs == []
    assert list(month.found) == [30, 31]
    assert first.kind is FindingKind.OVERDUE
    assert first.message == (
        "84 files (82.0 KiB) not verified within 30 days, the oldest 1 h late; no scrub has begun in the last windows"
        " (01:00-03:00): is the machine on then, and the service running?"
    )

    month.windows = parse_windows("09:00-19:30", BERLIN)
    month.live(4)
    assert overdue(machine) == 0
    assert machine.query("SELECT kind, state, resolution FROM finding") == [
        ("overdue", "resolved", "everything is verified in time again")
    ]
    ended = "finding 1, Verification overdue, is resolved: everything is verified in time again"
    assert [note.message for note in machine.told.notes] == [ended]


def test_paused_root_promises_nothing_and_a_suspended_one_can_t(machine: Machine, root: Path) -> None:
    """The finding ends with the pause; of a suspended root nothing is said, and nothing taken back."""
    month = Month(machine, root, parse_windows("01:00-03:00", BERLIN))
    month.live(31)
    machine.set_state(RootState.SUSPENDED)
    assert machine.check(month.windows) == []
    assert machine.query("SELECT state FROM finding WHERE kind = 'overdue'") == [("open",)]
    machine.set_state(RootState.PAUSED)
    assert machine.check(month.windows) == []
    assert machine.query("SELECT state, resolution FROM finding") == [("resolved", "the root is paused")]
    machine.set_state(RootState.ACTIVE)

    assert [FindingKind.OVERDUE] == [finding.kind for finding in machine.check(month.windows)]


@pytest.mark.long
def test_huge_file_does_not_keep_the_others_waiting(tmp_path: Path) -> None:
    """It takes several windows, and half of each is for the others; in the end it is verified, too."""
    root = tmp_path / "root"
    root.mkdir()
    with open(root / "huge", "wb") as file:
        file.write(os.urandom(1 << 20) * 96)
        os.fsync(file.fileno())  # before the others, so that it comes first on a disk that turns, too
    plant(root / "small", 600, size_bytes=2_700)
    with machine_at(tmp_path, rate_bytes_per_s=(32 << 20) / (2 * HOUR_S)) as machine:
        machine.large_bytes = 64 << 20
        month = Month(machine, root, parse_windows("12:00-14:00", BERLIN))
        month.live(1)
        assert never_verified(machine) == 1
        ((offset,),) = machine.query("SELECT offset_bytes FROM checkpoint")
        assert isinstance(offset, int)
        assert 8 << 20 <= offset <= 32 << 20
        month.live(7)

        assert never_verified(machine) == 0
        assert {scrub.counts.known for scrub in month.scrubs} == {601}


def test_days_are_counted_by_the_calendar() -> None:
    """The machine of these tests is on from 8 to 20 also after the night in which clocks are put back."""
    after = BEGIN + timedelta(days=20)

    assert (after.hour, after.timestamp() - BEGIN.timestamp()) == (8, 20 * DAY_S + HOUR_S)
