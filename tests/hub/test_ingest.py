"""Heartbeats and messages of boxes: what is stored of them, in both databases."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa

from integrity.errors import CallRefused, ProtocolError
from integrity.hub import audit, boxes
from integrity.hub.database import HubDatabase
from integrity.hub.ingest import CallingBox, HeartbeatStored, MessagesStored, store_heartbeat, store_messages
from integrity.hub.members import Grants, add_grants, remove_grants
from integrity.hub.reported import BoxHeartbeat, MessagesHeader, read_call
from integrity.hub.schema import box, box_event, box_finding, member, replica_set
from integrity.reporting.protocol import JsonObject, MessageKind
from support.hub_reports import NOW, Stream, make_finding, make_heartbeat, make_root
from support.hubserver import ANYWHERE


class ReportingBox:
    """A box that reports straight to the functions of the hub."""

    def __init__(self, database: HubDatabase, name: str = "nas", grants: Grants = ANYWHERE) -> None:
        self.database = database
        with database.transaction() as c:
            token = boxes.add_box(c, name, NOW - 100, grants)
            found = boxes.load_tokens(c)[boxes.hash_token(token)]
        self.reporter = CallingBox(found.id, name, "192.0.2.1")

    def beat(self, stream: Stream, *roots: JsonObject, now: int = NOW, **changes: Any) -> HeartbeatStored:
        with self.database.transaction() as c:
            beat = read_call(BoxHeartbeat, make_heartbeat(stream.id, *roots, **changes))
            return store_heartbeat(c, self.reporter, beat, now)

    def send(self, stream: Stream, first: int = 1, last: int | None = None, now: int = NOW) -> MessagesStored:
        with self.database.transaction() as c:
            header = read_call(MessagesHeader, stream.header(first))
            return store_messages(c, self.reporter, header, stream.messages[first - 1 : last], now)

    def findings(self) -> dict[int, str]:
        query = sa.select(box_finding.c.number, box_finding.c.state).where(box_finding.c.box_id == self.reporter.box_id)
        with self.database.read() as c:
            return {row.number: row.state for row in c.execute(query.order_by(box_finding.c.opened_at))}

    def count(self, table: sa.Table) -> int:
        with self.database.read() as c:
            return c.execute(sa.select(sa.func.count()).select_from(table)).scalar_one()


@pytest.fixture
def nas(hub_database: HubDatabase) -> ReportingBox:
    return ReportingBox(hub_database)


def test_heartbeat_is_stored(nas: ReportingBox) -> None:
    """The box is known afterwards with its sentence, clock and roots; of its stream the hub knows nothing yet."""
    stream = Stream()
    stored = nas.beat(stream, make_root(1), make_root(2, None), sent_at=NOW + 90, sentence="2 files are damaged.")

    assert (None, []) == (stored.last, stored.trees)
    with nas.database.read() as c:
        row = c.execute(sa.select(box)).one()
        roots = c.execute(sa.select(member.c.root_id, replica_set.c.name).outerjoin(replica_set).order_by("root_id"))
        assert [(1, "photos"), (2, None)] == [tuple(each) for each in roots]
    assert (NOW, 90, "2 files are damaged.") == (row.seen_at, row.clock_ahead_s, row.sentence)


def test_unsettled_trees_are_asked_for(nas: ReportingBox) -> None:
    """The hub asks for the files of each root in a set whose announced tree it does not have."""
    tree = bytes(range(16))

    assert [1] == nas.beat(Stream(), make_root(1, tree=tree), make_root(2, None, tree=tree), make_root(3)).trees


@pytest.mark.parametrize("change", [{"excludes": ["*.tmp"]}, {"path": "/srv/b"}, {"url": "ssh://nas/srv"}])
def test_change_of_what_a_vote_reads_leads_to_one(nas: ReportingBox, change: JsonObject) -> None:
    """A file that a box excludes now is not missing any more, whether or not it has reported files since."""
    stream = Stream()
    nas.beat(stream, make_root(1))

    assert 1 == len(nas.beat(stream, make_root(1, **change)).sets)
    assert set() == nas.beat(stream, make_root(1, **change)).sets


def test_root_that_is_not_named_is_removed_until_it_comes_back(nas: ReportingBox) -> None:
    """A heartbeat is the complete list of roots; a change of members has the set voted on."""
    nas.beat(Stream(), make_root(1), make_root(2))
    gone = nas.beat(Stream(), make_root(1), now=NOW + 5)
    with nas.database.read() as c:
        removed = c.execute(sa.select(member.c.root_id, member.c.removed_at).order_by("root_id")).all()
    back = nas.beat(Stream(), make_root(1), make_root(2))

    assert [(1, None), (2, NOW + 5)] == [tuple(row) for row in removed]
    assert 1 == len(gone.sets)
    assert gone.sets == back.sets


@pytest.mark.parametrize(
    "change",
    [
        {"protocol": 2},
        {"hostname": 5},
        {"stream": "00"},
        {"newest": -1},
        {"newest": True},
        {"newest": 1 << 63},
        {"state": "fine"},
        {"roots": {}},
        {"roots": [5]},
        {"roots": [make_root(1), make_root(1)]},
        {"roots": [make_root(1, path="\0")]},
        {"roots": [make_root(1, path="a" * 5000)]},
        {"roots": [make_root(1, tree=None, excludes=[1])]},
        {"roots": [make_root(1, set_name="")]},
        {"roots": [make_root(1, oldest_verified_at=1.5)]},
        {"roots": [make_root(1)] * 1001},
    ],
)
def test_malformed_heartbeat_is_refused(change: JsonObject) -> None:
    """What is not a heartbeat never reaches the database."""
    with pytest.raises(ProtocolError):
        read_call(BoxHeartbeat, make_heartbeat(bytes(16)) | change)


def test_texts_of_a_box_are_stored_printable(nas: ReportingBox) -> None:
    """Control characters, surrogates and NUL, which PostgreSQL refuses, arrive escaped; a path keeps its bytes."""
    nas.beat(Stream(), make_root(1, path="/srv/\udcff\n<b>"), sentence="\x1b[31m\0\udcff<script>", hostname="'; DROP")

    with nas.database.read() as c:
        row = c.execute(sa.select(box)).one()
        assert b"/srv/\xff\n<b>" == c.execute(sa.select(member.c.path)).scalar_one()
    assert (r"\x1b[31m\x00\udcff<script>", "'; DROP") == (row.sentence, row.hostname)


def test_messages_are_stored_once(nas: ReportingBox) -> None:
    """Repeated messages change nothing and are confirmed again."""
    stream = Stream().begin(make_finding(7)).add(MessageKind.RUN, {"root_id": 1, "job": "scrub"})

    assert [3, 3, 2] == [nas.send(stream).last, nas.send(stream).last, nas.send(stream, 1, 2).last]
    assert {7: "open"} == nas.findings()
    assert 1 == nas.count(box_event)
    assert 3 == nas.beat(stream, newest=3).last


def test_messages_that_overlap_are_stored_from_the_new_one_on(nas: ReportingBox) -> None:
    """A box whose answer was lost sends more the next time."""
    stream = Stream().begin()
    nas.send(stream)
    for _ in range(3):
        stream.add(MessageKind.RUN, {"job": "scan"})
    nas.send(stream, 2, 3)

    assert 4 == nas.send(stream, 2).last
    assert 3 == nas.count(box_event)


def test_missing_message_is_noticed(nas: ReportingBox) -> None:
    """A number that is too high means that messages are missing."""
    stream = Stream().begin().add(MessageKind.RUN, {}).add(MessageKind.RUN, {})
    nas.send(stream, 1, 1)

    with pytest.raises(CallRefused, match="is missing before 3"):
        nas.send(stream, 3)


def test_box_restored_from_an_old_image_is_noticed(nas: ReportingBox) -> None:
    """Other messages with numbers that were given before can't continue the chain, nor be the newest ones."""
    stream = Stream().begin().add(MessageKind.RUN, {"job": "scan"})
    old = Stream().begin()
    old.id = stream.id
    nas.send(stream)
    old.add(MessageKind.RUN, {"job": "scrub"}).add(MessageKind.RUN, {"job": "scrub"})

    assert None is nas.beat(old, newest=1).last
    with pytest.raises(CallRefused, match="does not continue"):
        nas.send(old, 2)
    assert 1 == nas.count(box_event)


