"""
Log lines as the journal wants them: each with its priority in front (sd-daemon(3)), and without a time stamp.

The journal takes every line of standard error for an entry of its own, and adds the time and the unit itself.

Tell systemd how the service is: ready, reloading, stopping, alive (sd_notify(3), without a library).

A message is one datagram to the socket that the environment names. Without one, nobody wants to know, and every call is
silent. A message that can't be sent is a warning in the log and never ends the service.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Callable, Mapping

_PRIORITIES = ((logging.CRITICAL, 2), (logging.ERROR, 3), (logging.WARNING, 4), (logging.INFO, 6))
_DEBUG = 7


class JournalFormatter(logging.Formatter):
    """Put ``<N>`` before every line of a record, those of a traceback included."""

    def __init__(self) -> None:
        super().__init__("%(name)s: %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        """Write a record; all its lines have its priority."""
        priority = next((number for level, number in _PRIORITIES if record.levelno >= level), _DEBUG)
        return "\n".join(f"<{priority}>{line}" for line in super().format(record).splitlines())


def is_journal(fd: int = 2, environment: Mapping[str, str] = os.environ) -> bool:
    """Tell whether a descriptor leads to the journal: JOURNAL_STREAM in the environment says which file that is."""
    try:
        status = os.fstat(fd)
    except OSError:  # it is closed
        return False
    return environment.get("JOURNAL_STREAM") == f"{status.st_dev}:{status.st_ino}"


logger = logging.getLogger(__name__)

_SEND_TIMEOUT_S = (
    1.0  # a manager that does not read must not hold up the service; its queue takes some hundred messages
)


class Notifier:
    """
    Send the service's state to whoever started it. Any thread may call any method.

    Args:
        environment: where NOTIFY_SOCKET may be: a path, or the name of an abstract socket behind ``@``.
        monotonic_ns: CLOCK_MONOTONIC, by which systemd tells messages of before a reload from those after.
    """

    def __init__(
        self, environment: Mapping[str, str] = os.environ, *, monotonic_ns: Callable[[], int] = time.monotonic_ns
    ) -> None:
        address = os.fsencode(environment.get("NOTIFY_SOCKET", ""))
        self._address = b"\0" + address[1:] if address.startswith(b"@") else address
        self._monotonic_ns = monotonic_ns

    @property
    def has_listener(self) -> bool:
        """Tell whether anybody wants to know."""
        return bool(self._address)

    def ready(self) -> None:
        """Say that the service is up, or that a reload is done."""
        self._send("READY=1")

    def status(self, text: str) -> None:
        """Say in a sentence what the service does; ``systemctl status`` shows it."""
        self._send("STATUS=" + " ".join(text.splitlines()))

    def reloading(self) -> None:
        """Say that the configuration is being read again; ``ready`` must follow."""
        self._send(f"RELOADING=1\nMONOTONIC_USEC={self._monotonic_ns() // 1000}")

    def stopping(self) -> None:
        """Say that the service is about to end."""
        self._send("STOPPING=1")

    def watchdog(self) -> None:
        """Say that the service is alive, and the next message will come within the interval of the watchdog."""
        self._send("WATCHDOG=1")

    def _send(self, message: str) -> None:
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as channel:
                channel.settimeout(_SEND_TIMEOUT_S)
                channel.sendto(message.encode("utf-8", "backslashreplace"), self._address)
        except OSError as error:
            logger.warning("notify_failed message=%s: %s", message.partition("\n")[0], error)


def watchdog_interval_s(environment: Mapping[str, str] = os.environ, *, pid: int | None = None) -> float | None:
    """
    Return within how many seconds each ``Notifier.watchdog()`` must follow the last; send twice as often.

    Args:
        environment: WATCHDOG_USEC, and WATCHDOG_PID if the message is meant for one process only.
        pid: of this process.

    Returns:
        None if nobody watches this process.
    """
    if environment.get("WATCHDOG_PID") not in (None, str(os.getpid() if pid is None else pid)):
        return None
    text = environment.get("WATCHDOG_USEC", "")
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and int(text)):
        logger.warning("watchdog_ignored WATCHDOG_USEC=%s: is no number of microseconds", text)
        return None
    return int(text) / 1e6
