"""What the pages say is what the commands say; names are shown, and are never a part of the page."""

from __future__ import annotations

import html
import json
import os
import re
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from tests.web.conftest import BROKEN, SCRIPT, Watched, lose_album

from integrity.model import FindingKind
from integrity.web.pages.api import find_json_pages
from integrity.web.rendering import break_at_folders
from integrity.web.site import Site
from support.asked import make_noting_request
from support.cli import Box
from support.service import Service
from support.webpage import WebClient, WebPage

pytestmark = pytest.mark.root

PLACES = ["/", "/findings", "/findings/1", "/findings/2", "/browse/1", "/browse/1/2019",
          "/runs", "/runs/1", "/copies", "/alerts", "/settings"]  # fmt: skip


@pytest.fixture(scope="module")
def visitor(lasting_page: WebPage) -> WebClient:
    """Visit it."""
    return lasting_page.visitor()


def find_links(text: str) -> set[str]:
    return {html.unescape(link) for link in re.findall(r'href="(/[^"#]*)', text)}


def test_every_page_answers_and_every_link_leads_somewhere(lasting_page: WebPage, visitor: WebClient) -> None:
    """From the overview on, each link is followed once; no name, message or URL of a copy becomes a tag."""
    seen: dict[str, int] = {}
    waiting = {"/", "/findings?state=all"}
    while waiting:
        place = waiting.pop()
        reply = visitor.get(place)
        seen[place] = reply.status
        if "text/html" in (reply.headers["Content-Type"] or ""):
            waiting |= find_links(reply.text) - seen.keys() - {"/live"}
            assert not re.search("<script>alert|<b>copy|\x1b", reply.text), place

    assert {200} == {status for place, status in seen.items() if place != "/browse"}  # it leads on to the only root
    assert set(PLACES) <= seen.keys()
    assert "bug" not in lasting_page.log


def test_overview_says_what_is_wrong_and_how_bad_it_is(visitor: WebClient, lasting: Watched) -> None:
    """With the words of the mails and of ``status``."""
    text = html.unescape(visitor.get("/").text)

    (first, *_) = lasting.box.run("status", expect=1).stdout.splitlines()
    assert "2 damaged files; both can be repaired from " in first
    assert first in text
    assert "No service runs for this catalog" in text
    assert str(lasting.folder) in text


def test_finding_shows_blocks_evidence_and_what_to_do(visitor: WebClient, lasting: Watched) -> None:
    """The damaged block, what each side says, and the command with the copy that is good."""
    findings = lasting.box.findings("findings", expect=1)
    number = next(one["id"] for one in findings if one["path"].endswith("b.jpg"))
    text = html.unescape(visitor.get(f"/findings/{number}").text)

    assert f"{lasting.box.program} repair {lasting.folder}/2019/b.jpg --from nightly" in text
    assert "block 1 (counted from 0" in text
    assert 1 == len(re.findall(r'<rect class="in-copy" x="12"', text))
    assert 3 == len(re.findall(r'<rect class="intact" x="\d+" y="0" width="11"', text))
    record = lasting.box.get_object("file", "explain", lasting.folder / "2019" / "b.jpg")
    assert record["digests"]["md5"] in text
    assert "copy nightly" in text
    assert 'href="/manual/rot">What this means</a>' in text


def test_manual_is_on_the_page(lasting_page: WebPage, visitor: WebClient) -> None:
    """The page of each kind of finding, without what only tests and the site's generator read."""
    listed, text = visitor.get("/manual").text, html.unescape(visitor.get("/manual/rot").text)

    assert {f"/manual/{kind}" for kind in FindingKind} <= find_links(listed)
    assert '<h1 id="damaged-bit-rot">DAMAGED (bit rot)</h1>' in text
    assert '<a href="/manual/copies#what-shows-in-the-bytes">' in text
    assert "generated:" not in text
    assert 404 == visitor.get("/manual/index").status
    assert 303 == lasting_page.client().get("/manual/rot").status


def test_list_shows_what_it_was_asked_for(visitor: WebClient) -> None:
    """The choice is unfolded and has what was chosen; without one it is folded."""
    text = visitor.get("/findings?copy=nightly").text

    assert "<details open><summary>Choose which" in text
    assert '<option value="nightly" selected>' in text
    assert "<details><summary>Choose which" in visitor.get("/findings").text


