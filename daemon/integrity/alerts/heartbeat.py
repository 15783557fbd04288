"""
A sign of life for a watching service: a ping when a run begins, another when it ended well or badly.

Whoever waits for the pings notices even that this machine is gone. A ping that fails stops nothing; it is kept as the
failure of a channel, shown by status and told through the others.
"""

from __future__ import annotations

import http.client
import logging
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from urllib.parse import urlsplit, urlunsplit

from integrity.catalog import outbox
from integrity.catalog.connection import Catalog
from integrity.errors import CatalogError, ChannelError

_log = logging.getLogger(__name__)

HEARTBEAT = "heartbeat"
TIMEOUT_S = 10.0


class Heartbeat:
    """
    Pings for the runs of one thread.

    Args:
        url: to be pinged; empty: nothing is done.
        catalog: open for writing, the thread's own; how the pings fare is kept there.
        clock: seconds UTC.
        timeout_s: how long an answer may take.
    """

    def __init__(
        self,
        url: str,
        catalog: Catalog,
        *,
        clock: Callable[[], float] = time.time,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self._url = url
        self._catalog = catalog
        self._clock = clock
        self._timeout_s = timeout_s
        self._is_known_good = False

    def started(self) -> None:
        """Tell that a run begins."""
        self._ping("/start")

    def good(self) -> None:
        """Tell that a run ended well."""
        self._ping("")

    def bad(self) -> None:
        """Tell that a run ended badly."""
        self._ping("/fail")

    def _ping(self, suffix: str) -> None:
        if not self._url:
            return
        try:
            try:
                ping(self._url, suffix, timeout_s=self._timeout_s)
            except ChannelError as error:
                self._note_failure(error)
            else:
                self._note_success()
        except CatalogError as error:
            # The run will meet the same error if it lasts; a sign of life is no reason to stop it.
            _log.warning("heartbeat not written down error=%s", error)

    def _note_failure(self, error: ChannelError) -> None:
        _log.warning("heartbeat failed error=%s", error)
        self._is_known_good = False
        with self._catalog.transaction() as c:
            outbox.note_failure(c, HEARTBEAT, str(error), is_permanent=error.is_permanent, now=int(self._clock()))

    def _note_success(self) -> None:
        if self._is_known_good:
            return  # a commit for each ping would wake a sleeping disk for nothing
        with self._catalog.transaction() as c:
            outbox.note_success(c, HEARTBEAT, int(self._clock()))
        self._is_known_good = True


def ping(url: str, suffix: str, *, timeout_s: float = TIMEOUT_S) -> None:
    """
    Ask for ``url`` with a suffix behind its path; the answer does not matter as long as it is a good one.

    Raises:
        ChannelError: it was not. The message names the host only, for the path is as good as a password.
    """
    parts = urlsplit(url)
    asked = urlunsplit(parts._replace(path=parts.path.rstrip("/") + suffix if suffix else parts.path))
    host = parts.hostname or "?"
    request = urllib.request.Request(asked, headers={"User-Agent": "integrity"})  # noqa: S310 - config takes http(s) only
    try:
        with urllib.request.urlopen(request, timeout=timeout_s):  # noqa: S310 - as above
            return
    except urllib.error.HTTPError as error:
        with error:  # it holds the connection
            text = (
                f"heartbeat: {host} answered {error.code} {error.reason}; compare heartbeat_url with what it gave you"
            )
            raise ChannelError(text, is_permanent=400 <= error.code < 500 and error.code not in (408, 429)) from error
    except TimeoutError as error:
        raise ChannelError(f"heartbeat: {host}: no answer within {timeout_s:g} s") from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise ChannelError(f"heartbeat: {host}: {reason}") from error
