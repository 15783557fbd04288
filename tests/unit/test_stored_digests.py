"""The digests of a file are declared in one table, and everything that stores or computes them follows it."""

from __future__ import annotations

import re

import pytest

from integrity.catalog.rows import RECORD_COLUMNS
from integrity.files.read import Segment
from integrity.hashing.digests import FileHasher, Want, digest_whole, want_to_confirm
from integrity.hashing.stored_digests import STORED
from integrity.model import Digests
from support.generated import read_tables

NAMES = [digest.name for digest in STORED]
DATA = memoryview(b"content")
EVERYTHING = Want(md5=True, xxh3_128=True, blake3=True, crc64nvme=True)


def test_records_have_the_digests_of_the_table() -> None:
    """A record of digests, a request for them, and a stored row of a file name the same digests."""
    assert list(Digests._fields) == NAMES
    assert set(NAMES) <= set(Want._fields)
    assert [name for name in re.findall(r"file\.(\w+)", RECORD_COLUMNS) if name in NAMES] == NAMES


@pytest.mark.parametrize("table", ["file", "version"])
def test_columns_have_the_length_of_the_digest(table: str) -> None:
    """Each table with digests has a column for each, which refuses any other length."""
    constraints = {column.name: column.constraints for column in read_tables()[table]}

    assert {one.name: f"CHECK (length({one.name}) = {one.algorithm.digest_bytes})" for one in STORED} == {
        name: constraints[name] for name in NAMES
    }


def test_computed_digests_are_those_of_the_table() -> None:
    """Each way to digest a file returns the value of the algorithm in the table."""
    expected = []
    for digest in STORED:
        hasher = digest.algorithm.find_constructor()()
        hasher.update(DATA)
        expected.append(hasher.digest())
    hasher_of_file = FileHasher(EVERYTHING, len(DATA), 1 << 20)
    hasher_of_file.feed(Segment(0, len(DATA), DATA))

    assert [digest.algorithm.digest_bytes for digest in STORED] == [len(value) for value in expected]
    assert list(digest_whole(DATA, EVERYTHING)) == expected
    assert list(hasher_of_file.digests()) == expected


def test_verdicts_use_what_is_computed_again() -> None:
    """A re-read that confirms damage computes every digest that judges, and no other."""
    want = want_to_confirm(blake3=True)

    assert [getattr(want, digest.name) for digest in STORED] == [digest.judges for digest in STORED]
