"""Backups: taken while the catalog is used, thinned out, checked, brought back."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from integrity.catalog import baselines, copying, files, maintenance
from integrity.catalog.connection import Catalog
from integrity.catalog.maintenance import back_up, due_for_backup, restore, verify_backup
from integrity.catalog.own_files import find_backups
from integrity.errors import CatalogCorrupt, CatalogError, CatalogMissing
from integrity.model import RootId
from support.catalogs import DAY_S, NOW, CatalogBox, make_reading

STAMPS = [b"20251121T044000Z", b"20251122T044000Z", b"20251123T044000Z", b"20251124T044000Z"]


def paths_in(path: bytes) -> list[bytes]:
    with Catalog.open(path, writes=False) as catalog, catalog.read() as c:
        return [path for _, path, _ in files.page_files(c, RootId(1))]


@pytest.fixture
def folder(tmp_path: Path) -> bytes:
    """Name a folder on what stands for another disk."""
    return bytes(tmp_path / "elsewhere" / "backups")


def test_backup_is_a_whole_catalog(box: CatalogBox, folder: bytes) -> None:
    """A backup holds what was committed, can be opened by itself, and is for its owner alone."""
    box.record(b"a")
    path = back_up(box.catalog, folder, keep=3, now=NOW)

    assert path == folder + b"/catalog-" + STAMPS[0] + b".db"
    assert verify_backup(path) is None
    assert os.listdir(folder) == [os.path.basename(path)]
    assert os.stat(path).st_mode & 0o777 == 0o600
    assert paths_in(path) == [b"a"]


def test_backup_holds_up_no_writer(box: CatalogBox, folder: bytes) -> None:
    """What is not committed yet is not in it, and the writer goes on."""
    box.record(b"a")
    with Catalog.open(box.path, writes=True) as other:
        with box.catalog.transaction() as c:
            baselines.mark_suspects(c, {})
            path = folder + b"/now.db"
            copying.make_folder(folder)
            with other.read() as reading:
                copying.copy_database(reading, path, os.stat(box.path))
        assert paths_in(path) == [b"a"]


def test_oldest_backups_go(box: CatalogBox, folder: bytes) -> None:
    """So many are kept as asked for, never none; files of others are left alone."""
    os.makedirs(folder)
    others = [
        b"catalog.db",
        b"catalog-old.db",
        b"other-" + STAMPS[0] + b".db",
        b"catalog-" + STAMPS[0] + b".db.partial-x",
    ]
    for name in others:
        with open(folder + b"/" + name, "wb"):
            pass
    for day in range(4):
        back_up(box.catalog, folder, keep=2, now=NOW + day * DAY_S)
    names = [os.path.basename(path) for path in find_backups(box.path, folder)]
    assert names == [b"catalog-" + stamp + b".db" for stamp in STAMPS[2:]]
    back_up(box.catalog, folder, keep=0, now=NOW + 9 * DAY_S)

    assert len(find_backups(box.path, folder)) == 1
    assert set(others) < set(os.listdir(folder))


def test_backups_lie_beside_the_catalog_by_default(box: CatalogBox) -> None:
    """An empty folder means the catalog's own."""
    path = back_up(box.catalog, b"", keep=3, now=NOW)

    assert os.path.dirname(path) == os.path.dirname(box.path)
    assert find_backups(box.path) == find_backups(box.path, b"") == [path]


def test_backup_is_due_after_its_time(box: CatalogBox, folder: bytes) -> None:
    """The first at once, the next after a day; a clock that was wrong stops none."""

    def is_due(now: int) -> bool:
        with box.catalog.read() as c:
            return due_for_backup(c, DAY_S, now)

    assert is_due(NOW)
    back_up(box.catalog, folder, keep=3, now=NOW)
    assert [is_due(NOW + later) for later in (0, 5, DAY_S - 1, DAY_S, 9 * DAY_S)] == [False, False, False, True, True]
    assert is_due(NOW - 1)


