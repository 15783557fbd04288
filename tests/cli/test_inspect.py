"""``integrity inspect`` tests files without a catalog."""

from __future__ import annotations

import random
from pathlib import Path

from support.cli import Box
from support.formats import MAKERS, flip


def make_pictures(folder: Path) -> Path:
    """Make three PNG files and a text; return the one of which a bit is flipped."""
    folder.mkdir()
    for number in range(3):
        MAKERS["PNG"][1](random.Random(number), folder / f"{number}.png")
    (folder / "notes.txt").write_text("text")
    damaged = folder / "1.png"
    damaged.write_bytes(flip(damaged.read_bytes(), 8 * 200))
    return damaged


def test_a_damaged_file_is_named_with_its_format(integrity: Box, tmp_path: Path) -> None:
    """It exits with 1, and makes no catalog."""
    damaged = make_pictures(tmp_path / "photos")

    done = integrity.run("inspect", tmp_path / "photos", expect=1)

    assert f"FAILS ITS OWN CHECK  {damaged}\n    PNG, by checksum: the checksum of its chunk IDAT" in done.stdout
    assert "inspect: 3 files tested: 2 pass by checksum, 0 whole by structure, 1 fail;" in done.stdout
    assert not integrity.catalog.exists()


def test_each_tested_file_is_an_object(integrity: Box, tmp_path: Path) -> None:
    """With --json; other formats are only counted."""
    damaged = make_pictures(tmp_path / "photos")

    objects = integrity.run("--json", "inspect", tmp_path / "photos", expect=1).objects

    results = {one["path"]: one["result"] for one in objects if one["type"] == "inspected"}
    assert results == {str(damaged.parent / f"{number}.png"): "passes" for number in (0, 2)} | {str(damaged): "fails"}
    [summary] = [one for one in objects if one["type"] == "summary"]
    assert (summary["passes"], summary["fails"], summary["unknown"]) == (2, 1, 1)


def test_intact_files_exit_with_0_and_unreadable_ones_with_3(integrity: Box, tmp_path: Path) -> None:
    """A name without a file could not be tested."""
    MAKERS["gzip"][1](random.Random(1), tmp_path / "a.gz")

    assert integrity.run("-q", "inspect", tmp_path / "a.gz", expect=0).stdout == ""
    assert "No such file" in integrity.run("inspect", tmp_path / "none", expect=3).stderr
