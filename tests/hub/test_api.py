"""A real hub, called over HTTP: what boxes send, and what an attacker would."""

from __future__ import annotations

import json
import socket
from concurrent.futures import ThreadPoolExecutor

import pytest
import sqlalchemy as sa
import zstandard

from integrity.hub.database import HubDatabase
from integrity.hub.schema import box, box_event, replica_set
from integrity.reporting import protocol
from integrity.reporting.protocol import MessageKind
from support.hub_reports import Stream, Tree, make_file, make_finding, make_heartbeat, make_root
from support.hubserver import HubCaller, HubServerProcess
from support.waiting import wait_until

TREE = Tree({b"": [make_file(b"a")], b"\xff<b>": [make_file(b"b"), make_file(b"c\n")]})


def test_box_reports_all_it_has(hub: HubServerProcess, hub_url: str) -> None:
    """Heartbeat, messages, tree and settling go through, the set is voted on, and the check finds nothing wrong."""
    nas, stream = hub.add("nas"), Stream().begin(make_finding(1))
    root = make_root(1, tree=TREE.top)
    first = nas.call("heartbeat", make_heartbeat(stream.id, root, newest=2))
    sent = nas.post("messages", stream.body())
    compared = nas.call("trees/1/compare", {"protocol": 1}, TREE.compare_line(b""))
    stored = nas.send_tree(TREE.parts())
    settled = nas.call("trees/1/settle", {"protocol": 1, "tree": TREE.top.hex()})
    again = nas.call("heartbeat", make_heartbeat(stream.id, root, newest=2))

    assert (None, [1]) == (first["last"], first["trees"])
    assert {"last": 2} == sent.object
    assert {"own": [0], "below": [0]} == compared
    assert {"stored": 2} == stored
    assert {"settled": True} == settled
    assert (2, []) == (again["last"], again["trees"])
    database = HubDatabase.open(hub_url)
    wait_until(lambda: has_voted(database), "a vote")
    database.close()
    assert "all is well" in hub.command("hub", "check")
    assert "; reported " in hub.command("hub", "list")


def has_voted(database: HubDatabase) -> bool:
    with database.read() as c:
        return c.execute(sa.select(replica_set.c.voted_at)).scalar() is not None


def test_unknown_token_reaches_nothing(hub: HubServerProcess) -> None:
    """Without one no call is answered, and its body is not read; nor can tokens be guessed one after the other."""
    for token in ("", "integrity-box-" + "A" * 43, "x" * 5000, "' OR 1=1 --"):
        stranger = hub.caller(token)
        for path in ("heartbeat", "messages", "trees/1/folders"):
            answer = stranger.post(path, b"x" * 1000)
            assert (401, "unknown_token") == (answer.status, answer.object["error"])
            stranger.close()
    assert 429 in {hub.caller("integrity-box-guess").post("heartbeat", b"{}").status for _ in range(30)}


def test_strangers_lock_no_box_of_their_address_out(hub: HubServerProcess) -> None:
    """Boxes behind one router, or one proxy, have one address. A box that was added since gets through as well."""
    nas, stranger = hub.add("nas"), hub.caller("integrity-box-" + "A" * 43)
    statuses = [stranger.post("heartbeat", b"{}").status for _ in range(25)]
    beat = protocol.encode(make_heartbeat(bytes(16)))

    assert (401, 429) == (statuses[0], statuses[-1])
    assert 200 == nas.post("heartbeat", beat).status
    assert 200 == hub.add("late").post("heartbeat", beat).status
    assert 429 in {stranger.post("heartbeat", b"{}").status for _ in range(25)}
    hub.command("hub", "revoke", "nas")
    assert nas.post("heartbeat", beat).status in (401, 429)


def test_revoked_token_is_refused_at_once(lasting_hub: HubServerProcess) -> None:
    """Revoking works without a restart; what the box reported stays."""
    nas = lasting_hub.add("revoked")
    nas.call("heartbeat", make_heartbeat(bytes(16)))
    lasting_hub.command("hub", "revoke", "revoked")

    assert 401 == nas.post("heartbeat", protocol.encode(make_heartbeat(bytes(16)))).status
    assert "revoked: revoked" in lasting_hub.command("hub", "list")


def test_box_speaks_for_itself_only(lasting_hub: HubServerProcess) -> None:
    """A box can't write to the root of another one, whatever number it names."""
    first, second = lasting_hub.add("first"), lasting_hub.add("second")
    first.call("heartbeat", make_heartbeat(bytes(16), make_root(1, tree=TREE.top)))
    second.call("heartbeat", make_heartbeat(bytes(16), make_root(2, None)))

    for root in (1, 2, 3):
        second.call(f"trees/{root}/folders", {"protocol": 1}, *TREE.parts(), expect=404)
        second.call(f"trees/{root}/settle", {"protocol": 1, "tree": TREE.top.hex()}, expect=404)


