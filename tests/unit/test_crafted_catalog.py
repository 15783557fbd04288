"""A catalog that a hub or another box made to lead out of the shared tree: nothing outside is read or recorded."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from pathlib import Path

import pytest

from integrity.catalog import roots
from integrity.catalog.connection import Catalog
from integrity.catalog.db import Connection
from integrity.config import Config, parse_config
from integrity.errors import CatalogError
from integrity.jobs.shards import local_copy
from support.jobs import open_context, run_scan, run_scrub
from support.older import put_older

CONTENT = b"what nobody else may read"


def open_copy(top: Path) -> AbstractContextManager[Catalog]:
    """Open the catalog as a worker does."""
    return local_copy.open_copy(bytes(top / "catalog.db"))


OUTSIDE = [
    ("../outside", "secret"),
    ("", "../outside/secret"),
    ("link", "secret"),
    ("", "link/secret"),
    ("inside/../../outside", "secret"),
    ("{top}/outside", "secret"),
    ("", "{top}/outside/secret"),
]


@pytest.fixture
def config(tmp_path: Path) -> Config:
    """Make a tree, a file outside of it with the same content, a link to that, and a catalog of the tree."""
    tree, outside = tmp_path / "tree", tmp_path / "outside"
    for one in (tree, outside):
        one.mkdir()
    (tree / "file").write_bytes(CONTENT)
    shutil.copy2(tree / "file", outside / "secret")
    (tree / "link").symlink_to(outside)
    config = parse_config(f'[[root]]\npath = "{tree}"\n'.encode(), "test")
    with open_context(tmp_path / "catalog.db", config) as context:
        run_scan(context)
    return config


def craft(top: Path, folder: str, name: str) -> None:
    """Move the record in the catalog, as a run would, and remove its file."""
    (top / "tree" / "file").unlink()
    place, new = (os.fsencode(text.format(top=top)) for text in (folder, name))
    with closing(Connection(bytes(top / "catalog.db"))) as c:
        root = c.value("SELECT root_id FROM folder")
        c.run("INSERT OR IGNORE INTO folder (root_id, path) VALUES (?, ?)", root, place)
        assert 1 == c.run("UPDATE file SET folder_id = (SELECT id FROM folder WHERE path = ?), name = ?", place, new)


@pytest.mark.parametrize(("folder", "name"), OUTSIDE[:5])
def test_record_that_leads_out_of_the_tree_is_not_read(tmp_path: Path, config: Config, folder: str, name: str) -> None:
    """A record with the right size, times and digests of a file outside is not verified: the file is not opened."""
    craft(tmp_path, folder, name)
    with open_context(tmp_path / "catalog.db", config) as context:
        scrubbed = run_scrub(context)

    assert (0, 0) == (scrubbed.counts.verified, scrubbed.counts.bytes_read)


@pytest.mark.parametrize(("folder", "name"), [one for one in OUTSIDE if one[0] != "link" and "link/" not in one[1]])
def test_catalog_that_leads_out_of_the_tree_is_refused(tmp_path: Path, config: Config, folder: str, name: str) -> None:
    """A worker does not begin with such a catalog: it gives the shard back, and goes on with others."""
    del config
    craft(tmp_path, folder, name)
    with pytest.raises(CatalogError, match="is no name in a tree"), open_copy(tmp_path):
        pass


def test_catalog_of_the_tree_is_used(tmp_path: Path, config: Config) -> None:
    """Any other name is one that a file may have."""
    del config
    craft(tmp_path, "...", "..a\n")
    with open_copy(tmp_path) as catalog, catalog.read() as c:
        assert 1 == len(roots.find_roots(c))


@pytest.mark.parametrize("revision", ["0010", "0011"])
def test_older_catalog_is_upgraded(tmp_path: Path, revision: str) -> None:
    """A hub may have catalogs that workers stored before they were upgraded; a later trigger in one is refused."""
    put_older(tmp_path / "catalog.db", revision)
    shutil.copy(tmp_path / "catalog.db", tmp_path / "crafted.db")
    with open_copy(tmp_path) as catalog, catalog.read() as c:
        assert 9 == c.value("SELECT count(*) FROM file")
    os.replace(tmp_path / "crafted.db", tmp_path / "catalog.db")
    with closing(Connection(bytes(tmp_path / "catalog.db"), is_checked=False)) as c:
        c.run("CREATE TRIGGER evil AFTER INSERT ON run BEGIN SELECT 1; END")
    with pytest.raises(CatalogError, match="catalog from the hub"), open_copy(tmp_path):
        pass


DEFINE = "INSERT INTO sqlite_master (type, name, tbl_name, rootpage, sql) VALUES (?, ?, ?, 0, ?)"
CRAFTED: dict[str, Callable[[Connection], object]] = {
    "trigger": lambda c: c.run("CREATE TRIGGER evil AFTER INSERT ON run BEGIN SELECT load_extension('x'); END"),
    "view": lambda c: c.run("CREATE VIEW evil AS SELECT load_extension('x')"),
    "table": lambda c: c.run("CREATE TABLE evil (x)"),
    "generated column": lambda c: c.run(
        "UPDATE sqlite_master SET sql = replace(sql, 'job ', 'evil AS (load_extension(1)), job ') WHERE name = 'run'"
    ),
    "default": lambda c: c.run(
        "UPDATE sqlite_master SET sql = replace(sql, ' NOT NULL', ' NOT NULL DEFAULT (abs(1))') WHERE name = 'run'"
    ),
    "index on an expression": lambda c: c.run("CREATE INDEX evil ON run (abs(id))"),
    "virtual table": lambda c: c.run(DEFINE, "table", "evil", "evil", "CREATE VIRTUAL TABLE evil USING fts5(x)"),
    "name of SQLite's own": lambda c: c.run(
        DEFINE, "view", "sqlite_evil", "sqlite_evil", "CREATE VIEW sqlite_evil AS SELECT 1"
    ),
    "trigger in place of ours": lambda c: [
        c.run("DROP TRIGGER run_reported"),
        c.run("CREATE TRIGGER run_reported AFTER UPDATE ON run BEGIN SELECT load_extension('x'); END"),
    ],
    "missing trigger": lambda c: c.run("DROP TRIGGER run_reported"),
    "view in place of a table": lambda c: [
        c.run("DROP TABLE meta"),
        c.run("CREATE VIEW meta AS SELECT 'uuid' AS key, load_extension('x') AS value"),
    ],
    "definition that is named twice": lambda c: c.run(
        DEFINE, "table", "meta", "meta", "CREATE TABLE meta (key, value)"
    ),
    "pages of 64 KiB": lambda c: [
        c.run("PRAGMA journal_mode = DELETE"),
        c.run("PRAGMA page_size = 65536"),
        c.run("VACUUM"),
    ],
}


@pytest.mark.parametrize("what", CRAFTED)
def test_catalog_that_would_run_something_is_not_opened(tmp_path: Path, config: Config, what: str) -> None:
    """Its definitions are not ours, so it is refused before any statement could meet them, and is not changed."""
    del config
    path = tmp_path / "catalog.db"
    with closing(Connection(bytes(path), is_checked=what != "pages of 64 KiB")) as c:
        c.run("PRAGMA writable_schema = ON")
        CRAFTED[what](c)
        c.run("PRAGMA wal_checkpoint(TRUNCATE)")
    before = path.read_bytes()
    with pytest.raises(CatalogError, match=r"came from the hub|catalog from the hub"), open_copy(tmp_path):
        pass

    assert before == path.read_bytes()


@pytest.mark.parametrize("content", [b"", b"SQLite format 3\0" + bytes(4080), b"x" * 10_000])
def test_file_that_is_no_catalog_is_refused(tmp_path: Path, content: bytes) -> None:
    """Whatever it is."""
    (tmp_path / "catalog.db").write_bytes(content)
    with pytest.raises(CatalogError), open_copy(tmp_path):
        pass
