"""
The moments of a run at which somebody else may act.

Moments are what a run asks of its surroundings: the clock, a pause, a report. At each of them in turn something can be
done, as another process would do it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from integrity.errors import CatalogLocked
from integrity.jobs.report import Note, Progress
from integrity.model import Finding
from support.jobs import Told


@dataclass
class Moments(Told):
    """Surroundings of a run that let somebody act at one of its moments."""

    act_at: int = -1
    act: Callable[[], None] = lambda: None
    count: int = 0
    seconds: float = 0.0
    is_over: bool = False
    told: set[tuple[str, bytes | None]] = field(default_factory=set)

    def pass_by(self) -> None:
        """Let a moment of the run's own thread pass, or be used."""
        if threading.current_thread() is not threading.main_thread():
            return
        self.count += 1
        if not self.is_over and 0 <= self.act_at < self.count:
            with suppress(CatalogLocked):  # the run is writing: at the next moment, then
                self.act()
                self.is_over = True

    def monotonic(self) -> float:
        """Tell a time in which each commit is due."""
        self.pass_by()
        self.seconds += 0.6
        return self.seconds

    def wait(self, duration_s: float) -> bool:
        """Wait for nothing."""
        self.pass_by()
        return False

    def progress(self, progress: Progress) -> None:
        """Take a moment of it."""
        self.pass_by()

    def finding(self, finding: Finding) -> None:
        """Remember it."""
        self.told.add((finding.kind.value, finding.path))

    def note(self, note: Note) -> None:
        """Take a moment of it."""
        self.pass_by()
