"""
Tell through the channels themselves what can't be put into the catalog: that it can't be written.

All else waits in the catalog until it is sent; this would wait until it is over.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence

from integrity.alerts.channels import Channel
from integrity.alerts.compose import Composer
from integrity.errors import ChannelError

_log = logging.getLogger(__name__)

LASTS_S = 60.0
"""What passes sooner was another program's, or a moment's."""

AGAIN_S = 86_400.0
PAUSE_S = 3600.0


class Outcry:
    """
    Say once what is wrong: again after a day while it lasts, and not within the hour if it comes and goes.

    Args:
        hostname: what messages call this machine.
        clock: seconds UTC.
        monotonic: seconds.
    """

    def __init__(
        self, hostname: str, clock: Callable[[], float], monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._composer = Composer(hostname)
        self._clock = clock
        self._monotonic = monotonic
        self._since: float | None = None
        self._told_at: float | None = None
        self._next_at = 0.0

    def look(self, trouble: str, channels: Callable[[], Sequence[Channel]]) -> None:
        """Learn what is wrong with the catalog at this moment, if anything; say it if it is time."""
        now = self._monotonic()
        if not trouble:
            self._since = None
            if self._told_at is not None:
                self._next_at = self._told_at + PAUSE_S
            return
        if self._since is None:
            self._since = now
        if now - self._since < LASTS_S or now < self._next_at:
            return
        if self._send(trouble, channels()):
            self._told_at, self._next_at = now, now + AGAIN_S
        else:
            self._next_at = now + LASTS_S

    def _send(self, trouble: str, channels: Sequence[Channel]) -> bool:
        """Send it through every channel; say whether one took it."""
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
