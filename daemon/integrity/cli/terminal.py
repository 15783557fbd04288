"""
The terminal: how many cells text takes, the one line that is redrawn to show progress, and log lines beside it.

Whoever prints while the line is shown erases it first; it is drawn again below.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TextIO

_NO_CELL = frozenset({"Mn", "Me", "Cf"})
_EMOJI_VARIANT = "\ufe0f"  # makes the character before it wide, where the terminal knows that


def count_cells(text: str) -> int:
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
    import unicodedata  # here, for most text is ASCII

    if unicodedata.category(char) in _NO_CELL:
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


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


def set_up_logging(verbosity: int) -> None:
    """Send log lines to stderr: warnings, with ``-v`` each run's steps, with ``-vv`` each file."""
    import logging  # not at the top: --help does without

    class LogLines(logging.StreamHandler[TextIO]):
        def emit(self, record: logging.LogRecord) -> None:
            with erased():
                super().emit(record)

    level = (logging.WARNING, logging.INFO, logging.DEBUG)[min(verbosity, 2)]
    handlers = [LogLines(sys.stderr)]
    logging.basicConfig(level=level, format="%(levelname)s %(name)s: %(message)s", handlers=handlers, force=True)
