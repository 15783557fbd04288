"""
A machine whose clocks only the test moves: nights pass in milliseconds, but files, catalog, readings and jobs are real.

Reading takes time as on a disk of a given rate: whoever waits for his turn to read moves the clocks.
"""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import datetime, tzinfo

from integrity.catalog.connection import Catalog
from integrity.catalog.roots import find_roots, set_root_state
from integrity.config import Config
from integrity.files.span import UNLIMITED
from integrity.jobs import runner
from integrity.jobs.context import Context
from integrity.jobs.options import ScanOptions, ScrubOptions
from integrity.jobs.pace.throttle import Throttle
from integrity.jobs.report import Stop, Summary
from integrity.jobs.scrub import promise
from integrity.jobs.scrub.plan import OpenTimes, plan_window
from integrity.model import Finding, RootState
from integrity.pauses import Pauses
from support.jobs import Told

DAY_S = 86_400


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
        return runner.scrub(self.context, [path], replace(options, large_bytes=self.large_bytes))

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
            return [tuple(row) for row in connection.exec_driver_sql(sql)]

    def _wait(self, duration_s: float) -> bool:
        with self._lock:
            self.now += duration_s
        return False
