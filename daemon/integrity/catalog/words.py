"""Words and lists as they are stored, read back with damage in mind."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import TypeVar

from integrity.errors import CatalogCorrupt

Word = TypeVar("Word", bound=StrEnum)


def read_word(kind: type[Word], stored: object) -> Word:
    """Turn a stored word into its enumeration's, or raise CatalogCorrupt."""
    try:
        return kind(str(stored))
    except ValueError as error:
        raise CatalogCorrupt(
            f"the catalog holds {stored!r} where a {kind.__name__} should be; look at it with: integrity catalog check"
        ) from error


def read_optional_word(kind: type[Word], stored: object) -> Word | None:
    """Do the same where there may be none."""
    return None if stored is None else read_word(kind, stored)


def read_numbers(stored: object) -> tuple[int, ...]:
    """Turn a stored list of numbers into a tuple, or raise CatalogCorrupt."""
    return tuple(value for (value,) in _read_rows([[value] for value in _read_list(stored)], 1, stored))


def read_ranges(stored: object) -> tuple[tuple[int, int], ...]:
    """Turn a stored list of (offset, length) into tuples, or raise CatalogCorrupt."""
    return tuple((row[0], row[1]) for row in _read_rows(_read_list(stored), 2, stored))


def _read_list(stored: object) -> list[object]:
    try:
        found = json.loads(str(stored))
    except ValueError as error:
        raise _no_list(stored) from error
    if not isinstance(found, list):
        raise _no_list(stored)
    return found


def _read_rows(rows: list[object], length: int, stored: object) -> list[list[int]]:
    sound: list[list[int]] = []
    for row in rows:
        if not isinstance(row, list) or len(row) != length or not all(isinstance(value, int) for value in row):
            raise _no_list(stored)
        sound.append(row)
    return sound


def _no_list(stored: object) -> CatalogCorrupt:
    shown = str(stored)[:40]
    return CatalogCorrupt(
        f"the catalog holds {shown!r} where a list of numbers should be; look at it with: integrity catalog check"
    )
