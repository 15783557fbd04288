"""What the owner decides on the page is done by the service, as the command does it, and is in the history."""

from __future__ import annotations

import html
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tests.web.conftest import SCRIPT, Watched, watch

from integrity.model import Finding, FindingId, FindingKind, FindingState, Job
from integrity.web.pages.actions import find_check
from support.bitrot import rot
from support.cli import Box
from support.loopfs import LoopFS
from support.service import Service
from support.stored import query
from support.waiting import wait_until
from support.webpage import PASSWORD, Reply, WebClient, WebPage

pytestmark = [pytest.mark.root, pytest.mark.timeout(300)]


@contextmanager
def serve(watched: Watched) -> Iterator[WebPage]:
    """Serve the page with its actions switched on, and run the service."""
    toml = watched.toml + '[schedule]\nscrub = "mon 00:00-00:01"\n'
    with WebPage(watched.box, toml, web="actions = true") as served, Service(watched.box):
        yield served


@pytest.fixture
def page(watched: Watched) -> Iterator[WebPage]:
    """Serve it for one test, whose damaged file is mended or accepted."""
    with serve(watched) as served:
        yield served


@pytest.fixture(scope="module")
def harmless(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[WebPage, Watched]]:
    """Serve it for all tests that change no file, and leave the finding about ``b.jpg`` open."""
    place = tmp_path_factory.mktemp("harmless")
    with LoopFS("ext4") as disk:
        watched = watch(Box(place / "home"), disk, place)
        with serve(watched) as served:
            yield served, watched


class Owner:
    """Somebody who is logged in, and sends forms."""

    def __init__(self, page: WebPage) -> None:
        self.client = page.visitor()
        self._token = self.client.find_token()

    def send(self, verb: str, **fields: object) -> Reply:
        """Send the form of an action."""
        return self.client.post(
            f"/actions/{verb}", {"csrf": self._token, **{key: str(one) for key, one in fields.items()}}
        )


def find_number(watched: Watched, name: str = "b.jpg") -> int:
    return next(int(one["id"]) for one in watched.box.findings("findings") if one["path"].endswith(name))


def find_seen(reply: Reply) -> str:
    """Return what a form says that it was shown with."""
    found = re.search(r'name="seen" value="(\w+)"', reply.text)
    assert found is not None, reply.text
    return found[1]


def find_state(watched: Watched, number: int) -> str:
    return next(one["state"] for one in watched.box.findings("findings", "--all") if one["id"] == number)


def test_findings_are_acknowledged_and_muted(harmless: tuple[WebPage, Watched]) -> None:
    """And the history says who did it, from where, and what came of it."""
    page, watched = harmless
    owner, number = Owner(page), find_number(watched, SCRIPT)
    before = html.unescape(owner.client.get("/history").text).count("owner, on the page")

    assert 200 == owner.send("ack", id=number).status
    assert "acknowledged" == find_state(watched, number)
    assert 200 == owner.send("mute", id=number, days=3).status
    assert "muted" == find_state(watched, number)
    text = html.unescape(owner.client.get("/history").text)
    assert before + 2 == text.count("owner, on the page")
    assert "127.0.0.1" in text
    assert re.search(r"<td>acknowledged</td>[^~]*finding " + str(number), text)


def test_root_is_paused_resumed_and_scrubbed(harmless: tuple[WebPage, Watched]) -> None:
    """By its number, which the page shows; another number is no root."""
    page, watched = harmless
    owner = Owner(page)

    assert 200 == owner.send("pause", root=1).status
    assert "paused" == watched.box.get_object("root", "status")["state"]
    assert 200 == owner.send("resume", root=1).status
    assert "active" == watched.box.get_object("root", "status")["state"]
    assert 200 == owner.send("scrub", root=1).status
    for root in ("9", "x", ""):
        assert 404 == owner.send("pause", root=root).status


def test_file_that_was_restored_by_hand_is_checked_again(page: WebPage, watched: Watched) -> None:
    """Its finding ends without a command line; a finding that is not there can't be checked."""
    owner, number = Owner(page), find_number(watched)
    file = watched.folder / "2019" / "b.jpg"
    assert "Check it again now" in owner.client.get(f"/findings/{number}").text
    times = file.stat()
    file.write_bytes((watched.folder / "2019" / "a.jpg").read_bytes())  # they were planted with the same content
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))

    assert 200 == owner.send("check", id=number).status
    wait_until(lambda: find_state(watched, number) == "resolved", "the finding to end")
    assert 404 == owner.send("check", id=99).status


