"""Reports of a box with a real catalog to a hub over a real socket: what arrives, once and in order, whatever fails."""

from __future__ import annotations

import os
import shutil
import time
from contextlib import suppress
from pathlib import Path

import pytest

from integrity.catalog import report_queue, roots, runs
from integrity.catalog.copying import copy_database
from integrity.catalog.runs import Action, record_action
from integrity.errors import HubError, ReadInterrupted
from integrity.files.excludes import BUILTIN
from integrity.model import ActionVerb, Actor, Job, Outcome, RunCounts
from support.catalogs import NOW, CatalogBox, make_reading
from support.proxies import HttpProxy, LineProxy
from support.reporting import ReportingBox
from support.servers import NOTHING, SILENCE, make_certificate
from support.smallhub import SmallHub, refusal


def findings_of(hub: SmallHub) -> list[tuple[object, object]]:
    """Return number and state of each reported finding, in order."""
    return [(body["id"], body["state"]) for kind, body in hub.messages if kind == "finding"]


def test_first_report_begins_a_stream_with_all_open_findings(reporting: ReportingBox, hub: SmallHub) -> None:
    """What was found before the box joined is reported, too; what was resolved before is not."""
    first, second = reporting.open_finding(b"d/a"), reporting.open_finding(b"d/b")
    reporting.resolve(first)

    reporting.report()

    assert ["state", "finding"] == [kind for kind, _ in hub.messages]
    assert {"findings": 1} == hub.messages[0][1]
    assert [(second, "open")] == findings_of(hub)
    body = hub.messages[1][1]
    assert (1, "d/b", "rot", "/srv/photos/d/b") == (body["root_id"], body["relative_path"], body["kind"], body["path"])


def test_findings_runs_and_actions_arrive_once_and_in_order(reporting: ReportingBox, hub: SmallHub) -> None:
    """Each is reported as it is when it is sent; a second report repeats none."""
    reporting.report()
    number = reporting.open_finding(b"a")
    with reporting.box.catalog.transaction() as c:
        counts = RunCounts(verified=5)
        runs.finish_run(c, reporting.box.run_id, Outcome.FINDINGS, counts, now=NOW + 9, duration_s=1.0)
        record_action(c, Action(Actor("ann", "::1"), ActionVerb.ACK, "done", b"/srv/photos", b"a", (number,)), NOW)
    reporting.report()
    reporting.report()

    assert ["state", "finding", "run", "action"] == [kind for kind, _ in hub.messages]
    run, action = hub.messages[2][1], hub.messages[3][1]
    assert (1, "scan", "findings", 5) == (run["root_id"], run["job"], run["outcome"], run["files_verified"])
    assert ("ann", "ack", 1, "a", [number]) == (
        *(action["who"], action["verb"]),
        *(action["root_id"], action["relative_path"], action["findings"]),
    )


def test_finding_that_changes_often_while_the_hub_is_away_waits_once(reporting: ReportingBox, hub: SmallHub) -> None:
    """Its last state is reported."""
    reporting.report()
    number = reporting.open_finding(b"a")
    for block in range(50):
        reporting.open_finding(b"a", blocks=(block,))
    reporting.resolve(number)

    assert {"finding": 1} == reporting.count_waiting()
    reporting.report()
    assert [(number, "resolved")] == findings_of(hub)


def test_finding_that_is_found_again_is_no_news(reporting: ReportingBox, hub: SmallHub) -> None:
    """A scrub that meets the same damage again reports nothing."""
    reporting.open_finding(b"a", blocks=(1,))
    reporting.report()
    reporting.now += 86400
    reporting.open_finding(b"a", blocks=(1,))

    assert {} == reporting.count_waiting()


