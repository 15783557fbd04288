"""An event loop in a thread of its own, for code without ``await`` that uses a library which needs a loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from integrity.threads import DaemonThread, wait_for

T = TypeVar("T")


class LoopThread(DaemonThread):
    """Run coroutines, one at a time, for one calling thread at a time."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._loop = asyncio.new_event_loop()
        self.start()

    def run(self, work: Coroutine[Any, Any, T], must_stop: Callable[[], bool] | None = None) -> T:
        """
        Run one coroutine to its end, and return its result or raise its error.

        ``must_stop`` is called several times a second; true ends the wait. Whatever interrupts the wait, also a signal,
        cancels the coroutine.

        Raises:
            ReadInterrupted: ``must_stop`` returned true.
        """
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result() if must_stop is None else wait_for(future, must_stop)
        finally:
            future.cancel()

    def close(self) -> None:
        """Cancel all coroutines, and end the thread."""
        self.run(_cancel_all())
        self.run(self._loop.shutdown_asyncgens())
        self.run(self._loop.shutdown_default_executor())  # it resolves host names, which ends by itself
        self._loop.call_soon_threadsafe(self._loop.stop)
        self.join()
        self._loop.close()

    def _run(self) -> None:
        self._loop.run_forever()


async def _cancel_all() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
