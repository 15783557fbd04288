"""A catalog that a hub or another box made to lead out of the shared tree: nothing outside is read or recorded."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from pathlib import Path

import pytest

from integrity.catalog import roots
from integrity.catalog.connection import Catalog
from integrity.catalog.seal import Sealer
from integrity.config import Config, parse_config
from integrity.errors import CatalogError
from integrity.jobs.shards import local_copy
from support.jobs import open_context, run_scan, run_scrub

CONTENT = b"what nobody else may read"


def open_copy(top: Path) -> AbstractContextManager[Catalog]:
    """Open the catalog as a worker does."""
    return local_copy.open_copy(str(top / "catalog.db").encode(), None)


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
    """Move the record in the catalog, sealed as by a run, and remove its file."""
    (top / "tree" / "file").unlink()
    place, new = (os.fsencode(text.format(top=top)) for text in (folder, name))
    with closing(sqlite3.connect(top / "catalog.db")) as db, db:
        Sealer().bind(db)
        root = db.execute("SELECT root_id FROM folder").fetchone()[0]
        db.execute("INSERT OR IGNORE INTO folder (root_id, path) VALUES (?, ?)", (root, place))
        folder_id = db.execute("SELECT id FROM folder WHERE path = ?", (place,)).fetchone()[0]
        assert 1 == db.execute("UPDATE file SET folder_id = ?, name = ?", (folder_id, new)).rowcount


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


DEFINE = "INSERT INTO sqlite_master (type, name, tbl_name, rootpage, sql) VALUES (?, ?, ?, 0, ?)"
CRAFTED: dict[str, Callable[[sqlite3.Connection], object]] = {
    "trigger": lambda db: db.execute("CREATE TRIGGER evil AFTER INSERT ON run BEGIN SELECT load_extension('x'); END"),
    "view": lambda db: db.execute("CREATE VIEW evil AS SELECT load_extension('x')"),
    "table": lambda db: db.execute("CREATE TABLE evil (x)"),
    "generated column": lambda db: db.execute("ALTER TABLE run ADD COLUMN evil AS (load_extension('x'))"),
    "default": lambda db: db.execute(
        "UPDATE sqlite_master SET sql = replace(sql, ' NOT NULL', ' NOT NULL DEFAULT (abs(1))') WHERE name = 'run'"
    ),
    "index on an expression": lambda db: db.execute("CREATE INDEX evil ON run (abs(id))"),
    "virtual table": lambda db: db.execute(
        DEFINE, ("table", "evil", "evil", "CREATE VIRTUAL TABLE evil USING fts5(x)")
    ),
    "name of SQLite's own": lambda db: db.execute(
        DEFINE, ("view", "sqlite_evil", "sqlite_evil", "CREATE VIEW sqlite_evil AS SELECT 1")
    ),
    "trigger in place of ours": lambda db: [
        db.execute("DROP TRIGGER run_reported"),
        db.execute("CREATE TRIGGER run_reported AFTER UPDATE ON run BEGIN SELECT load_extension('x'); END"),
    ],
    "missing trigger": lambda db: db.execute("DROP TRIGGER run_reported"),
    "view in place of a table": lambda db: [
        db.execute("DROP TABLE meta"),
        db.execute("CREATE VIEW meta AS SELECT 'uuid' AS key, load_extension('x') AS value"),
    ],
    "definition that is named twice": lambda db: db.execute(
        DEFINE, ("table", "meta", "meta", "CREATE TABLE meta (key, value)")
    ),
    "pages of 64 KiB": lambda db: [
        db.execute("PRAGMA journal_mode = DELETE").fetchall(),
        db.execute("PRAGMA page_size = 65536"),
        db.execute("VACUUM"),
    ],
}


@pytest.mark.parametrize("what", CRAFTED)
def test_catalog_that_would_run_something_is_not_opened(tmp_path: Path, config: Config, what: str) -> None:
    """Its definitions are not ours, so it is refused before any statement could meet them, and is not changed."""
    del config
    path = tmp_path / "catalog.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        Sealer().bind(db)
        db.execute("PRAGMA writable_schema = ON")
        CRAFTED[what](db)
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
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
