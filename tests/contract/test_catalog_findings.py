"""Findings: said once, kept up to date, resolved for a reason."""

from __future__ import annotations

import pytest

from integrity.catalog import findings
from integrity.catalog.findings import NewFinding
from integrity.errors import ConfigError
from integrity.model import Certainty, FileId, Finding, FindingId, FindingKind, FindingState, RootId
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


def get(box: CatalogBox, finding: Finding) -> Finding:
    with box.catalog.read() as c:
        return findings.get_finding(c, finding.id)


def hush(box: CatalogBox, finding: Finding, *, is_muted: bool) -> None:
    """Mute a finding, or acknowledge it."""
    with box.catalog.transaction() as c:
        if is_muted:
            findings.mute(c, [finding.id], NOW + 99)
        else:
            findings.acknowledge(c, [finding.id])


def test_finding_keeps_all_that_was_said(box: CatalogBox) -> None:
    """What a job found is what a person reads."""
    finding, is_new = say(box, b"d/\xff")

    assert is_new
    assert finding == Finding(
        id=FindingId(1),
        kind=FindingKind.ROT,
        state=FindingState.OPEN,
        root=b"/srv/photos",
        path=b"d/\xff",
        message="message",
        opened_at=NOW,
        updated_at=NOW,
        certainty=Certainty.PROVEN,
        blocks=(3, 9),
        block_size_bytes=1 << 20,
        ranges=((3 << 20, 1 << 20), (1 << 40, 5)),
        confirmed_reads=2,
        opened_by=box.run_id,
    )


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


def test_same_thing_is_said_once(box: CatalogBox) -> None:
    """A damaged file that is met every night has one finding."""
    first, _ = say(box)
    second, is_new = say(box, now=NOW + 5)

    assert not is_new
    assert (second.id, second.opened_at, second.updated_at) == (first.id, NOW, NOW + 5)
    with box.catalog.read() as c:
        assert findings.count_open(c) == findings.count_open(c, box.root.id) == 1


def test_findings_of_other_kinds_and_paths_stand_beside_it(box: CatalogBox) -> None:
    """Each path, each kind and the root itself have findings of their own."""
    ids = {
        say(box, path, kind)[0].id for path in (b"a", b"b", None) for kind in (FindingKind.ROT, FindingKind.UNSTABLE)
    }

    assert len(ids) == 6


def test_finding_about_the_root_has_no_path(box: CatalogBox) -> None:
    """A suspended root is said of the root, not of a file."""
    finding, _ = say(box, None, FindingKind.ROOT_SUSPENDED)

    assert finding.path is None


@pytest.mark.parametrize("is_muted", [False, True])
def test_quiet_finding_speaks_again_when_the_damage_grows(box: CatalogBox, is_muted: bool) -> None:
    """Acknowledging covers what was seen, not what comes after it."""
    finding, _ = say(box)
    hush(box, finding, is_muted=is_muted)
    state = FindingState.MUTED if is_muted else FindingState.ACKNOWLEDGED
    assert say(box, now=NOW + 2)[0].state is state
    grown, _ = say(box, now=NOW + 3, blocks=(3, 9, 10))

    assert (grown.state, grown.muted_until) == (FindingState.OPEN, None)


@pytest.mark.parametrize("is_muted", [False, True])
def test_asking_for_silence_is_no_judging(box: CatalogBox, is_muted: bool) -> None:
    """A repair leaves alone what was written after the judging; a person's word about reminders moves that time not."""
    finding, _ = say(box)
    hush(box, finding, is_muted=is_muted)

    assert NOW == get(box, finding).updated_at


def test_finding_that_comes_back_is_a_new_one(box: CatalogBox) -> None:
    """A resolved finding stays resolved; its number is not used again."""
    finding, _ = say(box)
    with box.catalog.transaction() as c:
        [resolved] = findings.resolve_findings(c, root_id=box.root.id, resolution="intact", now=NOW + 7)
    again, is_new = say(box, now=NOW + 8)

    assert (resolved.state, resolved.resolution, resolved.resolved_at) == (FindingState.RESOLVED, "intact", NOW + 7)
    assert is_new
    assert again.id > finding.id
    assert get(box, finding) == resolved


