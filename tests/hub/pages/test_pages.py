"""The pages of a hub say how boxes are and how long ago that was known; what a box sends is text and nothing else."""

from __future__ import annotations

import html
import re
import time
from pathlib import Path
from urllib.parse import quote

import pytest
import sqlalchemy as sa
from tests.hub.pages.conftest import EVIL_SET, fill_hostile

from integrity.hub import schema
from integrity.hub.database import HubDatabase
from integrity.hub.metrics import MOST_SETS
from support.hub_pages import TOKEN, HubPages
from support.hub_rows import HubRows
from support.hubserver import make_tables
from support.postgres import PostgresServer
from support.webpage import WebClient

PLACES = (
    *("/", "/boxes", "/boxes/cellar", "/boxes/offsite", "/boxes/workshop", "/boxes/former"),
    *("/sets", "/sets/photos", "/sets/music", "/findings", "/findings?state=all"),
    *("/findings/1", "/findings/2", "/findings/3", "/findings/4", "/trees", "/trees/archive", "/trees/new", "/audit"),
)
BAD_SET = quote(EVIL_SET, safe="")
HOSTILE_PLACES = (
    *("/", "/boxes", "/boxes/stolen", "/sets", f"/sets/{BAD_SET}"),
    *("/findings", f"/findings?set={BAD_SET}", "/findings/5", "/trees", f"/trees/{BAD_SET}", "/audit"),
)
OBJECTS = (
    *("/status", "/boxes", "/boxes/stolen", "/boxes/stolen/findings", "/boxes/stolen/events"),
    *("/sets", f"/sets/{BAD_SET}", "/findings", "/findings/5", "/trees", f"/trees/{BAD_SET}", "/audit"),
)


def read(visitor: WebClient, place: str) -> str:
    reply = visitor.get(place)
    assert 200 == reply.status, (place, reply.text)
    return html.unescape(reply.text)


def find_links(text: str, place: str) -> set[str]:
    links = {html.unescape(link) for link in re.findall(r'href="([^"#]+)', text)}
    here = place.partition("?")[0]
    return {link if link.startswith("/") else here + link for link in links}


def test_every_page_answers_and_every_link_leads_somewhere(pages: HubPages) -> None:
    """From the overview on, each link of each page is followed once."""
    visitor = pages.visitor()
    seen: dict[str, int] = {}
    waiting = {"/", *PLACES}
    while waiting:
        place = waiting.pop()
        reply = visitor.get(place)
        seen[place] = reply.status
        if "text/html" in (reply.headers["Content-Type"] or ""):
            waiting |= find_links(reply.text, place) - seen.keys()

    assert {200} == set(seen.values()), seen
    assert "bug" not in pages.log


def test_overview_says_what_is_wrong_the_worst_first(pages: HubPages) -> None:
    """First what votes found, then what a box says of itself, who is silent, who is late, and who never came."""
    text = read(pages.visitor(), "/")
    sentence = re.sub(r"<[^>]*>", "\n", text.partition('<h1 class="sentence bad">')[2].partition("</h1>")[0]).split(
        "\n"
    )

    assert [
        "Found: 1 damaged file.",
        "1 box reports a problem: cellar.",
        "cellar says: Found: 1 damaged file. 1 of 12,345 files is affected.",
        "1 box of 5 has stopped reporting: offsite for 3 days.",
        "studio: not every file in 1 folder was verified as promised.",
        "1 box has not reported yet: workshop.",
        "1 replica set was not compared yet: music.",
        "Not everything could be checked: 1 shared tree is not verified in time.",
    ] == [line for line in sentence if line]
    assert ["cellar", "offsite", "studio", "workshop", "attic"] == re.findall(r'<h3><a href="/boxes/(\w+)"', text)


def test_silent_box_is_nowhere_green(pages: HubPages) -> None:
    """Though the last thing that it said was that all is well."""
    visitor = pages.visitor()
    text = read(visitor, "/boxes/offsite")
    table = read(visitor, "/boxes")
    row = next(line for line in table.splitlines() if "/boxes/offsite" in line)

    assert '<h1 class="sentence warn">offsite: stopped reporting' in text
    assert "When it last reported: All 12,345 files (5.4 GiB) were verified within 30 days." in text
    assert "not known, no report for 3 days" in text
    for shown in (text, row):
        assert not re.search(r'class="(is-good|day|week|kept|good)"', shown)
    assert "is-good" not in read(visitor, "/sets/photos").partition("<h2>Members")[0]


def test_finding_names_the_box_and_the_command(pages: HubPages) -> None:
    """With the block on its map, and what each member has beside the others."""
    text = read(pages.visitor(), "/findings/1")

    assert "DAMAGED on cellar: 2019/img_0042.raw" in text
    assert 'Run on <a href="/boxes/cellar">cellar</a>' in text
    assert "integrity repair /srv/photos/2019/img_0042.raw --from ssh://attic/srv/photos" in text
    assert 2 == text.count('<rect class="in-copy" x=')
    assert ["attic", "cellar", "offsite"] == re.findall(r'<th scope="col"><a href="/boxes/(\w+)"', text)
    assert "the right content" in text


