"""Wait for an answer from another thread, as long as anybody wants it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import TypeVar

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