@pytest.mark.parametrize(
    ("kind", "path", "copy", "job"),
    [
        (FindingKind.ROT, b"a.jpg", None, Job.SCRUB),
        (FindingKind.ROOT_SUSPENDED, None, None, Job.SCAN),
        (FindingKind.COPY_DIFFERS, b"a.jpg", "nightly", None),
        (FindingKind.MASS_CHANGE, None, None, None),
    ],
)
def test_what_can_be_checked_alone(kind: FindingKind, path: bytes | None, copy: str | None, job: Job | None) -> None:
    """A file is read again, and a folder is looked for; a copy is compared as a whole, a decision is waited for."""
    finding = Finding(FindingId(1), kind, FindingState.OPEN, b"/srv/photos", path, "message", 0, 0, copy=copy)

    assert job == find_check(finding)


@pytest.mark.parametrize(("command", "status"), [("true", 200), ("false", 409)])
def test_channel_is_proven_by_a_test(watched: Watched, command: str, status: int) -> None:
    """The page shows when each channel last worked, and of one that fails since when and why."""
    toml = f'{watched.toml}[alerts]\ncommand = ["{command}"]\n'
    with WebPage(watched.box, toml, web="actions = true") as served, Service(watched.box):
        owner = Owner(served)
        wait_until(lambda: "never: send a test" in owner.client.get("/alerts").text, "the channel to be known")
        assert status == owner.send("test-alert").status
        text = owner.client.get("/alerts").text

    works = '<span class="is-good">works</span>'
    assert (works in text, "never: send a test" in text) == ((True, False) if status == 200 else (False, True))
    assert (status == 409) == ("fails since" in text)


def test_damaged_file_is_mended(page: WebPage, watched: Watched) -> None:
    """After its plan was shown, and with the password again; nothing but that file is touched."""
    owner, number = Owner(page), find_number(watched)
    file = watched.folder / "2019" / "b.jpg"
    good = (watched.folder / "2019" / "a.jpg").read_bytes()  # they were planted with the same content
    plan = owner.send("plan", id=number)
    seen = find_seen(plan)

    assert "intact in nightly" in html.unescape(plan.text)
    assert "--" not in re.sub(r"<[^>]*>", "", plan.text)
    assert 403 == owner.send("repair", id=number, seen=seen, password="a guess").status
    assert good != file.read_bytes()
    done = owner.send("repair", id=number, seen=seen, password=PASSWORD)
    assert 200 == done.status, html.unescape(done.text)
    assert good == file.read_bytes()
    assert "resolved" == find_state(watched, number)
    assert "repair" in owner.client.get("/history").text


def test_plan_that_changed_is_shown_instead_of_carried_out(page: WebPage, watched: Watched) -> None:
    """More of the file was damaged meanwhile, or no plan was shown: nothing is done before the new one is confirmed."""
    owner, number = Owner(page), find_number(watched)
    file = watched.folder / "2019" / "b.jpg"
    seen = find_seen(owner.send("plan", id=number))
    rot(file, 9)
    damaged = file.read_bytes()

    for token in ("", seen):
        new = owner.send("repair", id=number, seen=token, password=PASSWORD)
        assert (409, True) == (new.status, "This is the new plan" in new.text)
        assert "2 blocks: 0-1 of 4" in new.text
        assert damaged == file.read_bytes()
        assert "open" == find_state(watched, number)
    assert 200 == owner.send("repair", id=number, seen=find_seen(new), password=PASSWORD).status
    assert (watched.folder / "2019" / "a.jpg").read_bytes() == file.read_bytes()


