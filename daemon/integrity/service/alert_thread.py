"""
Send alerts from a thread of their own, whatever the jobs do.

``AlertThread`` sends what the catalog's outbox holds. ``CatalogFailureAlert`` reports an unwritable catalog directly
through the channels, because that message can't be queued in the catalog.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from integrity.alerts.channels import Channel, make_channels
from integrity.alerts.compose import Composer
from integrity.alerts.delivery import AlertDelivery
from integrity.alerts.status import HOW_TO_TELL, NOBODY, find_recipients
from integrity.catalog.connection import Catalog
from integrity.catalog.notified import pending_since
from integrity.errors import AppError, ChannelError
from integrity.threads import RoundThread

if TYPE_CHECKING:
    from integrity.config import Config
    from integrity.service.dispatch import ServiceContext


_log = logging.getLogger(__name__)

LASTS_S = 60.0
"""Shorter failures are ignored: they come from another program, or pass by themselves."""

AGAIN_S = 86_400.0
PAUSE_S = 3600.0


class CatalogFailureAlert:
    """
    Report a catalog failure once, again after a day while it lasts, and at most hourly if it comes and goes.

    Args:
        clock: seconds UTC.
    """

    def __init__(
        self, hostname: str, clock: Callable[[], float], monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._composer = Composer(hostname)
        self._clock = clock
        self._monotonic = monotonic
        self._since: float | None = None
        self._sent_at: float | None = None
        self._next_at = 0.0

    def look(self, trouble: str, channels: Callable[[], Sequence[Channel]]) -> None:
        """Record the catalog's current error, or its absence if ``trouble`` is empty; send a message if one is due."""
        now = self._monotonic()
        if not trouble:
            self._since = None
            if self._sent_at is not None:
                self._next_at = self._sent_at + PAUSE_S
            return
        if self._since is None:
            self._since = now
        if now - self._since < LASTS_S or now < self._next_at:
            return
        if self._send(trouble, channels()):
            self._sent_at, self._next_at = now, now + AGAIN_S
        else:
            self._next_at = now + LASTS_S

    def _send(self, trouble: str, channels: Sequence[Channel]) -> bool:
        """Send the message through every channel. Return whether at least one accepted it."""
        message, is_sent = self._composer.catalog_trouble(trouble, int(self._clock())), False
        for channel in channels:
            try:
                channel.send(message)
            except ChannelError as error:
                _log.warning("alert not sent channel=%s error=%s", channel.name, error)
            else:
                _log.info("alert sent channel=%s kind=%s", channel.name, message.kind.value)
                is_sent = True
        return is_sent


LONGEST_WAIT_S = 60.0
_DISKS_S = 30.0
_VERSIONS_S = 60.0
"""Limits for looking before a mail, at disks and into the versions of backups; it does without what takes longer."""


class AlertThread(RoundThread):
    """
    Send alerts until ``end`` is called.

    Args:
        beat: called each round and before each send, for the watchdog.
        trouble: returns the catalog's current error, or an empty text.
        read_disks: reads what the disks report, if that is due, within so many seconds.
    """

    def __init__(
        self,
        service: ServiceContext,
        beat: Callable[[], None],
        trouble: Callable[[], str],
        read_disks: Callable[[float], None],
        *,
        hostname: str,
    ) -> None:
        super().__init__("alerts")
        self._service = service
        self._beat = beat
        self._trouble = trouble
        self._read_disks = read_disks
        self._looked_for: int | None = None  # when the finding was noticed before whose mail this looked
        self._failure_alert = CatalogFailureAlert(hostname, service.clock)
        self._hostname = hostname
        self._catalog: Catalog | None = None
        self._delivery: AlertDelivery | None = None
        self._used: Config | None = None  # by the delivery

    def _round(self) -> float:
        """Deliver what is due; return how long nothing will be."""
        self._beat()
        try:
            self._failure_alert.look(
                self._trouble(), lambda: make_channels(self._service.config(), hostname=self._hostname)
            )
            delivery = self._find_delivery()
            self._look_once()
            return min(delivery.tick(), LONGEST_WAIT_S)
        except AppError as error:
            _log.error("delivery_failed: %s", error)  # nothing is lost: it waits in the catalog
            self._finish()  # another file may have its place
            return LONGEST_WAIT_S

    def _look_once(self) -> None:
        """Look at the disks and into the versions of backups before a mail about new findings: it says what is seen."""
        assert self._catalog is not None
        with self._catalog.read() as connection:
            noticed_at = pending_since(connection, int(self._service.clock()))
        if noticed_at is not None and noticed_at != self._looked_for:
            from integrity.jobs.versions.of_file import (  # here, for it loads all kinds of copies
                StopIf,
                look_for_versions,
            )

            self._read_disks(_DISKS_S)
            until = time.monotonic() + _VERSIONS_S
            stop = StopIf(lambda: self._over.is_set() or time.monotonic() >= until)
            look_for_versions(self._catalog, self._service.config(), stop=stop, warn=_log.warning)
            self._beat()
        self._looked_for = noticed_at

    def _finish(self) -> None:
        if self._catalog is not None:
            self._catalog.close()
        self._catalog = self._delivery = None

    def _find_delivery(self) -> AlertDelivery:
        """Return the delivery. Make it on first use, and again when the configuration has changed."""
        config = self._service.config()
        if self._catalog is None:
            self._catalog = self._service.open_catalog()
        if self._delivery is None or config is not self._used:
            channels = make_channels(config, hostname=self._hostname)
            self._delivery = AlertDelivery(
                self._catalog, config, channels, clock=self._service.clock, hostname=self._hostname, beat=self._beat
            )
            if config is not self._used and not find_recipients(config):
                _log.warning("no_channel: %s; %s", NOBODY, HOW_TO_TELL)
            self._used = config
        return self._delivery