def test_finding_of_a_forgotten_root_ends(reporting: ReportingBox, hub: SmallHub) -> None:
    """Its row is gone, so only its number and its end can be reported."""
    number = reporting.open_finding(b"a")
    reporting.report()
    with reporting.box.catalog.transaction() as c:
        roots.remove_root(c, reporting.box.root.id)
    reporting.replica_set = ""

    reporting.report()

    assert [(number, "open"), (number, "resolved")] == findings_of(hub)


def test_runs_of_months_take_a_bounded_queue(reporting: ReportingBox) -> None:
    """The newest 10,000 wait for the hub."""
    reporting.report()
    with reporting.box.catalog.transaction() as c:
        for _ in range(10_500):
            run_id = runs.start_run(c, reporting.box.root.id, Job.SCAN, now=NOW, boot_id=reporting.box.boot_id, pid=1)
            runs.finish_run(c, run_id, Outcome.CLEAN, RunCounts(), now=NOW, duration_s=1.0)

    assert {"run": 10_000} == reporting.count_waiting()


def test_change_that_is_rolled_back_is_not_reported(reporting: ReportingBox) -> None:
    """The queue changes with what it reports, or not at all."""
    reporting.report()
    with suppress(ZeroDivisionError), reporting.box.catalog.transaction() as c:
        record_action(c, Action(Actor("ann", "::1"), ActionVerb.ACK, "done"), NOW)
        raise ZeroDivisionError

    assert {} == reporting.count_waiting()


def test_nothing_is_queued_by_a_box_that_reports_to_nobody(box: CatalogBox) -> None:
    """A catalog does not grow by a queue that nobody empties."""
    idle = ReportingBox(box, "http://127.0.0.1:1")
    idle.open_finding(b"a")

    assert {} == idle.count_waiting()
    idle.close()


def test_answer_that_is_lost_has_the_same_messages_repeated(reporting: ReportingBox, hub: SmallHub) -> None:
    """The hub stored them and the box does not know: it repeats the same texts, which the hub skips."""
    reporting.report()
    number = reporting.open_finding(b"a")
    hub.answers = [("messages", NOTHING)] * 2  # also when it tries again on a new connection
    with pytest.raises(HubError):
        reporting.report()
    reporting.open_finding(b"a", blocks=(7,))  # changes after the message was written

    reporting.report()

    assert [(number, "open"), (number, "open")] == findings_of(hub)
    assert ([], [7]) == (hub.messages[1][1]["blocks"], hub.messages[2][1]["blocks"])
    assert 1 == len(hub.streams)


def test_queue_survives_a_killed_service(reporting: ReportingBox, hub: SmallHub) -> None:
    """A batch that was numbered, and perhaps sent, before the kill is sent again unchanged."""
    reporting.report()
    number = reporting.open_finding(b"a")
    hub.answers = [("messages", NOTHING)] * 2
    pid = os.fork()
    if pid == 0:
        try:
            with reporting.box.reopen():
                reporting.make().report()
        finally:
            os.kill(os.getpid(), 9)
    os.waitpid(pid, 0)
    reporting.box.reopen()
    assert {"finding": 1} == reporting.count_waiting()

    reporting.make().report()

    assert [(number, "open")] == findings_of(hub)
    assert {} == reporting.count_waiting()


def test_box_restored_from_an_image_begins_a_new_stream(reporting: ReportingBox, hub: SmallHub) -> None:
    """It numbers anew, under numbers that the hub has; its open findings are all reported again."""
    first = reporting.open_finding(b"a")
    reporting.report()
    image = reporting.box.path + b".image"
    with reporting.box.catalog.read() as c:
        copy_database(c, image, os.stat(reporting.box.path))
    reporting.open_finding(b"lost")
    reporting.report()
    reporting.close()
    reporting.box.catalog.close()
    shutil.copy(image, reporting.box.path)
    reporting.box.reopen()
    other = reporting.open_finding(b"other")  # has the number that "lost" had, and its message the same number

    reporting.make().report()

    assert 2 == len(hub.streams)
    assert [(first, "open"), (other, "open")] == findings_of(hub)
    assert "other" == hub.messages[-1][1]["relative_path"]


