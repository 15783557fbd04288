"""A real hub, called over HTTP: what boxes send, and what an attacker would."""

from __future__ import annotations

import json
import socket
from concurrent.futures import ThreadPoolExecutor

import pytest
import sqlalchemy as sa
import zstandard

from integrity.hub.database import HubDatabase
from integrity.hub.schema import box_event, replica_set
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
    assert "nas: reported" in hub.command("hub", "list")


def has_voted(database: HubDatabase) -> bool:
    with database.read() as c:
        return c.execute(sa.select(replica_set.c.voted_at)).scalar() is not None


def test_unknown_token_reaches_nothing(hub: HubServerProcess) -> None:
    """Without a token of a box no call is answered, and its body is not read."""
    for token in ("", "integrity-box-" + "A" * 43, "x" * 5000, "' OR 1=1 --"):
        stranger = hub.caller(token)
        for path in ("heartbeat", "messages", "trees/1/folders"):
            answer = stranger.post(path, b"x" * 1000)
            assert (401, "unknown_token") == (answer.status, answer.object["error"])
            stranger.close()


def test_revoked_token_is_refused_at_once(hub: HubServerProcess) -> None:
    """Revoking works without a restart; what the box reported stays."""
    nas = hub.add("nas")
    nas.call("heartbeat", make_heartbeat(bytes(16)))
    hub.command("hub", "revoke", "nas")

    assert 401 == nas.post("heartbeat", protocol.encode(make_heartbeat(bytes(16)))).status
    assert "nas: revoked" in hub.command("hub", "list")


def test_box_speaks_for_itself_only(hub: HubServerProcess) -> None:
    """A box can't write to the root of another one, whatever number it names."""
    first, second = hub.add("first"), hub.add("second")
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


def test_malformed_body_is_refused(hub_once: HubCaller) -> None:
    """What is not of the protocol gets an answer that says what is wrong, and the connection goes on."""
    for path, body in MALFORMED:
        answer = hub_once.post(path, body)
        assert (400, "malformed") == (answer.status, answer.object["error"]), (path, body[:100])


@pytest.fixture
def hub_once(hub: HubServerProcess) -> HubCaller:
    """Add a box with one root."""
    nas = hub.add("nas")
    nas.call("heartbeat", make_heartbeat(bytes(16), make_root(1, tree=TREE.top)))
    return nas


def test_deep_finding_is_refused(hub_once: HubCaller) -> None:
    """An object that can be read but not written again refuses its call."""
    deep: object = 1
    for _ in range(900):
        deep = {"a": deep}
    stream = Stream().begin().add(MessageKind.RUN, {"deep": "@"})
    body = stream.body().replace(b'"@"', json.dumps(deep).encode())

    assert hub_once.post("messages", body).status in (200, 400)


def test_bomb_is_refused(hub: HubServerProcess, hub_once: HubCaller) -> None:
    """A small body that becomes a large one is refused, as is one that is large, damaged, or packed otherwise."""
    bomb = zstandard.compress(bytes(4 << 30 >> 4))
    assert len(bomb) < 64 << 10

    assert 413 == hub_once.post("heartbeat", bomb, Content_Encoding="zstd").status
    hub_once.close()
    assert b" 413 " in begin_post(hub, hub_once, f"Content-Length: {protocol.MOST_BODY_BYTES + 1}")
    assert 400 == hub_once.post("heartbeat", b"no zstd", Content_Encoding="zstd").status
    assert 415 == hub_once.post("heartbeat", b"{}", Content_Encoding="gzip").status
    hub_once.close()
    assert 200 == hub_once.post("heartbeat", protocol.encode(make_heartbeat(bytes(16)))).status


def test_other_methods_and_paths_are_refused(hub: HubServerProcess) -> None:
    """There is nothing to read, and nothing beside the calls."""
    nas = hub.add("nas")
    assert 404 == nas.post("nothing", b"{}").status
    nas.close()
    with socket.create_connection(("127.0.0.1", hub.port)) as raw:
        raw.sendall(b"GET /hub/v1/heartbeat HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b" 405 " in raw.recv(100)


def test_body_without_a_length_is_refused(hub: HubServerProcess) -> None:
    """A body in chunks could be of any size."""
    assert b" 411 " in begin_post(hub, hub.add("nas"), "Transfer-Encoding: chunked")


def begin_post(hub: HubServerProcess, nas: HubCaller, header: str) -> bytes:
    """Send the head of a request without its body, and return the first bytes of the answer."""
    with socket.create_connection(("127.0.0.1", hub.port)) as raw:
        head = f"POST /hub/v1/heartbeat HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {nas.token}\r\n"
        raw.sendall(f"{head}{header}\r\n\r\n".encode())
        return raw.recv(100)


def test_repeated_calls_store_once(hub: HubServerProcess, hub_url: str) -> None:
    """Sixteen threads that send the same messages at the same time store each once."""
    nas = hub.add("nas")
    stream = Stream().begin()
    for number in range(50):
        stream.add(MessageKind.RUN, {"number": number})
    callers = [hub.caller(nas.token) for _ in range(16)]
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda one: one.post("messages", stream.body()), callers))

    assert {200} == {answer.status for answer in answers}
    database = HubDatabase.open(hub_url)
    with database.read() as c:
        assert 50 == c.execute(sa.select(sa.func.count()).select_from(box_event)).scalar_one()
    database.close()


def test_strangers_have_to_wait(hub: HubServerProcess) -> None:
    """Tokens can't be guessed one after the other."""
    statuses = [hub.caller("integrity-box-guess").post("heartbeat", b"{}").status for _ in range(30)]

    assert 401 == statuses[0]
    assert 429 == statuses[-1]
