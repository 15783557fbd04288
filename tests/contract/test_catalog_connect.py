"""Making, opening and closing a catalog; transactions; errors in our words."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from integrity.catalog.connection import Catalog
from integrity.catalog.db import Connection
from integrity.errors import CatalogCorrupt, CatalogError, CatalogExists, CatalogLocked, SchemaMismatch
from support.catalogs import CatalogBox


def put(catalog: Catalog, key: str) -> None:
    with catalog.transaction() as c:
        c.run("INSERT INTO meta (key, value) VALUES (?, 'x')", key)


def has(catalog: Catalog, key: str) -> bool:
    with catalog.read() as c:
        return c.row("SELECT key FROM meta WHERE key = ?", key) is not None


def set_revision(path: bytes, revision: str) -> None:
    with closing(Connection(path)) as c:
        c.run("UPDATE alembic_version SET version_num = ?", revision)


@pytest.fixture
def path(tmp_path: Path) -> bytes:
    """Give the path of an empty catalog that nobody has open."""
    made = bytes(tmp_path / "state" / "catalog.db")
    Catalog.create(made).close()
    return made


def test_folder_and_file_are_for_their_owner_alone(path: bytes) -> None:
    """The catalog names every file of its owner, so nobody else may read it."""
    assert os.stat(path).st_mode & 0o777 == 0o600
    assert os.stat(os.path.dirname(path)).st_mode & 0o777 == 0o700
    assert sorted(os.listdir(os.path.dirname(path))) == [b"catalog.db", b"catalog.db.lock"]


def test_only_writers_have_a_large_cache(path: bytes) -> None:
    """A page that reads the catalog in several threads must not hold 24 MiB in each."""

    def ask_size(*, writes: bool) -> int:
        with Catalog.open(path, writes=writes) as catalog, catalog.read() as c:
            return int(c.value("PRAGMA cache_size"))

    assert -24576 == ask_size(writes=True)
    assert -2000 == ask_size(writes=False)


def test_making_a_catalog_where_one_is_changes_nothing(path: bytes) -> None:
    """What was recorded can't be lost by making a catalog twice."""
    with open(path, "rb") as stored:
        before = stored.read()
    with pytest.raises(CatalogExists):
        Catalog.create(path)
    with open(path, "rb") as stored:
        assert before == stored.read()


def test_left_over_log_is_not_played_into_a_new_catalog(path: bytes) -> None:
    """The write-ahead log of a catalog that is gone stops the making of another beside it."""
    os.rename(path, path + b"-wal")
    with pytest.raises(CatalogError, match=r"catalog\.db-wal: exists without its catalog"):
        Catalog.create(path)


@pytest.mark.root
def test_root_makes_a_catalog_for_the_owner_of_the_folder(tmp_path: Path) -> None:
    """A command run once as root does not lock the user out of his catalog (R9)."""
    home = tmp_path / "home"
    home.mkdir()
    os.chown(home, 12345, 23456)
    path = bytes(home / "state" / "catalog.db")
    with Catalog.create(path) as catalog:
        put(catalog, "a")  # makes the log and its index
        owners = {
            name: (os.stat(name).st_uid, os.stat(name).st_gid)
            for name in (os.path.dirname(path), path, path + b"-wal", path + b"-shm")
        }

    assert set(owners.values()) == {(12345, 23456)}


def test_other_database_is_no_catalog(tmp_path: Path) -> None:
    """A database of another program is refused and not written to."""
    path = tmp_path / "places.sqlite"
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE alembic_version (version_num TEXT)")
    before = path.read_bytes()
    with pytest.raises(CatalogCorrupt, match="no catalog of integrity"):
        Catalog.open(bytes(path), writes=True)
    assert before == path.read_bytes()


