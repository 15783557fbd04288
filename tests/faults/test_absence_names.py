"""Names that no listing shows: renamed by letter case or the form of accents, or left out by a faulty listing."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from support.cli import Box
from support.fusemounts import fat, make_fat
from support.loopfs import LoopFS
from support.planted import age
from support.programs import sh
from support.results import met, notes, tallies
from support.shapes import put
from support.stored import query

NAMES = ("img1.jpg", "img2.jpg", "Ünder.txt")


@contextmanager
def casefolded(folder: Path) -> Iterator[Path]:
    """Give a folder of an ext4 in which case makes no name, and inodes last."""
    if not os.path.exists("/sys/fs/ext4/features/casefold"):
        pytest.skip("this kernel folds no case on ext4")
    with LoopFS("ext4", mkfs=("-O", "casefold", "-E", "encoding=utf8")) as fs:
        top = fs.folder / "folded"
        top.mkdir()
        sh("chattr", "+F", top)
        yield top


@contextmanager
def on_fat(folder: Path, fs_type: str = "exfat") -> Iterator[Path]:
    """Give a folder of an exFAT or vfat, on which inodes do not last either."""
    point = folder / "mnt"
    point.mkdir()
    with fat(point, make_fat(folder / "fat.img", fs_type), fs_type):
        yield point


on_vfat = partial(on_fat, fs_type="vfat")


@pytest.fixture(params=[casefolded, on_fat, on_vfat], ids=["casefolded", "exfat", "vfat"])
def caseless(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """Give each folder in which letter case makes no name, with some files."""
    with request.param(tmp_path) as folder:
        (folder / "trip").mkdir()
        for number, name in enumerate(NAMES):
            for path in (folder / name, folder / "trip" / name):
                put(path, b"%d %s" % (number, os.fsencode(path.parent.name)) * 1000)
                os.utime(path, (1_600_000_000 + number, 1_600_000_000 + number))
        age(*folder.rglob("*.*"))
        yield folder


def get_names(integrity: Box) -> set[str]:
    """Return the recorded paths."""
    rows = query(integrity, "SELECT folder.path, name FROM file JOIN folder ON folder.id = folder_id")
    return {os.fsdecode(os.path.join(bytes(folder), bytes(name))) for folder, name in rows}  # type: ignore[call-overload]


def damage(path: Path) -> None:
    """Change one byte of a file, and put its times back: rot, where there is no ctime that could be trusted."""
    status = path.stat()
    with open(path, "r+b") as file:
        file.write(b"#")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def respell(path: Path, new: Path) -> None:
    """Rename by way of a third name: where the kernel ignores case, a rename to the same name does nothing."""
    between = path.with_name("respelled")
    path.rename(between)
    between.rename(new)


@pytest.mark.root
def test_file_renamed_by_case_keeps_its_record(caseless: Path, integrity: Box) -> None:
    """One record under the new name, moved, not new; the old name is no ghost; the next scan has nothing to do."""
    integrity.run("scan", caseless, expect=0)
    for folder in (caseless, caseless / "trip"):
        respell(folder / "img1.jpg", folder / "IMG1.JPG")
    scan = integrity.run("--json", "scan", caseless, expect=0)

    assert {"not_due": 6, "moved": 2} == tallies(scan, without="skipped")
    assert {"IMG1.JPG", "img2.jpg", "Ünder.txt", "trip/IMG1.JPG", "trip/img2.jpg", "trip/Ünder.txt"} == get_names(
        integrity
    )
    assert {"verified": 6} == tallies(integrity.run("--json", "scrub", caseless, expect=0), without="skipped")


@pytest.mark.root
@pytest.mark.parametrize("command", ["scan", "scrub"])
def test_folder_renamed_by_case_keeps_its_records(caseless: Path, integrity: Box, command: str) -> None:
    """All files of the folder move with it, unread, also if some of them were renamed in the same way."""
    integrity.run("scan", caseless, expect=0)
    respell(caseless / "trip", caseless / "Trip")
    respell(caseless / "Trip" / "Ünder.txt", caseless / "Trip" / "ünder.TXT")
    done = integrity.run("--json", command, caseless, expect=0)

    assert 3 == tallies(done)["moved"]
    assert {"img1.jpg", "img2.jpg", "Ünder.txt", "Trip/img1.jpg", "Trip/img2.jpg", "Trip/ünder.TXT"} == get_names(
        integrity
    )


@pytest.mark.root
@pytest.mark.parametrize("name", ["img1.jpg", "trip"])
def test_damage_before_the_rename_is_found(caseless: Path, integrity: Box, name: str) -> None:
    """What was damaged and then renamed is held against its record, and reported under its new name."""
    integrity.run("scrub", caseless, expect=0)
    damage(caseless / "trip" / "img1.jpg")
    for folder in (caseless / "trip", caseless):
        if (folder / name).exists():
            respell(folder / name, folder / name.upper())
    integrity.run("scan", caseless)
    scrub = integrity.run("--json", "scrub", caseless, expect=1)

    (found,) = [path for _, path in met(scrub)]
    assert str(caseless / "trip" / "img1.jpg").lower() == str(found).lower()
    assert 6 == len(get_names(integrity))


@pytest.mark.root
def test_file_renamed_by_case_and_edited_is_changed(caseless: Path, integrity: Box) -> None:
    """An edit behind the rename is one of the recorded file: one record, and history has the old content."""
    integrity.run("scan", caseless, expect=0)
    respell(caseless / "img1.jpg", caseless / "IMG1.JPG")
    put(caseless / "IMG1.JPG", b"edited, and longer than before" * 1000)
    scan = integrity.run("--json", "scan", caseless, expect=0)

    assert {"changed": 1, "not_due": 5, "moved": 1} == tallies(scan, without="skipped")
    assert 6 == len(get_names(integrity))


@pytest.mark.root
def test_old_name_that_is_named_leads_to_the_file(caseless: Path, integrity: Box) -> None:
    """A scan of the old name, as a person may still write it, makes no second record."""
    integrity.run("scan", caseless, expect=0)
    respell(caseless / "img1.jpg", caseless / "IMG1.JPG")
    integrity.run("scan", caseless / "img1.jpg", expect=0)
    integrity.run("scan", caseless, expect=0)

    assert 6 == len(get_names(integrity))
    assert "IMG1.JPG" in get_names(integrity)


@pytest.mark.root
def test_unicode_form_alone(caseless: Path, integrity: Box) -> None:
    """A decomposed accent is another spelling where the file system says so, and a rename like any other elsewhere."""
    integrity.run("scan", caseless, expect=0)
    respell(caseless / "Ünder.txt", caseless / unicodedata.normalize("NFD", "Ünder.txt"))
    scan = integrity.run("--json", "scan", caseless, expect=0)

    assert (6, 1) == (len(get_names(integrity)), tallies(scan)["moved"])
    assert unicodedata.normalize("NFD", "Ünder.txt") in get_names(integrity)


def test_spelling_makes_a_name_elsewhere(tmp_path: Path, integrity: Box) -> None:
    """Two files whose names differ in case are two; the one that is removed is gone, and the other is new or stays."""
    root = tmp_path / "root"
    root.mkdir()
    put(root / "a.txt", b"small")
    put(root / "b.txt", b"other")
    integrity.run("scan", root, expect=0)
    put(root / "A.txt", b"capital")
    (root / "b.txt").unlink()
    put(root / "B.txt", b"another file")
    scan = integrity.run("--json", "scan", root, expect=0)

    assert {"new": 2, "not_due": 1, "missing": 1} == tallies(scan)
    assert {"a.txt", "A.txt", "B.txt"} == get_names(integrity)
    assert [str(root / "b.txt")] == notes(scan, "deleted")
