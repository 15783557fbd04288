"""
Report the service's state and its log lines to systemd, and turn the signals that it receives into flags.

State (ready, reloading, stopping, alive) is one datagram each to the socket named in the environment, as in
sd_notify(3). Without one, every call does nothing. A message that can't be sent is logged and never ends the service.

Log lines for the journal have a priority prefix (sd-daemon(3)) and no time stamp: the journal adds time and unit, and
makes an entry of every line of standard error.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType

from integrity.jobs.report import Stop

_PRIORITIES = ((logging.CRITICAL, 2), (logging.ERROR, 3), (logging.WARNING, 4), (logging.INFO, 6))
_DEBUG = 7


class JournalFormatter(logging.Formatter):
    """Prefix every line of a record with ``<N>``, including the lines of a traceback."""

    def __init__(self) -> None:
        super().__init__("%(name)s: %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        priority = next((number for level, number in _PRIORITIES if record.levelno >= level), _DEBUG)
        return "\n".join(f"<{priority}>{line}" for line in super().format(record).splitlines())


def is_journal(fd: int = 2, environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether a descriptor is connected to the journal, as JOURNAL_STREAM in the environment tells."""
    try:
        status = os.fstat(fd)
    except OSError:  # closed
        return False
    return environment.get("JOURNAL_STREAM") == f"{status.st_dev}:{status.st_ino}"


logger = logging.getLogger(__name__)

_SEND_TIMEOUT_S = (
    1.0  # a manager that does not read must not hold up the service; its queue takes some hundred messages
)


class Notifier:
    """
    Send the service's state to systemd. Any thread may call any method.

    Args:
        environment: may contain NOTIFY_SOCKET: a path, or ``@`` and the name of an abstract socket.
        monotonic_ns: CLOCK_MONOTONIC; tells systemd which messages precede a reload.
    """

    def __init__(
        self, environment: Mapping[str, str] = os.environ, *, monotonic_ns: Callable[[], int] = time.monotonic_ns
    ) -> None:
        address = os.fsencode(environment.get("NOTIFY_SOCKET", ""))
        self._address = b"\0" + address[1:] if address.startswith(b"@") else address
        self._monotonic_ns = monotonic_ns

    def ready(self) -> None:
        """Report that the service is up, or that a reload is done."""
        self._send("READY=1")

    def status(self, text: str) -> None:
        """Send a sentence about the current work; ``systemctl status`` shows it."""
        self._send("STATUS=" + " ".join(text.splitlines()))

    def reloading(self) -> None:
        """Report a reload of the configuration; ``ready`` must follow."""
        self._send(f"RELOADING=1\nMONOTONIC_USEC={self._monotonic_ns() // 1000}")

    def stopping(self) -> None:
        self._send("STOPPING=1")

    def watchdog(self) -> None:
        """Report that the service is alive. The next call must come within the watchdog interval."""
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
    Return the longest time in seconds between two calls of ``Notifier.watchdog()``; call it twice as often.

    Args:
        environment: WATCHDOG_USEC, and WATCHDOG_PID if only that process is watched.
        pid: of this process.

    Returns:
        None if this process is not watched.
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


_log = logging.getLogger(__name__)


class Watchdog:
    """
    Keep the time of each thread's last beat. Any thread may use it; ``feed`` belongs to one.

    Args:
        patience_s: longest silence in seconds, by thread name.
    """

    def __init__(
        self, patience_s: dict[str, float], notifier: Notifier, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._notifier = notifier
        self._fed_at = monotonic()
        self._patience_s = patience_s
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._last_at = dict.fromkeys(patience_s, monotonic())

    def beat(self, name: str) -> None:
        with self._lock:
            self._last_at[name] = self._monotonic()

    def feed(self) -> None:
        """Notify systemd if all threads are alive and a quarter of its interval has passed; else it restarts us."""
        interval_s = watchdog_interval_s()
        now = self._monotonic()
        if interval_s is None or now - self._fed_at < interval_s / 4:
            return
        self._fed_at = now
        silent = self.find_silent()
        if silent:
            _log.error("hangs: %s; systemd will start the service anew", ", ".join(silent))
        else:
            self._notifier.watchdog()

    def find_silent(self) -> list[str]:
        now = self._monotonic()
        with self._lock:
            return [name for name, at in self._last_at.items() if now - at > self._patience_s[name]]


_MACHINE_STOPS = signal.SIGPWR  # sent by the unit that runs before the machine stops; SIGTERM follows


class SignalFlags:
    """
    What the signals ask for.

    Attributes:
        stop: set by SIGTERM and SIGINT; the second of them ends the process at once.
        wants_reload: set by SIGHUP; the main loop clears it.
        is_machine_ending: the machine shuts down in order.
    """

    def __init__(self) -> None:
        self.stop = Stop()
        self.wants_reload = False
        self.is_machine_ending = False

    @contextmanager
    def handled(self) -> Iterator[None]:
        """Handle the signals in the body; restore the former handlers at the end."""
        handlers = {
            signal.SIGTERM: self._on_stop,
            signal.SIGINT: self._on_stop,
            signal.SIGHUP: self._on_reload,
            _MACHINE_STOPS: self._on_machine_end,
        }
        former = {number: signal.signal(number, handler) for number, handler in handlers.items()}
        try:
            yield
        finally:
            for number, handler in former.items():
                signal.signal(number, handler)

    def _on_stop(self, number: int, _: FrameType | None) -> None:
        if self.stop.is_set():
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        self.stop.set()

    def _on_reload(self, _: int, __: FrameType | None) -> None:
        self.wants_reload = True

    def _on_machine_end(self, _: int, __: FrameType | None) -> None:
        self.is_machine_ending = True
