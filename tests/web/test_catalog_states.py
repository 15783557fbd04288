"""The page about a catalog that is locked, of another version, missing, or has very many findings."""

from __future__ import annotations

import html
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager

import pytest
from starlette.requests import Request

from integrity.catalog.connection import Catalog
from integrity.catalog.db import Connection
from integrity.catalog.own_files import is_being_upgraded
from integrity.errors import CatalogLocked
from integrity.web.query import patient
from support.cli import Box, make_command
from support.flips import damage_table
from support.older import put_older
from support.stored import rewrite
from support.waiting import wait_until
from support.webpage import WebClient, WebPage, read_memory

PLACES = ("/", "/findings", "/findings/1", "/runs", "/browse/1", "/history")
FINDINGS = 100_000


@pytest.fixture
def recorded(integrity: Box) -> Box:
    """Record a folder with a file whose name is not UTF-8, and more of them than one page lists."""
    folder = integrity.home / "watched"
    folder.mkdir(parents=True)
    for number in range(520):
        with open(bytes(folder) + b"/\xff%03d.jpg" % number, "wb") as file:
            file.write(b"x")
    integrity.run("scan", folder, expect=0)
    return integrity


@pytest.fixture
def visitor(recorded: Box) -> Iterator[WebClient]:
    """Visit the page about it."""
    with WebPage(recorded) as page:
        yield page.visitor()
        assert "bug" not in page.log


@pytest.mark.parametrize(
    ("revision", "says"),
    [("0001", "catalog upgrade"), ("9999", "upgrade the program")],
    ids=["older", "newer"],
)
def test_catalog_of_another_version(recorded: Box, visitor: WebClient, revision: str, says: str) -> None:
    """Every page says which version it is and what upgrades it, with 503, and the API says the same."""
    rewrite(recorded, "UPDATE alembic_version SET version_num = ?", (revision,))

    for place in PLACES:
        reply = visitor.get(place)
        text = html.unescape(reply.text)
        assert (503, True, True) == (reply.status, "of another version" in text, says in text), place
    reply = visitor.get("/api/v1/findings")
    assert (503, True) == (reply.status, says in reply.object["error"])
    assert 503 == visitor.get("/healthz").status


def test_catalog_in_the_middle_of_an_upgrade(integrity: Box) -> None:
    """While it is made anew, pages say so, with 503; then they show what was recorded before."""
    path = bytes(integrity.catalog)
    integrity.home.mkdir()
    put_older(path, "0001")
    with closing(Connection(path, is_checked=False)) as c:  # so that it takes long enough to be stopped in its middle
        numbers = "WITH RECURSIVE n AS (SELECT 1000 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 500000)"
        c.run(f"{numbers} INSERT INTO folder (root_id, path) SELECT 1, CAST('f' || i AS BLOB) FROM n")
        files = c.value("SELECT count(*) FROM file")
    with WebPage(integrity) as page:
        visitor = page.visitor()
        assert "of another version" in visitor.get("/").text
        upgrading = subprocess.Popen(make_command("catalog", "upgrade"), env=integrity.environment)
        wait_until(lambda: is_being_upgraded(path) or upgrading.poll() is not None, "the upgrade", every_s=0.01)
        upgrading.send_signal(signal.SIGSTOP)
        replies = [visitor.get(place) for place in PLACES]
        told = visitor.get("/api/v1/findings").object["error"]
        upgrading.send_signal(signal.SIGCONT)
        assert {(503, True)} == {(one.status, "is being upgraded" in one.text) for one in replies}
        assert "is being upgraded" in told

        assert 0 == upgrading.wait(60)
        text = visitor.get("/").text
        assert f"{files} files" in text, text
        assert not list(integrity.home.glob("*.upgrading"))


@contextmanager
def locked(box: Box) -> Iterator[None]:
    """Hold a catalog alone, as another program does on a full disk."""
    with closing(Connection(bytes(box.catalog))) as c:
        c.run("PRAGMA locking_mode = EXCLUSIVE")
        c.run("BEGIN EXCLUSIVE")
        yield


