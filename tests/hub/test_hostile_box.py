"""What a stolen token can send over HTTP: refused with a reason, or harmless; never a defect of the hub."""

from __future__ import annotations

import random
from typing import Any

import sqlalchemy as sa

from integrity.hub.database import HubDatabase
from integrity.hub.findings import find_findings
from integrity.hub.schema import replica_set
from integrity.reporting import protocol
from integrity.reporting.protocol import JsonObject, MessageKind, message_object
from support.hub_reports import Stream, Tree, make_file, make_finding, make_heartbeat, make_root
from support.hubserver import HubCaller, HubServerProcess
from support.waiting import wait_until

TREE = Tree({b"": [make_file(b"a")]})
FAR = (1 << 63) - 1
NOISE = random.Random(7)
"""Text that no index can compress."""


def make_noise(count: int) -> str:
    """Return so many characters of three bytes each."""
    return "".join(chr(NOISE.randrange(0x4E00, 0x9FFF)) for _ in range(count))


ODD_TEXTS: tuple[Any, ...] = ("\0", "a\0b", "\ud800", "\udcff", "\u202e", "<script>", "x" * 100_000, make_noise(1000))
ODD_NUMBERS: tuple[Any, ...] = (-1, True, 1.5, 1 << 63, FAR, 10**400, "1", None, [], float("nan"), float("inf"))

ODD_FILES: list[dict[str, Any]] = [
    {},
    {"recorded_at": FAR, "verified_at": FAR},
    {"recorded_at": -FAR, "verified_at": -FAR, "mtime_ns": -FAR},
    {"size_bytes": FAR, "mtime_ns": FAR},
]


def make_odd_heartbeats() -> list[JsonObject]:
    """Return heartbeats with one odd value each."""
    beats = [
        make_heartbeat(bytes(16), **{key: value})
        for key in ("hostname", "version", "sentence", "state")
        for value in (*ODD_TEXTS, 5)
    ]
    beats += [make_heartbeat(bytes(16), **{key: value}) for key in ("sent_at", "newest") for value in ODD_NUMBERS]
    texts: list[dict[str, Any]] = [
        {key: value} for key in ("path", "set", "url", "policy") for value in (*ODD_TEXTS, make_noise(1300), 5)
    ]
    numbers = ("root", "verify_every_s", "files", "bytes", "oldest_verified_at")
    texts += [{key: value} for key in numbers for value in ODD_NUMBERS]
    patterns: list[Any] = [["\0", "\ud800"], [5], ["["], ["a"] * 5000, {}]
    texts += [{"excludes": one} for one in patterns]
    return [*beats, *(make_heartbeat(bytes(16), make_root(1, **changes)) for changes in texts)]


