"""Check, match and audit as values: what became of each line and each file."""

from __future__ import annotations

import hashlib
import io
import os
from pathlib import Path

import pytest

from integrity.hashing.algorithms import SHA256
from integrity.hashing.file_sums import ListedPaths
from integrity.hashing.stored_digests import MD5
from integrity.lists.arguments import find_files
from integrity.lists.audit import Audited, AuditState, ManifestFiles, audit
from integrity.lists.check import Checked, LineVerdict, check
from integrity.lists.entries import BadLine
from integrity.lists.forms import write_bsd, write_gnu, write_hashdeep, write_hashdeep_header
from integrity.lists.reader import Manifest
from support.loopfs import unmount
from support.mounts import small_tmpfs
from support.privileges import as_nobody, let_in
from support.programs import sh
from support.shapes import put_in

Events = list[Checked | BadLine]


def line(path: bytes, data: bytes) -> bytes:
    """Write a line of md5sum about a file of this content."""
    return write_gnu(path, MD5, hashlib.md5(data).digest())


def run_check(data: bytes, *, name: bytes = b"sums", is_stdin: bool = False) -> Events:
    """Check all files of a manifest."""
    return list(check(Manifest(io.BytesIO(data), name=name), name=name, is_stdin=is_stdin))


def know(*manifests: bytes) -> ManifestFiles:
    """Know the files of some manifests."""
    known = ManifestFiles()
    for data in manifests:
        known.add(Manifest(io.BytesIO(data)), b"sums")
    return known


def test_lines_about_one_file_are_answered_one_by_one(tmp_path: Path) -> None:
    """As ``--tag`` with several algorithms writes them; the file is read once, and each line has its verdict."""
    path = put_in(tmp_path, "a", b"abc")
    good, wrong = hashlib.md5(b"abc").digest(), bytes(32)
    events = run_check(write_bsd(path, MD5, good) + write_bsd(path, SHA256, wrong) + write_bsd(path, MD5, good))

    assert [LineVerdict.OK, LineVerdict.FAILED, LineVerdict.OK] == [
        event.verdict for event in events if isinstance(event, Checked)
    ]


def test_size_is_checked_where_it_is_known(tmp_path: Path) -> None:
    """The digest of other content can't be right, but a line can be wrong."""
    path = put_in(tmp_path, "a", b"abc")
    header = write_hashdeep_header([MD5], b"/", b"", is_root=False)
    digest = hashlib.md5(b"abc").digest()
    events = run_check(header + write_hashdeep(path, 3, [digest]) + write_hashdeep(path, 4, [digest]))

    assert [LineVerdict.OK, LineVerdict.FAILED] == [event.verdict for event in events if isinstance(event, Checked)]


def test_standard_input_can_not_be_checked_by_itself() -> None:
    """A line about it is a bad one when the manifest comes from there, as for md5sum."""
    assert [BadLine(1)] == run_check(line(b"-", b""), is_stdin=True)


def test_manifest_that_breaks_off_is_told_behind_what_was_read(tmp_path: Path) -> None:
    """A reading error in the manifest takes nothing away from the lines before it."""

    class Broken(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            data = super().read(size)
            if not data:
                raise OSError(5, "Input/output error")
            return data

    path = put_in(tmp_path, "a", b"abc")
    lines = line(path, b"abc") * 2000
    events = check(Manifest(Broken(lines)), name=b"")

    assert [Checked(path, LineVerdict.OK)] * 1900 == [next(events) for _ in range(1900)]
    with pytest.raises(OSError, match="Input/output"):
        list(events)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a folder of our own."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_audit_takes_no_unreadable_file_for_missing(place: Path) -> None:
    """Nor does a copy of it count as moved."""
    os.mkdir("a")
    put_in(place, "copy", b"1")
    first, second = audit(know(line(b"a", b"1")), [b"a", b"copy"])

    assert (b"a", AuditState.UNREADABLE) == (first.path, first.state)
    assert Audited(b"copy", AuditState.NEW, b"a") == second


@pytest.mark.parametrize("name", [b"a", b"./a", b".//a", b"x/../a", b"%s/a"])
def test_audit_knows_a_place_by_its_other_names(place: Path, name: bytes) -> None:
    """Hashdeep writes whole paths, find begins with a dot."""
    put_in(place, "a", b"1")
    known = know(line(name.replace(b"%s", os.getcwdb()), b"1"))

    assert [Audited(b"a", AuditState.MATCHED)] == list(audit(known, [b"a"]))
    assert [Audited(b"./a", AuditState.MATCHED)] == list(audit(known, [b"./a", b"a"]))


def refuse(name: bytes, why: str) -> None:
    """Expect no complaint."""
    raise AssertionError((name, why))


def test_files_below_a_folder_are_sorted_by_their_paths(place: Path) -> None:
    """By bytes, as ``find | LC_ALL=C sort`` does: a dot comes before a slash. Other names stand where they stood."""
    for name in ("a", "a/z", "b"):
        os.mkdir(name)
    for name in ("a/1", "a/z/2", "a.txt", "b/\udcff", "-x", ".hidden", "lost+found"):
        put_in(place, name, b"")
    os.symlink("a", "link to folder")
    os.symlink("a.txt", "link to file")
    os.mkfifo("fifo")

    below = [b"./-x", b"./.hidden", b"./a.txt", b"./a/1", b"./a/z/2", b"./b/\xff", b"./lost+found"]
    assert [ListedPaths(below)] == list(find_files([b"."], refuse))
    assert [b"gone", ListedPaths([b"a/1", b"a/z/2"]), b"-", ListedPaths([b"b/\xff"]), b"fifo"] == list(
        find_files([b"gone", b"a/", b"-", b"b", b"fifo"], refuse)
    )
    linked = [b"link to folder/1", b"link to folder/z/2"]
    assert [ListedPaths(linked)] == list(find_files([b"link to folder"], refuse))


def test_unreadable_folders_are_told(place: Path) -> None:
    """What lies in them is not silently left out, and the rest is found."""
    for name in ("top", "top/closed", "shut"):
        os.mkdir(name)
    for name in ("top/closed/x", "top/a", "shut/y"):
        put_in(place, name, b"")
    let_in(place)
    os.chmod("top/closed", 0)
    os.chmod("shut", 0)
    complaints: list[tuple[bytes, str]] = []
    with as_nobody():
        found = list(find_files([b"top", b"shut"], lambda name, why: complaints.append((name, why))))
    os.chmod("top/closed", 0o700)
    os.chmod("shut", 0o700)

    assert [ListedPaths([b"top/a"])] == found
    assert [(b"top/closed", "Permission denied"), (b"shut", "Permission denied")] == complaints


@pytest.mark.root
def test_mounts_are_entered_once(place: Path) -> None:
    """Other file systems belong to what is named; a folder that is there a second time is told."""
    for name in ("top", "top/a", "top/disk", "top/view"):
        os.mkdir(name)
    complaints: list[tuple[bytes, str]] = []
    with small_tmpfs("top/disk", 1 << 20):
        put_in(place, "top/disk/x", b"")
        sh("mount", "--bind", "top/disk", "top/view")
        try:
            found = list(find_files([b"top"], lambda name, why: complaints.append((name, why))))
        finally:
            unmount("top/view")

    assert [ListedPaths([b"top/disk/x"])] == found
    assert [(b"top/view", "not entered: it is mounted a second time below top")] == complaints