def test_file_is_frozen_until_its_last_content_finding_goes(box: CatalogBox) -> None:
    """Resolving one of two findings on the content does not free the baseline (R6)."""
    file_id = box.record(b"a")
    say(box, file_id=file_id, kind=FindingKind.UNSTABLE)
    assert not box.get(file_id).is_frozen
    say(box, file_id=file_id, kind=FindingKind.ROT)
    say(box, file_id=file_id, kind=FindingKind.UNREADABLE)
    for kind, is_frozen in ((FindingKind.UNSTABLE, True), (FindingKind.UNREADABLE, True), (FindingKind.ROT, False)):
        with box.catalog.transaction() as c:
            done = findings.resolve_findings(c, file_id=file_id, kinds={kind}, resolution="x", now=NOW)
        assert [finding.kind for finding in done] == [kind]
        assert box.get(file_id).is_frozen == is_frozen


def test_quiet_findings_freeze_as_well(box: CatalogBox) -> None:
    """Acknowledging a finding gives no job leave to overwrite the baseline."""
    file_id = box.record(b"a")
    finding, _ = say(box, file_id=file_id)
    with box.catalog.transaction() as c:
        findings.acknowledge(c, [finding.id])

    assert box.get(file_id).is_frozen


def test_findings_are_listed_as_asked(box: CatalogBox) -> None:
    """By root, by place, by time, and with the resolved ones only on request."""
    first, second, third = (say(box, path, now=NOW + n)[0].id for n, path in enumerate((b"d/a", b"d2/b", b"c")))
    with box.catalog.transaction() as c:
        findings.resolve_ids(c, [third], resolution="x", now=NOW + 9)

        def ids(**options: object) -> list[FindingId]:
            return [finding.id for finding in findings.find_findings(c, **options)]  # type: ignore[arg-type]

        assert ids() == ids(root_id=box.root.id) == [first, second]
        assert ids(root_id=99) == []
        assert ids(prefix=b"d") == ids(prefix=b"d/a") == [first]
        assert ids(include_resolved=True) == [first, second, third]
        assert ids(include_resolved=True, since=NOW + 1) == [second, third]
        assert findings.count_open(c) == 2


def test_resolving_everything_by_mistake_is_refused(box: CatalogBox) -> None:
    """Which findings are meant must be said."""
    with box.catalog.transaction() as c, pytest.raises(ValueError, match="name a file or a root"):
        findings.resolve_findings(c, resolution="x", now=NOW)


def test_unknown_finding_is_an_error_with_advice(box: CatalogBox) -> None:
    """A mistyped number is told, with where to look."""
    with box.catalog.read() as c, pytest.raises(ConfigError, match="integrity findings"):
        findings.get_finding(c, FindingId(5))


def test_resolved_finding_cannot_be_made_quiet(box: CatalogBox) -> None:
    """Acknowledging or muting what is over changes nothing."""
    finding, _ = say(box)
    with box.catalog.transaction() as c:
        findings.resolve_ids(c, [finding.id], resolution="x", now=NOW)
        findings.acknowledge(c, [finding.id])
        findings.mute(c, [finding.id], NOW + 9)

    assert get(box, finding).state is FindingState.RESOLVED


def test_all_findings_of_a_file_are_told(box: CatalogBox) -> None:
    """Explaining a file shows what it had before, too."""
    file_id = box.record(b"a")
    first, _ = say(box, file_id=file_id)
    with box.catalog.transaction() as c:
        findings.resolve_findings(c, file_id=file_id, resolution="x", now=NOW)
    second, _ = say(box, file_id=file_id)
    with box.catalog.read() as c:
        assert [finding.id for finding in findings.find_file_findings(c, file_id)] == [first.id, second.id]
