"""Two machines with one token: nothing of either is stored until it is settled; a restored box is one machine."""

from __future__ import annotations

import secrets
from collections.abc import Callable

import pytest
import sqlalchemy as sa

from integrity.errors import CallRefused
from integrity.hub import boxes
from integrity.hub.box_checks import BoxLimits, check_boxes
from integrity.hub.database import HubDatabase
from integrity.hub.findings import HubFinding, find_findings
from integrity.hub.ingest import CallingBox, store_heartbeat, store_messages
from integrity.hub.kinds import HubFindingKind
from integrity.hub.reported import BoxHeartbeat, MessagesHeader, read_call
from integrity.hub.schema import box, box_finding, box_run, finding
from integrity.hub.token_use import LIVE_S, note_use, require_free, require_sole
from integrity.reporting.protocol import RUN_BYTES
from integrity.reporting.reporter import read_machine
from support.cli import Box
from support.hub_reports import NOW, Stream, make_finding, make_heartbeat
from support.hubserver import ANYWHERE, HubCaller, HubServerProcess
from support.smallhub import join_hub

BEAT_S = 300
LIMITS = BoxLimits(86400, 1 << 30)


class Machine:
    """A machine that reports with the token of the box ``nas-b``, straight to the functions of the hub."""

    def __init__(self, database: HubDatabase, hostname: str, *damaged: int, stream: Stream | None = None) -> None:
        self.database = database
        self.hostname = hostname
        self.machine = secrets.token_bytes(RUN_BYTES)
        self.stream = stream or Stream().begin(*(make_finding(number, f"{number}.jpg") for number in damaged))
        self.start()
        with database.transaction() as c:
            number = c.execute(sa.select(box.c.id).where(box.c.name == "nas-b")).scalar_one()
        self.caller = CallingBox(number, "nas-b", f"192.0.2.{len(hostname)}")

    def start(self) -> None:
        """Start the service again."""
        self.run = secrets.token_hex(RUN_BYTES)

    def report(self, now: int) -> CallRefused | None:
        """Send a heartbeat and, if it is taken, all messages; return why it is not."""
        values = {"run": self.run, "machine": self.machine.hex(), "hostname": self.hostname}
        with self.database.transaction() as c:
            newest = len(self.stream.messages)
            beat = read_call(BoxHeartbeat, make_heartbeat(self.stream.id, newest=newest, sent_at=now, **values))
            refused = note_use(c, self.caller, beat, now)
            if refused is not None:
                return refused
            store_heartbeat(c, self.caller, beat, now)
        with self.database.transaction() as c:
            require_sole(c, self.caller)
            store_messages(c, self.caller, read_call(MessagesHeader, self.stream.header()), self.stream.messages, now)
        return None


@pytest.fixture
def make(hub_database: HubDatabase) -> Callable[..., Machine]:
    """Return what makes a machine with the token of nas-b."""
    with hub_database.transaction() as c:
        boxes.add_box(c, "nas-b", NOW - 100, ANYWHERE)
    return lambda *arguments, **options: Machine(hub_database, *arguments, **options)


def find_damaged(database: HubDatabase) -> dict[int, str]:
    """Return the state of each finding that nas-b reported."""
    with database.read() as c:
        return {row.number: row.state for row in c.execute(sa.select(box_finding.c.number, box_finding.c.state))}


def check(database: HubDatabase, now: int) -> list[HubFinding]:
    """Check the boxes; return what is open."""
    with database.transaction() as c:
        check_boxes(c, now, LIMITS)
        return list(find_findings(c, finding.c.resolved_at.is_(None)))


def test_two_machines_with_one_token_resolve_nothing_and_are_one_finding(
    hub_database: HubDatabase, make: Callable[..., Machine]
) -> None:
    """The damage that one reported stays open, and the finding names both machines and what to run."""
    one, other = make("nas-b", 1, 2), make("nas-clone")
    taken, refused = [], []
    for minute in range(0, 30, 5):
        taken.append(one.report(NOW + 60 * minute))
        refused.append(other.report(NOW + 60 * minute + 60))
        assert {1: "open", 2: "open"} == find_damaged(hub_database)

    assert [None, None] == taken[:2]
    assert all(taken[2:])
    assert all(refused)
    assert "nas-b (192.0.2.5) reported with the token of nas-b 1 min ago" in str(refused[0])
    assert "two machines use the token of nas-b: nas-b (192.0.2.5) and nas-clone (192.0.2.9)" in str(refused[1])
    (found,) = check(hub_database, NOW + 1800)
    assert HubFindingKind.TOKEN_SHARED is found.kind
    assert "Two machines use the token of nas-b" == found.headline
    assert "They are nas-b (192.0.2.5) and nas-clone (192.0.2.9). Run on the hub: " in found.explanation
    assert "hub revoke nas-b" in found.explanation
    with hub_database.read() as c:
        state = c.execute(sa.select(box.c.state, box.c.sentence)).one()
    assert ("gap", "Two machines use the token of this box, so nothing that they report is stored.") == tuple(state)


