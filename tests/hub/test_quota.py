"""What one box can add to the database of a hub: it ends at box_limit, whatever it adds, and others go on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count

import pytest
import sqlalchemy as sa
from alembic.command import upgrade

from integrity.errors import CallRefused
from integrity.hub import schema
from integrity.hub.boxes import add_box, revoke_box
from integrity.hub.database import HubDatabase
from integrity.hub.findings import find_findings, forget_resolved
from integrity.hub.forgetting import forget_unused
from integrity.hub.ingest import CallingBox, store_heartbeat
from integrity.hub.kinds import HubFindingKind
from integrity.hub.members import update_members
from integrity.hub.migrate import _configure, migrate
from integrity.hub.quota import BoxQuota, count_stored
from integrity.hub.reported import BoxHeartbeat, read_call
from integrity.reporting import protocol
from integrity.reporting.protocol import FIRST_CHAIN, JsonObject, MessageKind
from support.cli import Box
from support.clock import Clock
from support.hub_reports import NOW, Stream, Tree, make_file, make_finding, make_heartbeat, make_root
from support.hub_rows import HubRows
from support.hubserver import ANYWHERE, HubAnswer, HubCaller, HubServerProcess

LIMIT = 3 << 20
PADDING = "x" * 3000


def grow_streams(nas: HubCaller) -> Iterator[HubAnswer]:
    """Begin one stream after the other."""
    while True:
        yield nas.post("messages", Stream().begin().body())


def grow_roots(nas: HubCaller) -> Iterator[HubAnswer]:
    """Report a new root in a new set with each heartbeat."""
    for number in count(1):
        yield nas.post("heartbeat", protocol.encode(make_heartbeat(bytes(16), make_root(number, f"set {number}"))))


def grow_sets(nas: HubCaller) -> Iterator[HubAnswer]:
    """Move the same root from set to set."""
    for number in count(1):
        yield nas.post("heartbeat", protocol.encode(make_heartbeat(bytes(16), make_root(1, f"set {number}"))))


def grow_folders(nas: HubCaller) -> Iterator[HubAnswer]:
    """Send more and more folders, all of them empty, with names of 255 bytes."""
    nas.call("heartbeat", make_heartbeat(bytes(16), make_root(1)))
    for number in count():
        tree = Tree({b"%d" % number * 40 + b"n" * 200 + b"/%d" % at: [] for at in range(100)})
        lines = [part for part in tree.parts() if part["path"]]
        yield nas.post("trees/1/folders", protocol.encode_lines([{"protocol": 1}, *lines]))


def grow_files(nas: HubCaller) -> Iterator[HubAnswer]:
    """Send more and more files."""
    nas.call("heartbeat", make_heartbeat(bytes(16), make_root(1)))
    for number in count():
        tree = Tree({b"%d" % number: [make_file(b"f%d" % at) for at in range(1000)]})
        line = tree.part(b"%d" % number)
        yield nas.post("trees/1/folders", protocol.encode_lines([{"protocol": 1}, line]))


def grow_messages(
    kind: MessageKind, make_body: Callable[[int], JsonObject]
) -> Callable[[HubCaller], Iterator[HubAnswer]]:
    """Send more and more messages of a kind."""

    def grow(nas: HubCaller) -> Iterator[HubAnswer]:
        stream = Stream().begin()
        yield nas.post("messages", stream.body())
        while True:
            first = len(stream.messages) + 1
            for number in range(first, first + 100):
                stream.add(kind, make_body(number))
            yield nas.post("messages", stream.body(first))

    return grow


GROWING = {
    "streams": grow_streams,
    "roots": grow_roots,
    "sets": grow_sets,
    "folders": grow_folders,
    "files": grow_files,
    "findings": grow_messages(MessageKind.FINDING, lambda number: make_finding(number, message=PADDING)),
    "runs": grow_messages(MessageKind.RUN, lambda number: {"id": number, "error": PADDING}),
}


@pytest.fixture
def hub(integrity: Box, hub_url: str) -> Iterator[HubServerProcess]:
    """Run a hub on which a box may store 3 MiB, on each kind of database in turn."""
    with HubServerProcess(integrity, hub_url, f'box_limit = "{LIMIT >> 20}MiB"\n') as server:
        yield server


@pytest.mark.long
@pytest.mark.parametrize("what", GROWING)
def test_box_stores_no_more_than_it_may(hub: HubServerProcess, hub_url: str, what: str) -> None:
    """The answer names the limit and the command of the hub's owner; other boxes report as before."""
    nas, other = hub.add("nas"), hub.add("other")
    statuses = []
    for answer in GROWING[what](nas):
        while answer.status == 429:  # the rate of one box is bounded, too
            pytest.fail("the limit is reached before the rate is")
        statuses.append(answer.status)
        if answer.status != 200:
            break
    database = HubDatabase.open(hub_url)
    with database.read() as c:
        stored = count_stored(c, 1)
    database.close()

    assert (507, "box_limit") == (statuses[-1], answer.object["error"])
    assert "3.0 MiB" in answer.object["message"]
    assert "integrity hub revoke --forget BOX" in answer.object["message"]
    assert len(statuses) > 2
    assert stored < LIMIT * 1.5
    assert 200 == other.post("heartbeat", protocol.encode(make_heartbeat(bytes(16), make_root(1)))).status
    assert 200 == other.post("messages", Stream().begin(make_finding(1)).body()).status