def test_catalog_that_is_held_alone(recorded: Box, visitor: WebClient) -> None:
    """While another program holds it alone, pages and the API say that it is in use, with 503; then they work again."""
    with locked(recorded):
        reply = visitor.get("/findings")
        assert (503, True) == (reply.status, "The catalog is in use" in reply.text)
        assert "another program is writing" in visitor.get("/api/v1/findings").object["error"]
    assert 200 == visitor.get("/findings").status


def test_catalog_that_is_damaged_or_missing(recorded: Box, visitor: WebClient) -> None:
    """The page names the place, and the commands that make a catalog or bring one back, until it is there again."""
    kept = recorded.catalog.read_bytes()
    for content in (b"this is no database" * 1000, None):
        recorded.catalog.unlink()
        if content is not None:
            recorded.catalog.write_bytes(content)
        for place in PLACES:
            reply = visitor.get(place)
            assert (503, True) == (reply.status, f"{recorded.program} catalog restore" in reply.text), place
            assert (content is not None) == (f"{recorded.program} catalog salvage" in reply.text), place
        assert 503 == visitor.get("/healthz").status
    recorded.catalog.write_bytes(kept)
    assert 200 == visitor.get("/findings").status
    damage_table(recorded.catalog, "file")
    reply = visitor.get("/browse/1")
    assert (503, True) == (reply.status, "the checksum of a page is wrong" in reply.text)


def test_catalog_that_is_locked_for_a_moment(recorded: Box) -> None:
    """A page that reads is made again when the catalog is free."""
    path, locker = bytes(recorded.catalog), ExitStack()
    locker.enter_context(locked(recorded))

    def page(_: Request) -> str:
        try:
            with Catalog.open(path, writes=False, busy_timeout_s=0):
                return "read"
        except CatalogLocked:
            locker.close()
            raise

    assert "read" == patient(page)(Request({"type": "http"}))


def test_names_that_are_not_utf8_are_paged_through(visitor: WebClient) -> None:
    """Each name is listed once, and the last page leads to no other."""
    seen: list[str] = []
    query = ""
    for _ in range(3):
        text = visitor.get(f"/browse/1{query}").text
        seen += re.findall(r'<td><a class="path" href="/browse/1/(%FF\d\d\d)', text)
        more = re.search(r'<a href="([^"]+)" rel="next"', text)
        if more is None:
            break
        query = html.unescape(more[1])

    assert [f"%FF{number:03}" for number in range(520)] == seen


def add_findings(box: Box) -> None:
    """Add as many findings as a folder that lost its files has."""
    now = int(time.time())
    with Catalog.open(bytes(box.catalog), writes=True) as catalog, catalog.transaction() as c:
        c.run_many(
            """
            INSERT INTO finding
                (root_id, kind, message, state, opened_at, updated_at, blocks, ranges, confirmed_reads, copy, path)
            VALUES (1, 'missing', 'The file is gone.', 'open', ?1, ?1, '[]', '[]', 0, '', ?2)
            """,
            ((now, b"lost/%06d.jpg" % number) for number in range(FINDINGS)),
        )


def test_hundred_thousand_findings(recorded: Box) -> None:
    """The list, its filters and the API answer within seconds on any machine, with a page of the list each."""
    add_findings(recorded)
    served = WebPage(recorded)
    served.is_shared = False
    with served as page:
        visitor = page.visitor()
        assert "100,000" in visitor.get("/").text
        for place in (
            "/findings", "/findings?kind=missing", "/findings?root=1&state=all", f"/findings?before={FINDINGS // 2}",
            "/findings?kind=rot", "/findings/50000", "/api/v1/findings", "/api/v1/status", "/metrics",
        ):  # fmt: skip
            began = time.monotonic()
            reply = visitor.get(place)
            assert 200 == reply.status, place
            assert time.monotonic() - began < 10, place
            assert len(reply.body) < 200_000, place
        assert "100,000 open findings" in visitor.get("/findings").text
        assert read_memory(page.pid) < 120 << 20