def test_machine_with_a_catalog_of_its_own_is_found_within_ten_minutes(
    hub_database: HubDatabase, make: Callable[..., Machine]
) -> None:
    """It reports again when it is told to: a box waits at most half as long again."""
    one, other = make("nas-b", 1), make("nas-clone")
    one.report(NOW)
    refused = other.report(NOW + 60)
    assert refused is not None
    wait_s = 3 * (refused.retry_after_s or 0) // 2
    for at in range(NOW + BEAT_S, NOW + 60 + wait_s, BEAT_S):
        assert one.report(at) is None

    assert 0 < wait_s <= 600
    assert "two machines use the token" in str(other.report(NOW + 60 + wait_s))
    assert {1: "open"} == find_damaged(hub_database)


def test_clone_with_the_same_catalog_is_another_machine(
    hub_database: HubDatabase, make: Callable[..., Machine]
) -> None:
    """It continues the stream of the box that it was made of, so only the process that reports differs."""
    one = make("nas-b", 1)
    assert one.report(NOW) is None
    clone = make("nas-b", stream=one.stream)

    assert clone.report(NOW + 60) is not None
    assert one.report(NOW + BEAT_S) is None
    assert "two machines use the token" in str(clone.report(NOW + BEAT_S + 60))
    assert {1: "open"} == find_damaged(hub_database)


def test_it_is_settled_when_one_of_them_was_silent_for_long(
    hub_database: HubDatabase, make: Callable[..., Machine]
) -> None:
    """Then the reports of the other one are stored again, and the finding ends."""
    one, other = make("nas-b", 1), make("nas-clone")
    for number in range(3):
        one.report(NOW + BEAT_S * number)
        other.report(NOW + BEAT_S * number + 60)
    last = NOW + BEAT_S * 2 + 60

    refused = [one.report(last + 240 + BEAT_S * number) for number in range(4)]
    assert all(refused)
    assert check(hub_database, last + LIVE_S) != []
    assert one.report(last + LIVE_S + 1) is None
    assert [] == check(hub_database, last + LIVE_S + 1)


def test_outage_of_the_hub_settles_nothing(hub_database: HubDatabase, make: Callable[..., Machine]) -> None:
    """After it, whoever comes first has been alone for no time at all."""
    one, other = make("nas-b", 1), make("nas-clone")
    for number in range(3):
        one.report(NOW + BEAT_S * number)
        other.report(NOW + BEAT_S * number + 60)

    assert other.report(NOW + 86400) is not None
    assert one.report(NOW + 86400 + 60) is not None
    assert {1: "open"} == find_damaged(hub_database)


def test_new_token_settles_it_at_once(hub_database: HubDatabase, make: Callable[..., Machine]) -> None:
    """The machine that got it begins as if it were alone, which it is."""
    one, other = make("nas-b", 1), make("nas-clone")
    for number in range(3):
        one.report(NOW + BEAT_S * number)
        other.report(NOW + BEAT_S * number + 60)
    now = NOW + BEAT_S * 3
    with hub_database.transaction() as c:
        boxes.revoke_box(c, "nas-b", now)
        boxes.add_box(c, "nas-b", now, ANYWHERE)

    one.start()

    assert one.report(now) is None
    assert [] == check(hub_database, now)


@pytest.mark.parametrize("silent_s", [LIVE_S + 1, 10 * 86400])
def test_box_that_lost_its_catalog_is_one_machine(
    hub_database: HubDatabase, make: Callable[..., Machine], silent_s: int
) -> None:
    """It begins another stream, and the former process never comes again."""
    old, new = make("nas-b", 1), make("nas-b", 2)
    assert old.report(NOW) is None

    assert new.report(NOW + silent_s) is None
    assert {1: "not_reported", 2: "open"} == find_damaged(hub_database)
    assert [] == check(hub_database, NOW + silent_s)


def test_box_that_was_restored_a_minute_ago_waits_and_is_never_two(
    hub_database: HubDatabase, make: Callable[..., Machine]
) -> None:
    """Until the former process was silent for long, it may be alive; then the new stream counts."""
    old, new = make("nas-b", 1), make("nas-b", 2)
    assert old.report(NOW) is None
    waits = [new.report(now) for now in range(NOW + 60, NOW + LIVE_S, BEAT_S)]

    assert all(waits)
    assert all("two machines" not in str(one) for one in waits)
    assert {1: "open"} == find_damaged(hub_database)
    assert new.report(NOW + LIVE_S + 60) is None
    assert {1: "not_reported", 2: "open"} == find_damaged(hub_database)


