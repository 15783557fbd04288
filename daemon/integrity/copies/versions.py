"""The versions of a copy that keeps several: backups of one folder at different times."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

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


def sort_versions(versions: Iterable[CopyVersion]) -> list[CopyVersion]:
    """Return versions with the oldest first; those of one second stay in the order that they have."""
    return sorted(versions, key=lambda one: one.taken_at)