@pytest.mark.parametrize("first", [1, 2])
def test_new_stream_begins_with_its_state(nas: ReportingBox, first: int) -> None:
    """An unknown stream is refused unless its first message is number 1 and of kind state."""
    stream = Stream().add(MessageKind.RUN, {}).add(MessageKind.STATE, {})

    with pytest.raises(CallRefused, match="begins with message 1"):
        nas.send(stream, first)


def test_new_stream_ends_what_it_does_not_repeat(nas: ReportingBox) -> None:
    """Findings of the former stream stay open until all are repeated; those that were not among them end."""
    nas.beat(Stream(), make_root(1))
    nas.send(Stream().begin(make_finding(1), make_finding(2), make_finding(3)))
    stream = Stream().begin(make_finding(2), make_finding(3))
    nas.send(stream, 1, 2)
    during = nas.findings()
    stored = nas.send(stream, 3)

    assert {1: "open", 2: "open", 3: "open"} == during
    assert {1: "not_reported", 2: "open", 3: "open"} == nas.findings()
    assert 1 == len(stored.sets)
    with nas.database.read() as c:
        assert ["new_stream", "new_stream", "join"] == [entry.verb for entry in audit.find_entries(c)]


def test_former_stream_is_never_continued(nas: ReportingBox) -> None:
    """A late repetition of a stream that was replaced changes nothing."""
    former, present = Stream().begin(make_finding(1)), Stream().begin(make_finding(2))
    nas.send(former)
    nas.send(present)

    with pytest.raises(CallRefused, match="was replaced"):
        nas.send(former)
    assert {1: "not_reported", 2: "open"} == nas.findings()
    assert 2 == nas.beat(present, newest=2).last


