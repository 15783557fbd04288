"""An older version in a backup is out of date, not damaged, whatever became of the file's name since."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from support.cli import Box
from support.comparing import compare, said
from support.planted import age

FIRST, SECOND, OTHER = b"first version " * 500, b"second version " * 500, b"other " * 500


@pytest.fixture
def root(tmp_path: Path, integrity: Box) -> Path:
    """Record two versions of a file, beside another file."""
    root = tmp_path / "data"
    root.mkdir()
    write(root / "other", OTHER, 2000)
    write(root / "a", FIRST, 2000)
    integrity.run("scan", root, expect=0)
    write(root / "a", SECOND, 1000)
    integrity.run("scan", root, expect=0)
    return root


def write(path: Path, content: bytes, age_s: int) -> None:
    """Write a file that was written a while ago."""
    path.write_bytes(content)
    age(path)
    then_ns = path.stat().st_mtime_ns - age_s * 10**9
    os.utime(path, ns=(then_ns, then_ns))


def make_copy(kind: str, folder: Path, name: str) -> Path:
    """Make a copy that has the first version: a folder, which is read, or a manifest, which states digests."""
    contents = {name: FIRST, "other": OTHER}
    if kind == "manifest":
        lines = [f"{hashlib.md5(content).hexdigest()}  {path}\n" for path, content in contents.items()]
        (folder / "copy.md5").write_text("".join(lines))
        return folder / "copy.md5"
    (folder / "copy").mkdir()
    for path, content in contents.items():
        (folder / "copy" / path).write_bytes(content)
    return folder / "copy"


KINDS = pytest.mark.parametrize("kind", ["folder", "manifest"])


@KINDS
def test_older_version_of_a_file_that_was_moved_since(kind: str, integrity: Box, root: Path, tmp_path: Path) -> None:
    """The copy has the new name, and the content from before."""
    (root / "a").rename(root / "b")
    integrity.run("scan", root, expect=0)

    done = compare(integrity, root, "--with", make_copy(kind, tmp_path, "b"), expect=1)

    assert {"copy_stale": {"b"}} == said(done, root)


@KINDS
def test_older_version_of_a_name_that_another_file_has_now(
    kind: str, integrity: Box, root: Path, tmp_path: Path
) -> None:
    """The file was deleted, noticed as gone, and made anew: the backup was made before that."""
    (root / "a").unlink()
    integrity.run("scan", root, expect=0)
    write(root / "a", b"made anew " * 500, 100)
    integrity.run("scan", root, expect=0)

    done = compare(integrity, root, "--with", make_copy(kind, tmp_path, "a"), expect=1)

    assert {"copy_stale": {"a"}} == said(done, root)
