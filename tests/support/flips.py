"""Flipped bits, and writes that a disk has lost, in the file of a catalog."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from integrity.catalog.database_file import carry_over
from integrity.catalog.db import Connection

PAGE_BYTES = 4096


def flip_bit(path: Path, chance: random.Random, begin: int = 0, end: int | None = None) -> str:
    """Flip one bit anywhere in a file, or between two of its bytes; say which."""
    with open(path, "r+b") as file:
        offset, bit = chance.randrange(begin, path.stat().st_size if end is None else end), chance.randrange(8)
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ 1 << bit]))
    return f"{path.name}: bit {bit} of byte {offset}"


def find_pages(catalog: Path) -> dict[int, str]:
    """Return the numbers of the pages that are in use, each with its table or index; first empty the log."""
    with closing(Connection(os.fsencode(catalog))) as c:
        assert carry_over(c, os.fsencode(catalog.resolve()), wholly=True)
        return dict(c.rows("SELECT pageno, name FROM dbstat"))


def find_flips(catalog: Path, chance: random.Random) -> Iterator[tuple[str, str]]:
    """
    Flip a bit of the file's header, and of each page in turn; the file is as it was when the next one is asked for.

    Yields:
        The table or index, and what was done.
    """
    places = [("header", number, number + 1) for number in range(100)]
    places += [(name, (page - 1) * PAGE_BYTES, page * PAGE_BYTES) for page, name in find_pages(catalog).items()]
    clean = catalog.read_bytes()
    for name, begin, end in places:
        yield name, f"{name}: {flip_bit(catalog, chance, begin, end)}"
        put_back(catalog, clean)


def find_lost_writes(catalog: Path, before: bytes, *tables: str) -> Iterator[tuple[str, str]]:
    """Put each page of a table back that was another one in an earlier state of the file; else like ``find_flips``."""
    pages, clean = find_pages(catalog), catalog.read_bytes()
    for page, name in pages.items():
        at = slice((page - 1) * PAGE_BYTES, page * PAGE_BYTES)
        if before[at] and before[at] != clean[at] and name in (tables or (name,)):
            put_back(catalog, clean[: at.start] + before[at] + clean[at.stop :])
            yield name, f"{name}: page {page} was not written"
            put_back(catalog, clean)


def damage_table(catalog: Path, table: str) -> None:
    """Flip a bit of the checksum of a table's last page: whoever does not compare it reads what was written."""
    page = max(number for number, name in find_pages(catalog).items() if name == table)
    flip_bit(catalog, random.Random(page), page * PAGE_BYTES - 8, page * PAGE_BYTES)


def put_back(catalog: Path, content: bytes) -> None:
    """Put the content of a file back, without a log."""
    for suffix in ("-wal", "-shm"):
        Path(f"{catalog}{suffix}").unlink(missing_ok=True)
    catalog.write_bytes(content)