MALFORMED = [
    ("heartbeat", b""),
    ("heartbeat", b"{"),
    ("heartbeat", b"[]"),
    ("heartbeat", b"\xff\xfe"),
    ("heartbeat", b'{"protocol": 1}'),
    ("heartbeat", b'{"protocol": 99}'),
    ("heartbeat", b'{"protocol": ' + b"1" * 5000 + b"}"),
    ("heartbeat", b'{"a":' * 5000 + b"1" + b"}" * 5000),
    ("messages", b""),
    ("messages", b"\n\n\n"),
    ("messages", b'{"protocol": 1}\n' * 10_002),
    ("messages", b'{"protocol": 1, "stream": "", "first": 1, "chain": ""}'),
    ("trees/1/compare", b'{"protocol": 1}\n{"path": 5}'),
    ("trees/1/folders", b'{"protocol": 1}\n{"path": "a"}'),
    ("trees/1/settle", b'{"protocol": 1, "tree": 5}'),
]


@pytest.fixture(scope="module")
def added(lasting_hub: HubServerProcess) -> HubCaller:
    """Add a box."""
    return lasting_hub.add("nas")


@pytest.fixture
def nas(added: HubCaller) -> HubCaller:
    """Let the box have one root, whatever it said last."""
    added.call("heartbeat", make_heartbeat(bytes(16), make_root(1, tree=TREE.top)))
    return added


def test_malformed_body_is_refused(nas: HubCaller) -> None:
    """What is not of the protocol gets an answer that says what is wrong, and the connection goes on."""
    for path, body in MALFORMED:
        answer = nas.post(path, body)
        assert (400, "malformed") == (answer.status, answer.object["error"]), (path, body[:100])


def test_deep_finding_is_refused(nas: HubCaller) -> None:
    """An object that can be read but not written again refuses its call."""
    deep: object = 1
    for _ in range(900):
        deep = {"a": deep}
    stream = Stream().begin().add(MessageKind.RUN, {"deep": "@"})
    body = stream.body().replace(b'"@"', json.dumps(deep).encode())

    assert nas.post("messages", body).status in (200, 400)


def test_bomb_is_refused(nas: HubCaller) -> None:
    """A small body that becomes a large one, one that is large, damaged or packed otherwise, and one in chunks."""
    bomb = zstandard.compress(bytes(4 << 30 >> 4))
    assert len(bomb) < 64 << 10

    assert 413 == nas.post("heartbeat", bomb, Content_Encoding="zstd").status
    nas.close()
    assert b" 413 " in begin(nas, f"Content-Length: {protocol.MOST_BODY_BYTES + 1}")
    assert b" 411 " in begin(nas, "Transfer-Encoding: chunked")
    assert 400 == nas.post("heartbeat", b"no zstd", Content_Encoding="zstd").status
    assert 415 == nas.post("heartbeat", b"{}", Content_Encoding="gzip").status
    nas.close()
    assert 200 == nas.post("heartbeat", protocol.encode(make_heartbeat(bytes(16)))).status


def test_other_methods_and_paths_are_refused(nas: HubCaller) -> None:
    """There is nothing to read, and nothing beside the calls."""
    assert 404 == nas.post("nothing", b"{}").status
    nas.close()
    assert b" 405 " in begin(nas, "X: x", method="GET")


def begin(nas: HubCaller, header: str, *, method: str = "POST") -> bytes:
    """Send the head of a request without its body, and return the first bytes of the answer."""
    with socket.create_connection(("127.0.0.1", nas.port)) as raw:
        head = f"{method} /hub/v1/heartbeat HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {nas.token}\r\n"
        raw.sendall(f"{head}{header}\r\n\r\n".encode())
        return raw.recv(100)


def test_repeated_calls_store_once(lasting_hub: HubServerProcess) -> None:
    """Sixteen threads that send the same messages at the same time store each once."""
    token = lasting_hub.add("repeating").token
    stream = Stream().begin()
    for number in range(50):
        stream.add(MessageKind.RUN, {"number": number})
    callers = [lasting_hub.caller(token) for _ in range(16)]
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda one: one.post("messages", stream.body()), callers))

    assert {200} == {answer.status for answer in answers}
    database = HubDatabase.open(lasting_hub.database)
    mine = sa.select(sa.func.count()).select_from(box_event).join(box).where(box.c.name == "repeating")
    with database.read() as c:
        assert 50 == c.execute(mine).scalar_one()
    database.close()
