"""A marker in every text that a box can send: on no page and in no answer does it become more than text."""

from __future__ import annotations

import html
import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import quote, urljoin

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.hub.pages.test_hub_server import owner

from integrity.hub.database import HubDatabase
from integrity.hub.findings import find_findings
from integrity.jobs.shards.messages import (
    FolderSize,
    Size,
    TreeOffer,
    VisitResult,
    digest_file,
    pack_lines,
    write_message,
    write_survey,
)
from integrity.reporting import protocol
from integrity.reporting.protocol import JsonObject, MessageKind
from support.hub_reports import Stream, Tree, make_file, make_finding, make_heartbeat, make_root
from support.hubserver import HubCaller, HubServerProcess
from support.waiting import wait_until
from support.webpage import WebClient

__all__ = ["owner"]

PLACES = ("/", "/boxes", "/boxes/nas?findings=all", "/sets", "/trees", "/findings?state=all", "/audit", "/metrics")
LISTS = ("status", "boxes", "boxes/nas", "boxes/nas/findings", "boxes/nas/events", "sets", "trees", "findings", "audit")
ADDRESSES = frozenset({"href", "src", "action", "formaction", "srcset", "data", "poster"})
FORBIDDEN = "/"
"""No name of a file has one."""


def mark(field: str) -> str:
    """Return a text that is an element, an attribute, a template, a line of a log and a color, if it is let."""
    return f"{field}\"'><x-marker onx-marker=1>{{{{7*7}}}}${{7*7}}javascript:\nINJECTED {field}\r\x1b[31m\u202e`&lt;"


def mark_url(field: str) -> str:
    """Return a URL that is a program."""
    return f"javascript:{mark(field)}"


def mark_name(field: str) -> bytes:
    """Return a name of a file or folder, with bytes that are no text."""
    return mark(field).replace(FORBIDDEN, "").encode() + b"\xff"


