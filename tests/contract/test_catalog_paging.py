"""Many rows in short transactions: others get the write lock in between."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from integrity.catalog.connection import Catalog, Connection, write_in_pages
from support.catalogs import CatalogBox


class Jumps:
    """A clock that is a second later each time that somebody looks."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


def put(c: Connection, keys: Sequence[str]) -> None:
    c.run_many("INSERT INTO meta (key, value) VALUES (?, 'x')", ([key] for key in keys))


def test_all_is_written_in_order_and_in_several_transactions(tmp_path: Path) -> None:
    """No row is lost or written twice where a page ends, and each page is there for others before the next begins."""
    keys = [f"key {number:04}" for number in range(450)]
    seen: list[int] = []
    with CatalogBox(bytes(tmp_path / "catalog.db")) as box, Catalog.open(box.path, writes=False) as other:

        def write(c: Connection, some: Sequence[str]) -> None:
            with other.read() as reading:
                seen.append(reading.value("SELECT count(*) FROM meta WHERE key LIKE 'key %'"))
            put(c, some)

        write_in_pages(box.catalog.transaction, keys, write, monotonic=Jumps())

        with box.catalog.read() as c:
            assert keys == c.column("SELECT key FROM meta WHERE key LIKE 'key %' ORDER BY key")
    assert [0, 100, 200, 300, 400] == seen


def test_writer_of_many_pages_lets_others_write(tmp_path: Path) -> None:
    """Who waits for the lock gets it soon, though the other one takes it again at once, page after page."""
    is_enough, has_begun = threading.Event(), threading.Event()

    class Enough(Exception):
        pass

    def write(c: Connection, some: Sequence[str]) -> None:
        has_begun.set()
        if is_enough.is_set():
            raise Enough
        put(c, some)

    def write_for_long() -> None:
        keys = (f"key {number}" for number in range(1_000_000))
        with Catalog.open(box.path, writes=True) as catalog, pytest.raises(Enough):
            write_in_pages(catalog.transaction, list(keys), write)

    with CatalogBox(bytes(tmp_path / "catalog.db")) as box:
        thread = threading.Thread(target=write_for_long)
        thread.start()
        try:
            assert has_begun.wait(60)
            with Catalog.open(box.path, writes=True, busy_timeout_s=20.0) as other:
                for number in range(4):
                    with other.transaction() as c:
                        put(c, [f"other {number}"])
        finally:
            is_enough.set()
            thread.join()
