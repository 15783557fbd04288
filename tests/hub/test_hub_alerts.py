"""The alerts of the hub: once per incident, reminders, and the notice of the end, through channels that may fail."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
import sqlalchemy as sa

from integrity.alerts.channels import Channel
from integrity.catalog.outbox import AlertKind, Message
from integrity.config import Alerts
from integrity.errors import ChannelError
from integrity.hub.alerts import LASTS_S, send_alerts
from integrity.hub.database import HubDatabase
from integrity.hub.findings import acknowledge, find_findings
from integrity.hub.fleet import count_open
from integrity.hub.kinds import HubFindingKind
from support.hub_rows import DAY_S, NOW, HubRows, reported

SETTINGS = Alerts()
GROUP_S = SETTINGS.group_s


@dataclass
class Receiver:
    """A channel that keeps what it is sent, or refuses it."""

    name: str = "memory"
    is_broken: bool = False
    got: list[Message] = field(default_factory=list)

    def send(self, message: Message) -> None:
        """Keep a message."""
        if self.is_broken:
            raise ChannelError("memory: full")
        self.got.append(message)

    def take(self) -> list[Message]:
        """Return what came since."""
        got, self.got = self.got, []
        return got


@dataclass
class AlertBox:
    """A hub with a damaged file, and a channel."""

    database: HubDatabase
    rows: HubRows
    channel: Receiver = field(default_factory=Receiver)

    @contextmanager
    def writing(self) -> Iterator[HubRows]:
        """Change rows in a transaction."""
        with self.database.transaction() as c:
            self.rows.c = c
            yield self.rows

    def vote(self, now: int = NOW) -> None:
        """Vote."""
        with self.writing() as rows:
            rows.vote(now)

    def tick(self, now: int, *channels: Channel) -> list[Message]:
        """Send what is due; return what came through the first channel."""
        to = channels or [self.channel]
        send_alerts(self.database, now, channels=to, settings=SETTINGS, hostname="hub.lan", page_url="https://hub")
        return self.channel.take()


@pytest.fixture
def box(hub_database: HubDatabase) -> AlertBox:
    """Make three members with the same files, one of them damaged."""
    with hub_database.transaction() as c:
        rows = HubRows(c)
        for name in ("a", "b", "c"):
            rows.add_member(name, {b"": [reported(b"x.jpg"), reported(b"y.jpg")]})
        rows.report_finding("b", 1, "rot", b"x.jpg", blocks=[3], block_size_bytes=1 << 20)
        rows.vote()
    return AlertBox(hub_database, rows)


def test_incident_is_sent_once_with_box_and_command(box: AlertBox) -> None:
    """After the time that lets others share the mail; the mail says what to run on which box."""
    assert [] == box.tick(NOW + GROUP_S - 1)

    (message,) = box.tick(NOW + GROUP_S)

    assert "[integrity] hub: 1 damaged file (b)" == message.subject
    assert [
        "hub: 1 damaged file (b)",
        "",
        "The hub found a problem: 1 damaged file (b).",
        "A good copy exists on another box.",
        "What to do: on b, run:  integrity repair /srv/b/x.jpg --from ssh://a.lan/srv/a",
    ] == message.body.splitlines()[:5]
    assert "block 3" in message.body
    assert "https://hub/findings/1" in message.body
    assert ["replica_damaged"] == [one["kind"] for one in json.loads(message.facts)["findings"]]
    assert [] == box.tick(NOW + GROUP_S + 60)


def test_subject_counts_files_and_not_findings(hub_database: HubDatabase) -> None:
    """Three damaged and five that are gone are not eight damaged ones; an emptied member is as many as it had."""
    many = [reported(b"%d.jpg" % number) for number in range(120)]
    with hub_database.transaction() as c:
        rows = HubRows(c)
        rows.add_member("a", {b"": many})
        rows.add_member("b", {b"": many})
        rows.add_member("c", {b"": many[:9]})
        for number in range(8):
            kind = "rot" if number < 3 else "missing"
            rows.report_finding("b", number + 1, kind, b"%d.jpg" % number)
        rows.vote()
    (message,) = AlertBox(hub_database, rows).tick(NOW + 2 * LASTS_S)

    assert "[integrity] hub: 3 damaged files (b); 5 files gone or unreadable (b); 1 more finding" == message.subject
    with hub_database.read() as c:
        found = count_open(c)
    assert {"replica_damaged": 3, "replica_lost": 5, "replica_missing": 1} == dict(found.findings)
    assert "3 damaged files, 5 files gone or unreadable, 111 files missing on a box" == found.describe()


def test_changed_finding_is_sent_again(box: AlertBox) -> None:
    """When the command changes, for instance; new evidence alone is no reason."""
    box.tick(NOW + GROUP_S)
    with box.writing() as rows:
        rows.store_folder("c", b"", [reported(b"x.jpg", verified_at=NOW), reported(b"y.jpg")])
        rows.vote(NOW + 300)

    assert [] == box.tick(NOW + 600)

    with box.writing() as rows:
        rows.store_folder("a", b"", [reported(b"x.jpg", verified_at=None), reported(b"y.jpg")])
        rows.vote(NOW + 700)
    (message,) = box.tick(NOW + 700 + GROUP_S)

    assert "Reported before; it has changed since." in message.body


def test_reminder_and_all_clear(box: AlertBox) -> None:
    """Daily while it is open, unless somebody acknowledged it; the end is sent at once, and once."""
    box.tick(NOW + GROUP_S)
    (reminder,) = box.tick(NOW + GROUP_S + DAY_S)

    assert AlertKind.REMINDER is reminder.kind
    assert [] == box.tick(NOW + GROUP_S + DAY_S + 60)

    with box.writing() as rows:
        acknowledge(rows.c, next(find_findings(rows.c)).id, NOW)

    assert [] == box.tick(NOW + 3 * DAY_S)

    with box.writing() as rows:
        rows.resolve_finding("b", 1)
        rows.vote(NOW + 3 * DAY_S)
    (clear,) = box.tick(NOW + 3 * DAY_S)

    assert AlertKind.ALL_CLEAR is clear.kind
    assert "DAMAGED (bit rot) on b: x.jpg  [finding 1]: no longer the case" in clear.body
    assert [] == box.tick(NOW + 9 * DAY_S)


def test_what_looks_like_replication_waits(box: AlertBox) -> None:
    """A missing file is a mail only if it is still missing a day later."""
    box.tick(NOW + GROUP_S)
    with box.writing() as rows:
        rows.store_folder("c", b"", [reported(b"x.jpg")])
        rows.vote(NOW + 300)

    assert [] == box.tick(NOW + 600)

    messages = box.tick(NOW + 300 + LASTS_S + GROUP_S)

    assert ["[integrity] hub: 1 file missing on a box (c)"] == [one.subject for one in messages]


def test_missing_file_that_comes_back_is_never_sent(box: AlertBox) -> None:
    """Not even as resolved."""
    with box.writing() as rows:
        rows.resolve_finding("b", 1)
        rows.store_folder("c", b"", [reported(b"x.jpg")])
        rows.vote()
        rows.store_folder("c", b"", [reported(b"x.jpg"), reported(b"y.jpg")])
        rows.vote(NOW + 60)

    assert [] == [message for hours in range(48) for message in box.tick(NOW + hours * 3600)]


def test_failing_channel_delays_no_other_and_is_retried(box: AlertBox) -> None:
    """It is tried again later and later, and gets what is true then."""
    other = Receiver("other")
    box.channel.is_broken = True
    box.tick(NOW + GROUP_S, box.channel, other)

    assert 1 == len(other.take())
    box.channel.is_broken = False
    assert [] == box.tick(NOW + GROUP_S + 59, box.channel, other)
    assert 1 == len(box.tick(NOW + GROUP_S + 60, box.channel, other))
    assert [] == other.take()


def test_crash_between_sending_and_recording_repeats_the_message_id(box: AlertBox) -> None:
    """So that a mail program can show it once."""
    assert [] == box.tick(NOW)
    crashing = Receiver("memory")
    with pytest.raises(RuntimeError):
        send_alerts(Crashing(box.database), NOW + GROUP_S, channels=[crashing], settings=SETTINGS, hostname="hub.lan")
    (first,) = crashing.take()
    (second,) = box.tick(NOW + GROUP_S)

    assert first.message_id == second.message_id


class Crashing(HubDatabase):
    """A database that can be read only: as if the process died before it wrote."""

    def __init__(self, database: HubDatabase) -> None:
        super().__init__(database.engine)

    @contextmanager
    def transaction(self) -> Iterator[None]:  # type: ignore[override]
        """Die."""
        raise RuntimeError("killed")
        yield


def test_many_findings_make_few_mails(box: AlertBox) -> None:
    """Damage that is found for hours is sent in at most five mails an hour, besides the first."""
    sent = 0
    for minute in range(0, 60, 2):
        with box.writing() as rows:
            rows.report_finding("a", 100 + minute, "rot", b"y.jpg" if minute % 4 else b"x.jpg")
            rows.vote(NOW + minute * 60)
            rows.resolve_finding("a", 100 + minute)
        sent += len(box.tick(NOW + minute * 60 + GROUP_S))

    assert 5 >= sent


def test_findings_that_were_sent_are_not_read_again(box: AlertBox) -> None:
    """Of thousands that stay open a minute reads none; a new channel gets them all, and what changes is found."""
    with box.writing() as rows:
        for number in range(50):
            rows.add_finding(HubFindingKind.REPLICA_DAMAGED, b"%d" % number, headline="x", set_id=rows.set_id)
        rows.add_finding(HubFindingKind.REPLICA_STALE, b"young", headline="x", set_id=rows.set_id, opened_at=NOW)
    assert 1 == len(box.tick(NOW + GROUP_S))

    with reading(box.database) as read:
        assert [] == box.tick(NOW + GROUP_S + 60)

    assert 0 == read["rows"]

    other = Receiver("other")
    assert [] == box.tick(NOW + GROUP_S + 120, box.channel, other)
    assert 51 == len(json.loads(other.take()[0].facts)["findings"])


@contextmanager
def reading(database: HubDatabase) -> Iterator[dict[str, int]]:
    """Count the rows of findings that queries return in the block."""
    read = {"rows": 0}

    def note(_: object, cursor: Any, statement: str, *rest: object) -> None:
        if statement.startswith("SELECT finding."):
            rows = cursor.fetchall()
            read["rows"] += len(rows)

    sa.event.listen(database.engine, "after_cursor_execute", note)
    try:
        yield read
    finally:
        sa.event.remove(database.engine, "after_cursor_execute", note)
