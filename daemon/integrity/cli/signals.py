"""Stop a job on a signal: gracefully the first time, at once the second."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from integrity.jobs.report import Stop

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def stop_on_signals() -> Iterator[Stop]:
    """
    Give what is set by the first signal; the second ends the process as if there were no handler.

    The job commits what it has and ends by itself. What is ignored on purpose stays so: nohup ignores SIGHUP.
    """
    stop = Stop()

    def handle(number: int, _: FrameType | None) -> None:
        if stop.is_set():
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        stop.set()

    former = {number: signal.getsignal(number) for number in _SIGNALS}
    for number, handler in former.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, handle)
    try:
        yield stop
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
