"""Questions that can't be interrupted, asked in a thread of their own: who waits for the answer can be."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import TypeVar

from integrity.copies.waiting import wait_for

T = TypeVar("T")


class AskThread:
    """
    Asks one question at a time for whoever calls; used by one thread at a time.

    Args:
        name: of the thread, for debuggers.
        is_asked: asked several times a second whether the waiting is to end.
    """

    def __init__(self, name: str, is_asked: Callable[[], bool]) -> None:
        self._is_asked = is_asked
        self._is_left = False  # the last question was not waited for
        self._questions: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        # A daemon: what hangs in the network must not keep the program from ending.
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def ask(self, question: Callable[[], T]) -> T:
        """
        Return what a question returns, or raise what it raises.

        Raises:
            ReadInterrupted: the waiting was to end. The question is left to itself, and nothing may be asked any more.
        """
        answer: Future[T] = Future()
        self._questions.put(lambda: _answer(question, answer))
        try:
            return wait_for(answer, self._is_asked)
        finally:
            self._is_left = not answer.done()

    def close(self) -> None:
        """End the thread; one that was left with its question ends when that is answered."""
        self._questions.put(None)
        if not self._is_left:
            self._thread.join()

    def _work(self) -> None:
        while (question := self._questions.get()) is not None:
            question()


def _answer(question: Callable[[], T], answer: Future[T]) -> None:
    try:
        answer.set_result(question())
    except BaseException as error:  # noqa: BLE001  raised again where it is waited for
        answer.set_exception(error)
