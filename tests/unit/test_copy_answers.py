"""What a copy says of a file, held against what is recorded: which digest proves what."""

from __future__ import annotations

import pytest

from integrity.arbitration import CopyVote, Level
from integrity.catalog import files, versions
from integrity.copies.protocol import Kind, Published
from integrity.jobs.compare.copy_answer import answer_by_reading, is_older, vote_by_digests
from integrity.jobs.judge.content_diff import Difference
from integrity.model import BaselineReason, Digests
from support.catalogs import MIB, NOW, CatalogBox, digest, make_blocks, make_digests, make_reading

LARGE = 3 * MIB + 5


@pytest.fixture
def box(box: CatalogBox) -> CatalogBox:
    """Make a catalog with a small file and a large one."""
    box.record(b"small", make_reading("small"))
    box.record(b"large", make_reading("large", size_bytes=LARGE, blocks=make_blocks("large", 4)))
    return box


def vote(box: CatalogBox, path: bytes, *published: Published) -> CopyVote | None:
    with box.catalog.read() as c:
        return vote_by_digests(c, box.get_at(path), published)


def test_digests_that_are_not_kept(box: CatalogBox) -> None:
    """Of SHA-256 and the like nothing follows from the catalog: None, not a difference."""
    for kind in (Kind.SHA1, Kind.SHA256, Kind.SHA512, Kind.BLAKE3, Kind.CRC32, Kind.CRC32C, Kind.XXH64):
        assert vote(box, b"small", Published(kind, bytes(20))) is None
    assert vote(box, b"small") is None


def edit(box: CatalogBox, path: bytes, seed: str) -> None:
    """Give a file another baseline."""
    record = box.get_at(path)
    with box.catalog.transaction() as c:
        versions.keep(c, [record], because=BaselineReason.EDITED, now=NOW)


def test_older_version(box: CatalogBox) -> None:
    """A copy is older if its size and a digest are those of a former baseline; the size alone proves nothing."""
    edit(box, b"small", "new")
    former = make_digests("small")
    assert former.md5 is not None
    assert former.xxh3_128 is not None
    with box.catalog.read() as c:
        known = versions.former_of(c, box.root.id, b"small")
    assert is_older(known, 5000, [Published(Kind.MD5, former.md5)])
    assert is_older(known, None, [Published(Kind.XXH3_128, former.xxh3_128)])
    assert not is_older(known, None, [Published(Kind.MD5, former.xxh3_128)])
    assert not is_older(known, 5001, [Published(Kind.MD5, former.md5)])
    assert not is_older(known, 5000, [Published(Kind.MD5, digest("other"))])
    assert not is_older(known, 5000, [])
    assert not is_older([], 5000, [Published(Kind.MD5, former.md5)])


def test_what_was_read(box: CatalogBox) -> None:
    """The same bytes are the same; others differ, or are an older version; a damaged record says nothing."""
    reading = make_reading("small")
    same = answer_by_reading(Difference(is_same=True), reading, [], Level.READ)
    assert (CopyVote.SAME, Level.READ, 5000) == (same.vote, same.level, same.size_bytes)
    edit(box, b"small", "new")
    with box.catalog.read() as c:
        known = versions.former_of(c, box.root.id, b"small")
    other = Difference(is_same=False, bad_blocks=(1, 2))
    older = answer_by_reading(other, reading, known, Level.READ)
    assert CopyVote.OLDER is older.vote
    differs = answer_by_reading(other, make_reading("else"), known, Level.READ)
    assert (CopyVote.DIFFERS, (1, 2)) == (differs.vote, differs.bad_blocks)
    damaged = answer_by_reading(Difference(is_same=False, is_catalog_damaged=True), reading, known, Level.READ)
    assert (CopyVote.NOT_COMPARABLE, True) == (damaged.vote, damaged.is_file_suspect)


def test_file_without_digests_of_the_whole(box: CatalogBox) -> None:
    """Where none is kept, as of a recording that was resumed, a stated one says nothing."""
    reading = make_reading("bare", digests=Digests(), size_bytes=LARGE, blocks=make_blocks("bare", 4))
    box.record(b"bare", reading)
    assert vote(box, b"bare", Published(Kind.MD5, bytes(16))) is None
    with box.catalog.read() as c:
        assert files.find_file(c, box.root.id, b"bare") is not None
