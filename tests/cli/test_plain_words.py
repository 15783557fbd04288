"""What commands say where an owner was misled: each sentence is true, and says what to do."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from integrity.model import Finding, FindingId, FindingKind, FindingState
from integrity.words.findings import next_steps
from support.cli import Box
from support.planted import age, plant, plant_path
from support.shapes import damage


def test_config_check_with_a_warning_does_not_say_that_all_is_well(integrity: Box, tmp_path: Path) -> None:
    """A folder is missing, and nobody would be told."""
    integrity.configure(f'[[root]]\npath = "{tmp_path}/typo"\n')
    done = integrity.run("config", "check", expect=0)

    assert "no mistake, but 2 warnings: see above" in done.stdout
    assert "all is well" not in done.stdout


def test_clean_scan_calls_earlier_damage_by_what_it_is(integrity: Box, tmp_path: Path) -> None:
    """It exits with 0, for it found nothing new: a word in capitals would say the opposite."""
    root = plant(tmp_path / "root", 3)
    age(*(one for one in root.rglob("*") if one.is_file()))
    integrity.run("scan", root, expect=0)
    damage(plant_path(root, 1))
    integrity.run("scrub", root, expect=1)

    assert "1 still damaged" in integrity.run("scan", root, expect=0).stdout
    assert "1 DAMAGED" in integrity.run("scrub", root, expect=1).stdout


@pytest.mark.parametrize("reason", ["Permission denied", "Operation not permitted"])
def test_forbidden_folder_needs_no_other_disk(reason: str) -> None:
    """Nothing is mounted wrongly; the user may not enter."""
    finding = Finding(
        id=FindingId(1),
        kind=FindingKind.ROOT_SUSPENDED,
        state=FindingState.OPEN,
        root=b"/srv/photos",
        path=None,
        message=f"/srv/photos can't be opened: {reason}. Nothing there is being checked; no records were removed.",
        opened_at=0,
        updated_at=0,
    )
    (step,) = next_steps(finding)

    assert step.words.startswith("give the user that integrity runs as read access")
    assert step.command is not None
    assert step.command.endswith("scan /srv/photos")


def test_folder_that_is_gone_is_not_called_unknown(integrity: Box, tmp_path: Path) -> None:
    """Also if its files were in folders below it only."""
    root = plant(tmp_path / "root", 3)
    (root / "a/b").mkdir(parents=True)
    (root / "a/b/file").write_text("content")
    integrity.run("scan", root, expect=0)
    (root / "a/b/file").unlink()
    (root / "a/b").rmdir()
    (root / "a").rmdir()
    said = integrity.run("explain", root / "a", expect=2).stderr

    assert f"{root}/a: was a folder; name a file in it" in said
    assert "none is recorded" in integrity.run("explain", root / "never", expect=2).stderr


def test_names_of_one_file_are_one_resolved_finding(integrity: Box, tmp_path: Path) -> None:
    """Hard links: one finding was told, so one is told to be over."""
    root = plant(tmp_path / "root", 3)
    os.link(plant_path(root, 1), root / "other")
    age(plant_path(root, 1))
    integrity.run("scan", root, expect=0)
    damage(plant_path(root, 1))
    assert "1 finding open, 1 of them new" in integrity.run("scrub", root, expect=1).stdout
    damage(plant_path(root, 1))
    said = integrity.run("scrub", root, expect=0).stdout

    assert 1 == sum(line.startswith("resolved: ") for line in said.splitlines())


def test_two_files_are_not_a_file_and_its_backup(integrity: Box, tmp_path: Path) -> None:
    """Who names two files is told how to compare them."""
    root = plant(tmp_path / "root", 3)
    integrity.run("scan", root, expect=0)
    mine, other = plant_path(root, 1), tmp_path / "other.txt"
    other.write_text("something else")
    said = integrity.run("compare", mine, "--with", other, expect=3).stderr

    assert f"to compare two files: cmp {mine} {other}" in said