def test_box_restored_while_it_had_no_news_begins_a_new_stream(reporting: ReportingBox, hub: SmallHub) -> None:
    """The heartbeat alone shows that the hub has messages that the box did not send."""
    reporting.report()
    with reporting.box.catalog.read() as c:
        before = report_queue.load_state(c)
    assert before is not None
    number = reporting.open_finding(b"a")
    reporting.report()
    with reporting.box.catalog.transaction() as c:
        report_queue.confirm(c, before.confirmed, before.chain)

    reporting.report()

    assert (2, [(number, "open")]) == (len(hub.streams), findings_of(hub))


def test_hub_that_lost_messages_gets_all_findings_again(reporting: ReportingBox, hub: SmallHub) -> None:
    """A hub that was restored from a backup lacks messages that it had confirmed."""
    reporting.report()
    numbers = [reporting.open_finding(b"%d" % number) for number in range(3)]
    reporting.report()
    hub.forget(2)

    reporting.report()

    assert (2, [(number, "open") for number in numbers]) == (len(hub.streams), findings_of(hub))


def test_new_stream_keeps_runs_that_were_never_confirmed(reporting: ReportingBox, hub: SmallHub) -> None:
    """Findings are repeated because they are open; a run that only the lost batch had is not lost with it."""
    reporting.report()
    with reporting.box.catalog.transaction() as c:
        runs.finish_run(c, reporting.box.run_id, Outcome.CLEAN, RunCounts(), now=NOW, duration_s=1.0)
    hub.answers = [("messages", refusal(409, "went_back"))]

    reporting.report()

    assert ["state", "run"] == [kind for kind, _ in hub.messages]


def test_refusal_of_every_stream_is_an_error(reporting: ReportingBox, hub: SmallHub) -> None:
    """The box does not send streams for ever."""
    hub.answers = [("messages", refusal(409, "went_back"))] * 3

    with pytest.raises(HubError):
        reporting.report()
    assert 2 == hub.calls.count("messages")


def test_other_hub_gets_a_stream_of_its_own(reporting: ReportingBox, hub: SmallHub) -> None:
    """The configuration names another one: it gets all open findings."""
    number = reporting.open_finding(b"a")
    reporting.report()
    with SmallHub() as other:
        moved = ReportingBox(reporting.box, other.url)
        moved.report()
        moved.close()

        assert [(number, "open")] == findings_of(other)


def test_many_messages_go_in_several_calls(reporting: ReportingBox, hub: SmallHub) -> None:
    """Batches are numbered one after the other; each finding arrives once."""
    numbers = [reporting.open_finding(b"%d" % number) for number in range(1200)]

    reporting.report()

    assert [(number, "open") for number in numbers] == findings_of(hub)
    assert 3 == hub.calls.count("messages")


def test_body_that_is_too_large_is_halved(reporting: ReportingBox, hub: SmallHub) -> None:
    """A proxy that takes small bodies only gets small ones."""
    hub.answers = [("messages", refusal(413))]
    with pytest.raises(HubError) as caught:
        reporting.report()

    assert 413 == caught.value.status
    before = reporting.client.body_bytes
    assert reporting.client.shrink()
    assert before // 2 == reporting.client.body_bytes
    reporting.report()


def test_busy_hub_is_asked_again_when_it_said(reporting: ReportingBox, hub: SmallHub) -> None:
    """429 and 503 with Retry-After are waited for in place."""
    hub.answers = [("messages", refusal(429, "rate", "7")), ("messages", refusal(503, "database", "3"))]

    reporting.report()

    assert [7, 3] == reporting.waits
    assert ["state"] == [kind for kind, _ in hub.messages]


