"""``exclude`` of a ``[[copy]]``: what a backup leaves out on purpose is counted, and never missing or overdue."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from support.cli import Box
from support.comparing import compare, counts, said
from support.machine import need_programs
from support.results import tallies

LEFT_OUT = "left out of this backup on purpose"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Make a root of which a backup leaves out a folder and some names."""
    root = tmp_path / "data"
    for name in ("a", "sub/b", "cache/1", "cache/deep/2", "sub/video.mp4"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(name.encode() * 100)
    return root


def configure(integrity: Box, root: Path, url: object, *, of: Path | None = None, exclude: str | None = None) -> None:
    """Configure one copy, called nightly."""
    lines = [f'[[root]]\npath = "{root}"\n[[copy]]\nname = "nightly"\nof = "{of or root}"\nurl = "{url}"\n']
    integrity.configure("".join([*lines, *([f"exclude = {exclude}\n"] if exclude else [])]))


def back_up(root: Path, copy: Path, *excluded: str) -> None:
    """Make a copy without some of the files."""
    need_programs("rsync")
    subprocess.run(["rsync", "-a", *(f"--exclude={one}" for one in excluded), f"{root}/", copy], check=True)


@pytest.mark.parametrize("kind", ["folder", "manifest", "rclone"])
def test_what_a_backup_leaves_out_is_counted_and_never_missing(
    kind: str, integrity: Box, root: Path, tmp_path: Path
) -> None:
    """In every kind of copy; a file that it lacks otherwise is missing as ever."""
    copy = tmp_path / "copy"
    back_up(root, copy, "/cache/", "*.mp4")
    url = str(copy)
    if kind == "manifest":
        listed = subprocess.run("md5sum a sub/b", cwd=copy, shell=True, capture_output=True, check=True).stdout
        (tmp_path / "list.md5").write_bytes(listed)
        url = str(tmp_path / "list.md5")
    elif kind == "rclone":
        need_programs("rclone")
        url = f"rclone::local:{copy}"
    configure(integrity, root, url, exclude='["/cache/", "*.mp4"]')
    integrity.run("scan", expect=0)
    done = compare(integrity, "--with", "nightly", expect=0)

    assert {"verified": 2, "skipped": 3} == counts(done)
    assert 3 == done.summary["files_left_out"]
    assert f"2 the same, 3 {LEFT_OUT}" in integrity.run("compare", "--with", "nightly", expect=0).stdout
    (root / "new").write_bytes(b"new")
    done = compare(integrity, "--with", "nightly", expect=1)
    assert {"copy_missing": {"new"}} == said(done, root)


def test_what_is_in_the_copy_all_the_same_is_compared(integrity: Box, root: Path, tmp_path: Path) -> None:
    """A pattern is no permission to be damaged."""
    copy = tmp_path / "copy"
    back_up(root, copy, "/cache/deep/")
    (copy / "cache" / "1").write_bytes(b"!" * len(b"cache/1" * 100))
    configure(integrity, root, copy, exclude='["/cache/", "*.mp4"]')
    integrity.run("scan", expect=0)
    done = compare(integrity, "--with", "nightly", expect=1)

    assert {"cache/1"} == set.union(*said(done, root).values())
    assert {"verified": 3, "changed": 1, "skipped": 1} == tallies(done)


def test_files_that_are_left_out_from_now_on_are_forgotten(integrity: Box, root: Path, tmp_path: Path) -> None:
    """The finding that they are missing ends, and ``explain`` says why the backup has none."""
    copy = tmp_path / "copy"
    back_up(root, copy, "/cache/deep/")
    configure(integrity, root, copy)
    integrity.run("scan", expect=0)
    compare(integrity, "--with", "nightly", expect=1)
    assert ": intact, compared" in integrity.run("explain", root / "cache" / "1").stdout
    (copy / "cache" / "1").unlink()
    configure(integrity, root, copy, exclude='["/cache/"]')
    done = compare(integrity, "--with", "nightly", expect=0)

    assert {"verified": 3, "skipped": 2} == counts(done)
    integrity.run("findings", expect=0)
    for name in ("1", "deep/2"):
        assert f"): {LEFT_OUT}" in integrity.run("explain", root / "cache" / name).stdout
        (story,) = integrity.run("--json", "explain", root / "cache" / name).of_type("file")
        assert [True] == [one["is_left_out"] for one in story["copies"]]


def test_patterns_begin_at_the_folder_that_is_copied(integrity: Box, root: Path, tmp_path: Path) -> None:
    """As those of a ``[[root]]`` begin at the root."""
    (root / "sub" / "cache").mkdir()
    (root / "sub" / "cache" / "x").write_bytes(b"x")
    copy = tmp_path / "copy"
    back_up(root / "sub", copy, "/cache/")
    configure(integrity, root, copy, of=root / "sub", exclude='["/cache/"]')
    integrity.run("scan", expect=0)
    done = compare(integrity, "--with", "nightly", expect=0)

    assert {"verified": 2, "skipped": 1} == counts(done)


def test_status_does_not_wait_for_what_is_left_out(integrity: Box, root: Path, tmp_path: Path) -> None:
    """Of files that the backup leaves out, ``status`` counts only those that it has all the same."""
    copy = tmp_path / "copy"
    back_up(root, copy, "/cache/deep/", "*.mp4")
    configure(integrity, root, copy, exclude='["/cache/", "*.mp4"]')
    integrity.run("scan", expect=0)
    compare(integrity, "--with", "nightly", expect=0)
    (shown,) = integrity.run("--json", "status").of_type("copy")

    assert (3, 3, 0) == tuple(shown[name] for name in ("files", "files_compared", "files_overdue"))


def test_other_disk_without_what_is_left_out_is_the_copy(integrity: Box, root: Path, tmp_path: Path) -> None:
    """A new folder at its place that lacks most files on purpose is no unmounted disk."""
    for number in range(20):
        (root / "cache" / f"more {number}").write_bytes(b"x")
    copy = tmp_path / "copy"
    back_up(root, copy, "/cache/")
    configure(integrity, root, copy, exclude='["/cache/"]')
    integrity.run("scan", expect=0)
    compare(integrity, "--with", "nightly", expect=0)
    os.rename(copy, tmp_path / "old")
    back_up(root, copy, "/cache/")
    done = compare(integrity, "--with", "nightly", expect=0)

    assert {"verified": 3, "skipped": 22} == counts(done)


def test_pattern_that_means_nothing_is_refused(integrity: Box, root: Path, tmp_path: Path) -> None:
    """By ``config check`` and by ``compare``; ``config show`` prints what is in force, and ``status`` goes on."""
    back_up(root, tmp_path / "copy")
    configure(integrity, root, tmp_path / "copy", exclude='["/cache/"]')
    assert 'exclude = ["/cache/"]' in integrity.run("config", "show", expect=0).stdout
    integrity.run("scan", expect=0)
    compare(integrity, "--with", "nightly", expect=0)
    configure(integrity, root, tmp_path / "copy", exclude='["[[:alpha:]]"]')
    assert "are not understood" in integrity.run("config", "check", expect=2).stderr
    assert "are not understood" in integrity.run("compare", "--with", "nightly", expect=2).stderr
    integrity.run("status", expect=0)