@pytest.fixture
def clock() -> Clock:
    """Return the time of the hub."""
    clock = Clock()
    clock.now = float(NOW)
    return clock


@pytest.fixture
def box_id(hub_database: HubDatabase) -> int:
    """Add a box."""
    with hub_database.transaction() as c:
        add_box(c, "nas", NOW, ANYWHERE)
        return int(c.execute(sa.select(schema.box.c.id)).scalar_one())


def report(database: HubDatabase, box_id: int, *roots: JsonObject) -> None:
    """Store a heartbeat."""
    with database.transaction() as c:
        store_heartbeat(
            c, CallingBox(box_id, "nas", ""), read_call(BoxHeartbeat, make_heartbeat(bytes(16), *roots)), NOW
        )


def count_rows(database: HubDatabase, *tables: sa.Table) -> list[int]:
    with database.read() as c:
        return [c.execute(sa.select(sa.func.count()).select_from(table)).scalar_one() for table in tables]


def test_rows_are_counted_before_a_box_is_refused(hub_database: HubDatabase, box_id: int, clock: Clock) -> None:
    """Years of changes to the same rows do not make a box full; counting again and again is not possible either."""
    quota = BoxQuota(hub_database, LIMIT, clock)
    for _ in range(3):
        quota.charge(box_id, LIMIT)
        clock.now += 601
    quota.charge(box_id, LIMIT)

    with pytest.raises(CallRefused, match="all that it may"):
        quota.charge(box_id, LIMIT)
    clock.now += 600
    quota.charge(box_id, LIMIT)


def test_full_box_may_store_again_when_it_has_less(hub_database: HubDatabase, box_id: int, clock: Clock) -> None:
    """Rows that are there count, whatever was charged before; the hub notes since when."""
    quota = BoxQuota(hub_database, LIMIT, clock)
    quota.charge(box_id, LIMIT)
    report(hub_database, box_id, *(make_root(number) for number in range(LIMIT >> 20)))
    since = sa.select(schema.box_usage.c.full_since)
    with pytest.raises(CallRefused, match="all that it may"):
        quota.charge(box_id, 1)
    with hub_database.transaction() as c:
        assert NOW == c.execute(since).scalar_one()
        c.execute(sa.delete(schema.member))
    clock.now += 600
    quota.charge(box_id, 1)

    with hub_database.read() as c:
        assert None is c.execute(since).scalar_one()


def test_sets_that_nobody_reports_are_forgotten(hub_database: HubDatabase, box_id: int) -> None:
    """With their findings, once these are resolved; a set with a member stays, reported or not."""
    for name in ("first", "second", "third"):
        report(hub_database, box_id, make_root(1, name))
    report(hub_database, box_id)
    with hub_database.transaction() as c:
        ids = {row.name: row.id for row in c.execute(sa.select(schema.replica_set))}
        rows = HubRows(c, NOW)
        rows.add_finding(HubFindingKind.REPLICA_MISSING, b"a", headline="x", set_id=ids["first"])
        ended = {"resolved_at": NOW, "state": "resolved"}
        rows.add_finding(HubFindingKind.REPLICA_MISSING, b"a", headline="x", set_id=ids["second"], **ended)
    forget_unused(hub_database)

    with hub_database.read() as c:
        assert {"first", "third"} == set(c.execute(sa.select(schema.replica_set.c.name)).scalars())
        assert [ids["first"]] == [one.set_id for one in find_findings(c)]


