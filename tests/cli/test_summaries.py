"""The last lines of a run and of status: headline and numbers say the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.bitrot import rot
from support.cli import Box
from support.loopfs import LoopFS
from support.planted import plant, plant_path
from support.shapes import put

ARCHIVE = '[[root]]\npath = "{path}"\npolicy = "archive"\n'


@pytest.fixture
def damaged(integrity: Box, tmp_path: Path) -> Path:
    """Record two folders of an archive, and change a file in one of them."""
    root = tmp_path / "root"
    for name in ("a", "b"):
        (root / name).mkdir(parents=True)
        put(root / name / "file", name.encode())
    integrity.configure(ARCHIVE.format(path=root))
    integrity.run("scan", expect=0)
    put(root / "a/file", b"changed")
    integrity.run("scan", expect=1)
    return root


def test_parts_of_one_root_count_its_findings_once(integrity: Box, damaged: Path) -> None:
    """Each part is a run of its own, and the root is the same."""
    summary = integrity.summary("scrub", damaged / "a", damaged / "b", expect=1)

    assert (1, 0, 2) == tuple(summary[name] for name in ("findings_open", "findings_opened", "files_known"))


def test_scan_does_not_call_known_damage_well(integrity: Box, damaged: Path) -> None:
    """It exits with 0, for it met nothing new, and says that not all is well."""
    said = integrity.run("scan", expect=0).stdout

    assert "scan: nothing new, but earlier findings are still open" in said
    assert "1 CHANGED in an archive" in said
    assert "all is well" not in said


@pytest.mark.root
@pytest.mark.parametrize("job", ["scan", "scrub"])
def test_what_somebody_changed_in_an_archive_is_not_called_damaged(integrity: Box, ext4: LoopFS, job: str) -> None:
    """Each run tells the two apart, whether it reads the files or knows them."""
    root = plant(ext4.folder / "photos", 4, size_bytes=5000)
    integrity.configure(ARCHIVE.format(path=root))
    integrity.run("scan", expect=0)
    put(plant_path(root, 0), b"changed")
    rot(plant_path(root, 1))
    integrity.run("scrub", expect=1)
    said = integrity.run(job).stdout

    assert "4 files: " in said
    assert "1 CHANGED in an archive, 1 DAMAGED" in said


def test_status_does_not_take_the_files_of_an_absent_root_for_links(integrity: Box, damaged: Path) -> None:
    """All of them are skipped while the root is suspended, which is another reason than being excluded."""
    damaged.rename(damaged.with_name("away"))
    integrity.run("scan", damaged, expect=3)
    said = integrity.run("status", expect=1).stdout

    assert "links, special files" not in said
    assert "  suspended: " in said
