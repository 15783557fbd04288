"""A catalog that a hub or another box made to lead out of the shared tree: nothing outside is read or recorded."""

from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from integrity.catalog.connection import Catalog
from integrity.catalog.seal import Sealer
from integrity.config import Config, parse_config
from integrity.errors import CatalogError
from integrity.jobs.shards import local_copy
from support.jobs import open_context, run_scan, run_scrub

CONTENT = b"what nobody else may read"


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
    with Catalog.open(str(tmp_path / "catalog.db"), writes=True) as catalog, pytest.raises(CatalogError):
        local_copy.require_inside(catalog)


def test_catalog_of_the_tree_is_used(tmp_path: Path, config: Config) -> None:
    """Any other name is one that a file may have."""
    del config
    craft(tmp_path, "...", "..a\n")
    with Catalog.open(str(tmp_path / "catalog.db"), writes=True) as catalog:
        local_copy.require_inside(catalog)
