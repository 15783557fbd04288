"""A box that reports: a catalog with one root, and a reporter as the service makes it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from integrity.catalog import findings, report_queue
from integrity.catalog.connection import Catalog
from integrity.catalog.findings import NewFinding
from integrity.files.excludes import Excludes
from integrity.model import ByteRange, FileId, FindingId, FindingKind
from integrity.reporting.client import HubClient
from integrity.reporting.reporter import BoxFacts, Reporter, RootFacts
from integrity.views.sentence import HubWords
from support.catalogs import NOW, CatalogBox
from support.smallhub import TOKEN


class ReportingBox:
    """
    Reports the root of a catalog box to a hub.

    Attributes:
        patterns: what is left out of the root.
        replica_set: of the root; empty: none.
        now: seconds UTC.
        is_over: asks the reporter to stop.
    """

    def __init__(self, box: CatalogBox, url: str, *, token: str = TOKEN, certificate: bytes = b"") -> None:
        self.box = box
        self.url = url
        self.patterns: tuple[str, ...] = ()
        self.replica_set = "photos"
        self.now = NOW
        self.is_over: Callable[[], bool] = lambda: False
        self.waits: list[float] = []
        self.client = HubClient(
            url, token, certificate=certificate, is_over=lambda: self.is_over(), pause=self._pause, timeout_s=30.0
        )
        self._catalog = self._open()
        self.reporter = self.make()

    def make(self) -> Reporter:
        """Make a reporter, as a service that was started again, with a connection of its own to the catalog."""
        self._catalog.close()
        self._catalog = self._open()
        self.reporter = Reporter(
            self._catalog,
            self.client,
            self.url,
            self.describe,
            HubWords(),
            clock=lambda: self.now,
            monotonic=lambda: 0.0,
            is_over=lambda: self.is_over(),
        )
        return self.reporter

    def _open(self) -> Catalog:
        return Catalog.open(self.box.path, writes=True)

    def report(self) -> None:
        """Report once."""
        self.reporter.report()

    def describe(self) -> BoxFacts:
        """Say what a heartbeat says."""
        root = RootFacts(
            self.box.root.id,
            self.box.root.path,
            self.replica_set,
            "",
            self.patterns,
            Excludes(self.patterns),
            "mutable",
            30 * 86400,
            1,
            2,
            NOW,
        )
        return BoxFacts("nas", "All is well.", "ok", (root,))

    def open_finding(self, path: bytes, file_id: FileId | None = None, *, blocks: tuple[int, ...] = ()) -> FindingId:
        """Open a finding, or change the one that is open."""
        ranges: tuple[ByteRange, ...] = ()
        new = NewFinding(FindingKind.ROT, self.box.root.id, file_id, path, "rot", blocks=blocks, ranges=ranges)
        with self.box.catalog.transaction() as c:
            return findings.open_finding(c, new, now=self.now, run_id=None)[0].id

    def resolve(self, number: FindingId) -> None:
        """End a finding."""
        with self.box.catalog.transaction() as c:
            findings.resolve_ids(c, [number], resolution="repaired", now=self.now)

    def count_waiting(self) -> Counter[str]:
        """Count what waits in the queue, by kind."""
        with self.box.catalog.read() as c:
            kinds = [one.kind for one in report_queue.find_changes(c, 1_000_000)]
            return Counter(kinds + [one.kind for one in report_queue.find_messages(c)])

    def close(self) -> None:
        """Close all that it opened."""
        self.reporter.close()
        self._catalog.close()

    def _pause(self, wait_s: float) -> bool:
        self.waits.append(wait_s)
        return True
