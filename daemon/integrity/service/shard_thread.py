"""
Read shared trees for the hub, in a thread of its own, while the windows of scrubs are open.

Decides when this machine asks for work; the hub decides which. The work is not queued with that of the other roots: the
file system of a shared tree is usually another machine's, so no disk of this one is disturbed.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from integrity.errors import AppError, ConfigError
from integrity.files.block_devices import Device, find_device
from integrity.files.open_beneath import open_root
from integrity.jobs.pace.throttle import pace_device
from integrity.jobs.report import Stop
from integrity.service.log_backoff import LogBackoff
from integrity.service.schedule.clock import local_zone, parse_windows
from integrity.threads import RoundThread

if TYPE_CHECKING:
    from integrity.config import Config, ConfiguredRoot
    from integrity.files.span import Pace
    from integrity.model import Finding
    from integrity.reporting.protocol import JsonObject
    from integrity.service.dispatch import ServiceContext

_log = logging.getLogger(__name__)

_PAUSE_S = 60.0


class ShardThread(RoundThread):
    """
    Work on the shared roots of the configuration until ``end`` is called.

    Args:
        write_finding: writes a finding as the object of ``findings --json``.
    """

    def __init__(self, service: ServiceContext, write_finding: Callable[[Finding], JsonObject]) -> None:
        super().__init__("shards")
        self._service = service
        self._write_finding = write_finding
        self._stop = Stop()
        self._has_ended = False
        self._backoff = LogBackoff(service.monotonic)

    def end(self) -> None:
        """Ask the thread to end: the work stops, and what it has done is stored if the hub answers in time."""
        self._has_ended = True
        self._stop.set()
        super().end()

    def _round(self) -> float:
        """Do what is due if a window is open; return the pause until the next look."""
        config, now = self._service.config(), int(self._service.clock())
        shared = config.shared_roots
        if not shared:
            return threading.TIMEOUT_MAX
        windows = parse_windows(config.schedule.scrub, local_zone())
        if not windows.is_open(now):
            opens = windows.next_opening(now)
            return _PAUSE_S if opens is None else min(_PAUSE_S, max(1.0, opens - now))
        closes = windows.closes_at(now)
        try:
            self._work(config, shared, None if closes is None else closes - now)
            self._backoff.reset()
        except AppError as error:
            if not self._backoff.is_silent():
                _log.error("shared_tree_not_read: %s", error)
            self._backoff.record_failure()
        return _PAUSE_S

    def _work(self, config: Config, shared: Sequence[ConfiguredRoot], limit_s: float | None) -> None:
        """Work on each tree until nothing is due, or the window closes."""
        from integrity.jobs.shards.worker import (  # needs the extra [report]
            WorkerSettings,
            find_work_folder,
            make_worker,
        )

        self._stop = Stop()
        if self._has_ended:
            return
        timer = threading.Timer(threading.TIMEOUT_MAX if limit_s is None else limit_s, self._stop.set)
        timer.daemon = True
        timer.start()
        try:
            for root in shared:
                settings = WorkerSettings(find_work_folder(config), pace=self._pace(config, root))
                make_worker(config, root, settings, self._write_finding, self._stop).run()
        finally:
            timer.cancel()

    def _pace(self, config: Config, root: ConfiguredRoot) -> Pace:
        return pace_device(_find_device(root.path), config.pace, self._stop, needed_bytes_per_s=lambda: 0.0)


def _find_device(path: bytes) -> Device:
    try:
        fd = open_root(path)
    except OSError as error:
        raise ConfigError(f"the shared tree can't be opened: {error}; mount it") from error
    try:
        return find_device(fd)
    finally:
        os.close(fd)
