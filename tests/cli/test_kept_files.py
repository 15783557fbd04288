"""The damaged files that repairs leave: listed, and removed once nobody can need them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from support.cli import Box
from support.planted import age
from support.repairs import BLOCK, CONFIG, blocks
from support.shapes import damage

GOOD = blocks(3)


@pytest.fixture
def kept(integrity: Box, tmp_path: Path) -> Path:
    """Repair a damaged file, and return the damaged one that was kept."""
    integrity.configure(CONFIG)
    root = tmp_path / "root"
    for place in (root, tmp_path / "copy"):
        (place / "sub").mkdir(parents=True)
        (place / "sub/a b").write_bytes(GOOD)
    age(root / "sub/a b")
    integrity.run("scan", root, expect=0)
    damage(root / "sub/a b", 5, 3 * BLOCK + 1)
    integrity.run("scrub", root, expect=1)
    integrity.run("repair", root, "--from", tmp_path / "copy", "--apply", expect=0)
    (kept,) = (root / "sub").glob(".a b.integrity-*")
    return kept


def remove(integrity: Box, *paths: Path, expect: int) -> str:
    """Have kept files removed, and return the state of the only one."""
    (one,) = integrity.run("--json", "repair", "--remove-kept", *paths, "--yes", expect=expect).objects
    return str(one["state"])


def test_kept_files_are_listed(kept: Path, integrity: Box) -> None:
    """Where, how large, of which file, and how to remove it; chosen by its own name, the file's, or a folder's."""
    text = integrity.run("repair", "--kept", expect=0).stdout
    for place in (kept, kept.parent / "a b", kept.parent.parent):
        (one,) = integrity.run("--json", "repair", "--kept", place, expect=0).objects

        assert (str(kept), str(kept.parent / "a b"), "kept") == (one["path"], one["repaired"], one["state"])
        assert len(GOOD) == one["size_bytes"]
    assert f"{kept}: kept" in text
    assert "to remove:  integrity repair --remove-kept\n" in text


def test_kept_file_is_removed_after_verification(kept: Path, integrity: Box) -> None:
    """It is gone then, also from the list; the repaired file stays, and the next scrub finds nothing."""
    assert "removed" == remove(integrity, expect=0)
    assert not kept.exists()
    assert GOOD == (kept.parent / "a b").read_bytes()
    assert "no repair left a damaged file\n" == integrity.run("repair", "--kept", expect=0).stdout
    integrity.run("scrub", expect=0)


def test_nothing_is_removed_without_being_asked(kept: Path, integrity: Box) -> None:
    """Without a terminal --yes is needed."""
    assert "give --yes" in integrity.run("repair", "--remove-kept", expect=2).stderr
    assert kept.exists()


def test_kept_file_stays_while_the_repaired_one_is_not_intact(kept: Path, integrity: Box) -> None:
    """Damaged again, or gone: what was kept may be all that is left."""
    damage(kept.parent / "a b", 7)
    assert "not_proven" == remove(integrity, expect=3)
    (kept.parent / "a b").unlink()
    assert "not_proven" == remove(integrity, expect=3)
    assert kept.exists()


def replace_by_link(kept: Path) -> None:
    kept.unlink()
    kept.symlink_to(kept.parent / "a b")


def replace_by_other_file(kept: Path) -> None:
    kept.rename(kept.parent / "elsewhere")
    kept.write_bytes(b"somebody's")


def replace_by_folder(kept: Path) -> None:
    kept.unlink()
    kept.mkdir()


def write_to_it(kept: Path) -> None:
    with kept.open("ab") as file:
        file.write(b"more")


@pytest.mark.parametrize("change", [replace_by_link, replace_by_other_file, replace_by_folder, write_to_it])
def test_what_took_its_place_is_left_alone(change: object, kept: Path, integrity: Box) -> None:
    """Only the file that the repair left is removed, whatever has its name now."""
    assert callable(change)
    change(kept)

    assert "changed" == remove(integrity, expect=3)
    assert os.path.lexists(kept)
    assert GOOD == (kept.parent / "a b").read_bytes()


def test_folder_that_was_replaced_by_a_link_is_not_followed(kept: Path, integrity: Box, tmp_path: Path) -> None:
    """A link to a folder outside of the root leads nobody there."""
    outside = tmp_path / "outside"
    kept.parent.rename(outside)
    kept.parent.symlink_to(outside)

    assert remove(integrity, expect=3) in ("unknown", "changed")
    assert (outside / kept.name).exists()


def test_removed_by_hand_is_dropped_from_the_list(kept: Path, integrity: Box) -> None:
    """That is no error."""
    kept.unlink()

    assert "gone" == remove(integrity, expect=0)
    assert "no repair left" in integrity.run("repair", "--kept", expect=0).stdout


def test_look_alike_is_not_removed(kept: Path, integrity: Box) -> None:
    """A name of the same form that no repair made is not known, and stays."""
    other = kept.parent / f"{kept.name[:-1]}{'0' if kept.name[-1] != '0' else '1'}"
    other.write_bytes(b"somebody's")
    done = integrity.run("repair", "--remove-kept", other, "--yes", expect=2)
    remove(integrity, expect=0)

    assert "no repair left a damaged file there" in done.stderr
    assert other.exists()


def test_discarded_file_is_not_listed(integrity: Box, tmp_path: Path, kept: Path) -> None:
    """What --discard removed can't be removed again."""
    damage(kept.parent / "a b", 9)
    integrity.run("scrub", expect=1)
    integrity.run("repair", kept.parent.parent, "--from", tmp_path / "copy", "--apply", "--discard", expect=0)

    assert 1 == len(integrity.run("--json", "repair", "--kept", expect=0).objects)


@pytest.mark.parametrize(
    "words", [["--kept", "--apply"], ["--kept", "--remove-kept"], ["--remove-kept", "--from", "x"]]
)
def test_kept_goes_with_no_repair(words: list[str], integrity: Box) -> None:
    """One thing at a time."""
    assert "they repair nothing" in integrity.run("repair", *words, expect=2).stderr
