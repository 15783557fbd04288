"""Every statement that the catalog holds as text fits the tables of ``schema.sql``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import closing
from importlib import import_module
from pathlib import Path

import apsw

import integrity.catalog
from integrity.catalog.copy_listing import StoredListing
from integrity.catalog.copying import read_schema
from integrity.catalog.db import Connection
from integrity.catalog.files import WorkOrder, create_worklist, make_anew, make_found_names
from integrity.model import RootId

VERBS = ("SELECT", "INSERT", "UPDATE", "DELETE", "WITH")


def find_texts() -> Iterator[tuple[str, str]]:
    """Yield each text of the package, with its place: constants, and f-strings of what their module has."""
    for path in sorted(Path(integrity.catalog.__file__).parent.glob("[!_]*.py")):
        names = vars(import_module(f"integrity.catalog.{path.stem}"))
        todo: list[ast.AST] = [ast.parse(path.read_text())]
        while todo:
            node = todo.pop()
            place = f"{path.name}:{getattr(node, 'lineno', 0)}"
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield place, node.value
            elif not isinstance(node, ast.JoinedStr):
                todo += ast.iter_child_nodes(node)
            elif {one.id for one in ast.walk(node) if isinstance(one, ast.Name)} <= names.keys():
                yield place, eval(compile(ast.Expression(node), place, "eval"), names)


def make_tables(c: Connection) -> None:
    """Make all tables that a statement may mean: the catalog's, temporary ones, and those of an older catalog."""
    c.driver.execute(read_schema())
    c.run("ATTACH '' AS old")
    for name in ("file", "alembic_version"):
        c.run(f"CREATE TABLE old.{name} AS SELECT * FROM {name}")
    StoredListing(c, RootId(1))
    create_worklist(c, WorkOrder(RootId(1), b"", 0))
    make_anew(c, "compare_order", "seq, file_id, size_bytes")
    make_found_names(c)
    for _, text in find_texts():
        if "\nCREATE TABLE" in text and not text.startswith("BEGIN"):  # that is the schema once more
            list(c.rows(text))


def test_statements_fit_the_tables() -> None:
    """SQLite compiles each of them; what a part of it stands for is known nowhere else than where it is put in."""
    found = [(place, text) for place, text in find_texts() if text.strip().startswith(VERBS)]
    complaints = []
    with closing(Connection(b"")) as c:
        make_tables(c)
        for place, text in found:
            try:
                c.run(f"EXPLAIN {text}")
            except apsw.BindingsError:  # compiled: values are bound after that
                pass
            except apsw.Error as error:
                complaints.append(f"{place}: {error}: {text}")

    assert not complaints, "\n".join(complaints)
    assert len(found) > 250
