"""A damaged file with several names is one incident: counted, listed, mailed, silenced and ended as one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from integrity.catalog import findings
from integrity.config import Alerts
from integrity.model import FindingState
from support.alerting import Teller, mail_config
from support.bitrot import rot
from support.catalogs import CatalogBox, make_reading
from support.cli import Box
from support.results import all_names, tallies
from support.shapes import put
from support.smtpsink import SmtpSink

pytestmark = pytest.mark.root

SIZE = 9_000


@pytest.fixture
def damaged(data: Path, integrity: Box) -> Path:
    """Damage a file that a tool has linked into each of three nightly trees."""
    (data / "night1").mkdir()
    put(data / "night1" / "photo", os.urandom(SIZE))
    put(data / "night1" / "other", os.urandom(SIZE))
    for night in ("night2", "night3"):
        link_tree(data / "night1", data / night)
    integrity.run("scan", data, expect=0)
    integrity.run("scrub", data, expect=0)
    rot(data / "night1" / "photo", 5_000)
    return data


def link_tree(old: Path, new: Path) -> None:
    """Do what cp -al does."""
    new.mkdir()
    for path in old.iterdir():
        os.link(path, new / path.name)


def photos(data: Path, *nights: int) -> list[object]:
    return [str(data / f"night{night}" / "photo") for night in nights]


def test_one_finding_with_all_names(damaged: Path, integrity: Box) -> None:
    """Each name counts as damaged; what is open is one thing, by whatever name somebody asks."""
    done = integrity.run("--json", "scrub", damaged, expect=1)
    (finding,) = done.findings
    assert sorted(map(str, all_names(finding))) == photos(damaged, 1, 2, 3)
    assert {"damaged": 3, "verified": 3} == tallies(done)
    assert (1, 1) == (done.summary["findings_opened"], done.summary["findings_open"])

    again = integrity.run("--json", "scrub", damaged, expect=1)
    assert [finding["id"]] == [one["id"] for one in again.findings]
    assert (0, 1) == (again.summary["findings_opened"], again.summary["findings_open"])
    listed = integrity.run("findings", expect=1).stdout
    assert "1 finding open" in listed
    assert "and 2 other names of the file" in listed
    for path in photos(damaged, 1, 2, 3):
        told = integrity.run("explain", path, expect=1).stdout
        assert f"DAMAGED (bit rot)  {path}" in told
        assert all(
            str(other) in told.partition("the same file as ")[2] for other in photos(damaged, 1, 2, 3) if other != path
        )


def test_silence_and_acceptance_are_for_all_names(damaged: Path, integrity: Box) -> None:
    """One name acknowledged is all of them acknowledged, a later one too; accepting one ends it for all."""
    (finding,) = integrity.run("--json", "scrub", damaged, expect=1).findings
    integrity.run("ack", str(finding["id"]), expect=0)
    link_tree(damaged / "night3", damaged / "night4")
    integrity.run("scan", damaged)
    (open_one,) = integrity.run("--json", "findings", expect=1).findings
    assert ("acknowledged", photos(damaged, 1, 2, 3, 4)) == (
        open_one["state"],
        sorted(map(str, all_names(open_one))),
    )
    integrity.run("accept", damaged / "night2" / "photo", "--reason", "it is a thumbnail", expect=0)
    assert [] == integrity.run("--json", "findings", expect=0).findings
    integrity.run("catalog", "check", expect=0)


def test_names_that_go_leave_the_others(damaged: Path, integrity: Box) -> None:
    """The incident goes on without the name that it was opened with; the last name ends it."""
    (finding,) = integrity.run("--json", "scrub", damaged, expect=1).findings
    gone = Path(str(finding["path"]))
    gone.unlink()
    integrity.run("scan", damaged)
    (left,) = integrity.run("--json", "findings", expect=1).findings
    assert sorted(map(str, all_names(left))) == [path for path in photos(damaged, 1, 2, 3) if path != str(gone)]
    assert integrity.run("--json", "scrub", damaged, expect=1).summary["findings_open"] == 1
    for path in map(str, all_names(left)):
        Path(path).unlink()
    integrity.run("scan", damaged)
    assert [] == integrity.run("--json", "findings", expect=0).findings


def test_mail_is_one_and_stays_one(tmp_path: Path) -> None:
    """Every night links the damaged file once more, and some day the first name goes: nobody is told again."""
    with CatalogBox(bytes(tmp_path / "catalog.db")) as box, SmtpSink() as sink:
        teller = Teller(box, mail_config(sink.port, alerts=Alerts(all_clear=True)))
        ids = [box.record(b"night%d/photo" % night, make_reading("photo")) for night in range(5)]
        found = [teller.find(b"night%d/photo" % night, file_id=ids[night]) for night in range(3)]
        teller.tick()
        teller.tick(after=120)
        (received,) = sink.received
        assert "[integrity] nas: 1 damaged file in photos" == received.mail["Subject"]
        assert "the same file as /srv/photos/night1/photo, /srv/photos/night2/photo" in received.text

        for night in (3, 4):
            found.append(teller.find(b"night%d/photo" % night, file_id=ids[night]))
            teller.tick()
            teller.tick(after=3600)
        teller.resolve(*(one.id for one in found[:2]))
        teller.tick()
        teller.tick(after=3600)
        assert 1 == len(sink.received)

        teller.resolve(*(one.id for one in found[2:]))
        teller.tick()
        assert 2 == len(sink.received), [one.mail["Subject"] for one in sink.received]


def test_more_damage_is_told_once_for_all_names(tmp_path: Path) -> None:
    """Acknowledged or not, what changes about a file is told, and once."""
    with CatalogBox(bytes(tmp_path / "catalog.db")) as box, SmtpSink() as sink:
        teller = Teller(box, mail_config(sink.port))
        ids = [box.record(b"night%d/photo" % night, make_reading("photo")) for night in range(3)]
        first, *_ = [teller.find(b"night%d/photo" % night, file_id=ids[night]) for night in range(3)]
        teller.tick()
        teller.tick(after=120)
        with box.catalog.transaction() as c:
            findings.acknowledge(c, [first.id])
        again = [teller.find(b"night%d/photo" % night, file_id=ids[night], blocks=(17, 18)) for night in range(3)]
        assert [first.id] * 3 == [one.incident_id for one in again]
        assert {FindingState.OPEN} == {one.state for one in again}
        teller.tick()
        teller.tick(after=120)
        assert 2 == len(sink.received)
        with box.catalog.read() as c:
            assert 1 == findings.count_open(c)
