"""What slow, busy and hasty boxes can take of a hub: its deadlines, its slots, and the rate of one box."""

from __future__ import annotations

import socket
import time
from contextlib import ExitStack
from pathlib import Path

import pytest
import sqlalchemy as sa
from tests.hub.conftest import TEMPLATE

from integrity.hub import schema
from integrity.hub.database import HubDatabase
from integrity.hub.server import HubProtocol
from integrity.reporting import protocol
from support.cli import Box
from support.hub_reports import Stream, make_heartbeat
from support.hubserver import HubCaller, HubServerProcess
from support.postgres import PostgresServer
from support.waiting import wait_until

BOXES = 4
CALLS_EACH = 16
LARGE_BOXES = 2
LARGE_CALLS_EACH = 3
LARGE_BYTES = 100_000
HEARTBEAT = protocol.encode(make_heartbeat(bytes(16)))
STREAM = Stream().begin().body()


@pytest.fixture
def hub(integrity: Box, tmp_path: Path) -> HubServerProcess:
    """Give a hub that is not started; which database it has is no matter here."""
    return HubServerProcess(integrity, str(tmp_path / "hub.db"))


class RawCall:
    """
    ``with RawCall(hub, box, length) as call: ...`` sends the head of a heartbeat; the body is the caller's matter.

    Args:
        length: of the body that is announced.
    """

    def __init__(self, hub: HubServerProcess, box: HubCaller, length: int = len(HEARTBEAT)) -> None:
        self._head = (
            f"POST /hub/v1/heartbeat HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {box.token}\r\n"
            f"Content-Length: {length}\r\nExpect: 100-continue\r\n\r\n"
        ).encode()
        self.stream = socket.create_connection(("127.0.0.1", hub.port), timeout=30)

    def __enter__(self) -> RawCall:
        self.send_head()
        return self

    def __exit__(self, *_: object) -> None:
        self.stream.close()

    def send_head(self) -> None:
        """Announce a request on the same connection."""
        self.stream.sendall(self._head)

    def read_head(self) -> str:
        """Return the head of the next answer. 100 says that the hub waits for the body, and holds a slot."""
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            got = self.stream.recv(1)
            assert got, head
            head += got
        return head.decode()

    def has_ended(self, timeout_s: float) -> bool:
        """Return whether the hub ends the connection within a time."""
        self.stream.settimeout(timeout_s)
        try:
            return self.stream.recv(1) == b""
        except TimeoutError:
            return False
        except ConnectionError:
            return True


def test_slow_body_is_cut_off(integrity: Box, tmp_path: Path) -> None:
    """Bytes that trickle in do not extend the deadline of a request; its slot is free again, and nothing was stored."""
    with HubServerProcess(integrity, str(tmp_path / "hub.db"), bounds={"body_s": 2.0, "request_s": 2.0}) as hub:
        nas = hub.add("nas")
        with RawCall(hub, nas) as slow:
            assert " 100 " in slow.read_head()
            began = time.monotonic()
            sent = 0
            while not slow.has_ended(0.1):
                slow.stream.send(HEARTBEAT[sent : sent + 1])
                sent += 1

        assert time.monotonic() - began < 20
        assert 5 < sent < len(HEARTBEAT)
        assert "nas: has not reported yet" in hub.command("hub", "list")
        assert 200 == nas.post("heartbeat", HEARTBEAT).status


def test_connection_is_kept_from_one_heartbeat_to_the_next(integrity: Box, tmp_path: Path) -> None:
    """Between two requests a box may be silent for longer than a request may take, and than reports are apart."""
    assert (HubProtocol.idle_s or 0) > 2 * 300
    with HubServerProcess(integrity, str(tmp_path / "hub.db"), bounds={"body_s": 3.0, "request_s": 3.0}) as hub:
        nas = hub.add("nas")
        with RawCall(hub, nas) as call:
            for _ in range(2):
                assert " 100 " in call.read_head()
                call.stream.sendall(HEARTBEAT)
                answer = call.read_head()
                assert " 200 " in answer
                call.stream.recv(10_000)
                assert not call.has_ended(4.0)
                call.send_head()


def test_connection_of_a_box_that_is_gone_is_ended(integrity: Box, tmp_path: Path) -> None:
    """One that never sends a request, and one that sends no further one."""
    with HubServerProcess(integrity, str(tmp_path / "hub.db"), bounds={"idle_s": 3.0, "request_s": 3.0}) as hub:
        nas = hub.add("nas")
        with RawCall(hub, nas) as used, socket.create_connection(("127.0.0.1", hub.port), timeout=30) as unused:
            used.read_head()
            used.stream.sendall(HEARTBEAT)
            assert " 200 " in used.read_head()
            used.stream.recv(10_000)

            assert used.has_ended(20)
            assert b"" == unused.recv(1)


@pytest.mark.long
def test_busy_hub_says_when_to_come_back(hub: HubServerProcess) -> None:
    """One request too many is refused, not queued; the connection goes on, and works once others have ended."""
    with hub, ExitStack() as held:
        nas = hub.add("nas")
        for number in range(BOXES):
            box = hub.add(f"slow{number}")
            for _ in range(CALLS_EACH):
                assert " 100 " in held.enter_context(RawCall(hub, box)).read_head()
        answer = nas.post("heartbeat", HEARTBEAT)

        assert (503, "busy") == (answer.status, answer.object["error"])
        assert 2 <= int(answer.headers["Retry-After"]) <= 20
        assert answer.headers["Connection"] is None
        held.close()
        wait_until(lambda: nas.post("heartbeat", HEARTBEAT).status == 200, "a free slot", every_s=0.2)