def test_settings_show_first_what_differs(visitor: WebClient, lasting: Watched) -> None:
    """What the file sets, root by root; the defaults follow, folded."""
    changed, _, defaults = html.unescape(visitor.get("/settings").text).partition("<h2>Defaults</h2>")

    assert f'[[root]] "{lasting.folder}"' in changed
    assert '"archive"' in changed
    assert "verify_every" not in changed
    assert "<summary>[schedule]: " in defaults


def test_lines_break_between_folders(visitor: WebClient, lasting: Watched) -> None:
    """A path may be broken behind each of its slashes; a name with hyphens is kept together."""
    body, names = visitor.get("/findings").body.decode(), lasting.folder.parts[1:]
    shown = [f"<bdi>{name}/</bdi><wbr>" if "-" in name else f"{name}/<wbr>" for name in names]

    assert any("-" in name for name in names)
    assert f"/{''.join(shown)}2019/<wbr>b.jpg" in body


def test_runs_show_the_last_days(visitor: WebClient) -> None:
    """What was verified and found today, in words, as a drawing and as a table."""
    text = html.unescape(visitor.get("/runs").text)

    assert "In the last 90 days files were verified on 1 day, 2 findings opened. Last verified today." in text
    assert 1 == len(re.findall(r'<rect class="day" x=', text))
    assert 1 == len(re.findall(r'<rect class="problem" x=', text))
    assert '<td class="number is-bad" data-label="Problems found">2</td>' in text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("integrity repair '/srv/my photos/a.jpg' --from x",
         "integrity repair &#39;/srv/<wbr>my photos/<wbr>a.jpg&#39; <bdi>--from</bdi> x"),
        ("https://nas/a-b/<c>", "https://nas/<wbr><bdi>a-b/</bdi><wbr>&lt;c&gt;"),
    ],
)  # fmt: skip
def test_marks_stand_where_a_line_may_break(text: str, expected: str) -> None:
    """Not behind the slash that begins a path, nor behind a hyphen; all else is text."""
    assert expected == break_at_folders(text)


def test_names_of_any_bytes_can_be_looked_at(visitor: WebClient) -> None:
    """A name is found by its bytes, whatever they are."""
    shown = [visitor.get(f"/browse/1/{quote(name)}") for name in (BROKEN, os.fsencode(SCRIPT))]

    assert [200, 200] == [reply.status for reply in shown]
    assert "\\xff\\xfe \\x1b[31m" in html.unescape(shown[0].text)
    assert f"/browse/1/{quote(BROKEN)}" in html.unescape(visitor.get("/browse/1").text)


@pytest.mark.parametrize(
    "place",
    ["/browse/1/../../../etc/passwd", "/browse/1/%2e%2e/%2e%2e/etc/passwd", "/browse/1//etc/passwd", "/browse/9",
     "/browse/1/2019/a.jpg/b", "/findings/99", "/findings/99999999999999999999999", "/runs/99",
     "/runs/99999999999999999999999", "/nothing", "/api/v1/files/etc/passwd", "/static/../app.py",
     "/static/%2e%2e/app.py"],
)  # fmt: skip
def test_what_is_not_there_is_not_found(lasting_page: WebPage, visitor: WebClient, place: str) -> None:
    """A page that says so, with the status that programs understand; no file of the machine is ever opened."""
    reply = visitor.get(place)

    assert 404 == reply.status
    assert "root:" not in reply.text
    assert "Traceback" not in lasting_page.log


@pytest.mark.parametrize(
    "query",
    ["/findings?before=x", "/findings?kind=nix", "/findings?root=-1", "/runs?job=nix", "/runs?before=9e9",
     "/api/v1/findings?limit=x", "/api/v1/runs?root=99999999999999999999"],
)  # fmt: skip
def test_what_can_not_be_understood_is_400(visitor: WebClient, query: str) -> None:
    """And says which part of it."""
    reply = visitor.get(query)

    assert 400 == reply.status
    assert "must be" in reply.text


def plain(printed: dict[str, object]) -> dict[str, object]:
    """Return an object without what says on a line of its own which object it is."""
    return {key: value for key, value in printed.items() if key not in ("type", "schema")}


