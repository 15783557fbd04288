"""What ``status`` says of copies."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from support.cli import Box, JsonObject
from support.planted import plant_path
from support.stored import rewrite

COUNT = 10
pytestmark = pytest.mark.files(COUNT)


@pytest.fixture
def root(root: Path, integrity: Box, tmp_path: Path) -> Path:
    """Record a root with a copy of all and one of a folder in it that is not there."""
    shutil.copytree(root, tmp_path / "backup")
    copy = '[[copy]]\nname = "{}"\nof = "{}"\nurl = "{}"\n'
    integrity.configure(
        f'[[root]]\npath = "{root}"\n'
        + copy.format("nightly", root, tmp_path / "backup")
        + copy.format("away", root / "d1", tmp_path / "away")
        + copy.format("lost", tmp_path / "elsewhere", "rclone:x,pass=secret:y")
    )
    integrity.run("scan", expect=0)
    return root


def ask(box: Box, name: str) -> JsonObject:
    """Return what status tells of a copy."""
    (found,) = [one for one in box.json("status") if one["type"] == "copy" and one["name"] == name]
    return found


def test_copy_is_shown_with_what_was_compared(integrity: Box, root: Path, tmp_path: Path) -> None:
    """Its place, what it is a copy of, how much of it, how closely, and what is open about it and not its root."""
    plant_path(tmp_path / "backup", 3).unlink()
    integrity.run("compare", "--with", "nightly", expect=1)
    text, copy = integrity.run("status", expect=1).stdout, ask(integrity, "nightly")

    assert f"copy nightly: {tmp_path}/backup  (of {root})\n" in text
    assert "\n  compared   all of 10 files within 90 days, the longest" in text
    assert "  level      9 match by reading the data back\n" in text
    assert 1 == text.count("  open       1 file missing from the backup:  integrity findings\n")
    assert (COUNT, COUNT, 9, 9, 0) == tuple(
        copy[f"files{name}"] for name in ("", "_compared", "_same", "_read", "_overdue")
    )
    assert ({"copy_missing": 1}, False, None) == (copy["findings_open"], copy["is_overdue"], copy["waits"])
    assert {} == integrity.get_object("root", "status")["findings_open"]


def test_copy_that_was_never_compared_is_shown_as_such(integrity: Box, root: Path, tmp_path: Path) -> None:
    """One of nothing that is watched is a hint."""
    text, copy = integrity.run("status", expect=0).stdout, ask(integrity, "away")

    assert f"copy away: {tmp_path}/away  (of {root}/d1)\n  compared   no file by its content yet\n" in text
    assert "Hint: the copy lost is of an unwatched folder" in text
    assert "secret" not in text
    assert (None, None, str(root / "d1")) == (copy["last_compared_at"], copy["files"], copy["of"])


def test_copy_that_is_gone_is_not_one_unreadable_file(integrity: Box, root: Path, tmp_path: Path) -> None:
    """The verdict and its own lines say that nothing in it is compared, and since when."""
    (tmp_path / "backup").rename(tmp_path / "unplugged")
    integrity.run("compare", "--with", "nightly", expect=3)
    text = integrity.run("status", expect=3).stdout

    assert text.startswith("The backup copy nightly can't be reached since 20")
    assert ": nothing in it is compared.\n" in text
    assert "\n  open       The backup copy nightly can't be reached since 20" in text
    assert "file unreadable" not in text
    (tmp_path / "unplugged").rename(tmp_path / "backup")
    integrity.run("compare", "--with", "nightly", expect=0)
    assert "can't be reached" not in integrity.run("status", expect=0).stdout


def test_broken_promise_of_a_copy_is_told_by_the_exit_code(integrity: Box, root: Path) -> None:
    """Before any service has looked; for monitoring, too."""
    integrity.run("compare", "--with", "nightly", expect=0)
    rewrite(integrity, "UPDATE copy_file SET compared_at = compared_at - 91 * 86400")
    text, copy = integrity.run("status", expect=3).stdout, ask(integrity, "nightly")

    assert "  compared   OVERDUE: 10 of 10 files not within 90 days; last " in text
    assert (COUNT, True) == (copy["files_overdue"], copy["is_overdue"])
    assert "copy nightly overdue" in integrity.run("status", "--nagios", expect=1).stdout


def test_copy_that_was_compared_by_hand_is_shown_without_a_promise(integrity: Box, root: Path, tmp_path: Path) -> None:
    """Nobody said how often; changed files are said to wait."""
    shutil.copytree(root, tmp_path / "stick")
    integrity.run("compare", root, "--with", tmp_path / "stick", expect=0)
    plant_path(root, 3).write_text("new content")
    integrity.run("scan", expect=0)
    text = integrity.run("status", expect=0).stdout

    assert f"copy {tmp_path}/stick  (of {root})\n  compared   9 of 10 files, the others not yet, or not" in text
    assert ask(integrity, f"{tmp_path}/stick")["verify_every_s"] is None