def test_failed_backup_keeps_the_old_ones(box: CatalogBox, folder: bytes) -> None:
    """Where nothing can be written nothing is deleted, and the message names the place."""
    back_up(box.catalog, folder, keep=1, now=NOW)
    os.mkdir(folder + b"/catalog-" + STAMPS[1] + b".db")
    with pytest.raises(CatalogError, match="cannot write a copy"):
        back_up(box.catalog, folder, keep=1, now=NOW + DAY_S)

    assert verify_backup(folder + b"/catalog-" + STAMPS[0] + b".db") is None
    assert not [name for name in os.listdir(folder) if name.endswith(b".partial")]


def test_restored_catalog_is_the_backup_and_the_damaged_one_stays(box: CatalogBox, folder: bytes) -> None:
    """Bringing a backup back deletes nothing, and no log of the damaged file is played into it."""
    box.record(b"a")
    backup = back_up(box.catalog, folder, keep=3, now=NOW)
    box.record(b"b")
    wal = _copy_of_the_log(box)
    box.catalog.close()
    with open(box.path, "r+b") as damaged:
        damaged.seek(0)
        damaged.write(b"x" * 5000)
    with open(box.path + b"-wal", "wb") as log:
        log.write(wal)
    taken, aside = restore(box.path, folder)

    assert taken == backup
    assert aside is not None
    assert aside.startswith(box.path + b".replaced-")
    assert paths_in(box.path) == [b"a"]
    assert os.stat(box.path).st_mode & 0o777 == 0o600
    with open(aside, "rb") as kept, open(aside + b"-wal", "rb") as kept_log:
        assert kept.read(5000) == b"x" * 5000
        assert kept_log.read() == wal


def _copy_of_the_log(box: CatalogBox) -> bytes:
    with open(box.path + b"-wal", "rb") as log:
        content = log.read()
    assert content
    return content


def test_newest_backup_that_is_whole_is_taken(box: CatalogBox, folder: bytes) -> None:
    """A backup that rotted itself is passed over."""
    box.record(b"a")
    good = back_up(box.catalog, folder, keep=9, now=NOW)
    rotten = back_up(box.catalog, folder, keep=9, now=NOW + DAY_S)
    os.truncate(rotten, 8192)
    with open(folder + b"/catalog-" + STAMPS[2] + b".db", "wb"):
        pass
    box.catalog.close()
    os.unlink(box.path)

    assert restore(box.path, folder) == (good, None)
    assert paths_in(box.path) == [b"a"]


def test_named_backup_is_taken_or_refused(box: CatalogBox, folder: bytes) -> None:
    """A file is brought back if it is a whole catalog, and nothing is touched otherwise."""
    good = back_up(box.catalog, folder, keep=9, now=NOW)
    box.record(b"a")
    box.catalog.close()
    bad = folder + b"/bad.db"
    with open(bad, "wb") as made:
        made.write(b"no catalog" * 1000)
    with pytest.raises(CatalogCorrupt, match=r"bad\.db"):
        restore(box.path, bad)
    with pytest.raises(CatalogMissing, match="no such backup"):
        restore(box.path, folder + b"/none.db")
    assert paths_in(box.path) == [b"a"]
    assert restore(box.path, good)[0] == good
    assert paths_in(box.path) == []


def test_restoring_without_a_backup_touches_nothing(box: CatalogBox) -> None:
    """No backup: the catalog stays where it is."""
    box.record(b"a")
    box.catalog.close()
    with pytest.raises(CatalogMissing, match="no backup"):
        restore(box.path, b"")

    assert paths_in(box.path) == [b"a"]


def test_restored_catalog_goes_on(box: CatalogBox, folder: bytes) -> None:
    """Rows can be recorded into it, and its counts are right."""
    box.record(b"a")
    back_up(box.catalog, folder, keep=3, now=NOW)
    box.catalog.close()
    restore(box.path, folder)
    box.reopen()
    box.record(b"b", make_reading("b"))

    report = maintenance.check(box.catalog)
    assert report.is_right
    assert [one.actual for one in report.counts] == [2]


@pytest.mark.root
def test_backup_made_by_root_belongs_to_the_catalogs_owner(box: CatalogBox, folder: bytes) -> None:
    """Neither a backup nor a restored catalog locks the owner out (R9)."""
    os.chown(box.path, 12345, 23456)
    path = back_up(box.catalog, folder, keep=3, now=NOW)
    box.catalog.close()
    restore(box.path, path)

    assert {os.stat(name).st_uid for name in (path, box.path)} == {12345}
