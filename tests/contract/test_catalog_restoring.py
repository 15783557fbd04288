"""Restoring a backup: never under somebody who has the catalog open, and never leaving none."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from integrity.catalog import baselines, files, maintenance
from integrity.catalog.connection import Catalog
from integrity.catalog.maintenance import back_up, restore
from integrity.errors import CatalogLocked, CatalogReplaced
from integrity.model import FileId, RootId
from support.catalogs import NOW, CatalogBox, make_reading
from support.waiting import wait_until


def paths_in(path: bytes, *, writes: bool = False) -> list[bytes]:
    with Catalog.open(path, writes=writes) as catalog, catalog.read() as c:
        return [path for _, path, _ in files.page_files(c, RootId(1))]


def make_restorable(folder: Path) -> bytes:
    """Make a catalog of two files with a backup in which there is one, and leave the log beside it."""
    folder.mkdir(parents=True)
    with CatalogBox(bytes(folder / "catalog.db")) as box:
        box.record(b"a")
        back_up(box.catalog, b"", keep=3, now=NOW)
        box.record(b"b")
        names = {name: Path(os.fsdecode(name)).read_bytes() for name in (box.path, box.path + b"-wal")}
    for name, content in names.items():
        Path(os.fsdecode(name)).write_bytes(content)
    return box.path


def test_restore_waits_for_nobody_who_stays(box: CatalogBox) -> None:
    """Whoever may write to a catalog goes on with it: the restore is refused and says who that is."""
    box.record(b"a")
    back_up(box.catalog, b"", keep=3, now=NOW)
    with pytest.raises(CatalogLocked, match=f"is in use.*process {os.getpid()}"):
        restore(box.path, b"")

    box.record(b"b")
    assert paths_in(box.path) == [b"a", b"b"]


def test_restore_lets_readers_be(box: CatalogBox) -> None:
    """Who reads only goes on with what was put aside."""
    box.record(b"a")
    back_up(box.catalog, b"", keep=3, now=NOW)
    box.record(b"b")
    box.catalog.close()
    with Catalog.open(box.path, writes=False) as reader:
        restore(box.path, b"")
        with reader.read() as c:
            assert len(files.page_files(c, RootId(1))) == 2
    assert paths_in(box.path) == [b"a"]


def test_catalog_that_is_exchanged_by_hand_takes_no_more_rows(box: CatalogBox) -> None:
    """What would be written to the file that was moved away is refused, not lost in silence."""
    box.record(b"a")
    copy = back_up(box.catalog, b"", keep=3, now=NOW)
    os.rename(copy, box.path)
    with pytest.raises(CatalogReplaced, match="another file was put in its place"):
        box.record(b"b")

    os.unlink(box.path)
    with pytest.raises(CatalogReplaced):
        box.record(b"b")


def test_restore_through_a_link_leaves_the_link(box: CatalogBox, tmp_path: Path) -> None:
    """The file is exchanged, wherever the link to it is; and it is locked by both names."""
    box.record(b"a")
    link = bytes(tmp_path / "link.db")
    os.symlink(box.path, link)
    copy = back_up(box.catalog, b"", keep=3, now=NOW)
    box.record(b"b")
    with pytest.raises(CatalogLocked):
        restore(link, copy)
    box.catalog.close()
    restore(link, copy)

    assert os.path.islink(link)
    assert [b"a"] == paths_in(link) == paths_in(box.path)


@pytest.mark.root
def test_restores_at_once(tmp_path: Path) -> None:
    """Each ends well or is told that another one is at work, and what is there is whole."""
    path = make_restorable(tmp_path / "home")
    told: list[str] = []

    def try_it() -> None:
        try:
            restore(path, b"")
        except CatalogLocked as error:
            told.append(str(error))

    threads = [threading.Thread(target=try_it) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(told) < len(threads)
    assert paths_in(path) == [b"a"]


def test_backup_ends_while_others_commit(box: CatalogBox) -> None:
    """It is of one moment: what is committed after that does not make it begin anew."""
    box.record_all({b"d/%d" % number: make_reading(number) for number in range(30_000)})
    is_over = threading.Event()
    commits = 0

    def go_on() -> None:
        nonlocal commits
        with Catalog.open(box.path, writes=True) as other:
            while not is_over.is_set():
                with other.transaction() as c:
                    baselines.mark_suspects(c, {FileId(1 + commits % 30_000): None})
                commits += 1

    thread = threading.Thread(target=go_on)
    thread.start()
    wait_until(lambda: commits > 0, "a commit")
    try:
        backup = back_up(box.catalog, b"", keep=3, now=NOW)
    finally:
        is_over.set()
        thread.join()

    with Catalog.open(backup, writes=False) as copy:
        assert maintenance.check(copy).counts[0].actual == 30_000
