"""What a hostile hub may answer: the box asks no more than it would, stores no more than it can, and goes on."""

from __future__ import annotations

import io
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from integrity.config import parse_config
from integrity.errors import HubAway, HubError, ProtocolError
from integrity.jobs.report import Stop
from integrity.jobs.shards.messages import (
    PackedDamaged,
    ShardTask,
    digest_file,
    pack_file,
    to_path,
    unpack_file,
    write_message,
)
from integrity.jobs.shards.tree_calls import ShardClient, TreeCalls, read_seconds
from integrity.jobs.shards.worker import ShardWorker, WorkerSettings
from integrity.reporting.client import HubClient
from integrity.reporting.protocol import read_indexes
from support.servers import Answer, HttpServer, Request
from support.waiting import wait_until

TOKEN = "integrity-box-" + "A" * 43


def serving(answer: Answer) -> HttpServer:
    """Answer every call the same."""
    return HttpServer(lambda _: answer)


@contextmanager
def dripping(begin: bytes) -> Iterator[tuple[str, threading.Event]]:
    """Answer one call with ``begin`` and a byte now and then; yield the URL, and an event: the caller hung up."""
    hung_up, is_over = threading.Event(), threading.Event()

    def drip() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(1 << 16)
            try:
                connection.sendall(begin)
                while not is_over.wait(0.05):
                    connection.sendall(b"0")
            except OSError:
                hung_up.set()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=drip)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", hung_up
        is_over.set()
        thread.join()


TLS_RECORD = b"\x16\x03\x03\x40\x00"
"""The head of a part of a handshake, with 16 KiB to come."""


@pytest.mark.parametrize(
    ("scheme", "begin"),
    [
        ("http", b""),
        ("http", b"HTTP/1.1 200 OK\r\nX: "),
        ("http", b"HTTP/1.1 200 OK\r\nContent-Length: 999999\r\n\r\n"),
        ("https", TLS_RECORD),
    ],
)
def test_hub_that_drips_holds_nobody(scheme: str, begin: bytes) -> None:
    """A byte now and then is no answer: the call ends after its time, and so does its thread."""
    with dripping(begin) as (url, hung_up):
        client = HubClient(url.replace("http", scheme), TOKEN, timeout_s=0.5)
        with pytest.raises(HubAway, match="no answer in time"):
            client.call("heartbeat", b"{}")

        assert hung_up.wait(10)


@pytest.mark.parametrize("after", ["9" * 5000, "9" * 9, "-1", "1e9", "\u0661", "nan"])
def test_retry_after_of_any_length_is_an_error_of_the_hub(after: str) -> None:
    """A year, or a number that Python refuses to read, is neither waited for nor a defect of the box."""
    headers = (("Retry-After", after.encode().decode("latin-1")),)
    with serving(Answer(503, b"{}", headers)) as hub:
        client = HubClient(hub.url, TOKEN, pause=lambda _: True)
        with pytest.raises(HubError):
            client.call("heartbeat", b"{}")
        client.close()


def test_redirect_is_not_followed() -> None:
    """The token goes to the address that the owner wrote, to no other."""
    with serving(Answer(body=b"{}")) as other, serving(Answer(307, headers=(("Location", other.url),))) as hub:
        client = HubClient(hub.url, TOKEN)
        with pytest.raises(HubError, match="307"):
            client.call("heartbeat", b"{}")
        client.close()


def test_line_that_is_named_twice_is_refused() -> None:
    """Or each answer would multiply the folders that the box asks about next."""
    with pytest.raises(ProtocolError):
        read_indexes({"below": [0] * 1000}, "below", 1)


def test_endless_catalog_is_not_stored() -> None:
    """What the hub sends can't fill the disk of the box."""
    file = io.BytesIO()
    with serving(Answer(body=bytes(4 << 20))) as hub:
        client = ShardClient(HubClient(hub.url, TOKEN), lambda _: True)
        with pytest.raises(ProtocolError):
            client.receive_file("fetch", {}, file, lambda: None, most_bytes=1 << 20)
        client.hub.close()

    assert len(file.getvalue()) <= 1 << 20


def test_catalog_that_unpacks_to_too_much_is_refused(tmp_path: Path) -> None:
    """Neither can what it unpacks to."""
    (tmp_path / "bomb").write_bytes(bytes(4 << 20))
    target = tmp_path / "catalog.db"
    with open(pack_file(str(tmp_path / "bomb").encode()), "rb") as file, pytest.raises(PackedDamaged):
        unpack_file(file, str(target).encode(), digest_file(file), most_bytes=1 << 20)

    assert target.stat().st_size <= 1 << 20


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-1", "0", "1e308", "1" + "0" * 400, "true", '"1"', "null", "[]"])
def test_impossible_time_to_wait_is_the_usual_one(text: str) -> None:
    """The hub can neither stop the worker nor have it ask without a pause."""
    assert 60.0 == read_seconds({"wait_s": json.loads(text)}, "wait_s", 60.0)


class Refusing:
    """A hub that lets a worker come, gives it a job, and says of all else that it is not its own. Counts the calls."""

    def __init__(self, refused: set[str]) -> None:
        self.refused = refused
        self.calls: list[tuple[str, float]] = []

    def answer(self, request: Request) -> Answer:
        """Answer a call."""
        call = request.path.rpartition("/")[2]
        self.calls.append((call, time.monotonic()))
        if call in self.refused:
            return Answer(409, b'{"error": "not_yours", "message": "of another worker"}')
        task = ShardTask(1, None, 0, None, ("",), (), 0, 0, 60, 60, 1, 1)
        return Answer(body=json.dumps({"worker": 1, "task": write_message(task), "beat_s": 0.1}).encode())


@pytest.mark.parametrize("refused", [{"take"}, {"beat", "survey", "store"}])
def test_endless_refusals_are_asked_for_less_and_less(tmp_path: Path, refused: set[str]) -> None:
    """A worker goes on, for the hub may have forgotten it, but not without a pause."""
    (tmp_path / "tree").mkdir()
    hub, stop = Refusing(refused), Stop()
    with HttpServer(hub.answer) as server:
        root = f'[[root]]\npath = "{tmp_path}/tree"\nshared = "archive"\n'
        config = parse_config(f'catalog = "{tmp_path}/catalog.db"\n{root}'.encode(), "test")
        client = ShardClient(HubClient(server.url, TOKEN), stop.wait)
        settings = WorkerSettings(str(tmp_path / "work").encode())
        worker = ShardWorker(TreeCalls(client, config, config.roots[0], lambda _: {}), settings, stop)
        thread = threading.Thread(target=worker.run)
        thread.start()
        wait_until(lambda: [call for call, _ in hub.calls].count("take") == 6, "six jobs")
        stop.set()
        thread.join(20)
        client.hub.close()
    takes = [at for call, at in hub.calls if call == "take"]

    assert not thread.is_alive()
    assert takes[5] - takes[0] > 0.1 + 0.2 + 0.4 + 0.8 + 1.6 - 0.1


@pytest.mark.parametrize("path", ["../x", "/etc", "a/../..", "a//b", ".", "a/\0", "a/", "\ud800"])
def test_folder_out_of_the_tree_is_refused(path: str) -> None:
    """No folder of a lease leads out of the tree; one that stands for no bytes is no defect of the worker."""
    with pytest.raises(ProtocolError):
        to_path(path)
