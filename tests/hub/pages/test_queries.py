"""Pages read what boxes and votes summed up: however many files and boxes there are, they ask the same questions."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import sqlalchemy as sa
from starlette.requests import Request
from tests.hub.pages.conftest import fill

from integrity.config import HubServer
from integrity.hub.audit import find_entries
from integrity.hub.box_reports import page_box_findings, page_events
from integrity.hub.database import HubDatabase
from integrity.hub.findings import UNRESOLVED, page_findings
from integrity.hub.fleet import count_open, load_boxes, load_sets
from integrity.hub.fleet_sentence import load_fleet, sum_up_fleet
from integrity.hub.pages.fleet import get_box, get_set
from integrity.hub.pages.site import HubSite
from integrity.hub.schema import finding
from integrity.hub.shards.promise import find_promises, page_shards
from support.hub_rows import HubRows

NOW = 2_000_000_000
LARGE_TABLES = re.compile(r"\b(file|file_part|former_file|folder|member_folder)\b")

QUESTIONS: dict[str, Callable[[sa.Connection], object]] = {
    "fleet": lambda c: sum_up_fleet(c, load_fleet(c, NOW, 86400), NOW),
    "boxes": lambda c: load_boxes(c, NOW, 86400),
    "sets": lambda c: load_sets(c, NOW, 86400),
    "counts": count_open,
    "findings": lambda c: page_findings(c, UNRESOLVED, finding.c.set_id == 1, before=9, limit=100),
    "box findings": lambda c: page_box_findings(c, 2, before=None, limit=100),
    "events": lambda c: page_events(c, 2, before=None, limit=100),
    "trees": lambda c: find_promises(c, 600, NOW),
    "shards": lambda c: page_shards(c, 1, after=0, limit=100),
    "audit": find_entries,
}


ONE: dict[str, Callable[[HubSite, sa.Connection], object]] = {
    "box": lambda site, c: get_box(c, site, ask("cellar")),
    "set": lambda site, c: get_set(c, site, ask("photos")),
}


def ask(name: str) -> Request:
    """Return a request for the page of a box or set."""
    return Request({"type": "http", "headers": [], "query_string": b"", "path_params": {"name": name}})


@contextmanager
def listening(database: HubDatabase) -> Iterator[list[str]]:
    """Collect the statements that are run in the block."""
    statements: list[str] = []

    def note(_: object, __: object, statement: str, *rest: object) -> None:
        statements.append(statement)

    sa.event.listen(database.engine, "before_cursor_execute", note)
    try:
        yield statements
    finally:
        sa.event.remove(database.engine, "before_cursor_execute", note)


@pytest.mark.parametrize("question", QUESTIONS)
def test_no_page_reads_rows_of_files(filled: HubDatabase, question: str) -> None:
    """With 20 million of them a page that counts is a page that nobody waits for."""
    with listening(filled) as statements, filled.read() as c:
        assert QUESTIONS[question](c)

    selects = [text for text in statements if text.startswith(("SELECT", "WITH"))]
    assert selects
    assert [] == [text for text in selects if LARGE_TABLES.search(text)]


@pytest.mark.parametrize("question", ["fleet", "sets"])
def test_number_of_questions_does_not_grow_with_the_boxes(hub_database: HubDatabase, question: str) -> None:
    """Two hundred boxes more, and as many sets."""
    fill(hub_database)
    with listening(hub_database) as few, hub_database.read() as c:
        QUESTIONS[question](c)
    with hub_database.transaction() as c:
        rows = HubRows(c, NOW)
        for number in range(200):
            rows.add_root(rows.add_box(f"more-{number}"), b"/srv", set_id=rows.add_set(f"set {number}"))
    with listening(hub_database) as many, hub_database.read() as c:
        QUESTIONS[question](c)

    assert len(few) == len(many)


@pytest.mark.parametrize("question", ONE)
def test_one_box_or_set_is_shown_without_reading_the_others(hub_database: HubDatabase, question: str) -> None:
    """However many boxes and sets there are beside it."""
    fill(hub_database)
    read = []
    for run in range(2):
        with counting(hub_database) as rows, hub_database.read() as c:
            assert ONE[question](HubSite(hub_database, HubServer(), list), c)
        read.append(sum(rows))
        with hub_database.transaction() as c:
            more = HubRows(c, NOW)
            for number in range(50):
                more.add_root(more.add_box(f"more-{run}-{number}"), b"/srv", set_id=more.add_set(f"set {run} {number}"))

    assert read[0] == read[1]


@contextmanager
def counting(database: HubDatabase) -> Iterator[list[int]]:
    """Collect how many rows each query of the block finds."""
    rows: list[int] = []

    def note(_: object, cursor: Any, statement: str, parameters: Any, *rest: object) -> None:
        if statement.startswith(("SELECT", "WITH")):
            again = cursor.connection.cursor()
            rows.append(len(again.execute(statement, parameters).fetchall()))

    sa.event.listen(database.engine, "after_cursor_execute", note)
    try:
        yield rows
    finally:
        sa.event.remove(database.engine, "after_cursor_execute", note)
