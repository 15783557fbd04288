"""What a hostile hub may answer: the box asks no more than it would, stores no more than it can, and goes on."""

from __future__ import annotations

import io
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from integrity.errors import HubAway, HubError, ProtocolError
from integrity.jobs.shards.client import ShardClient
from integrity.jobs.shards.messages import to_path
from integrity.jobs.shards.packing import PackedDamaged, digest_file, pack_file, unpack_file
from integrity.jobs.shards.worker import read_seconds
from integrity.reporting.client import HubClient
from integrity.reporting.protocol import read_indexes

TOKEN = "integrity-box-" + "A" * 43


@contextmanager
def serving(status: int, body: bytes, **headers: str) -> Iterator[str]:
    """Answer every call the same; yield the URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name.replace("_", "-"), value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


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


@pytest.mark.parametrize(
    "begin", [b"", b"HTTP/1.1 200 OK\r\nX: ", b"HTTP/1.1 200 OK\r\nContent-Length: 999999\r\n\r\n"]
)
def test_hub_that_drips_holds_nobody(begin: bytes) -> None:
    """A byte now and then is no answer: the call ends after its time, and so does its thread."""
    with dripping(begin) as (url, hung_up):
        client = HubClient(url, TOKEN, timeout_s=0.5)
        with pytest.raises(HubAway, match="no answer in time"):
            client.call("heartbeat", b"{}")

        assert hung_up.wait(10)


@pytest.mark.parametrize("after", ["9" * 5000, "9" * 9, "-1", "1e9", "\u0661", "nan"])
def test_retry_after_of_any_length_is_an_error_of_the_hub(after: str) -> None:
    """A year, or a number that Python refuses to read, is neither waited for nor a defect of the box."""
    with serving(503, b"{}", Retry_After=after.encode().decode("latin-1")) as url:
        client = HubClient(url, TOKEN, pause=lambda _: True)
        with pytest.raises(HubError):
            client.call("heartbeat", b"{}")
        client.close()


def test_redirect_is_not_followed() -> None:
    """The token goes to the address that the owner wrote, to no other."""
    with serving(200, b"{}") as other, serving(307, b"", Location=other) as url:
        client = HubClient(url, TOKEN)
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
    with serving(200, bytes(4 << 20)) as url:
        client = ShardClient(HubClient(url, TOKEN), lambda _: True)
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


@pytest.mark.parametrize("path", ["../x", "/etc", "a/../..", "a//b", ".", "a/\0", "\ud800"])
def test_folder_out_of_the_tree_is_refused(path: str) -> None:
    """No folder of a lease leads out of the tree; one that stands for no bytes is no defect of the worker."""
    with pytest.raises(ProtocolError):
        to_path(path)