def test_large_bodies_do_not_keep_heartbeats_waiting(hub: HubServerProcess) -> None:
    """They have slots of their own, which are fewer."""
    with hub, ExitStack() as held:
        nas = hub.add("nas")
        for number in range(LARGE_BOXES):
            box = hub.add(f"slow{number}")
            for _ in range(LARGE_CALLS_EACH):
                assert " 100 " in held.enter_context(RawCall(hub, box, LARGE_BYTES)).read_head()
        refused = nas.post("messages", b" " * LARGE_BYTES)

        assert (503, "busy") == (refused.status, refused.object["error"])
        assert 200 == nas.post("heartbeat", HEARTBEAT).status


@pytest.mark.parametrize(("length", "most"), [(len(HEARTBEAT), CALLS_EACH), (LARGE_BYTES, LARGE_CALLS_EACH)])
def test_one_box_holds_a_part_of_the_slots(hub: HubServerProcess, length: int, most: int) -> None:
    """However slowly it sends: it is refused beyond its part, and others are served."""
    with hub, ExitStack() as held:
        slow, other = hub.add("slow"), hub.add("other")
        for _ in range(most):
            assert " 100 " in held.enter_context(RawCall(hub, slow, length)).read_head()
        with RawCall(hub, slow, length) as one_more:
            assert " 503 " in one_more.read_head()

        assert 200 == other.post("heartbeat", HEARTBEAT).status
        assert 200 == other.post("messages", STREAM.replace(b"{", b" " * LARGE_BYTES + b"{", 1)).status


@pytest.mark.long
def test_calls_of_one_box_that_take_long_do_not_stop_others(integrity: Box, postgres: PostgresServer) -> None:
    """Four of them wait for a lock of the database, as for a vote or a large folder; others are answered."""
    url = postgres.create_database(template=TEMPLATE)
    with HubServerProcess(integrity, url) as hub, ExitStack() as held:
        slow, other = hub.add("slow"), hub.add("other")
        database = HubDatabase.open(url)
        held.callback(database.close)
        with database.transaction() as c:
            c.execute(sa.select(schema.box).where(schema.box.c.name == "slow").with_for_update()).all()
            for _ in range(8):
                call = held.enter_context(RawCall(hub, slow))
                assert " 100 " in call.read_head()
                call.stream.sendall(HEARTBEAT)
            statuses = [other.post("heartbeat", HEARTBEAT).status for _ in range(3)]

        assert [200] * 3 == statuses
        wait_until(lambda: slow.post("heartbeat", HEARTBEAT).status == 200, "its calls to end", every_s=0.2)
    postgres.drop_database(url)


def test_who_opens_many_connections_ends_his_own(integrity: Box, tmp_path: Path) -> None:
    """A box that has been silent between its heartbeats keeps its connection, though all that may be open are."""
    with (
        HubServerProcess(integrity, str(tmp_path / "hub.db"), bounds={"most_connections": 20}) as hub,
        ExitStack() as held,
    ):
        nas = hub.add("nas")
        with RawCall(hub, nas) as call:
            assert " 100 " in call.read_head()
            call.stream.sendall(HEARTBEAT)
            assert " 200 " in call.read_head()
            call.stream.recv(10_000)
            flood = [
                held.enter_context(socket.create_connection(("127.0.0.1", hub.port), 30, ("127.0.0.2", 0)))
                for _ in range(60)
            ]
            assert b"" == flood[0].recv(1)
            assert not call.has_ended(0.2)


def test_guesses_of_one_ipv6_network_count_as_one(integrity: Box, tmp_path: Path) -> None:
    """Whoever has a network of 64 bits has no more guesses of a token than one address."""
    proxied = HubServerProcess(integrity, str(tmp_path / "hub.db"), 'trusted_proxy = "127.0.0.1"\n')
    with proxied as hub:
        stranger = hub.caller("integrity-box-" + "A" * 43)
        statuses = [
            stranger.post("heartbeat", b"{}", X_Forwarded_For=f"2001:db8::{number:x}").status for number in range(30)
        ]
        other = stranger.post("heartbeat", b"{}", X_Forwarded_For="2001:db8:1::1").status

    assert 401 == statuses[0] == other
    assert 429 == statuses[-1]


def test_hasty_box_has_to_wait(hub: HubServerProcess) -> None:
    """It gets a 429 that says for how long, others are served, and after that time so is it."""
    with hub:
        hasty, other = hub.add("hasty"), hub.add("other")
        statuses = [hasty.post("trees/1/settle", b"{}").status for _ in range(200)]
        answer = hasty.post("trees/1/settle", b"{}")
        while answer.status == 400:  # ten more are allowed each second
            answer = hasty.post("trees/1/settle", b"{}")

        assert {400} == {*statuses}
        assert (429, "too_many") == (answer.status, answer.object["error"])
        assert "1" == answer.headers["Retry-After"]
        assert 200 == other.post("heartbeat", HEARTBEAT).status
        wait_until(lambda: hasty.post("heartbeat", HEARTBEAT).status == 200, "its next turn", every_s=0.2)