def test_tree_says_whether_its_promise_is_kept(pages: HubPages) -> None:
    """With what is late, what nobody has read, who reads now, and who does not call any more."""
    visitor = pages.visitor()
    text = read(visitor, "/trees/archive")

    assert '<h1 class="sentence warn">archive' in text
    assert "1 of 3 shards were not verified within" in text
    assert "no space on /var/tmp" in text
    assert '<a href="/boxes/attic">attic</a> reads it' in text
    assert "does not call any more" in text
    assert "and 6 more folders" in text
    assert "Not surveyed yet" in read(visitor, "/trees")
    page = visitor.get("/api/v1/trees/archive?limit=2").object
    rest = visitor.get(f"/api/v1/trees/archive?after={page['next_after']}").object
    assert [1, 2, 3] == [one["id"] for one in page["page"] + rest["page"]]
    assert 404 == visitor.get("/trees/nothing").status
    finding = read(visitor, "/findings/4")
    assert '<a href="/trees/archive">archive</a>' in finding
    assert "shard 1, finding 3: Block 4 differs." in finding
    assert ["archive"] == [one["tree"] for one in visitor.get("/api/v1/findings?tree=archive").object["findings"]]


def test_decisions_are_made_and_written_down(pages: HubPages) -> None:
    """Acknowledging and muting change the finding, and the audit log says who did it from where."""
    visitor = pages.visitor()
    token = re.search(r'name="csrf" value="(\w+)"', visitor.get("/").text)
    assert token is not None
    done = visitor.post("/actions/ack", {"csrf": token[1], "id": "1"})
    muted = visitor.post("/actions/mute", {"csrf": token[1], "id": "2", "days": "7"})

    assert (200, 200) == (done.status, muted.status)
    states = {one["id"]: one["state"] for one in visitor.get("/api/v1/findings").object["findings"]}
    assert {1: "acknowledged", 2: "muted", 4: "open"} == states
    entries = visitor.get("/api/v1/audit").object["entries"]
    assert [("mute", "finding 2", "127.0.0.1"), ("acknowledge", "finding 1", "127.0.0.1")] == [
        (one["verb"], one["subject"], one["address"]) for one in entries[:2]
    ]


@pytest.mark.parametrize("verb", ["ack", "mute"])
def test_decisions_need_the_token_and_a_finding_that_is_open(pages: HubPages, verb: str) -> None:
    """Without them nothing is done and nothing written down."""
    visitor = pages.visitor()
    token = re.search(r'name="csrf" value="(\w+)"', visitor.get("/").text)
    assert token is not None
    before = visitor.get("/api/v1/audit").object

    for given in ("", "x" * 64):
        assert 403 == visitor.post(f"/actions/{verb}", {"csrf": given, "id": "1", "days": "7"}).status
    form = {"csrf": token[1], "id": "1", "days": "7"}
    assert 403 == visitor.post(f"/actions/{verb}", form, Origin="http://evil.example").status
    assert 303 == pages.client().post(f"/actions/{verb}", form).status
    assert 409 == visitor.post(f"/actions/{verb}", form | {"id": "3"}).status  # resolved
    assert 409 == visitor.post(f"/actions/{verb}", form | {"id": "77"}).status
    assert 400 == visitor.post(f"/actions/{verb}", form | {"id": "1 OR 1=1"}).status
    assert before == visitor.get("/api/v1/audit").object


def test_what_a_stolen_box_sends_is_text(pages: HubPages, filled: HubDatabase) -> None:
    """No name, sentence, path or body becomes a part of a page, a template or a terminal."""
    fill_hostile(filled)
    visitor = pages.visitor()

    for place in HOSTILE_PLACES:
        reply = visitor.get(place)
        assert 200 == reply.status, place
        assert "<script>alert" not in reply.text
        assert "<img src=x" not in reply.text
        assert ">49" not in reply.text
        shown = re.sub(r'<option value="[^"]*"', "", reply.text)  # what a form sends is the name as it is
        assert not re.search("[\x00-\x09\x0b-\x1f\u202e]", shown), place
        assert reply.headers["Content-Security-Policy"].startswith("default-src 'none'")
    assert "bug" not in pages.log


def test_json_of_a_stolen_box_is_json(pages: HubPages, filled: HubDatabase) -> None:
    """Also where it sent what JSON can't express, or what UTF-8 can't."""
    fill_hostile(filled)
    visitor = pages.visitor()

    for place in OBJECTS:
        reply = visitor.get(f"/api/v1{place}")
        assert 200 == reply.status, place
        assert isinstance(reply.object, dict)
        assert not re.search(rb"\b(NaN|Infinity)\b", reply.body), place
    assert 404 == visitor.get("/api/v1/boxes/nobody").status
    assert 404 == visitor.get("/api/v1/sets/nothing").status
    assert 404 == visitor.get(f"/api/v1/findings/{1 << 70}").status
    assert 400 == visitor.get("/api/v1/boxes/stolen/findings?before=x").status


