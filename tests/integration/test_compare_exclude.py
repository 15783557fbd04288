"""``exclude`` of a ``[[copy]]``, where it is said what a backup leaves out; what that means, the scenarios say."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from support.cli import Box
from support.comparing import compare, counts
from support.machine import need_programs


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Make a root of which a backup leaves out a folder."""
    root = tmp_path / "data"
    for name in ("a", "cache/1", "sub/b", "sub/cache/x"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(name.encode() * 100)
    return root


def configure(integrity: Box, of: Path, url: object, exclude: str) -> None:
    """Configure one copy, called nightly."""
    top = of if of.name == "data" else of.parent
    integrity.configure(
        f'[[root]]\npath = "{top}"\n[[copy]]\nname = "nightly"\nof = "{of}"\nurl = "{url}"\nexclude = {exclude}\n'
    )


def back_up(root: Path, copy: Path) -> None:
    """Make a copy without the folder at its top."""
    need_programs("rsync")
    subprocess.run(["rsync", "-a", "--exclude=/cache/", f"{root}/", copy], check=True)


def test_rclone_need_not_have_what_is_left_out(integrity: Box, root: Path, tmp_path: Path) -> None:
    """A copy that is asked by rclone leaves out what it leaves out as a folder does."""
    need_programs("rclone")
    back_up(root, tmp_path / "copy")
    configure(integrity, root, f"rclone::local:{tmp_path / 'copy'}", '["/cache/"]')
    integrity.run("scan", expect=0)
    done = compare(integrity, "--with", "nightly", expect=0)

    assert {"verified": 3, "skipped": 1} == counts(done)
    assert 1 == done.summary["files_left_out"]


def test_patterns_begin_at_the_folder_that_is_copied(integrity: Box, root: Path, tmp_path: Path) -> None:
    """As those of a ``[[root]]`` begin at the root."""
    back_up(root / "sub", tmp_path / "copy")
    configure(integrity, root / "sub", tmp_path / "copy", '["/cache/"]')
    integrity.run("scan", expect=0)
    done = compare(integrity, "--with", "nightly", expect=0)

    assert {"verified": 1, "skipped": 1} == counts(done)


def test_pattern_that_means_nothing_is_refused(integrity: Box, root: Path, tmp_path: Path) -> None:
    """By ``config check`` and by ``compare``; ``config show`` prints what is in force, and ``status`` goes on."""
    back_up(root, tmp_path / "copy")
    configure(integrity, root, tmp_path / "copy", '["/cache/"]')
    assert 'exclude = ["/cache/"]' in integrity.run("config", "show", expect=0).stdout
    integrity.run("scan", expect=0)
    compare(integrity, "--with", "nightly", expect=0)
    configure(integrity, root, tmp_path / "copy", '["[[:alpha:]]"]')
    assert "are not understood" in integrity.run("config", "check", expect=2).stderr
    assert "are not understood" in integrity.run("compare", "--with", "nightly", expect=2).stderr
    integrity.run("status", expect=0)
