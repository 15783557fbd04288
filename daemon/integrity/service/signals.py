"""Turn the signals that the service receives into flags, which its main loop reads."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from integrity.jobs.report import Stop

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