def ask(watched: Watched, visitor: WebClient, place: str) -> Any:
    """Ask the API; commands in its answer stand as the box itself prints them."""
    return json.loads(visitor.get(f"/api/v1/{place}").text.replace(watched.box.program, "integrity"))


def test_objects_are_those_of_the_command_line(visitor: WebClient, lasting: Watched) -> None:
    """The same fields with the same values."""
    box = lasting.box
    file = lasting.folder / "2019" / "b.jpg"
    status = visitor.get("/api/v1/status").object

    found = [plain(one) for one in box.findings("findings", expect=1)]
    assert found == ask(lasting, visitor, "findings")["findings"][::-1]
    assert plain(box.get_object("file", "explain", file)) == ask(lasting, visitor, f"files{quote(str(file))}")
    assert plain(box.get_object("copy", "status")) == status["copies"][0]
    (root,) = status["roots"]
    assert 1 == root.pop("id")
    assert plain(box.get_object("root", "status")) == root
    runs = visitor.get("/api/v1/runs?limit=2").object
    assert ["compare", "scan"] == [one["job"] for one in runs["runs"]] or len(runs["runs"]) == 2
    assert runs["next_before"] == runs["runs"][-1]["id"]


def page_through(visitor: WebClient, kind: str) -> list[int]:
    numbers: list[int] = []
    before = ""
    while True:
        reply = visitor.get(f"/api/v1/{kind}?limit=1{before}").object
        numbers += [one["id"] for one in reply[kind]]
        if reply["next_before"] is None:
            return numbers
        before = f"&before={reply['next_before']}"


def test_pages_follow_each_other(visitor: WebClient) -> None:
    """Each entry is on one page, the newest first."""
    for kind in ("findings", "runs"):
        numbers = page_through(visitor, kind)
        assert sorted(set(numbers), reverse=True) == numbers
        assert [one["id"] for one in visitor.get(f"/api/v1/{kind}?limit=1000").object[kind]] == numbers


def test_description_of_the_interface_names_every_path(visitor: WebClient) -> None:
    """What OpenAPI says is there answers."""
    described = visitor.get("/api/v1/openapi.json").object

    assert described["openapi"].startswith("3.")
    for path in described["paths"]:
        place = path.replace("{finding_id}", "1").replace("{path}", "nothing")
        assert visitor.get(f"/api/v1{place}").status in (200, 404)


def test_pages_for_programs_ask_for_what_is_described(lasting_page: WebPage, lasting: Watched) -> None:
    """No parameter is secret, and none is without effect; a list has the described names."""
    site = Site(os.fsencode(lasting_page.config), os.fsencode(lasting.box.catalog))
    for path, one in find_json_pages(site).items():
        file = f"/api/v1/files{lasting.folder}/2019/b.jpg"
        request, asked = make_noting_request(file if "files" in path else path, {"finding_id": 1})
        answer = one.answer(request)

        assert {parameter.name for parameter in one.parameters} == asked, path
        assert {one.entries, one.cursor} - {""} <= answer.keys(), path


def test_running_service_is_shown(watched: Watched) -> None:
    """Without one the page says so; with one it is healthy and says what comes next."""
    with WebPage(watched.box, watched.toml) as page:
        assert 503 == page.client().get("/healthz").status
        config = page.config.read_text()
    watched.box.configure(config)
    with Service(watched.box), WebPage(watched.box, watched.toml) as page:
        assert 200 == page.client().get("/healthz").status
        text = page.visitor().get("/").text
        assert "No service runs" not in text
        assert "Next: " in text
        live = page.visitor().get("/metrics").text
        assert "integrity_service_up 1.0" in live


def test_files_gone_from_one_folder_are_one_row(integrity: Box, tmp_path: Path) -> None:
    """With one command for all of them, and each of them below."""
    album = tmp_path / "photos" / "album"
    toml = lose_album(integrity, album)

    with WebPage(integrity, toml) as page:
        visitor = page.visitor()
        text, everything = (html.unescape(visitor.get(f"/findings{query}").text) for query in ("", "?state=all"))

    assert "MISSING: 9 files" in text
    assert "MISSING: 9 files" not in everything
    assert 1 == len(re.findall(rf"repair {re.escape(str(album))} --from COPY", text))
    assert 9 == len(re.findall(r'<li><a href="/findings/\d+">\d\.jpg</a>', text))
