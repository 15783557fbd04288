"""Jobs run by a test itself, as the service runs them: with a catalog that it has opened."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from integrity.catalog.connection import Catalog
from integrity.config import Config
from integrity.jobs.context import Context
from integrity.jobs.options import ScanOptions, ScrubOptions
from integrity.jobs.report import Note, Progress, Summary
from integrity.jobs.runner import scan, scrub
from integrity.model import Finding, Tally


@dataclass
class Told:
    """A report that remembers what it was told."""

    findings: list[Finding] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)

    def progress(self, progress: Progress) -> None:
        """Forget it."""

    def finding(self, finding: Finding) -> None:
        """Remember it."""
        self.findings.append(finding)

    def note(self, note: Note) -> None:
        """Remember it."""
        self.notes.append(note)


@contextmanager
def open_context(path: Path, config: Config | None = None) -> Iterator[Context]:
    """Open a catalog, or make it, and give the surroundings of jobs in it."""
    name = str(path)
    with Catalog.open(name, writes=True) if path.exists() else Catalog.create(name) as catalog:
        yield Context(catalog, config or Config(), Told())


def tally(summary: Summary) -> dict[str, int]:
    """Count the names of a run by what became of them."""
    return {one.value: count for one in Tally if (count := getattr(summary.counts, one.value))}


def run_scan(context: Context) -> Summary:
    """Scan every root, each folder of it."""
    return scan(context, [], ScanOptions(full=True))


def run_scrub(context: Context) -> Summary:
    """Scrub every root."""
    return scrub(context, [], ScrubOptions())
