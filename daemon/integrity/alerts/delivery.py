"""
Send the messages of the outbox through the channels.

I1  A message is sent only if it is in the catalog. It is retried until the channel accepts it.
I2  A message that a channel accepted is not sent through it again, unless the process dies between the channel's answer
    and our commit. It is then sent again with the same Message-ID.
I3  A failing channel does not delay other channels, and a failing message does not delay other messages.
I4  A message is sent only while it is true: one about a finding that was resolved meanwhile is withdrawn, and the
    rest of it is written anew.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence

from integrity.alerts.channels import Channel
from integrity.alerts.compose import Composer
from integrity.alerts.heartbeat import HEARTBEAT
from integrity.alerts.incidents import AlertPlanner
from integrity.catalog import notified, outbox
from integrity.catalog.connection import Catalog, Connection
from integrity.catalog.outbox import ABOUT_OPEN_FINDINGS, LONGEST_WAIT_S, AlertKind, DueDelivery
from integrity.config import Config
from integrity.errors import ChannelError

_log = logging.getLogger(__name__)

_SHORTEST_WAIT_S = 60
_LONGEST_PAUSE_S = 60.0


class AlertDelivery:
    """
    Queue and send alerts. Belongs to one thread; only one may exist per catalog.

    Args:
        catalog: open for writing; the caller closes it.
        channels: each with a unique name.
        beat: called before each send, because a single send may take minutes.
        is_drill: messages say that they are about a test file.
    """

    def __init__(
        self,
        catalog: Catalog,
        config: Config,
        channels: Sequence[Channel],
        *,
        clock: Callable[[], float] = time.time,
        hostname: str,
        beat: Callable[[], None] = lambda: None,
        is_drill: bool = False,
    ) -> None:
        self._catalog = catalog
        self._beat = beat
        self._channels = tuple(channels)
        self._clock = clock
        self._names = [channel.name for channel in channels]
        self._watched = [HEARTBEAT] if config.alerts.heartbeat_url else []
        composer = Composer(hostname, is_drill, config.web.public_url.rstrip("/"))
        self._planner = AlertPlanner(catalog, config.alerts, composer, self._names)
        self._is_set_up = False
        # Accepted by a channel but not recorded yet, because the catalog was locked or its disk was full.
        self._unwritten: dict[tuple[int, str], int] = {}

    def tick(self) -> float:
        """
        Queue new alerts, and send those that are due.

        Returns:
            Seconds until the next call is needed, at most 60.

        Raises:
            CatalogError: the catalog can't be used now. Messages that were sent are remembered and recorded later.
        """
        self._set_up()
        self._write_down()
        self._withdraw_outdated()
        due_at = self._planner.queue_due(self._now())
        for channel in self._channels:
            self._send_due(channel)
        with self._catalog.read() as c:
            next_try_at = outbox.next_try_at(c, self._names, self._now())
        times = [float(when) for when in (due_at, next_try_at) if when is not None]
        return min([_LONGEST_PAUSE_S, *(max(0.0, when - self._clock()) for when in times)])

    def _now(self) -> int:
        return int(self._clock())

    def _set_up(self) -> None:
        if self._is_set_up:
            return
        with self._catalog.transaction() as c:
            outbox.set_channels(c, self._names, self._watched, self._now())
        self._is_set_up = True

    def _withdraw_outdated(self) -> None:
        """Delete unsent messages that are no longer true; what is left to say in them becomes due again (I4)."""
        for name in self._names:
            with self._catalog.read() as c:
                outdated = [one for one in outbox.find_due(c, name, self._now()) if _is_outdated(c, one)]
            for delivery in outdated:
                with self._catalog.transaction() as c:
                    was_seen = outbox.has_been_sent(c, delivery.alert_id)
                    outbox.withdraw(c, delivery.alert_id)
                    if delivery.message.kind is AlertKind.INCIDENT and not was_seen:
                        notified.unmark_notified(c, delivery.message.incidents, delivery.message.created_at)
                _log.info("alert withdrawn kind=%s: resolved before it was sent", delivery.message.kind.value)

    def _send_due(self, channel: Channel) -> None:
        """Send due messages through a channel until it fails. The rest is retried in the next round (I3)."""
        with self._catalog.read() as c:
            due = outbox.find_due(c, channel.name, self._now())
        for delivery in due:
            self._beat()
            try:
                channel.send(delivery.message)
            except ChannelError as error:
                self._postpone(channel, delivery, error)
                return
            self._unwritten[delivery.alert_id, channel.name] = self._now()
            self._write_down()
            _log.info("alert sent channel=%s kind=%s", channel.name, delivery.message.kind.value)

    def _write_down(self) -> None:
        """Record accepted messages. Those that can't be recorded are kept in memory and not sent again (I2)."""
        for (alert_id, name), sent_at in list(self._unwritten.items()):
            with self._catalog.transaction() as c:
                outbox.mark_sent(c, alert_id, name, sent_at)
            del self._unwritten[alert_id, name]

    def _postpone(self, channel: Channel, delivery: DueDelivery, error: ChannelError) -> None:
        _log.warning("alert not sent channel=%s error=%s", channel.name, error)
        now = self._now()
        wait_s = LONGEST_WAIT_S if error.is_permanent else back_off_s(delivery.attempts)
        with self._catalog.transaction() as c:
            outbox.mark_failed(
                c,
                delivery.alert_id,
                channel.name,
                error=str(error),
                is_permanent=error.is_permanent,
                next_try_at=now + wait_s,
                now=now,
            )


def _is_outdated(c: Connection, delivery: DueDelivery) -> bool:
    """Return whether a message is no longer true; where a channel has sent it already, only if nothing of it is."""
    message = delivery.message
    if message.kind not in ABOUT_OPEN_FINDINGS:
        return False
    resolved = notified.count_resolved(c, message.incidents)
    return resolved == len(message.incidents) or (resolved > 0 and not outbox.has_been_sent(c, delivery.alert_id))


def back_off_s(attempts: int) -> int:
    """Return the wait after a failure that follows ``attempts`` others: one minute, doubled up to an hour."""
    return min(LONGEST_WAIT_S, _SHORTEST_WAIT_S << min(attempts, 10))
