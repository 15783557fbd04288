"""Folders that can't be listed, names that are left out since: none of it is a deletion."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from support.cli import Box
from support.faultfs import FaultFS, Rule
from support.loopfs import LoopFS
from support.planted import plant
from support.privileges import as_nobody, run_as_nobody
from support.programs import sh
from support.results import kinds, messages, notes, tallies
from support.shapes import put
from support.stored import count_rows


@pytest.mark.root
@pytest.mark.parametrize("code", [errno.EBADMSG, errno.EIO, errno.EACCES, errno.ESTALE])
def test_folder_that_cannot_be_listed(faulty: FaultFS, integrity: Box, tmp_path: Path, code: int) -> None:
    """Its files are unreadable, not missing; the rest goes on; when it can be listed again the finding is over."""
    plant(tmp_path / "source", 28)
    integrity.run("scan", faulty.folder, expect=0)
    rule = faulty.add(Rule("opendir", path="/d3", errno=code))

    result = integrity.run("--json", "scan", faulty.folder, expect=3)

    assert ["unreadable"] == kinds(result)
    assert os.strerror(code) in messages(result)
    assert result.findings[0]["path"] == str(faulty.folder / "d3")
    assert {"unreadable": 4, "not_due": 24} == tallies(result)
    scrub = integrity.run("--json", "scrub", faulty.folder, expect=3)
    assert {"unreadable": 4, "verified": 24} == tallies(scrub)
    assert 28 == count_rows(integrity)
    assert 1 == len(integrity.findings("findings"))
    faulty.clear(rule)
    again = integrity.run("--json", "scan", faulty.folder, expect=0)
    assert {"not_due": 28} == tallies(again)
    assert 0 == integrity.run("findings").code
    assert ["resolved"] == [note["kind"] for note in again.of_type("note")]


@pytest.mark.root
def test_listing_that_breaks_off(faulty: FaultFS, integrity: Box, tmp_path: Path) -> None:
    """A folder that shows a part of its names and then an error is not whole, so nothing of it is gone."""
    plant(tmp_path / "source", 28)
    integrity.run("scan", faulty.folder, expect=0)
    faulty.add(Rule("readdir", path="/d3", errno=errno.EIO))
    assert {"unreadable": 4, "not_due": 24} == tallies(integrity.run("--json", "scan", faulty.folder, expect=3))
    assert 28 == count_rows(integrity)


@pytest.mark.root
def test_folder_that_hides_its_names(faulty: FaultFS, integrity: Box, tmp_path: Path) -> None:
    """A name that is not listed but still there is checked like any other, and its folder is warned of."""
    plant(tmp_path / "source", 28)
    integrity.run("scan", faulty.folder, expect=0)
    for hidden, folder in (("/d3/*", "d3"), ("/d3", "d3")):
        rule = faulty.add(Rule("readdir", path=hidden, is_hidden=True))
        result = integrity.run("--json", "scan", faulty.folder, expect=0)
        assert {"not_due": 28} == tallies(result)
        assert [str(faulty.folder / folder)] == notes(result, "warning")
        assert {"verified": 28} == tallies(integrity.run("--json", "scrub", faulty.folder, expect=0))
        faulty.clear(rule)
    assert 28 == count_rows(integrity)


@pytest.mark.root
def test_edit_in_a_folder_that_hides_its_names(faulty: FaultFS, integrity: Box, tmp_path: Path) -> None:
    """A change of a file that no listing shows is noticed."""
    plant(tmp_path / "source", 28)
    integrity.run("scan", faulty.folder, expect=0)
    faulty.add(Rule("readdir", path="/d3/*", is_hidden=True))
    put(tmp_path / "source" / "d3" / "3.txt", b"edited, and longer")

    result = integrity.run("--json", "scan", faulty.folder, expect=0)

    assert {"changed": 1, "not_due": 27} == tallies(result)


@pytest.mark.root
def test_name_that_cannot_be_looked_at(faulty: FaultFS, integrity: Box, tmp_path: Path) -> None:
    """A name that is listed but fails with EIO on lstat is unreadable; repaired, it is as it was."""
    plant(tmp_path / "source", 28)
    integrity.run("scan", faulty.folder, expect=0)
    faulty.add(Rule("getattr", path="/d3/10.txt", errno=errno.EIO))
    result = integrity.run("--json", "scan", faulty.folder, expect=3)
    assert {"unreadable": 1, "not_due": 27} == tallies(result)
    assert result.findings[0]["path"] == str(faulty.folder / "d3" / "10.txt")
    assert 28 == count_rows(integrity)
    faulty.clear()
    assert {"not_due": 28} == tallies(integrity.run("--json", "scan", faulty.folder, expect=0))
    assert 0 == integrity.run("findings").code


@pytest.mark.root
def test_rotten_folder_of_ext4(integrity: Box) -> None:
    """A damaged directory block of ext4 with metadata checksums: EBADMSG on listing, and no file is taken for gone."""
    with LoopFS("ext4", mkfs=("-O", "metadata_csum")) as fs:
        root = plant(fs.folder, 28)
        integrity.run("scan", root, expect=0)
        fs.umount()
        block = sh("debugfs", "-R", "blocks /d3", fs.image).split()[0]
        with open(fs.image, "r+b") as disk:
            disk.seek(int(block) * 4096 + 2000)
            disk.write(b"rotten" * 8)
        fs.mount()
        result = integrity.run("--json", "scan", root, expect=3)
        assert {"unreadable": 4, "not_due": 24} == tallies(result, without="skipped")
        assert str(root / "d3") == result.findings[0]["path"]
        scrub = integrity.run("--json", "scrub", root, expect=3)
        assert 24 == tallies(scrub)["verified"]
        assert 28 == count_rows(integrity)


@pytest.mark.root
def test_folder_without_permission(nobodys_box: Box) -> None:
    """A folder that a user may not list keeps its records; given back, all is as before."""
    with as_nobody():
        root = plant(nobodys_box.home.parent / "root", 28)
    assert 0 == run_as_nobody(nobodys_box, "scan", root).code
    os.chmod(root / "d3", 0)
    result = run_as_nobody(nobodys_box, "--json", "scan", root)
    assert 3 == result.code
    assert {"unreadable": 4, "not_due": 24} == tallies(result)
    assert "Permission denied" in messages(result)
    assert 28 == count_rows(nobodys_box)
    os.chmod(root / "d3", 0o755)
    assert 0 == run_as_nobody(nobodys_box, "scan", root).code
    assert 0 == run_as_nobody(nobodys_box, "findings").code


@pytest.mark.root
def test_names_in_a_folder_that_may_be_listed_but_not_entered(nobodys_box: Box) -> None:
    """Each name counts as unreadable, new ones and recorded ones, and what is to be done is about permissions."""
    with as_nobody():
        root = plant(nobodys_box.home.parent / "root", 7)
    (root / "new").mkdir()
    put(root / "new" / "a", b"a")
    put(root / "new" / "b", b"b")
    os.chmod(root / "new", 0o644)
    result = run_as_nobody(nobodys_box, "--json", "scan", root)
    assert 3 == result.code
    assert {"new": 7, "unreadable": 2} == tallies(result)
    assert all("looked at: Permission denied" in str(one["message"]) for one in result.findings)
    steps = str([one["next_steps"] for one in result.findings])
    assert "give the user that integrity runs as read access" in steps
    assert not any(word in steps for word in ("smartctl", "repair"))
    os.chmod(root / "new", 0o755)
    assert {"new": 2, "not_due": 7} == tallies(run_as_nobody(nobodys_box, "--json", "scan", root))
    os.chmod(root / "new", 0o644)
    assert {"unreadable": 2, "not_due": 7} == tallies(run_as_nobody(nobodys_box, "--json", "scan", root))
    assert {"unreadable": 2, "verified": 7} == tallies(run_as_nobody(nobodys_box, "--json", "scrub", root))


def test_excluded_later_is_skipped_not_missing(tmp_path: Path, integrity: Box) -> None:
    """Files that a new exclude pattern leaves out keep their records, are counted as skipped, and come back with it."""
    root = plant(tmp_path / "root", 28)
    integrity.configure(f'[[root]]\npath = "{root}"\n')
    integrity.run("scan", expect=0)
    integrity.configure(f'[[root]]\npath = "{root}"\nexclude = ["d3/", "*7.txt"]\n')
    result = integrity.run("--json", "scan", expect=0)
    found = tallies(result)
    assert "missing" not in found
    kept = [path for path in root.rglob("*.txt") if path.parent.name != "d3" and not path.name.endswith("7.txt")]
    assert len(kept) == found["not_due"]
    assert 28 == count_rows(integrity)
    scrub = tallies(integrity.run("--json", "scrub", expect=0))
    assert len(kept) == scrub["verified"]
    assert "missing" not in scrub
    assert "not_due" not in scrub
    for path in (root / "d3").iterdir():
        path.unlink()
    integrity.run("scan", expect=0)
    assert 28 == count_rows(integrity)
    integrity.configure(f'[[root]]\npath = "{root}"\n')
    back = integrity.run("--json", "scan", expect=0)
    assert {"not_due": 24, "missing": 4} == tallies(back)


@pytest.mark.root
def test_new_file_that_cannot_be_read_and_then_can(nobodys_box: Box) -> None:
    """The finding on a file that was never recorded is over when it is recorded, and when it is gone."""
    with as_nobody():
        root = plant(nobodys_box.home.parent / "root", 7)
    put(root / "secret.txt")
    put(root / "other.txt")
    os.chmod(root / "secret.txt", 0o600)
    os.chmod(root / "other.txt", 0o600)
    result = run_as_nobody(nobodys_box, "--json", "scan", root)
    assert 3 == result.code
    assert {"new": 7, "unreadable": 2} == tallies(result)
    os.chmod(root / "secret.txt", 0o644)
    (root / "other.txt").unlink()
    assert {"new": 1, "not_due": 7} == tallies(run_as_nobody(nobodys_box, "--json", "scan", root))
    assert 0 == run_as_nobody(nobodys_box, "findings").code
    assert 0 == run_as_nobody(nobodys_box, "scrub", root).code
