"""PATHs that are not there, or not what they seem: refused before anything is done, with what to type."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from support.cli import Box
from support.planted import plant, plant_path
from support.results import tallies
from support.shapes import put
from support.stored import count_rows, query

pytestmark = pytest.mark.files(28, is_recorded=True)


@pytest.mark.parametrize("command", ["scan", "scrub"])
def test_path_that_does_not_exist_is_2(root: Path, integrity: Box, command: str) -> None:
    """A slip of the pen outside of all roots is told, by name; the paths beside it are not worked on, either."""
    result = integrity.run(command, root, root.parent / "ro0t", expect=2)
    assert str(root.parent / "ro0t") in result.stderr
    assert [(1,)] == query(integrity, "SELECT count(*) FROM run")


@pytest.mark.parametrize("command", ["scan", "scrub"])
def test_path_that_was_never_in_a_root_is_2(root: Path, integrity: Box, command: str) -> None:
    """Inside a root, a name that neither is there nor was recorded is a slip, too: silence would look like health."""
    result = integrity.run(command, root / "no-such-folder", expect=2)
    assert str(root / "no-such-folder") in result.stderr


def test_recorded_path_that_is_gone_is_missing(root: Path, integrity: Box) -> None:
    """A recorded file or folder that is gone is no slip: it is missing."""
    plant_path(root, 3).unlink()
    assert {"missing": 1} == tallies(integrity.run("--json", "scan", plant_path(root, 3), expect=0))
    for path in (root / "d1").iterdir():
        path.unlink()
    (root / "d1").rmdir()
    assert {"missing": 4} == tallies(integrity.run("--json", "scan", root / "d1", expect=0))
    assert 23 == count_rows(integrity)


@pytest.mark.parametrize("command", ["scan", "scrub"])
def test_parent_of_a_root_is_2_and_names_the_root(root: Path, integrity: Box, command: str) -> None:
    """A folder around a root can't become one; the message names the root and how to take it out."""
    result = integrity.run(command, root.parent, expect=2)
    assert str(root) in result.stderr
    assert "integrity forget" in result.stderr
    assert 28 == count_rows(integrity)


def test_single_file(root: Path, integrity: Box, tmp_path: Path) -> None:
    """A file inside a root is that part of it, recorded or new; one outside is refused and says why."""
    put(plant_path(root, 5), b"edited")
    put(root / "new.txt")
    assert {"changed": 1} == tallies(integrity.run("--json", "scan", plant_path(root, 5), expect=0))
    assert {"verified": 1} == tallies(integrity.run("--json", "scrub", root / "new.txt", expect=0))
    put(tmp_path / "outside.txt")
    result = integrity.run("scan", tmp_path / "outside.txt", expect=2)
    assert "is a file" in result.stderr
    assert str(tmp_path / "outside.txt") in result.stderr


def test_without_roots_it_says_what_to_type(integrity: Box, tmp_path: Path) -> None:
    """No PATH and no root: exit 2 and the command to begin with, also when the catalog is there already."""
    for command in ("scan", "scrub"):
        assert "integrity scan" in integrity.run(command, expect=2).stderr
    root = plant(tmp_path / "root", 3)
    integrity.run("scan", root, expect=0)
    integrity.run("forget", root, "--yes", expect=0)
    for command in ("scan", "scrub"):
        assert "integrity scan" in integrity.run(command, expect=2).stderr


def test_symlinked_path_means_what_it_leads_to(root: Path, integrity: Box, tmp_path: Path) -> None:
    """The real path counts: a link to a root, to a part of it, or to a new folder."""
    (tmp_path / "link").symlink_to(root)
    (tmp_path / "part").symlink_to(root / "d1")
    other = plant(tmp_path / "other", 3)
    (tmp_path / "to-other").symlink_to(other)
    assert {"not_due": 28} == tallies(integrity.run("--json", "scan", tmp_path / "link", expect=0))
    assert {"verified": 4} == tallies(integrity.run("--json", "scrub", tmp_path / "part", expect=0))
    assert {"new": 3} == tallies(integrity.run("--json", "scan", tmp_path / "to-other", expect=0))
    listed = integrity.run("root", "list", expect=0).stdout
    assert str(other) in listed
    assert "to-other" not in listed
    assert {"not_due": 28} == tallies(integrity.run("--json", "scan", f"{root}/d1/../.", expect=0))


def test_several_paths_are_each_covered_once(root: Path, integrity: Box, tmp_path: Path) -> None:
    """Two roots and parts of one; a path that is named twice, or lies in another named one, is not counted twice."""
    other = plant(tmp_path / "other", 3)
    (tmp_path / "link").symlink_to(other)
    result = integrity.run("--json", "scan", root, other, root, other, tmp_path / "link", expect=0)
    assert {"new": 3, "not_due": 28} == tallies(result)
    assert {"not_due": 8} == tallies(integrity.run("--json", "scan", root / "d1", root / "d2", expect=0))
    assert {"not_due": 28} == tallies(integrity.run("--json", "scan", root, root / "d2", expect=0))
    assert {"not_due": 28} == tallies(integrity.run("--json", "scan", root / "d2", root, root / "d3", expect=0))


def test_nested_new_folders_are_2(integrity: Box, tmp_path: Path) -> None:
    """Of a folder and one inside it only one can become a root."""
    outer = plant(tmp_path / "outer", 3)
    result = integrity.run("scan", outer, outer / "d1", expect=2)
    assert str(outer / "d1") in result.stderr


def test_three_errors_of_a_config_are_told_together(integrity: Box, tmp_path: Path) -> None:
    """Each with its line and key; nothing is done."""
    config = integrity.configure(
        '[defaults]\nblock_size = "3MiB"\n\n[[root]]\npath = "relative"\n\n[pace]\nratte = 5\nrate = "x"\n'
    )
    result = integrity.run("scan", plant(tmp_path / "root", 3), expect=2)
    for line, key in ((2, "block_size"), (5, "path"), (8, "ratte")):
        assert f"{config}:{line}" in result.stderr, result.stderr
        assert key in result.stderr
    assert not integrity.catalog.exists()


def test_unreadable_folder_can_not_become_a_root(integrity: Box, tmp_path: Path) -> None:
    """A folder that can't be opened is told with the reason."""
    (tmp_path / "file").touch()
    for path in (tmp_path / "file" / "below", os.fsencode(tmp_path) + b"/no\xff"):
        result = integrity.run("scan", path, expect=2)
        assert "no such" in result.stderr.lower() or "not a directory" in result.stderr.lower()
