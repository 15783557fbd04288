"""
Read what disks report of themselves, in a thread of its own: a disk that does not answer delays nothing else.

``jobs.disks`` decides which disks are due.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from integrity.errors import AppError, ReadInterrupted
from integrity.jobs.context import Context
from integrity.jobs.disks import DiskCheck
from integrity.jobs.report import Stop
from integrity.service.device_queue import LogReport
from integrity.threads import RoundThread

if TYPE_CHECKING:
    from integrity.service.dispatch import ServiceContext

_log = logging.getLogger(__name__)

_PAUSE_S = 3600.0


class DiskThread(RoundThread):
    """
    Check the disks until ``end`` is called.

    Args:
        has_news: called when a finding was opened or resolved.
    """

    def __init__(self, service: ServiceContext, has_news: Callable[[], None]) -> None:
        super().__init__("disks")
        self._service = service
        self._has_news = has_news
        self._check = DiskCheck()
        self._ended = threading.Condition()
        self._begun_rounds = self._ended_rounds = 0
        self._stop = Stop()

    def end(self) -> None:
        """Ask the thread to end; it waits for no disk any more."""
        self._stop.set()
        super().end()

    def refresh(self, timeout_s: float) -> None:
        """Check what is due, and wait for that, but not longer than ``timeout_s``. Any thread may call this."""
        with self._ended:
            wanted = self._begun_rounds + 1
            self.call()
            self._ended.wait_for(lambda: self._ended_rounds >= wanted, timeout_s)

    def _round(self) -> float:
        with self._ended:
            self._begun_rounds += 1
        try:
            self._work()
        except ReadInterrupted:
            _log.info("disks_not_checked: the service ends")
        except AppError as error:
            _log.error("disks_not_checked: %s", error)
        finally:
            with self._ended:
                self._ended_rounds = self._begun_rounds
                self._ended.notify_all()
        return _PAUSE_S

    def _work(self) -> None:
        service = self._service
        with service.open_catalog() as catalog:
            context = Context(catalog, service.config(), LogReport(), stop=self._stop, clock=service.clock)
            if self._check.run(context):
                self._has_news()