def test_resolved_finding_stays_resolved(nas: ReportingBox) -> None:
    """Whoever has the token can't change what was resolved before, in this or in another stream."""
    resolved = {"state": "resolved", "resolved_at": "2026-11-22T03:14:00Z"}
    stream = Stream().begin(make_finding(1)).add(MessageKind.FINDING, make_finding(1, **resolved))
    nas.send(stream)
    nas.send(stream.add(MessageKind.FINDING, make_finding(1, "other")), 4)
    nas.send(Stream().begin(make_finding(1, "other")))

    assert {1: "resolved"} == nas.findings()


def test_number_that_was_given_twice_is_another_finding(nas: ReportingBox) -> None:
    """After a restore a box may number another finding alike: both are kept."""
    nas.send(Stream().begin(make_finding(1)))
    nas.send(Stream().begin(make_finding(1, "b", opened_at="2026-11-25T00:00:00Z")))

    assert 2 == nas.count(box_finding)
    with nas.database.read() as c:
        query = sa.select(box_finding.c.path, box_finding.c.state).order_by("opened_at")
        assert [(b"a.jpg", "not_reported"), (b"b", "open")] == [tuple(row) for row in c.execute(query)]


def test_finding_that_its_box_forgot_is_resolved(nas: ReportingBox) -> None:
    """Of a finding in a folder that was forgotten, the box knows the number only."""
    nas.beat(Stream(), make_root(1))
    gone = {"id": 1, "state": "resolved", "resolved_at": None, "resolution": "forgotten"}
    stored = nas.send(Stream().begin(make_finding(1)).add(MessageKind.FINDING, gone))

    assert {1: "resolved"} == nas.findings()
    assert 1 == len(stored.sets)


def test_boxes_do_not_touch_each_other(hub_database: HubDatabase) -> None:
    """Two boxes with the same stream, root and finding have rows of their own."""
    first, second = ReportingBox(hub_database, "a"), ReportingBox(hub_database, "b")
    stream = Stream().begin(make_finding(1))
    for each in (first, second):
        each.beat(stream, make_root(1))
        each.send(stream)
    gone = Stream().begin()
    second.send(gone)

    assert {1: "open"} == first.findings()
    assert {1: "not_reported"} == second.findings()
    assert 2 == first.count(member)
    assert 1 == first.count(replica_set)