def make_odd_findings() -> list[JsonObject]:
    """Return findings with one odd value each."""
    words = "kind", "state", "certainty", "relative_path"
    texts: list[dict[str, Any]] = [{key: value} for key in words for value in ODD_TEXTS]
    texts += [{"relative_path": make_noise(1300)}]
    texts += [{key: value} for key in ("id", "root_id") for value in ODD_NUMBERS]
    texts += [{"opened_at": value} for value in ("", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", FAR)]
    texts += [{"blocks": value} for value in ODD_NUMBERS]
    return [make_finding(1, **changes) for changes in texts]


def make_odd_messages() -> list[bytes]:
    """Return bodies of messages with one odd value each."""
    streams = [Stream().begin(one) for one in make_odd_findings()]
    streams += [Stream().add(MessageKind.STATE, {"findings": value}) for value in ODD_NUMBERS]
    streams += [
        Stream().begin().add(kind, {"root_id": value})
        for kind in (MessageKind.RUN, MessageKind.ACTION)
        for value in ODD_NUMBERS
    ]
    bodies = [one.body() for one in streams]
    for name in ("n", "at"):
        for value in ODD_NUMBERS:
            stream = Stream().begin().add(MessageKind.RUN, {})
            lines = [stream.header(), *(message_object(one) for one in stream.messages[:1])]
            bodies.append(protocol.encode_lines([*lines, message_object(stream.messages[1]) | {name: value}]))
    return bodies


def test_odd_values_are_refused_or_stored(lasting_hub: HubServerProcess) -> None:
    """No text, number or time of a heartbeat or a message is a defect of the hub."""
    boxes = [lasting_hub.add(f"box{number}") for number in range(6)]
    odd = [("heartbeat", protocol.encode(one)) for one in make_odd_heartbeats()]
    odd += [("messages", one) for one in make_odd_messages()]

    found = [(path, body[:300], boxes[at % 6].post(path, body).status) for at, (path, body) in enumerate(odd)]

    assert [] == [one for one in found if one[2] not in (200, 400, 409)]


def test_number_in_a_path_that_no_root_has_is_not_found(lasting_hub: HubServerProcess) -> None:
    """A number that no database has names no root, for a stranger as well."""
    nas = lasting_hub.add("numbers")

    for number in ("9" * 30, "9" * 5000, "9" * 19):
        for call in ("compare", "folders", "settle"):
            line: JsonObject = {"protocol": 1, "tree": TREE.top.hex()}
            assert 404 == nas.post(f"trees/{number}/{call}", protocol.encode(line)).status
            nas.close()


def test_odd_trees_are_refused_or_stored(lasting_hub: HubServerProcess) -> None:
    """No name or number of a file is a defect of the hub."""
    nas = lasting_hub.add("trees")
    nas.call("heartbeat", make_heartbeat(bytes(16), make_root(1, tree=TREE.top)))
    names = [make_noise(count).encode()[:length] for count, length in ((300, 800), (1300, 3900), (1360, 4080))]
    trees = [Tree({b"": [make_file(name)]}) for name in names] + [Tree({name: []}) for name in names]
    trees += [Tree({b"": [make_file(b"a")._replace(**changes)]}) for changes in ODD_FILES]

    lines = [protocol.encode_lines([{"protocol": 1}, *one.parts()]) for one in trees]
    found = [(body[:200], nas.post("trees/1/folders", body).status) for body in lines]

    assert [] == [one for one in found if one[1] not in (200, 400)]


ODD_BODIES: list[dict[str, Any]] = [
    {},
    {"blocks": [10**4000, -1, True], "block_size_bytes": 10**4000},
    {"ranges": [[10**4300 - 1, 10**4300 - 1], [-1, -1], [FAR, FAR]], "message": "\0\ud800"},
    {"message": "x" * 1_000_000, "opened_at": "9999-12-31T23:59:59Z"},
]


def send_all(box: HubCaller, tree: Tree, stream: Stream, root: JsonObject, **changes: Any) -> None:
    """Report a root as a box does."""
    box.call("heartbeat", make_heartbeat(stream.id, root | {"tree": tree.top.hex()}, **changes))
    assert 200 == box.post("messages", stream.body()).status
    box.send_tree(tree.parts())
    box.call("trees/1/settle", {"protocol": 1, "tree": tree.top.hex()})


def test_odd_member_does_not_stop_the_votes_of_others(hub: HubServerProcess, hub_url: str) -> None:
    """Whatever one member says of its files, clock, patterns and damage: the set is voted on."""
    names = [b"f%d" % number for number in range(len(ODD_FILES))]
    patterns = ["*a" * 50 + "b", "a/**/" * 50 + "b", "*" * 4000, "?*" * 2000, "[" * 50, "(" * 4000]
    honest = Tree({b"": [make_file(name) for name in names], b"a" * 200: [make_file(b"a" * 200)]})
    files = [make_file(name, b"y")._replace(**odd) for name, odd in zip(names, ODD_FILES, strict=True)]
    files += [make_file(b"only here %d" % at)._replace(**odd) for at, odd in enumerate(ODD_FILES)]
    bodies = [make_finding(at, f"f{at}", **body) for at, body in enumerate(ODD_BODIES)]
    nas, odd = hub.add("nas"), hub.add("odd")
    send_all(nas, honest, Stream().begin(), make_root(1))
    send_all(odd, Tree({b"": files}), Stream().begin(*bodies), make_root(1, excludes=patterns), sent_at=FAR)
    database = HubDatabase.open(hub_url)

    def is_judged() -> bool:
        with database.read() as c:
            row = c.execute(sa.select(replica_set)).one()
            return row.voted_at is not None and len(list(find_findings(c))) > len(ODD_FILES) - 1

    wait_until(is_judged, "a vote")
    database.close()
    assert 0 == hub.log.count("Traceback")


def test_odd_worker_is_refused_or_given_work(lasting_hub: HubServerProcess) -> None:
    """No value of a worker's first call or of its trouble is a defect of the hub, or of the trees of others."""
    box = lasting_hub.add("worker")
    right: JsonObject = {"protocol": 1, "tree": "archive", "inode": 2, "verify_every_s": 86400, "settings": {}}
    odd = [("join", right | {"tree": text}) for text in ODD_TEXTS]
    odd += [("join", right | {key: value}) for key in ("inode", "verify_every_s") for value in (*ODD_NUMBERS, 0)]
    settings: list[Any] = [{"\0": "\0"}, {"x": "x" * 2_000_000}, [], {"a": float("nan")}]
    odd += [("join", right | {"settings": one}) for one in settings]
    worker = box.post("shards/join", protocol.encode(right)).object.get("worker", 0)
    taken = box.post("shards/take", protocol.encode({"protocol": 1, "worker": worker})).object
    mine = {"protocol": 1, "worker": worker, "job": taken["task"]["job"] if "task" in taken else 0}
    odd += [("beat", mine | {"done_bytes": value}) for value in ODD_NUMBERS]
    odd += [("release", mine | {"trouble": text}) for text in ODD_TEXTS]

    found = [(path, str(body)[:200], box.post(f"shards/{path}", protocol.encode(body)).status) for path, body in odd]

    assert [] == [one for one in found if one[2] not in (200, 400, 409)]
    assert 0 == lasting_hub.log.count("Traceback")
