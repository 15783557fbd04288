"""
The cells of a terminal that text takes: two for a wide character, none for a combining one.

Stop a job when the user or the system asks to: gently the first time, at once the second.

The one line of the terminal that is drawn over and over.

There is one, as there is one terminal: whoever prints meanwhile has it erased first, and it is drawn again below.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from integrity.jobs.report import Stop

_NO_CELL = frozenset({"Mn", "Me", "Cf"})
_EMOJI_VARIANT = "\ufe0f"  # makes the character before it wide, where the terminal knows that


def count_cells(text: str) -> int:
    """Return how many cells text takes at most."""
    return len(text) if text.isascii() else sum(map(_cells_of, text))


def keep_end(text: str, cells: int) -> str:
    """Return as much of the end of text as fits, marked by dots if that is not all."""
    if count_cells(text) <= cells:
        return text
    left, place = cells - 3, len(text)
    while place and left >= _cells_of(text[place - 1]):
        place -= 1
        left -= _cells_of(text[place])
    return f"...{text[place:]}"[: max(0, cells)]


def _cells_of(char: str) -> int:
    if char == _EMOJI_VARIANT:
        return 1
    if unicodedata.category(char) in _NO_CELL:
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


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


_ERASE = "\r\x1b[K"
_lock = threading.RLock()
_is_drawn = False


def draw(text: str) -> None:
    """Show text, which must be narrower than the terminal, in the place of what was shown before."""
    global _is_drawn
    with _lock:
        _write(f"\r{text}\x1b[K")
        _is_drawn = True


def erase() -> None:
    """Leave the line as it was before something was drawn; may be called at any time."""
    global _is_drawn
    with _lock:
        if _is_drawn:
            _write(_ERASE)
        _is_drawn = False


@contextmanager
def erased() -> Iterator[None]:
    """Print something else, from any thread, without anything being drawn meanwhile."""
    with _lock:
        erase()
        yield


def _write(text: str) -> None:
    # A terminal that has gone shows nothing, and that is no reason to end a job that runs for hours.
    # Written past Python's buffer, which would keep what it could not write and fail again when the program ends.
    with suppress(OSError):
        os.write(sys.stderr.fileno(), text.encode(sys.stderr.encoding or "ascii", "backslashreplace"))
