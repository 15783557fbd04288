"""A damaged file with several names is mailed as one."""

from __future__ import annotations

from pathlib import Path

from integrity.catalog import findings
from integrity.config import Alerts
from integrity.model import FindingState
from support.alerting import Teller, mail_config
from support.catalogs import CatalogBox, make_reading
from support.smtpsink import SmtpSink


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
            findings.silence(c, [first.id])
        again = [teller.find(b"night%d/photo" % night, file_id=ids[night], blocks=(17, 18)) for night in range(3)]
        assert [first.id] * 3 == [one.incident_id for one in again]
        assert {FindingState.OPEN} == {one.state for one in again}
        teller.tick()
        teller.tick(after=120)
        assert 2 == len(sink.received)
        with box.catalog.read() as c:
            assert 1 == findings.count_open(c)
