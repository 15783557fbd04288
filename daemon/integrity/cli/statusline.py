"""
The one line of the terminal that is drawn over and over.

There is one, as there is one terminal: whoever prints meanwhile has it erased first, and it is drawn again below.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

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
