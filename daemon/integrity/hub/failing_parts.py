"""
Which parts of the hub do not work now, for how long, and why: for ``/healthz``, ``/metrics`` and the overview.

P1  A part that fails is named once it has failed for longer than its patience: a database that is restarted is no
    trouble, for the jobs run again every minute.
P2  A part that neither fails nor succeeds is named as well, once it is late by far: a job that hangs raises nothing.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

from integrity.config import format_duration
from integrity.errors import printable

_LONGEST_REASON = 300


class FailingPart(NamedTuple):
    """
    A part that does not work.

    Attributes:
        name: for programs.
        words: a clause for people, such as "alerts are not sent".
        lasts_s: for how long.
        reason: why; empty: it is not known.
    """

    name: str
    words: str
    lasts_s: int
    reason: str

    @property
    def text(self) -> str:
        """What does not work, for people."""
        reason = f" ({self.reason})" if self.reason else ""
        return f"The hub does not work as it should: {self.words} for {format_duration(self.lasts_s)}{reason}."


@dataclass(frozen=True, slots=True)
class _PartState:
    """``good_at``: when it last worked, or began; ``failed_at``: when it failed first since; None: it has not."""

    words: str
    patience_s: int
    late_s: int | None
    good_at: float
    failed_at: float | None = None
    reason: str = ""


class PartWatch:
    """
    Notes which parts work. Any thread may use it.

    Args:
        monotonic: seconds; they stand still while the machine sleeps.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._states: dict[str, _PartState] = {}
        self._lock = threading.Lock()

    def add(self, name: str, words: str, *, patience_s: int, late_s: int | None = None) -> None:
        """
        Add a part, which works until the contrary is noted.

        Args:
            patience_s: it may fail for so long (P1).
            late_s: it does not work if nothing was noted for so long (P2); None: it need not do anything.
        """
        with self._lock:
            self._states[name] = _PartState(words, patience_s, late_s, self._monotonic())

    def note_success(self, *names: str) -> None:
        with self._lock:
            for name in names:
                self._states[name] = replace(self._states[name], good_at=self._monotonic(), failed_at=None, reason="")

    def note_failure(self, name: str, error: BaseException) -> None:
        """Note that a part failed, and why."""
        reason = printable(str(error).partition("\n")[0] or type(error).__name__)[:_LONGEST_REASON]
        with self._lock:
            state = self._states[name]
            failed_at = self._monotonic() if state.failed_at is None else state.failed_at
            self._states[name] = replace(state, failed_at=failed_at, reason=reason)

    def find_failing(self) -> list[FailingPart]:
        """Return the parts that do not work, in the order in which they were added."""
        now = self._monotonic()
        with self._lock:
            states = list(self._states.items())
        found = []
        for name, state in states:
            since = state.good_at if state.failed_at is None else state.failed_at
            patience_s = state.late_s if state.failed_at is None else state.patience_s
            if patience_s is not None and now - since > patience_s:
                found.append(FailingPart(name, state.words, int(now - since), state.reason))
        return found
