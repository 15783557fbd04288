"""Write down what an import found equal: new records, and for the first of them where their digests came from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from integrity.catalog import baselines, imports
from integrity.catalog.baselines import NewFile
from integrity.jobs.manifests.entries import Claim, ImportCounts, Verdict
from integrity.model import BaselineReason, Reading, Tally

if TYPE_CHECKING:
    from integrity.catalog.connection import Connection
    from integrity.jobs.context import RootRun

_COMMIT_S = 1.0
_ROWS_AT_ONCE = 20_000


class Baselines:
    """
    Take readings that are to be recorded, and record them about once a second, many at a time.

    Args:
        run: the run they belong to.
        manifest: its name, for people.
        counts: entries are counted in it once they are recorded, not before.
    """

    def __init__(self, run: RootRun, manifest: str, counts: ImportCounts) -> None:
        self._run = run
        self._manifest = manifest
        self._counts = counts
        self._has_blake3 = "blake3" in run.settings.digests
        self._waiting: dict[bytes, tuple[Claim, Reading]] = {}
        self._is_named = False
        self._written_at = run.context.monotonic()

    def __len__(self) -> int:
        """Count what waits to be recorded."""
        return len(self._waiting)

    def add(self, claim: Claim, reading: Reading) -> None:
        """Take a reading that equals its claim; what the configuration does not ask for is not kept of it."""
        digests = reading.digests if self._has_blake3 else reading.digests._replace(blake3=None)
        self._waiting[claim.path] = claim, reading._replace(digests=digests)

    def find(self, path: bytes) -> Reading | None:
        """Find what waits to be recorded under a path."""
        found = self._waiting.get(path)
        return None if found is None else found[1]

    def flush_if_due(self) -> None:
        """Record what waits if it has waited long enough."""
        is_due = self._run.context.monotonic() - self._written_at >= _COMMIT_S
        if self._waiting and (is_due or len(self._waiting) >= _ROWS_AT_ONCE):
            self.flush()

    def flush(self) -> None:
        """Record what waits."""
        if self._waiting:
            with self._run.writing() as connection:
                self._record(connection)
            self._is_named = True
            self._run.counts.add(Tally.NEW, len(self._waiting))
            self._counts.add(Verdict.VERIFIED, sum(claim.count for claim, _ in self._waiting.values()))
            self._waiting.clear()
        self._written_at = self._run.context.monotonic()

    def _record(self, connection: Connection) -> None:
        run = self._run
        rows = [NewFile(path, reading) for path, (_, reading) in self._waiting.items()]
        ids = baselines.record_files(
            connection,
            run.catalog.sealer,
            run.root,
            rows,
            now=run.now(),
            boot_id=run.boot_id,
            because=BaselineReason.IMPORTED,
        )
        if not self._is_named:
            imports.keep_import(connection, run.root.id, ids[0], self._manifest)
