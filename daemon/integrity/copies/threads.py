"""
Wait for an answer from another thread, as long as anybody wants it.

Questions that can't be interrupted, asked in a thread of their own: who waits for the answer can be.

An event loop in a thread of its own, so that code without ``await`` can use a library that needs one.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, wait
from queue import SimpleQueue
from typing import Any, TypeVar

from integrity.errors import ReadInterrupted

T = TypeVar("T")

_LOOK_S = 0.2


def wait_for(answer: Future[T], is_asked: Callable[[], bool]) -> T:
    """
    Return an answer, or raise the error that it is.

    Args:
        answer: what another thread will say.
        is_asked: asked several times a second whether the waiting is to end.

    Raises:
        ReadInterrupted: it was.
    """
    while not wait([answer], _LOOK_S).done:
        if is_asked():
            raise ReadInterrupted("waiting for an answer was interrupted")
    return answer.result()


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


class LoopThread:
    """
    Runs coroutines one at a time for whoever calls; used by one thread at a time.

    Args:
        name: of the thread, for debuggers.
    """

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        # A daemon: what hangs in the network must not keep the program from ending.
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T], is_asked: Callable[[], bool] | None = None) -> T:
        """
        Run one coroutine to its end and return what it returns, or raise what it raises.

        What interrupts the waiting (a signal, say) cancels the coroutine.

        Args:
            work: what to run.
            is_asked: asked several times a second whether the waiting is to end.

        Raises:
            ReadInterrupted: it was.
        """
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result() if is_asked is None else wait_for(future, is_asked)
        finally:
            future.cancel()

    def close(self) -> None:
        """Cancel what still runs, and end the thread."""
        self.run(_cancel_all())
        self.run(self._loop.shutdown_asyncgens())
        self.run(self._loop.shutdown_default_executor())  # it looks names up, which ends by itself
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _cancel_all() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