def test_lists_are_read_page_by_page(pages: HubPages, filled: HubDatabase) -> None:
    """Each entry comes once, whatever the size of a page; findings of a box though their numbers come twice."""
    with filled.transaction() as c:
        box = c.execute(sa.select(schema.box.c.id).where(schema.box.c.name == "attic")).scalar_one()
        rows = HubRows(c, 2_000_000_000)
        for number in range(1, 8):
            rows.add_event(box, "run", {"job": "scan"})
            for opened_at in (10, 20):
                rows.add_box_finding(box, number, b"a", "rot", opened_at=opened_at)
    visitor = pages.visitor()

    def collect(place: str, name: str, cursor: str) -> list[dict[str, object]]:
        found, after = [], ""
        while True:
            page = visitor.get(f"/api/v1{place}?limit=3{after}").object
            found += page[name]
            if (following := page[f"next_{cursor}"]) is None:
                return found
            after = f"&{cursor}={quote(str(following))}"

    findings = collect("/boxes/attic/findings", "findings", "before")
    assert [(n, at) for n in range(7, 0, -1) for at in ("1970-01-01T00:00:20Z", "1970-01-01T00:00:10Z")] == [
        (one["number"], one["opened_at"]) for one in findings
    ]
    assert 7 == len({one["id"] for one in collect("/boxes/attic/events", "events", "before")})
    boxes = [one["name"] for one in collect("/boxes", "boxes", "after")]
    assert ["attic", "cellar", "former", "offsite", "studio", "workshop"] == boxes


def test_boxes_are_sorted_and_filtered(pages: HubPages) -> None:
    """By how they are, by their silence, by a part of the name."""
    visitor = pages.visitor()

    def names(query: str) -> list[str]:
        return [one["name"] for one in visitor.get(f"/api/v1/boxes{query}").object["boxes"]]

    assert ["cellar", "offsite", "studio", "workshop", "attic", "former"] == names("?sort=health")
    assert ["workshop", "offsite"] == names("?sort=reported")[:2]
    assert ["studio"] == names("?sort=verified")[:1]
    assert ["attic"] == names("?health=ok")
    assert ["studio"] == names("?name=TUD")
    assert [] == names("?name=%25")
    assert 400 == visitor.get("/boxes?sort=password").status


def test_programs_read_with_a_token(pages: HubPages) -> None:
    """Metrics and objects; pages need a log-in. Health is open."""
    program = pages.client()
    right = f"Bearer {TOKEN}"

    assert 200 == program.get("/healthz").status
    assert 401 == program.get("/metrics").status
    assert 401 == program.get("/api/v1/boxes").status
    assert 303 == program.get("/boxes", Authorization=right).status
    text = program.get("/metrics", Authorization=right).text
    assert 'integrity_hub_box_silent{box="offsite"} 1.0' in text
    assert 'integrity_hub_box_health{box="cellar",health="problem"} 1.0' in text
    assert 'integrity_hub_findings_open{kind="replica_damaged"} 1.0' in text
    assert "img_0042" not in text
    assert "former" not in text


def test_invented_sets_have_a_bounded_number_of_metrics(pages: HubPages, filled: HubDatabase) -> None:
    """Those that were there before a box invented many keep theirs."""
    with filled.transaction() as c:
        rows = HubRows(c, int(time.time()) + 90 * 86_400)
        box = rows.add_box("stolen")
        for number in range(MOST_SETS + 10):
            rows.add_root(box, b"/r", set_id=rows.add_set(f"invented {number}"), root_id=number)
    text = pages.client().get("/metrics", Authorization=f"Bearer {TOKEN}").text

    assert MOST_SETS == len(re.findall(r"^integrity_hub_set_members\{", text, re.MULTILINE))
    assert 'integrity_hub_set_members{set="photos"}' in text
    assert f"integrity_hub_sets {MOST_SETS + 12}.0" in text


def test_database_that_went_away_is_said(tmp_path: Path) -> None:
    """Pages say that it does not answer, health is not ok, and both are well again when it is back."""
    with PostgresServer() as server:
        url = make_tables(server.create_database())
        with HubPages(url, tmp_path) as pages:
            visitor = pages.visitor()
            server.stop()
            shown, health = visitor.get("/"), visitor.get("/healthz")
            answer = visitor.get("/api/v1/boxes")
            server.start()

            assert (503, 503, 503) == (shown.status, health.status, answer.status)
            assert "The database of the hub does not answer" in shown.text
            assert "try again" in answer.object["error"]
            assert (200, 200) == (visitor.get("/").status, visitor.get("/healthz").status)
            assert "No box reports here yet." in visitor.get("/").text
