"""
Which of several files go on in the next step, so that all of them end at about the same time.

A lane of a wide function is slower than a chain by itself. If all files went on by the same amount in each step, the
short ones would be over soon, having slowed down the longest, and that would be left alone with empty lanes beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar


class Step(Protocol):
    """A file on its way. ``credit`` is 0 at first."""

    left_bytes: int
    credit: float


S = TypeVar("S", bound=Step)


def choose_due(files: Sequence[S]) -> list[S]:
    """Choose the longest one and, as often as is their share of it, each of the others."""
    longest = max((file.left_bytes for file in files), default=0)
    due: list[S] = []
    for file in files:
        file.credit += file.left_bytes / longest if file.left_bytes > 0 else 1
        if file.credit >= 1:
            file.credit -= 1
            due.append(file)
    return due