@pytest.mark.parametrize(
    "body",
    [
        make_finding(-1),
        make_finding(1, opened_at="yesterday"),
        make_finding(1, kind=None),
        make_finding(1, relative_path="\0"),
        make_finding(1, state="resolved"),
        {"id": "1"},
    ],
)
def test_malformed_finding_stores_nothing(nas: ReportingBox, body: JsonObject) -> None:
    """One bad message refuses all of its call, with its number."""
    with pytest.raises(ProtocolError, match="message 2"):
        nas.send(Stream().add(MessageKind.STATE, {"findings": 1}).add(MessageKind.FINDING, body))
    assert {} == nas.findings()


def test_numbers_have_to_follow_each_other(nas: ReportingBox) -> None:
    """A message that is left out in the middle is refused."""
    stream = Stream().begin().add(MessageKind.RUN, {}).add(MessageKind.RUN, {})
    del stream.messages[1]

    with pytest.raises(ProtocolError):
        nas.send(stream)


def test_settled_counts_only_for_the_announced_tree(nas: ReportingBox) -> None:
    """Moving a root to another set asks for its files again."""
    tree = bytes(range(16))
    nas.beat(Stream(), make_root(1, tree=tree))
    with nas.database.transaction() as c:
        c.execute(sa.update(member).values(settled_tree=tree))
    ask: Callable[[JsonObject], list[int]] = lambda root: nas.beat(Stream(), root).trees  # noqa: E731

    assert [] == ask(make_root(1, tree=tree))
    assert [1] == ask(make_root(1, tree=bytes(16)))
    assert [1] == ask(make_root(1, "other", tree=tree))


def test_box_is_in_no_set_that_it_was_not_granted(hub_database: HubDatabase) -> None:
    """G1: its root is one without a set, nobody votes with it, and it learns which name was refused."""
    nas = ReportingBox(hub_database, "nas", Grants(sets=frozenset({"photos"})))
    thief = ReportingBox(hub_database, "thief", Grants(sets=frozenset({"music"})))
    nas.beat(Stream(), make_root(1, "photos"))
    stored = thief.beat(Stream(), make_root(1, "photos", bytes(16)), make_root(2, "music"), make_root(3, None))

    assert (["photos"], []) == (stored.refused, stored.trees)
    assert {("nas", 1, "photos"), ("thief", 1, None), ("thief", 2, "music"), ("thief", 3, None)} == find_places(
        hub_database
    )
    assert [] == nas.beat(Stream(), make_root(1, "photos")).refused


def test_grant_that_was_taken_back_ends_the_membership(hub_database: HubDatabase) -> None:
    """G2: with the next report; the set votes again. Given again, the root is a member as before."""
    photos = Grants(sets=frozenset({"photos"}))
    nas = ReportingBox(hub_database, "nas", photos)
    nas.beat(Stream(), make_root(1, "photos"))
    with hub_database.transaction() as c:
        remove_grants(c, "nas", photos)
    lost = nas.beat(Stream(), make_root(1, "photos"))
    assert (["photos"], {("nas", 1, None)}) == (lost.refused, find_places(hub_database))
    assert 1 == len(lost.sets)
    with hub_database.transaction() as c:
        add_grants(c, "nas", photos)
    assert [] == nas.beat(Stream(), make_root(1, "photos")).refused
    assert {("nas", 1, "photos")} == find_places(hub_database)


def find_places(database: HubDatabase) -> set[tuple[str, int, str | None]]:
    """Return each root, with its box and its set."""
    query = sa.select(box.c.name, member.c.root_id, replica_set.c.name).select_from(
        member.join(box, box.c.id == member.c.box_id).outerjoin(replica_set, replica_set.c.id == member.c.set_id)
    )
    with database.read() as c:
        return {(row[0], row[1], row[2]) for row in c.execute(query)}
