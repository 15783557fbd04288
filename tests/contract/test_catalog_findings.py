"""Findings: said once, kept up to date, resolved for a reason."""

from __future__ import annotations

import pytest

from integrity.catalog import findings
from integrity.catalog.findings import NewFinding
from integrity.errors import ConfigError
from integrity.model import Certainty, FileId, Finding, FindingId, FindingKind, RootId
from support.catalogs import NOW, CatalogBox


def say(
    box: CatalogBox,
    path: bytes | None = b"a",
    kind: FindingKind = FindingKind.ROT,
    *,
    file_id: FileId | None = None,
    now: int = NOW,
    blocks: tuple[int, ...] = (3, 9),
    certainty: Certainty | None = Certainty.PROVEN,
) -> tuple[Finding, bool]:
    new = NewFinding(
        kind, box.root.id, file_id, path, "message", certainty, blocks, 1 << 20, ((3 << 20, 1 << 20), (1 << 40, 5)), 2
    )
    with box.catalog.transaction() as c:
        return findings.open_finding(c, new, now=now, run_id=box.run_id)


def test_spans_are_incidents_that_were_open_since(box: CatalogBox) -> None:
    """Counted by kind and times; what ended before is left out, what is open is not, however old it is."""
    ended, _ = say(box, b"old", now=NOW - 900)
    for path in (b"a", b"b"):
        say(box, path, now=NOW - 800)
    lasting, _ = say(box, None, FindingKind.OVERDUE, now=NOW - 700)
    with box.catalog.transaction() as c:
        findings.resolve_ids(c, [ended.id], resolution="gone", now=NOW - 600)
        findings.resolve_ids(c, [lasting.id], resolution="done", now=NOW - 400)
    with box.catalog.read() as c:
        found = findings.find_incident_spans(c, NOW - 500, box.root.id)
        of_another = findings.find_incident_spans(c, NOW - 500, RootId(99))

    assert [(FindingKind.ROT, NOW - 800, None, 2), (FindingKind.OVERDUE, NOW - 700, NOW - 400, 1)] == found
    assert [] == of_another


def test_resolving_everything_by_mistake_is_refused(box: CatalogBox) -> None:
    """Which findings are meant must be said."""
    with box.catalog.transaction() as c, pytest.raises(ValueError, match="name a file or a root"):
        findings.resolve_findings(c, resolution="x", now=NOW)


def test_unknown_finding_is_an_error_with_advice(box: CatalogBox) -> None:
    """A mistyped number is told, with where to look."""
    with box.catalog.read() as c, pytest.raises(ConfigError, match="integrity findings"):
        findings.get_finding(c, FindingId(5))