def test_truncated_catalog_is_called_damaged(box: CatalogBox) -> None:
    """A file that lost its end is noticed at the start, not in the middle of a scrub."""
    for number in range(200):
        box.record(b"f%d" % number)
    box.catalog.close()
    os.truncate(box.path, os.path.getsize(box.path) // 2)
    with pytest.raises(CatalogCorrupt, match="damaged"):
        Catalog.open(box.path, writes=False)


def test_damaged_catalog_names_its_newest_backup(path: bytes) -> None:
    """Who reads the message knows what there is to restore."""
    folder = os.path.dirname(path)
    for stamp in (b"20261119T000000Z", b"20261120T000000Z"):
        with open(folder + b"/catalog-" + stamp + b".db", "wb"):
            pass
    os.truncate(path, 0)
    with pytest.raises(CatalogCorrupt, match=r"newest backup: .*catalog-20261120T000000Z\.db"):
        Catalog.open(path, writes=False)


def test_older_catalog_is_not_upgraded_by_a_reader(path: bytes) -> None:
    """A command that only reads names the command that upgrades."""
    set_revision(path, "0000")
    with pytest.raises(SchemaMismatch, match="integrity catalog upgrade"):
        Catalog.open(path, writes=False)


@pytest.mark.parametrize("revision", ["", "one", "-1"])
def test_impossible_version_is_damage(path: bytes, revision: str) -> None:
    """A version that no program ever wrote is not taken for an old one."""
    set_revision(path, revision)
    with pytest.raises(CatalogCorrupt, match="version"):
        Catalog.open(path, writes=True)


def test_reader_cannot_write(path: bytes) -> None:
    """A catalog opened for reading stays as it is."""
    with Catalog.open(path, writes=False) as catalog, pytest.raises(CatalogError, match="cannot be written"):
        put(catalog, "a")


def test_exception_takes_the_whole_transaction_back(box: CatalogBox) -> None:
    """All of a block is written or nothing of it, whatever ends it."""

    def fail(error: type[BaseException]) -> None:
        with box.catalog.transaction() as c:
            c.run("INSERT INTO meta (key, value) VALUES ('a', 'x')")
            raise error

    for error in (ValueError, KeyboardInterrupt):
        with pytest.raises(error):
            fail(error)
    assert not has(box.catalog, "a")

    put(box.catalog, "a")
    assert has(box.reopen(), "a")


def test_transaction_in_a_transaction_is_a_mistake(box: CatalogBox) -> None:
    """Two that could not be committed apart from each other are refused."""
    with box.catalog.transaction(), pytest.raises(RuntimeError), box.catalog.transaction():
        pass


def test_reading_in_a_transaction_sees_it_and_does_not_end_it(box: CatalogBox) -> None:
    """Functions that read may be called while something is written."""
    with box.catalog.transaction() as c:
        c.run("INSERT INTO meta (key, value) VALUES ('a', 'x')")
        assert has(box.catalog, "a")
        with Catalog.open(box.path, writes=False) as other:
            assert not has(other, "a")
    assert has(box.catalog, "a")


def test_reader_sees_what_others_commit_meanwhile(box: CatalogBox) -> None:
    """Reading holds up nobody and is held up by nobody."""
    with Catalog.open(box.path, writes=False) as other, other.read() as c:
        before = c.value("SELECT count(*) FROM meta")
        put(box.catalog, "a")
        after = c.value("SELECT count(*) FROM meta")

    assert after == before + 1


def test_second_writer_waits_and_then_says_so(box: CatalogBox) -> None:
    """A writer that holds the catalog for too long is no damage."""
    with (
        Catalog.open(box.path, writes=True, busy_timeout_s=0.01) as other,
        box.catalog.transaction(),
        pytest.raises(CatalogLocked, match="try again"),
    ):
        put(other, "a")
    with Catalog.open(box.path, writes=True, busy_timeout_s=0.01) as other:
        put(other, "a")


def test_closing_twice_is_no_mistake(box: CatalogBox) -> None:
    """The end of a command need not know who closed the catalog."""
    box.catalog.close()
    box.catalog.close()


def test_two_that_make_a_catalog_at_once_get_the_same(tmp_path: Path) -> None:
    """The one that was second finds the catalog of the first, not an empty one over it."""
    from integrity.catalog.copying import build

    path = bytes(tmp_path / "catalog.db")
    with Catalog.create(path) as first:
        put(first, "a")
        build(path, 0)  # what the second does after it saw no catalog
        with Catalog.open(path, writes=True) as second:
            assert has(second, "a")
    assert sorted(os.listdir(tmp_path)) == ["catalog.db", "catalog.db.lock"]


def test_opening_imports_no_migrations(path: bytes) -> None:
    """Alembic costs 130 ms, which a command that only opens the catalog must not pay."""
    code = (
        "import sys; import integrity.catalog; assert 'sqlalchemy' not in sys.modules;"
        "from integrity.catalog.connection import Catalog; import os;"
        "Catalog.open(os.fsencode(sys.argv[1]), writes=True).close(); assert 'alembic' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, timeout=60, check=False)

    assert (0, "") == (done.returncode, done.stderr)


def test_local_disk_gives_no_warning(box: CatalogBox) -> None:
    """Only a network file system is worth a warning."""
    assert box.catalog.warnings == ()


def test_bytes_that_are_no_text_are_no_damage_of_the_catalog(box: CatalogBox) -> None:
    """Whatever else fails while a catalog is used stays what it is."""
    for use in (box.catalog.read, box.catalog.transaction):
        with pytest.raises(UnicodeDecodeError), use():
            b"\xff".decode()