class PageParser(HTMLParser):
    """Finds what a browser would do on a page that it should not, and where the page leads to."""

    def __init__(self, place: str) -> None:
        super().__init__()
        self._place = place
        self.problems: list[str] = []
        self.links: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Look at an element."""
        if "marker" in tag:
            self.problems.append(f"{self._place}: element {tag}")
        for name, value in attrs:
            if name.startswith("on") or "marker" in name or name == "style":
                self.problems.append(f"{self._place}: {tag} {name}={value}")
            if name in ADDRESSES:
                if not re.match(r"[/?#]", value or "/") or (value or "").startswith("//"):
                    self.problems.append(f"{self._place}: {tag} {name}={value}")
                elif tag == "a":
                    self.links.add(urljoin(self._place, (value or "/").partition("#")[0]))


def report_all(box: HubCaller, other: HubCaller) -> None:
    """Send the marker in each text of each call about files and findings; two boxes differ, so votes name files."""
    root = make_root(
        1,
        mark("set")[:200],
        path="/" + mark("root"),
        url=mark_url("url"),
        policy=mark("policy"),
        excludes=[mark("excludes")],
    )
    texts = {key: mark(key) for key in ("hostname", "version", "sentence")}
    for caller, content in ((box, b"x"), (other, b"y")):
        name = mark_name("file")
        tree = Tree({mark_name("folder"): [make_file(name, content)], b"": [make_file(name, content)]})
        stream = begin_stream()
        root = root | {"tree": tree.top.hex()}
        caller.call("heartbeat", make_heartbeat(stream.id, root, state="problem", **texts))
        assert 200 == caller.post("messages", stream.body()).status
        caller.send_tree(tree.parts())
        assert caller.call("trees/1/settle", {"protocol": 1, "tree": tree.top.hex()}) == {"settled": True}


def begin_stream() -> Stream:
    """Return messages of each kind with a marker in each text."""
    name = mark_name("file").decode("utf-8", "surrogateescape")
    words = {key: mark(key) for key in ("message", "copy", "step", "command", "incident", "path", "root", "action")}
    odd = {key: mark(key) for key in ("kind", "certainty", "state")}
    findings = (make_finding(1, name) | words, make_finding(2, name) | words | odd)
    stream = Stream().begin(*findings)
    run = {key: mark(key) for key in ("job", "outcome", "error", "path", "copy")} | {"root_id": 1, "findings_opened": 2}
    stream.add(MessageKind.RUN, run)
    keys = ("who", "address", "verb", "outcome", "reason", "root", "relative_path", "findings")
    return stream.add(MessageKind.ACTION, {key: mark(key) for key in keys} | {"root_id": 1})


def work_on_tree(box: HubCaller, folder: str) -> None:
    """Send the marker in each text of the calls of a worker."""

    def call(path: str, **values: object) -> JsonObject:
        answer = box.call(f"shards/{path}", {"protocol": 1, **who, **values})
        assert isinstance(answer, dict)
        return answer

    def store(lines: list[bytes]) -> str:
        path = pack_lines(lines, folder.encode())
        with open(path, "rb") as file:
            digest = digest_file(file)
            file.seek(0)
            data = file.read()
        header = {"protocol": 1, **who, "job": job, "digest": digest, "offset": 0, "size": len(data)}
        assert 200 == box.post("shards/store", protocol.encode(header) + b"\n" + data).status
        return digest

    who: JsonObject = {}
    name = "".join(char for char in mark("tree") if char.isprintable())
    offer = TreeOffer(name, 2, 86_400, {mark("setting"): mark("value")})
    who = {"worker": call("join", **write_message(offer))["worker"]}
    job = call("take")["task"]["job"]
    folders = [FolderSize(mark_name("shard"), Size(1, 1)), FolderSize(b"", Size(1 << 40, 1 << 40))]
    call("survey", job=job, digest=store([*write_survey(folders)]))
    task = call("take")["task"]
    job = task["job"]
    body = {"message": mark("shard message"), "certainty": "proven", "blocks": [1]}
    path = mark_name("shard file").decode("utf-8", "surrogateescape")
    finding = {"number": 1, "path": path, "kind": mark("shard kind"), "opened_at": 1, "body": body}
    result = write_message(VisitResult(task["version"], store([b"catalog"]), True, 1, 1, 1, 0, 1, 1, 1))
    lines = protocol.encode_lines([{"protocol": 1, **who, "job": job, **result}, finding])
    assert 200 == box.post("shards/finish", lines).status
    job = call("take")["task"]["job"]
    call("release", job=job, trouble=mark("trouble"))


def sweep(visitor: WebClient) -> tuple[list[str], str]:
    """Load every page that another one leads to, and every list; return what is wrong, and all text."""
    problems: list[str] = []
    texts: list[str] = []
    waiting = {*PLACES, *(f"/api/v1/{one}" for one in LISTS)}
    seen = set[str]()
    while waiting:
        place = waiting.pop()
        seen.add(place)
        reply = visitor.get(place)
        kind = reply.headers["Content-Type"] or ""
        texts.append(html.unescape(reply.text))
        if reply.status != 200 or reply.headers["X-Content-Type-Options"] != "nosniff":
            problems.append(f"{place}: {reply.status}")
        if "text/html" in kind:
            page = PageParser(place)
            page.feed(reply.text)
            problems += page.problems
            waiting |= {quote(link, safe="/?=&%#+.-_~") for link in page.links} - seen
            problems += [f"{place}: {one!r}" for one in re.findall("[\x00-\x09\x0b-\x1f\u202e]", reply.text)]
        elif place == "/metrics":
            names = [metric.name for metric in text_string_to_metric_families(reply.text)]
            problems += [f"{place}: {name}" for name in names if not name.startswith("integrity_")]
        elif "json" in kind:
            assert isinstance(reply.object, dict)
        if ">49<" in reply.text or "49javascript" in reply.text:
            problems.append(f"{place}: a template was run")
    return problems, "\n".join(texts)


@pytest.mark.timeout(300)
def test_what_boxes_send_is_text_everywhere(
    hub: HubServerProcess, hub_url: str, owner: WebClient, tmp_path: Path
) -> None:
    """Pages, answers, metrics and the log; each text that is shown is found again, so the sweep has seen it."""
    nas, other = hub.add("nas"), hub.add("other")
    report_all(nas, other)
    if "://" in hub_url:
        work_on_tree(nas, str(tmp_path / "packed"))
    database = HubDatabase.open(hub_url)

    def is_voted() -> bool:
        with database.read() as c:
            return any(b"folder" in one.path for one in find_findings(c))

    wait_until(is_voted, "a vote on both boxes", every_s=0.2)
    database.close()
    problems, text = sweep(owner)

    assert [] == problems
    shown = {"set", "root", "url", "policy", "hostname", "version", "sentence", "file", "folder", "kind", "state"}
    shown |= {"message", "job", "outcome", "who", "verb"}
    if "://" in hub_url:
        shown |= {"tree", "trouble", "shard", "shard file", "shard kind", "shard message"}
    assert set() == {field for field in shown if f"{field}\"'><x-marker" not in text}
    assert not re.search("^INJECTED", hub.log, re.MULTILINE)
    assert "Traceback" not in hub.log
