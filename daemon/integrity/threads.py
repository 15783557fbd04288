"""
Threads that may hang, and waits that end all the same.

A call to the kernel, a disk or a server can't be interrupted. It is made in a daemon thread, which never keeps the
process from ending, and whoever needs the answer waits with a deadline or until a job is to stop.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Generic, TypeVar

from integrity.errors import ReadInterrupted

T = TypeVar("T")
_log = logging.getLogger(__name__)

_LOOK_S = 0.2
_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 60.0


def wait_for(answer: Future[T], is_asked: Callable[[], bool]) -> T:
    """
    Wait for an answer from another thread, and return it or raise the error that it is.

    Args:
        answer: set by the other thread.
        is_asked: called several times a second; true ends the wait.

    Raises:
        ReadInterrupted: ``is_asked`` returned true.
    """
    while not wait([answer], _LOOK_S).done:
        if is_asked():
            raise ReadInterrupted("waiting for an answer was interrupted")
    return answer.result()


class DaemonThread:
    """
    A thread that may hang without keeping the process from ending. Subclasses override ``_run``.

    Args:
        name: for debuggers.
    """

    def __init__(self, name: str) -> None:
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def join(self, timeout_s: float | None = None) -> bool:
        """Wait for the end of the thread; return whether it has ended or was never started."""
        if self._thread.ident is not None:
            self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        raise NotImplementedError


class RoundThread(DaemonThread):
    """
    A thread that works in rounds: at once when it is called, else after the pause that a round returns.

    A defect in a round is logged, and the next round follows after a pause that grows: the thread never ends unnoticed.

    Attributes:
        defects: rounds that raised an error which they do not expect.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.defects = 0
        self._in_a_row = 0
        self._called = threading.Event()
        self._over = threading.Event()

    def call(self) -> None:
        """Begin the next round as soon as possible. Any thread may call this."""
        self._called.set()

    def end(self) -> None:
        """Ask the thread to end after the current round; returns at once."""
        self._over.set()
        self._called.set()

    def _round(self) -> float:
        """Work, and return the pause in seconds."""
        raise NotImplementedError

    def _finish(self) -> None:
        """Close what the rounds used, in the thread."""

    def _run(self) -> None:
        try:
            while not self._over.is_set():
                if (pause_s := self._try_round()) is not None:
                    self._called.wait(pause_s)
                self._called.clear()  # before the next round, which sees all that it was called for
        finally:
            self._finish()

    def _try_round(self) -> float | None:
        """Work, and return the pause; None: there was a defect, and the pause after it is over."""
        try:
            pause_s = self._round()
        except Exception:  # noqa: BLE001 - the top of this thread
            self.defects += 1
            self._in_a_row += 1
            _log.exception("round_failed thread=%s defects=%d", self._thread.name, self.defects)
            self._over.wait(min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2.0 ** min(self._in_a_row - 1, 10)))
            return None
        self._in_a_row = 0
        return pause_s


class BackgroundCall(DaemonThread, Generic[T]):
    """
    One call in a thread of its own, which starts at once. A call that nobody waits for any more is left to itself.

    Args:
        name: of the thread, for debuggers.
        function: called once; its result or error is kept.
    """

    def __init__(self, name: str, function: Callable[[], T]) -> None:
        super().__init__(name)
        self._function = function
        self._answer: Future[T] = Future()
        self.start()

    @property
    def is_over(self) -> bool:
        """Return whether the call has ended, with a result or an error."""
        return self._answer.done()

    def wait(self, timeout_s: float) -> bool:
        """Wait for the end of the call; return whether it has ended."""
        return bool(wait([self._answer], timeout_s).done)

    def result(self, is_asked: Callable[[], bool] = lambda: False) -> T:
        """
        Wait as ``wait_for`` does, and return the result of the call or raise its error.

        Raises:
            ReadInterrupted: ``is_asked`` returned true before.
        """
        return wait_for(self._answer, is_asked)

    def _run(self) -> None:
        try:
            self._answer.set_result(self._function())
        except BaseException as error:  # noqa: BLE001 - raised again where it is waited for
            self._answer.set_exception(error)
