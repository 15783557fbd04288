"""A baseline with an open finding on its content is overwritten by nothing but a person's word (R6)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from support.bitrot import flip_bit, rot
from support.cli import Box
from support.results import met, notes, tallies
from support.shapes import put

pytestmark = pytest.mark.root

MIB = 1 << 20
SIZES = pytest.mark.parametrize("size", [9_000, 3 * MIB + 500])


@SIZES
def test_new_content_over_a_rotten_file(data: Path, integrity: Box, size: int) -> None:
    """An edit of a rotten file waits beside the baseline; rot of the edit itself is rot; accept ends it all."""
    path = data / "file"
    put(path, os.urandom(size))
    integrity.run("scan", data, expect=0)
    integrity.run("scrub", data, expect=0)
    baseline = integrity.get_object("file", "explain", path)["digests"]
    rot(path, size - 100)
    (finding,) = integrity.run("--json", "scrub", data, expect=1).findings
    with open(path, "r+b") as file:
        file.write(b"an honest edit")

    assert {"damaged": 1} == tallies(integrity.run("--json", "scan", data, expect=0))
    again = integrity.run("--json", "scan", data, expect=0)
    assert ({"damaged": 1}, 0) == (tallies(again), again.summary["bytes_read"])
    scrub = integrity.run("--json", "scrub", data, expect=1)
    assert ([finding["id"]], {"damaged": 1}) == ([one["id"] for one in scrub.findings], tallies(scrub))
    assert baseline == integrity.get_object("file", "explain", path)["digests"]
    os.sync()
    rot(path, 2_000, 6)
    scrub = integrity.run("--json", "scrub", data, expect=1)
    assert [("rot", str(path))] == met(scrub)
    assert ([0], 2) == (scrub.findings[0]["blocks"], scrub.findings[0]["confirmed_reads"])
    assert baseline == integrity.get_object("file", "explain", path)["digests"]
    integrity.run("accept", path, "--reason", "better than nothing", expect=0)
    assert baseline != integrity.get_object("file", "explain", path)["digests"]
    integrity.run("findings", expect=0)
    assert {"verified": 1} == tallies(integrity.run("--json", "scrub", data, expect=0))


@SIZES
def test_good_copy_put_over_a_rotten_file(data: Path, integrity: Box, size: int) -> None:
    """The old content from a backup, with new times, ends the finding: a scan reads it from the disk."""
    path, content = data / "file", os.urandom(size)
    put(path, content)
    integrity.run("scan", data, expect=0)
    rot(path, 5_000)
    integrity.run("scrub", data, expect=1)
    put(path, b"a wrong version first")
    integrity.run("scan", data, expect=0)
    put(path, content)

    done = integrity.run("--json", "scan", data, expect=0)
    assert ({"verified": 1}, [str(path)]) == (tallies(done), notes(done, "resolved"))
    integrity.run("findings", expect=0)
    with open(path, "ab") as file:
        file.write(b"free to change again")
    assert {"changed": 1} == tallies(integrity.run("--json", "scan", data, expect=0))


def test_rotten_file_that_is_deleted(data: Path, integrity: Box) -> None:
    """In a mutable root the deletion of a rotten file ends its finding; a new file of that name begins anew."""
    for name in ("file", "same"):
        put(data / name, os.urandom(9_000))
    integrity.run("scan", data, expect=0)
    rot(data / "file", 5_000)
    integrity.run("scrub", data, expect=1)
    os.unlink(data / "file")

    assert {"missing": 1, "not_due": 1} == tallies(integrity.run("--json", "scan", data, expect=0))
    integrity.run("findings", expect=0)
    put(data / "file", b"new")
    assert {"new": 1, "not_due": 1} == tallies(integrity.run("--json", "scan", data, expect=0))


def test_rotten_file_through_every_job(data: Path, integrity: Box) -> None:
    """Scans, full scans, scrubs in part and whole, touch and chmod: none of them forgets or forgives rot."""
    path = data / "file"
    put(path, os.urandom(9_000))
    put(data / "same", os.urandom(9_000))
    integrity.run("scan", data, expect=0)
    integrity.run("scrub", data, expect=0)
    baseline = integrity.get_object("file", "explain", path)["digests"]
    rot(path, 5_000)
    integrity.run("scrub", data, expect=1)

    os.chmod(path, 0o600)
    assert {"damaged": 1, "not_due": 1} == tallies(integrity.run("--json", "scan", data, expect=0))
    assert {"damaged": 1, "verified": 1} == tallies(integrity.run("--json", "scan", "--full", data, expect=0))
    os.utime(path)
    integrity.run("scan", data, expect=0)
    integrity.run("scrub", "--deep", path, expect=1)
    done = integrity.run("--json", "scrub", data, expect=1)
    assert {"damaged": 1, "verified": 1} == tallies(done)
    assert ("rot", str(path)) in met(integrity.run("--json", "findings", expect=1))
    assert baseline == integrity.get_object("file", "explain", path)["digests"]
    assert 1 == integrity.run("explain", path).code


def test_flip_in_what_was_changed_in_the_same_run(data: Path, integrity: Box) -> None:
    """A file that rots right after an accepted edit is rot against the edit."""
    path = data / "file"
    put(path, os.urandom(9_000))
    integrity.run("scan", data, expect=0)
    integrity.run("scrub", data, expect=0)
    put(path, os.urandom(9_500))
    assert {"changed": 1} == tallies(integrity.run("--json", "scrub", data, expect=0))
    flip_bit(path, 4_444, 2)

    done = integrity.run("--json", "scrub", data, expect=1)

    assert [("rot", "proven")] == [(one["kind"], one["certainty"]) for one in done.findings]
