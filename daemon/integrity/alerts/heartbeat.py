"""
Ping a monitoring service when a run starts, and when it succeeds or fails.

The monitoring service notices missing pings, even if this machine is down. A failed ping stops nothing: it is recorded
as a channel failure, which status shows and other channels report.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from integrity.catalog import outbox
from integrity.catalog.connection import Catalog
from integrity.errors import CatalogError, ChannelError

_log = logging.getLogger(__name__)

HEARTBEAT = "heartbeat"
TIMEOUT_S = 10.0


class Heartbeat:
    """
    Ping for the runs of one thread.

    Args:
        url: empty disables pings.
        catalog: open for writing, owned by this thread; records the results of pings.
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
        self._ping("/start")

    def good(self) -> None:
        self._ping("")

    def bad(self) -> None:
        self._ping("/fail")

    def _ping(self, suffix: str) -> None:
        if not self._url:
            return
        try:
            try:
                ping(self._url, suffix, timeout_s=self._timeout_s)
            except ChannelError as error:
                _log.warning("heartbeat failed error=%s", error)
                self._is_known_good = False
                with self._catalog.transaction() as c:
                    now, text = int(self._clock()), str(error)
                    outbox.note_failure(c, HEARTBEAT, text, is_permanent=error.is_permanent, now=now)
            else:
                if not self._is_known_good:  # a commit for each ping would wake a sleeping disk
                    with self._catalog.transaction() as c:
                        outbox.note_success(c, HEARTBEAT, int(self._clock()))
                    self._is_known_good = True
        except CatalogError as error:
            # If the error persists, the run will fail on it too; a ping is no reason to stop the run.
            _log.warning("heartbeat not written down error=%s", error)


def ping(url: str, suffix: str, *, timeout_s: float = TIMEOUT_S) -> None:
    """
    Request ``url`` with a suffix appended to its path. The answer's content is ignored.

    Raises:
        ChannelError: no answer, or an HTTP error. The message names only the host: the path works like a password.
    """
    import http.client  # here, for with OpenSSL they take 2 MiB, and few services have a heartbeat
    import urllib.error
    import urllib.request
    from urllib.parse import urlsplit, urlunsplit

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