def test_revoked_token_is_said(box: CatalogBox, hub: SmallHub) -> None:
    """What happened, and how to get another."""
    stranger = ReportingBox(box, hub.url, token="integrity-box-" + "B" * 43)

    with pytest.raises(HubError, match=r"does not accept the token of this box.*hub add BOX.*hub join URL"):
        stranger.report()
    stranger.close()


def test_page_that_is_no_hub_is_said(reporting: ReportingBox, hub: SmallHub) -> None:
    """A web server answers 404 for what it does not know."""
    hub.answers = [("heartbeat", refusal(404))]

    with pytest.raises(HubError, match="answered 404"):
        reporting.report()


def test_hanging_hub_does_not_delay_the_end(reporting: ReportingBox, hub: SmallHub) -> None:
    """Whoever waits for an answer stops as soon as the service ends."""
    hub.answers = [("heartbeat", SILENCE)]
    reporting.is_over = lambda: "heartbeat" in hub.calls

    began_at = time.monotonic()
    with pytest.raises(ReadInterrupted):
        reporting.report()
    assert time.monotonic() - began_at < 25


def test_clock_that_is_wrong_is_sent_along(reporting: ReportingBox, hub: SmallHub) -> None:
    """The hub compares it with its own; nothing else depends on it."""
    wrong = (NOW - 400 * 86400, NOW + 400 * 86400, NOW)
    for now in wrong:
        reporting.now = now
        reporting.open_finding(b"a", blocks=(now,))
        reporting.report()

    assert [*wrong] == list(dict.fromkeys(beat["sent_at"] for beat in hub.heartbeats))
    assert [(1, "open")] * 3 == findings_of(hub)


def test_report_without_news_writes_nothing(reporting: ReportingBox, hub: SmallHub) -> None:
    """The disk of the catalog may sleep."""
    reporting.box.record(b"d/a", make_reading("a"))
    reporting.report()
    before, calls = reporting.box.catalog.version(), len(hub.calls)
    for _ in range(5):
        reporting.now += 300
        reporting.report()

    assert before == reporting.box.catalog.version()
    assert ["heartbeat"] * 5 == hub.calls[calls:]
    assert 1 == hub.connections


def test_idle_box_costs_less_than_two_kibibytes_a_report(box: CatalogBox, tmp_path: Path) -> None:
    """With TLS and headers, in both directions, whatever its size: one report is due every five minutes."""
    box.record_all({b"d%d/%d" % (number % 50, number): make_reading(number) for number in range(500)})
    certificate = make_certificate(tmp_path)
    with SmallHub(certificate) as hub, LineProxy(hub.port) as line:
        idle = ReportingBox(box, f"https://127.0.0.1:{line.port}", certificate=bytes(certificate))
        idle.patterns = (*BUILTIN, "*.tmp", "/cache/")
        idle.report()
        before = line.sent + line.received
        for _ in range(10):
            idle.report()
        idle.close()

        assert (line.sent + line.received - before) / 10 < 2048
        assert 1 == line.connections


@pytest.mark.parametrize("seed", range(3))
def test_nothing_is_lost_or_doubled_behind_a_bad_proxy(box: CatalogBox, hub: SmallHub, seed: int) -> None:
    """It delays, cuts, loses answers, and repeats requests."""
    with HttpProxy(hub.url).rough(seed) as proxy:
        reporting = ReportingBox(box, proxy.url)
        numbers = []
        for number in range(20):
            numbers.append(reporting.open_finding(b"%d" % number))
            box.record(b"d%d/%d" % (number % 3, number))
            with suppress(HubError):
                reporting.report()
        while hub.heartbeats[-1]["roots"][0]["tree"] != hub.settled.get(1) or reporting.count_waiting():
            with suppress(HubError):
                reporting.report()
        reporting.close()

    assert [(number, "open") for number in numbers] == findings_of(hub)
    assert 20 == sum(len(folder.files) for folder in hub.trees[1].values())
    assert {"delay", "cut", "lose", "repeat"} <= {*proxy.happened}
    assert 1 == len(hub.streams)