def test_box_that_lost_its_catalog_while_it_runs_reports_at_once(
    hub_database: HubDatabase, make: Callable[..., Machine]
) -> None:
    """No other machine has its number, so nobody has to be waited for."""
    old, new = make("nas-b", 1), make("nas-b", 2)
    new.machine = old.machine
    assert old.report(NOW) is None

    assert all(new.report(NOW + 60 + BEAT_S * number) is None for number in range(8))
    assert {1: "not_reported", 2: "open"} == find_damaged(hub_database)
    assert [] == check(hub_database, NOW + 2400)


def test_two_services_of_one_machine_with_one_token_are_found(
    hub_database: HubDatabase, make: Callable[..., Machine]
) -> None:
    """Each with a catalog of its own: they take turns as two machines do."""
    one, other = make("nas-b", 1), make("nas-b")
    other.machine = one.machine
    for number in range(3):
        one.report(NOW + BEAT_S * number)
        other.report(NOW + BEAT_S * number + 60)

    assert [HubFindingKind.TOKEN_SHARED] == [found.kind for found in check(hub_database, NOW + 1800)]


def test_box_that_was_started_again_waits_for_a_report_that_does_not_come(
    hub_database: HubDatabase, make: Callable[..., Machine]
) -> None:
    """It continues its stream as another machine, so it could be a clone for as long as a report may be due."""
    nas = make("nas-b", 1)
    assert nas.report(NOW) is None
    nas.start()
    nas.machine = secrets.token_bytes(RUN_BYTES)

    first = nas.report(NOW + 180)
    assert first is not None
    assert first.retry_after_s == 220
    assert nas.report(NOW + 400) is None
    assert [] == check(hub_database, NOW + 400)


def test_service_that_is_started_again_reports_at_once(hub_database: HubDatabase, make: Callable[..., Machine]) -> None:
    """Also when a call of the former process was held up on its way, and arrives after those of the new one."""
    nas = make("nas-b", 1)
    former = nas.run
    assert nas.report(NOW) is None
    nas.start()
    assert nas.report(NOW + 5) is None
    present, nas.run = nas.run, former
    nas.report(NOW + 60)
    nas.run = present

    assert all(nas.report(NOW + 5 + BEAT_S * number) is None for number in range(1, 9))
    assert [] == check(hub_database, NOW + 2400)


def test_runs_of_a_box_are_bounded(hub_database: HubDatabase, make: Callable[..., Machine]) -> None:
    """Whoever has the token can make up any number of them."""
    nas = make("nas-b")
    for number in range(50):
        nas.start()
        nas.report(NOW + number)

    with hub_database.read() as c:
        assert c.execute(sa.select(sa.func.count()).select_from(box_run)).scalar_one() <= 10


def test_token_is_free_for_the_machine_that_uses_it(hub_database: HubDatabase, make: Callable[..., Machine]) -> None:
    """Another machine is refused as long as this one reports."""
    nas = make("nas-b")
    nas.report(NOW)

    with hub_database.read() as c:
        require_free(c, nas.caller, nas.machine, NOW + 60)
        require_free(c, nas.caller, read_machine("other"), NOW + LIVE_S + 1)
        with pytest.raises(CallRefused, match=r"another machine uses it: nas-b \(192.0.2.5\) reported 1 min"):
            require_free(c, nas.caller, read_machine("other"), NOW + 60)


def beat_as(caller: HubCaller, hostname: str, stream: Stream, expect: int = 200) -> dict[str, object]:
    """Send a heartbeat of a process that just started."""
    values = {"run": secrets.token_hex(RUN_BYTES), "machine": read_machine(hostname).hex(), "hostname": hostname}
    newest = len(stream.messages)
    answer: dict[str, object] = caller.call(
        "heartbeat", make_heartbeat(stream.id, newest=newest, **values), expect=expect
    )
    return answer


def test_join_with_the_token_of_another_machine_changes_nothing(
    integrity: Box, hub: HubServerProcess, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """It names the machine that uses the token, before anything is written."""
    nas = hub.add("nas-b")
    beat_as(nas, "elsewhere", Stream())
    home = tmp_path_factory.mktemp("joining")
    joining = Box(home)

    done = join_hub(joining, hub.url, token=nas.token, expect=3)

    assert "another machine uses it: elsewhere (127.0.0.1) reported" in done.stderr
    assert "hub add BOX" in done.stderr
    assert not list(home.rglob("hub-token"))
    assert "" == (home / "integrity.toml").read_text()


def test_second_machine_is_refused_over_the_wire(hub: HubServerProcess) -> None:
    """Its answer says for how long to wait; the first one goes on."""
    nas = hub.add("nas-b")
    first = Stream().begin(make_finding(1))
    beat_as(nas, "nas-b", first)
    nas.post("messages", first.body())

    refused = beat_as(nas, "nas-clone", Stream(), expect=409)

    assert "token_in_use" == refused["error"]
    assert "If that was this machine before" in str(refused["message"])