def test_set_that_is_reported_at_the_same_time_is_kept(hub_database: HubDatabase, box_id: int) -> None:
    """A heartbeat that has found its set, and not stored its root yet, does not lose it."""
    if not hub_database.is_postgres:
        pytest.skip("SQLite has one writer at a time")
    with hub_database.transaction() as c:
        c.execute(sa.insert(schema.replica_set).values(name="photos", created_at=NOW))
    beat = read_call(BoxHeartbeat, make_heartbeat(bytes(16), make_root(1, "photos")))
    with hub_database.transaction() as c:
        c.execute(sa.select(schema.replica_set.c.id).with_for_update(read=True, key_share=True)).all()
        forget_unused(hub_database)
        update_members(c, box_id, beat.roots, NOW)

    assert [1, 1] == count_rows(hub_database, schema.replica_set, schema.member)


def test_folders_that_nobody_has_are_forgotten(hub: HubServerProcess, hub_url: str) -> None:
    """A box that sends other folders each time leaves no rows behind; those of its last tree stay, above and below."""
    nas = hub.add("nas")
    database = HubDatabase.open(hub_url)
    nas.call("heartbeat", make_heartbeat(bytes(16), make_root(1)))
    for number in range(3):
        nas.send_tree(Tree({b"%d/a/b" % number: [make_file(b"x")]}).parts())
    forget_unused(database)

    with database.read() as c:
        assert {b"", b"2", b"2/a", b"2/a/b"} == {
            bytes(path) for path in c.execute(sa.select(schema.folder.c.path)).scalars()
        }
    database.close()


def test_resolved_findings_of_a_set_are_bounded(hub_database: HubDatabase, box_id: int) -> None:
    """The newest are kept; open ones always."""
    report(hub_database, box_id, make_root(1, "photos"), make_root(2, "music"))
    with hub_database.transaction() as c:
        rows = HubRows(c, NOW)
        for number in range(9):
            ended = {"resolved_at": NOW, "state": "resolved"} if number else {}
            rows.add_finding(HubFindingKind.REPLICA_MISSING, b"%d" % number, headline="x", set_id=1, **ended)
        rows.add_finding(HubFindingKind.REPLICA_MISSING, b"other", headline="x", set_id=2, resolved_at=NOW)
        forget_resolved(c, schema.finding.c.set_id == 1, most=3)

        assert [b"0", b"6", b"7", b"8", b"other"] == [one.path for one in find_findings(c)]


@pytest.mark.long
def test_forgotten_box_leaves_nothing_but_its_name(hub: HubServerProcess, hub_url: str) -> None:
    """Its token is revoked; a new one begins with an empty store."""
    nas = hub.add("nas")
    nas.call("heartbeat", make_heartbeat(bytes(16), make_root(1)))
    nas.send_tree(Tree({b"a": [make_file(b"x")]}).parts())
    nas.post("messages", Stream().begin(make_finding(1)).add(MessageKind.RUN, {}).body())
    database = HubDatabase.open(hub_url)
    hub.command("hub", "revoke", "--forget", "nas")
    with database.read() as c:
        stored = count_stored(c, 1)
    database.close()

    assert 0 == stored
    assert 401 == nas.post("heartbeat", b"{}").status
    again = hub.add("nas")
    assert 200 == again.post("messages", Stream().begin(make_finding(1)).body()).status


def test_revoking_twice_needs_something_to_forget(hub_database: HubDatabase, box_id: int) -> None:
    """A box that was revoked before can still be forgotten."""
    with hub_database.transaction() as c:
        revoke_box(c, "nas", NOW)
        revoke_box(c, "nas", NOW, forgets=True)

    report(hub_database, box_id)


def test_database_of_the_first_version_is_counted_when_boxes_report(empty_url: str, clock: Clock) -> None:
    """What was stored before there was a limit counts, too."""
    database = HubDatabase.open(empty_url, any_revision=True)
    with database.transaction() as c:
        upgrade(_configure(c), "0001")
        values = {"name": "nas", "token_hash": b"x", "created_at": NOW, "last_number": 0, "last_chain": FIRST_CHAIN}
        c.execute(sa.insert(schema.box).values(values))
        texts = {"url": "", "excludes": "[]", "policy": "mutable"}
        root = {"box_id": 1, "path": b"/srv", **texts, "verify_every_s": 1, "file_count": 0, "byte_count": 0}
        member = sa.table("member", *map(sa.column, (*root, "root_id")))
        c.execute(sa.insert(member), [root | {"root_id": number} for number in range(LIMIT >> 20)])

    assert "0001" == migrate(database)
    with pytest.raises(CallRefused, match="all that it may"):
        BoxQuota(database, LIMIT, clock).charge(1, 1)
    database.close()
