"""Which folders of a repository are not read again after a run that was cut short."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from integrity.catalog.copies import FolderRead
from integrity.jobs.compare.read_back import choose_left_out

GIB = 1 << 30


@pytest.mark.parametrize(
    ("folders", "expected"),
    [
        ([], []),
        ([(b"", GIB, 3), (b"a", GIB, 0)], [b"a"]),
        ([(b"", GIB, 0), (b"a", GIB, 5)], [b""]),
        ([(b"", 0, 0), (b"a", GIB, 1), (b"b/c", GIB, 1)], []),
        ([(b"a/b", GIB, 0), (b"a/c", GIB, 9), (b"d", GIB, 0)], [b"a/b", b"d"]),
        ([(b"", 4 * GIB, 50_000), (b"a", GIB, 0)], []),  # as many starts as files
        ([(b"a", 1000, 0), (b"b", 1000, 1), (b"c", 1000, 1)], []),  # one stream of all is cheaper than two
        ([(b"small", 1000, 100), (b"small/a", 1000, 0), (b"large", GIB, 0)], [b"large"]),
    ],
)
def test_what_was_read_is_left_out_where_that_is_cheaper(
    folders: Sequence[tuple[bytes, int, int]], expected: Sequence[bytes]
) -> None:
    """A folder that was read is read again if that costs less than the streams around it."""
    assert frozenset(expected) == choose_left_out(map(FolderRead._make, folders))


def test_half_of_a_large_backup_is_not_read_again() -> None:
    """Two thousand folders of a GiB, of which the first thousand were read."""
    folders = [FolderRead(b"%04d" % number, GIB, 0 if number < 1000 else 10) for number in range(2000)]
    assert frozenset(b"%04d" % number for number in range(1000)) == choose_left_out(folders)
