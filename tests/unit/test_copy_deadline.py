"""The promise of copies: told once it is broken, ended when it is kept, from the moment a copy is known."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from integrity.arbitration import CopyVote
from integrity.catalog import copies, findings
from integrity.catalog.copies import CopyState
from integrity.catalog.roots import set_root_state
from integrity.config import Config
from integrity.config.definition import ConfiguredCopy
from integrity.jobs.compare.deadline import check_copies
from integrity.jobs.context import Context
from integrity.jobs.scrub.promise import check
from integrity.model import Finding, FindingKind, RootState
from integrity.service.schedule.clock import local_zone, parse_windows
from support.catalogs import DAY_S, NOW, CatalogBox
from support.jobs import Told

COPY = ConfiguredCopy(name="nightly", of=b"/srv/photos", url="/mnt/backup", verify_every_s=90 * DAY_S)


class Box:
    """A catalog with one root and one file, a configuration, and a clock."""

    def __init__(self, catalog: CatalogBox) -> None:
        self.catalog = catalog
        self.now = NOW
        self.file_id = catalog.record(b"a")
        self.config = Config(copies=(COPY,))

    def check(self, *, after: int = 0) -> list[Finding]:
        self.now += after
        return check_copies(self.context())

    def context(self) -> Context:
        return Context(self.catalog.catalog, self.config, Told(), clock=lambda: self.now)

    def compare(self) -> None:
        """Write down what a comparison would."""
        with self.catalog.catalog.transaction() as c:
            (record,) = copies.find_copies(c)
            copies.save_states(c, record.id, [CopyState(self.file_id, 1, CopyVote.SAME, self.now, None)])

    def open_findings(self) -> list[Finding]:
        with self.catalog.catalog.read() as c:
            return findings.find_findings(c)


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Box]:
    """Make it."""
    with CatalogBox(bytes(tmp_path / "catalog.db")) as catalog:
        yield Box(catalog)


def test_copy_that_never_appears_breaks_its_promise(made: Box) -> None:
    """From the moment that it is known its clock runs; the finding says what to do, until it is compared."""
    assert [] == made.check()
    assert [] == made.check(after=90 * DAY_S)
    (finding,) = made.check(after=3 * DAY_S)

    assert (FindingKind.OVERDUE, "nightly", None) == (finding.kind, finding.copy, finding.path)
    assert "its file not compared with the copy nightly within 90 days, the oldest 3 days late" == finding.message
    assert "integrity compare /srv/photos --with nightly" == finding.command
    assert [finding.id] == [one.id for one in made.check(after=DAY_S)]
    made.compare()
    assert [] == made.check()
    assert [] == made.open_findings()
    assert made.check(after=91 * DAY_S)


def test_promises_of_root_and_copy_are_apart(made: Box) -> None:
    """The root's file is overdue as well; that its copy is compared does not end that, nor the other way round."""
    windows = parse_windows("01:00-06:00", local_zone())
    made.check()
    made.check(after=91 * DAY_S)
    check(made.context(), windows)
    assert {None, "nightly"} == {one.copy for one in made.open_findings()}
    made.compare()
    made.check()
    assert [None] == [one.copy for one in made.open_findings()]

    made.check(after=91 * DAY_S)
    made.catalog.damage("UPDATE file SET verified_at = ?", made.now)
    check(made.context(), windows)
    assert ["nightly"] == [one.copy for one in made.open_findings()]


def test_paused_root_promises_nothing_and_a_suspended_one_has_a_finding_of_its_own(made: Box) -> None:
    """What is open ends with the pause; while the root is suspended nothing changes."""
    made.check()
    assert made.check(after=91 * DAY_S)
    for state, count in ((RootState.SUSPENDED, 1), (RootState.PAUSED, 0)):
        with made.catalog.catalog.transaction() as c:
            set_root_state(c, made.catalog.root.id, state, "a test")
        assert [] == made.check()
        assert count == len(made.open_findings())
