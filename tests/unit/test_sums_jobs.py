"""Check, match and audit as values: what became of each line and each file."""

from __future__ import annotations

import hashlib
import io
import os
from pathlib import Path

import pytest

from integrity.hashing.algorithms import MD5, SHA256
from integrity.hashing.file_sums import ListedPaths, sum_files
from integrity.hashing.manifests.entries import BadLine
from integrity.hashing.manifests.hashdeep import write_hashdeep, write_hashdeep_header
from integrity.hashing.manifests.reader import Manifest
from integrity.hashing.manifests.text import write_bagit, write_bsd, write_gnu
from integrity.jobs.sum.arguments import find_files
from integrity.jobs.sum.audit import Audited, AuditState, ManifestFiles, audit, match
from integrity.jobs.sum.check import Checked, CheckTally, LineVerdict, check
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


def test_lines_are_answered_in_their_order(tmp_path: Path) -> None:
    """Good, bad and unreadable lines, each in its place."""
    path, gone = put_in(tmp_path, "a", b"abc"), bytes(tmp_path / "gone")
    data = b"bad\n" + line(path, b"abc") + b"bad\nbad\n" + line(path, b"x") + line(gone, b"") + b"bad\n"
    events = run_check(data)

    assert [1, 3, 4, 7] == [event.line for event in events if isinstance(event, BadLine)]
    verdicts = [event if isinstance(event, BadLine) else event.verdict for event in events]
    assert [LineVerdict.OK, LineVerdict.FAILED, LineVerdict.UNREADABLE] == [
        each for each in verdicts if isinstance(each, LineVerdict)
    ]
    assert [isinstance(each, BadLine) for each in verdicts] == [True, False, True, True, False, False, True]


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


def test_paths_of_a_bag_are_relative_to_it(tmp_path: Path) -> None:
    """Wherever the program is started; other manifests mean the working folder."""
    (tmp_path / "data").mkdir()
    path = put_in(tmp_path, "data/50%\n", b"abc")
    data = write_bagit(b"data/50%\n", hashlib.md5(b"abc").digest())

    assert [Checked(path, LineVerdict.OK)] == run_check(data, name=bytes(tmp_path / "manifest-md5.txt"))


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


@pytest.mark.parametrize(
    ("fields", "ignores_missing", "is_good", "is_strictly_good"),
    [
        ({}, False, False, False),
        ({"ok": 1}, False, True, True),
        ({"ok": 1, "bad_lines": 1}, False, True, False),
        ({"ok": 1, "failed": 1}, False, False, False),
        ({"ok": 1, "unreadable": 1}, False, False, False),
        ({"ok": 1, "missing": 1}, True, True, True),
        ({"missing": 1}, True, False, False),
    ],
)
def test_tally_is_good_only_if_something_was_verified(
    fields: dict[str, int], ignores_missing: bool, is_good: bool, is_strictly_good: bool
) -> None:
    """As md5sum exits."""
    tally = CheckTally(ignores_missing=ignores_missing, **fields)

    assert [is_good, is_strictly_good] == [tally.is_good(is_strict=False), tally.is_good(is_strict=True)]


def test_missing_files_are_ignored_if_asked_for(tmp_path: Path) -> None:
    """Only those that are not there, not those that can't be read."""
    (gone, blocked) = run_check(line(bytes(tmp_path / "gone"), b"") + line(bytes(tmp_path), b""))
    strict, lenient = CheckTally(), CheckTally(ignores_missing=True)

    assert [True, True] == [strict.add(gone), strict.add(blocked)]
    assert [False, True] == [lenient.add(gone), lenient.add(blocked)]
    assert (2, 0) == (strict.unreadable, strict.missing)
    assert (1, 1) == (lenient.unreadable, lenient.missing)


def test_match_goes_by_content_alone(tmp_path: Path) -> None:
    """Whatever the name is; what can't be read is in both answers."""
    paths = [put_in(tmp_path, "a", b"abc"), put_in(tmp_path, "b", b"new"), bytes(tmp_path / "gone")]
    known = know(line(b"elsewhere", b"abc"))

    assert [paths[0], paths[2]] == [each.path for each in match(known, paths, wants_known=True)]
    assert [paths[1], paths[2]] == [each.path for each in match(known, paths, wants_known=False)]


def test_all_digests_of_a_file_must_agree(tmp_path: Path) -> None:
    """One that differs is enough; lines about one file that follow each other are one file."""
    path = put_in(tmp_path, "a", b"abc")
    right, wrong = hashlib.sha256(b"abc").digest(), bytes(32)
    for digest, expected in ((right, 1), (wrong, 0)):
        known = know(line(b"x", b"abc") + write_bsd(b"x", SHA256, digest))

        assert (MD5, SHA256) == known.algorithms
        (result,) = sum_files([path], known.algorithms)
        assert expected == len(known.find_same(result, known.algorithms))


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a folder of our own."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_audit_places_each_file(place: Path) -> None:
    """Matched, moved, new or missing; a file with other content is new, and the known one missing."""
    known = know(line(b"same", b"1") + line(b"old name", b"2") + line(b"changed", b"3") + line(b"gone", b"4"))
    for name, data in (("same", b"1"), ("new name", b"2"), ("changed", b"x"), ("added", b"y")):
        put_in(place, name, data)

    assert [
        Audited(b"same", AuditState.MATCHED),
        Audited(b"added", AuditState.NEW),
        Audited(b"changed", AuditState.NEW),
        Audited(b"new name", AuditState.MOVED, b"old name"),
        Audited(b"changed", AuditState.MISSING),
        Audited(b"gone", AuditState.MISSING),
    ] == list(audit(known, sorted(os.listdir(b"."))))


def test_audit_uses_each_known_file_once(place: Path) -> None:
    """Of files with the same content as many are moved as are known, and a further copy is new."""
    known = know(line(b"a", b"1") + line(b"b", b"1") + line(b"here", b"1"))
    for name in ("here", "x", "y", "z"):
        put_in(place, name, b"1")

    assert [
        Audited(b"here", AuditState.MATCHED),
        Audited(b"x", AuditState.MOVED, b"a"),
        Audited(b"y", AuditState.MOVED, b"b"),
        Audited(b"z", AuditState.NEW, b"a"),
    ] == list(audit(known, sorted(os.listdir(b"."))))


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
