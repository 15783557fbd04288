"""The cells of a terminal that text takes: two for a wide character, none for a combining one."""

from __future__ import annotations

import unicodedata

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
