"""The versions of a copy that keeps several: backups of one folder at different times."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

from integrity.errors import ConfigError

_SHORTEST = 4  # characters that may stand for a name


class CopyVersion(NamedTuple):
    """
    One version of a copy.

    Attributes:
        name: as the program that made it names it.
        taken_at: when, in seconds UTC.
    """

    name: str
    taken_at: int


def find_version(versions: Sequence[CopyVersion], text: str) -> CopyVersion:
    """
    Return the version of a name, or how its name begins, or the last one of a day or before a time (ISO 8601, local).

    ``versions``: at least one, the oldest first.

    Raises:
        ConfigError: there is none, or there are several.
    """
    named = [one for one in versions if one.name == text]
    named = named or [one for one in versions if len(text) >= _SHORTEST and one.name.startswith(text)]
    if len(named) == 1:
        return named[0]
    until = _find_end(text)
    before = [one for one in versions if until is not None and one.taken_at < until]
    if before:
        return before[-1]
    several = "is how the names of several versions begin" if named else "is no version that the copy has"
    first, last = (datetime.fromtimestamp(one.taken_at).astimezone().date() for one in (versions[0], versions[-1]))
    raise ConfigError(f"{text}: {several}; there are {len(versions):,}, from {first} to {last}: name one, or a day")


def _find_end(text: str) -> float | None:
    """Return the end of a day, or the second after a time."""
    try:
        read = datetime.fromisoformat(text)
    except ValueError:
        return None
    length_s = 86_400 if re.fullmatch(r"\d{4}-?\d\d-?\d\d", text) else 1
    return read.astimezone().timestamp() + length_s


def sort_versions(versions: Iterable[CopyVersion]) -> list[CopyVersion]:
    """Return versions with the oldest first; those of one second stay in the order that they have."""
    return sorted(versions, key=lambda one: one.taken_at)