def test_content_that_was_not_shown_is_not_accepted(page: WebPage, watched: Watched) -> None:
    """It changed on the disk after the page was shown, or after the last scrub; then with password and reason only."""
    owner, number = Owner(page), find_number(watched)
    seen = find_seen(owner.client.get(f"/findings/{number}"))
    rot(watched.folder / "2019" / "b.jpg", 9)

    for token in (seen, "", "nothing", "0" * 64):
        refused = owner.send("accept", id=number, seen=token, reason="as it should be", password=PASSWORD)
        assert (409, True) == (refused.status, "not what was shown" in refused.text), token
        assert "open" == find_state(watched, number)
    watched.box.run("scrub", watched.folder / "2019", expect=1)
    assert 409 == owner.send("accept", id=number, seen=seen, reason="now", password=PASSWORD).status
    seen = find_seen(owner.client.get(f"/findings/{number}"))
    assert 403 == owner.send("accept", id=number, seen=seen, reason="as it should be", password="").status
    assert 409 == owner.send("accept", id=number, seen=seen, reason="", password=PASSWORD).status
    assert "open" == find_state(watched, number)
    assert 200 == owner.send("accept", id=number, seen=seen, reason="as it should be", password=PASSWORD).status
    assert "resolved" == find_state(watched, number)
    assert [("as it should be",)] == query(watched.box, "SELECT reason FROM action WHERE verb = 'accept'")


def test_page_of_a_missing_file_says_that_its_deletion_is_accepted(page: WebPage, watched: Watched) -> None:
    """There is no file to be accepted as it is now."""
    (watched.folder / "2019" / "a.jpg").unlink()
    watched.box.run("scan", watched.folder, expect=1)
    owner, number = Owner(page), find_number(watched, "a.jpg")
    shown = owner.client.get(f"/findings/{number}")

    assert "Accept that the file was deleted" in shown.text
    assert "as it is now" not in shown.text.partition("Your password again")[0]
    sent = owner.send("accept", id=number, seen=find_seen(shown), reason="not needed", password=PASSWORD)
    assert (200, "resolved") == (sent.status, find_state(watched, number))
    assert "Accept the file as it is now" in owner.client.get(f"/findings/{find_number(watched)}").text


def test_guesses_count_for_those_who_make_them(page: WebPage, watched: Watched) -> None:
    """Who is logged in guesses no faster than at the log-in, and keeps nobody from it; nor do others stop the owner."""
    owner, other, number, thief = Owner(page), Owner(page), find_number(watched), page.client()
    answers = [owner.send("accept", id=number, reason="x", password=f"guess {nth}").status for nth in range(8)]
    assert (403, 429) == (answers[0], answers[-1])
    assert 303 == page.client().log_in().status
    while thief.log_in("a guess").status != 429:
        pass

    assert 409 == other.send("accept", id=number, seen="x", reason="x", password=PASSWORD).status


def test_what_makes_no_sense_is_refused(harmless: tuple[WebPage, Watched]) -> None:
    """With what is wrong; so is a finding that does not exist, and a channel that nobody configured."""
    owner = Owner(harmless[0])
    for verb, fields in (
        ("ack", {"id": "x"}),
        ("ack", {}),
        ("mute", {"id": "1", "days": "0"}),
        ("mute", {"id": "1", "days": "999999999999"}),
        ("mute", {"id": "1", "days": "-1"}),
        ("repair", {"id": "9" * 30, "password": PASSWORD}),
    ):
        reply = owner.send(verb, **fields)
        assert 400 == reply.status, (verb, fields)
        assert "must be" in reply.text
    assert 409 == owner.send("ack", id=99).status
    assert 404 == owner.send("plan", id=99).status
    assert "no channel is configured" in html.unescape(owner.send("test-alert").text)


def test_nothing_is_done_without_token_or_log_in(harmless: tuple[WebPage, Watched]) -> None:
    """Also not by a link."""
    page, watched = harmless
    number = find_number(watched)
    visitor: WebClient = page.visitor()

    assert 403 == visitor.post("/actions/ack", {"id": str(number), "csrf": "x"}).status
    assert 303 == page.client().post("/actions/ack", {"id": str(number)}).status
    assert 405 == visitor.get("/actions/ack").status
    assert "open" == find_state(watched, number)


def test_without_actions_there_are_none(watched: Watched) -> None:
    """No button is shown, and no form is taken; without a service the page says what is missing."""
    with WebPage(watched.box, watched.toml) as page:
        owner = Owner(page)
        assert "/actions/" not in owner.client.get("/").text + owner.client.get("/findings/1").text
        assert "Allow buttons on this page" in owner.client.get("/findings/1").text
        refused = owner.send("ack", id=1)
        assert 403 == refused.status
        assert "actions = true" in refused.text
    with WebPage(watched.box, watched.toml, web="actions = true") as page:
        refused = Owner(page).send("ack", id=1)
        assert 409 == refused.status
        assert "the service does not run" in refused.text
