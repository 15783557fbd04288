"""Archives and growing files: what is an honest change elsewhere is a finding there, and the other way round."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from support.bitrot import rot
from support.cli import Box
from support.loopfs import LoopFS
from support.results import met, notes, tallies
from support.shapes import put

PAST_NS = 1_600_000_000 * 10**9
WEEK_NS = 7 * 86_400 * 10**9
MIB = 1 << 20


@pytest.fixture
def archive(root: Path, integrity: Box) -> Path:
    integrity.configure(f'[[root]]\npath = "{root}"\npolicy = "archive"\n')
    return root


@pytest.fixture
def logs(root: Path, integrity: Box) -> Path:
    integrity.configure(f'[[root]]\npath = "{root}"\npolicy = "growing"\n')
    return root


def append(path: Path, data: bytes) -> None:
    with open(path, "ab") as file:
        file.write(data)


@pytest.mark.parametrize("job", ["scan", "scrub"])
def test_changes_in_an_archive(archive: Path, integrity: Box, job: str) -> None:
    """An edit, an emptied file and an older version are findings; the baselines stay until somebody accepts."""
    for name in ("edited", "emptied", "older", "same"):
        put(archive / name, os.urandom(3 * MIB if name == "edited" else 9_000))
    integrity.run("scan", archive, expect=0)
    integrity.run("scrub", archive, expect=0)
    append(archive / "edited", b"more")
    os.truncate(archive / "emptied", 0)
    put(archive / "older", b"an older version")
    os.utime(archive / "older", ns=(PAST_NS, PAST_NS))

    done = integrity.run("--json", job, archive, expect=1)

    expected = {("changed", "edited"), ("changed", "emptied"), ("rolled_back", "older")}
    assert {(kind, str(archive / name)) for kind, name in expected} == set(met(done))
    rest = {"not_due": 1} if job == "scan" else {"verified": 1}
    assert {"damaged": 3} | rest == tallies(done)
    again = integrity.run("--json", "scan", archive, expect=0)  # it met nothing new
    assert ({"damaged": 3, "not_due": 1}, [], 0) == (tallies(again), again.findings, again.summary["bytes_read"])
    scrub = integrity.run("--json", "scrub", archive, expect=1)
    assert ({"damaged": 3, "verified": 1}, 3) == (tallies(scrub), len(scrub.findings))
    integrity.run("status", expect=1)
    integrity.run("accept", archive, "--changes", "--yes", "--reason", "meant", expect=0)
    assert {"verified": 4} == tallies(integrity.run("--json", "scrub", archive, expect=0))
    integrity.run("findings", expect=0)


def test_old_content_back_in_an_archive(archive: Path, integrity: Box) -> None:
    """The recorded content ends the finding once it was read from the disk, whatever its times are."""
    data = os.urandom(9_000)
    put(archive / "file", data)
    integrity.run("scan", archive, expect=0)
    put(archive / "file", b"changed")
    integrity.run("scan", archive, expect=1)
    put(archive / "file", data)

    done = integrity.run("--json", "scan", archive, expect=0)
    assert ({"verified": 1}, [str(archive / "file")]) == (tallies(done), notes(done, "resolved"))
    integrity.run("findings", expect=0)
    assert {"verified": 1} == tallies(integrity.run("--json", "scrub", archive, expect=0))


@pytest.mark.parametrize("is_same_inode", [True, False])
def test_removal_from_an_archive_and_return(archive: Path, integrity: Box, tmp_path: Path, is_same_inode: bool) -> None:
    """A file that is gone is missing, every time, until it is back, by a rename or from a backup."""
    (archive / "in").mkdir()
    put(archive / "in" / "file", os.urandom(9_000))
    put(archive / "same", os.urandom(9_000))
    integrity.run("scan", archive, expect=0)
    integrity.run("scrub", archive, expect=0)
    away = tmp_path / "away"
    os.rename(archive / "in" / "file", away)
    for job in ("scan", "scrub"):
        done = integrity.run("--json", job, archive, expect=1)
        assert [("missing", str(archive / "in" / "file"))] == met(done)
        assert (1, 2) == (tallies(done)["missing"], done.summary["files_known"])
    if is_same_inode:
        os.rename(away, archive / "in" / "file")
    else:
        shutil.copy2(away, archive / "in" / "file")

    done = integrity.run("--json", "scan", archive, expect=0)

    assert ({"not_due": 2}, [str(archive / "in" / "file")]) == (tallies(done), notes(done, "resolved"))
    integrity.run("findings", expect=0)
    assert {"verified": 2} == tallies(integrity.run("--json", "scrub", archive, expect=0))


def test_another_file_returns_to_an_archive(archive: Path, integrity: Box) -> None:
    """A missing file that comes back with other content is not missing any more, but changed."""
    put(archive / "file", os.urandom(9_000))
    put(archive / "same", os.urandom(9_000))
    integrity.run("scan", archive, expect=0)
    os.unlink(archive / "file")
    integrity.run("scan", archive, expect=1)
    put(archive / "file", b"something else")

    done = integrity.run("--json", "scan", archive, expect=1)

    assert [("changed", str(archive / "file"))] == met(done)
    assert [("changed", str(archive / "file"))] == met(integrity.run("--json", "findings", expect=1))


def test_removal_from_an_archive_is_accepted(archive: Path, integrity: Box) -> None:
    """``accept --deletions`` takes the record out and ends the finding."""
    put(archive / "gone", os.urandom(9_000))
    put(archive / "same", os.urandom(9_000))
    integrity.run("scan", archive, expect=0)
    os.unlink(archive / "gone")
    integrity.run("scan", archive, expect=1)

    integrity.run("accept", archive, "--deletions", "--yes", "--reason", "sold", expect=0)

    assert {"not_due": 1} == tallies(integrity.run("--json", "scan", archive, expect=0))
    integrity.run("findings", expect=0)


def put_instead(path: Path, what: str) -> None:
    """Put something that is not a regular file in the place of one."""
    path.unlink()
    if what == "a folder":
        path.mkdir()
    elif what == "a FIFO":
        os.mkfifo(path)
    else:
        path.symlink_to("same" if what == "a symbolic link" else "nowhere")


INSTEAD = ["a symbolic link", "a dangling link", "a folder", "a FIFO"]


@pytest.mark.parametrize("what", INSTEAD)
@pytest.mark.parametrize("job", ["scan", "scrub"])
def test_file_of_an_archive_replaced_by_something_else(archive: Path, integrity: Box, job: str, what: str) -> None:
    """A link, folder or FIFO under its name is not the file: it is missing, until a person agrees or it is back."""
    data = os.urandom(9_000)
    put(archive / "file", data)
    put(archive / "same", os.urandom(9_000))
    integrity.run("scan", archive, expect=0)
    put_instead(archive / "file", what)

    done = integrity.run("--json", job, archive, expect=1)

    assert [("missing", str(archive / "file"))] == met(done)
    assert f"{what.replace('dangling', 'symbolic')} stands in its place" in done.findings[0]["message"]
    assert 1 == tallies(done)["missing"]
    assert [("missing", str(archive / "file"))] == met(integrity.run("--json", "findings", expect=1))
    integrity.run("explain", archive / "file", expect=1)
    if what == "a folder":
        (archive / "file").rmdir()
    else:
        (archive / "file").unlink()
    put(archive / "file", data)
    integrity.run("scan", archive, expect=0)
    integrity.run("findings", expect=0)


@pytest.mark.parametrize("what", INSTEAD)
@pytest.mark.parametrize("by", ["name", "folder"])
def test_replaced_file_of_an_archive_is_accepted(archive: Path, integrity: Box, by: str, what: str) -> None:
    """By its name, which is not followed, or with its folder's deletions; what a link names stays recorded."""
    put(archive / "file", os.urandom(9_000))
    put(archive / "same", os.urandom(9_000))
    integrity.run("scan", archive, expect=0)
    put_instead(archive / "file", what)
    integrity.run("scan", archive, expect=1)

    if by == "name":
        integrity.run("accept", archive / "file", "--reason", "meant", expect=0)
    else:
        integrity.run("accept", archive, "--deletions", "--yes", "--reason", "meant", expect=0)

    assert {"not_due": 1} == {
        key: n for key, n in tallies(integrity.run("--json", "scan", archive, expect=0)).items() if key != "skipped"
    }
    integrity.run("findings", expect=0)


@pytest.mark.parametrize("what", INSTEAD)
def test_damaged_file_replaced_by_something_else(root: Path, integrity: Box, what: str) -> None:
    """In a mutable root it was deleted: its finding ends, and the note says what stands in its place."""
    put(root / "file", os.urandom(9_000))
    put(root / "same", os.urandom(9_000))
    integrity.run("scan", root, expect=0)
    before = os.stat(root / "file").st_mtime_ns
    (root / "file").write_bytes(os.urandom(9_000))
    os.utime(root / "file", ns=(before, before))
    integrity.run("scrub", root, expect=1)
    put_instead(root / "file", what)

    done = integrity.run("--json", "scan", root, expect=0)

    assert [str(root / "file")] == notes(done, "deleted")
    assert 1 == tallies(done)["missing"]
    integrity.run("findings", expect=0)


def test_move_in_an_archive_is_a_note(archive: Path, integrity: Box) -> None:
    """Renamed, moved to another folder, or copied there and deleted: no finding, and nothing is missing."""
    (archive / "there").mkdir()
    for name in ("renamed", "moved", "copied"):
        put(archive / name, os.urandom(9_000))
    integrity.run("scan", archive, expect=0)
    os.rename(archive / "renamed", archive / "new name")
    os.rename(archive / "moved", archive / "there" / "moved")
    shutil.copy(archive / "copied", archive / "there" / "copied")
    os.unlink(archive / "copied")

    done = integrity.run("--json", "scan", archive, expect=0)

    assert ([], 3, 3) == (done.findings, len(notes(done, "moved")), tallies(done)["moved"])
    assert {"verified": 3} == tallies(integrity.run("--json", "scrub", archive, expect=0))


def test_missing_file_of_an_archive_found_under_another_name(archive: Path, integrity: Box, tmp_path: Path) -> None:
    """A file that was missing and comes back elsewhere in its archive was moved: the finding ends."""
    put(archive / "file", os.urandom(9_000))
    put(archive / "same", os.urandom(9_000))
    integrity.run("scan", archive, expect=0)
    os.rename(archive / "file", tmp_path / "away")
    integrity.run("scan", archive, expect=1)
    os.rename(tmp_path / "away", archive / "other name")

    done = integrity.run("--json", "scan", archive, expect=0)

    assert {"not_due": 2, "moved": 1} == tallies(done)
    integrity.run("findings", expect=0)


@pytest.mark.parametrize("size", [0, 5_000, MIB, 3 * MIB + 77])
@pytest.mark.parametrize("job", ["scan", "scrub"])
def test_growing_file(logs: Path, integrity: Box, job: str, size: int) -> None:
    """Appended to, within a block and over several, a log is changed; with its beginning changed it is shrunk."""
    for name in ("little", "lots", "same"):
        put(logs / name, os.urandom(size))
        os.utime(logs / name, ns=(PAST_NS, PAST_NS))
    integrity.run("scan", logs, expect=0)
    append(logs / "little", b"x" * 10)
    append(logs / "lots", os.urandom(4 * MIB))

    done = integrity.run("--json", job, logs, expect=0)

    assert {"changed": 2} | ({"not_due": 1} if job == "scan" else {"verified": 1}) == tallies(done)
    assert {"verified": 3} == tallies(integrity.run("--json", "scrub", logs, expect=0))
    with open(logs / "lots", "r+b") as file:
        file.seek(max(0, size - 2))
        file.write(b"??")
        file.seek(0, os.SEEK_END)
        file.write(b"appended")
    os.truncate(logs / "little", size + 3)

    done = integrity.run("--json", job, logs, expect=1)

    assert {("shrunk", str(logs / "lots")), ("shrunk", str(logs / "little"))} == set(met(done))
    assert 2 == tallies(done)["damaged"]
    append(logs / "lots", b"it goes on")
    assert 2 == tallies(integrity.run("--json", "scrub", logs, expect=1))["damaged"]
    integrity.run("accept", logs / "lots", logs / "little", "--reason", "emptied by hand", expect=0)
    assert {"verified": 3} == tallies(integrity.run("--json", "scrub", logs, expect=0))


@pytest.mark.parametrize("job", ["scan", "scrub"])
def test_rotated_log_is_not_shrunk(logs: Path, integrity: Box, job: str) -> None:
    """``mv log log.1`` and a new log: the record moves along, the new log is new."""
    put(logs / "log", os.urandom(9_000))
    integrity.run("scan", logs, expect=0)
    os.rename(logs / "log", logs / "log.1")
    put(logs / "log", b"begins anew")

    done = integrity.run("--json", job, logs, expect=0)

    assert {"moved": 1} | ({"new": 1, "not_due": 1} if job == "scan" else {"verified": 2}) == tallies(done)
    assert {"verified": 2} == tallies(integrity.run("--json", "scrub", logs, expect=0))


@pytest.mark.parametrize("job", ["scan", "scrub"])
def test_rotation_through_several_names(logs: Path, integrity: Box, job: str) -> None:
    """log.1 to log.2, log to log.1, the oldest overwritten: nothing of that is shrunk, week after week."""
    (logs / "log").touch()
    integrity.run("scan", logs, expect=0)
    for week in range(4):
        for number in (2, 1):
            if (logs / f"log.{number}").exists():
                os.rename(logs / f"log.{number}", logs / f"log.{number + 1}")
        if week:
            os.rename(logs / "log", logs / "log.1")
        put(logs / "log", b"week %d" % week + os.urandom(100 * week + 10))
        os.utime(logs / "log", ns=(PAST_NS + week * WEEK_NS, PAST_NS + week * WEEK_NS))
        done = integrity.run("--json", job, logs, expect=0)
        assert [] == done.findings, week
        assert min(week + 1, 4) == done.summary["files_known"]
    for number in (2, 1):
        os.rename(logs / f"log.{number}", logs / f"log.{number + 1}")
    os.rename(logs / "log", logs / "log.1")
    put(logs / "log", b"the last week")
    os.utime(logs / "log", ns=(PAST_NS + 9 * WEEK_NS, PAST_NS + 9 * WEEK_NS))

    done = integrity.run("--json", job, logs, expect=0)

    assert ([], 4) == (done.findings, done.summary["files_known"])
    integrity.run("scan", logs, expect=0)
    assert {"verified": 4} == tallies(integrity.run("--json", "scrub", logs, expect=0))


def test_log_replaced_by_another_is_shrunk(logs: Path, integrity: Box) -> None:
    """A new inode whose old content stands nowhere was not rotated."""
    put(logs / "log", os.urandom(9_000))
    integrity.run("scan", logs, expect=0)
    put(logs / "log.new", os.urandom(20_000))
    os.rename(logs / "log.new", logs / "log")

    assert [("shrunk", str(logs / "log"))] == met(integrity.run("--json", "scan", logs, expect=1))


@pytest.mark.root
def test_rot_in_what_a_log_had_before(ext4: LoopFS, integrity: Box) -> None:
    """Rot in the beginning of a log that was appended to since is found: the old prefix must hash the same."""
    folder = ext4.folder / "logs"
    folder.mkdir()
    integrity.configure(f'[[root]]\npath = "{folder}"\npolicy = "growing"\n')
    put(folder / "log", os.urandom(3 * MIB))
    integrity.run("scan", folder, expect=0)
    integrity.run("scrub", folder, expect=0)
    append(folder / "log", b"x" * 5_000)
    os.sync()
    rot(folder / "log", MIB + 5)

    done = integrity.run("--json", "scrub", folder, expect=1)

    assert [("shrunk", str(folder / "log"))] == met(done)


@pytest.mark.parametrize("size", [9_000, 5 << 20])
@pytest.mark.parametrize("job", ["scan", "scrub"])
def test_copy_into_an_archive_that_is_interrupted_twice(root: Path, integrity: Box, job: str, size: int) -> None:
    """``rsync --inplace`` goes on where it stopped: one finding says to complete the copy, and ends when it is."""
    integrity.configure(f'[[root]]\npath = "{root}"\npolicy = "archive"\n')
    content = os.urandom(size)
    put(root / "file", content[: size // 3])
    integrity.run("scrub", root, expect=0)
    put(root / "file", content[: size // 2])

    partial = integrity.run("--json", job, root, expect=1)
    put(root / "file", content)
    os.utime(root / "file", (1_500_000_000, 1_500_000_000))
    done = integrity.run("--json", job, root, expect=0)

    assert [("changed", str(root / "file"))] == met(partial)
    assert "complete the copy" in str(partial.findings[0]["next_steps"])
    assert ({"changed": 1}, [str(root / "file")]) == (tallies(done), notes(done, "changed"))
    assert [] == integrity.json("findings")
    assert {"verified": 1} == tallies(integrity.run("--json", "scrub", root, expect=0))


def test_copy_into_an_archive_that_is_completed_with_other_content(root: Path, integrity: Box) -> None:
    """Content that does not begin with what was recorded is no completed copy; one finding says what became of it."""
    integrity.configure(f'[[root]]\npath = "{root}"\npolicy = "archive"\n')
    put(root / "file", os.urandom(5_000))
    integrity.run("scrub", root, expect=0)
    put(root / "file", os.urandom(6_000))
    assert [("changed", str(root / "file"))] == met(integrity.run("--json", "scan", root, expect=1))
    put(root / "file", os.urandom(7_000))
    os.utime(root / "file", (1_500_000_000, 1_500_000_000))

    assert [("rolled_back", str(root / "file"))] == met(integrity.run("--json", "scan", root, expect=1))
    assert ["rolled_back"] == [one["kind"] for one in integrity.json("findings")]


@pytest.mark.parametrize("how", ["in place", "exchanged", "touched only"])
@pytest.mark.parametrize("was", ["rotten", "replaced"])
def test_file_with_a_finding_that_is_put_back(ext4: LoopFS, integrity: Box, was: str, how: str) -> None:
    """``cp -p`` and ``rsync -a`` give it its recorded size and time back: a scan reads it, and the finding ends."""
    path = ext4.folder / "data" / "file"
    integrity.configure(f'[[root]]\npath = "{path.parent}"\npolicy = "archive"\n')
    content = os.urandom(9_000)
    path.parent.mkdir()
    put(path, content)
    os.utime(path, ns=(PAST_NS, PAST_NS))
    integrity.run("scan", path.parent, expect=0)
    rot(path, 100) if was == "rotten" else put(path, os.urandom(8_000))
    integrity.run("scrub", path.parent, expect=1)
    if how == "touched only":
        path.chmod(0o600)
    else:
        target = path if how == "in place" else path.with_name("file.new")
        put(target, content)
        os.utime(target, ns=(PAST_NS, PAST_NS))
        target.rename(path)
    done = integrity.run("--json", "scan", path.parent)

    open_kinds = [one["kind"] for one in integrity.json("findings")]
    if how == "touched only":
        assert ["rot" if was == "rotten" else "changed"] == open_kinds
    else:
        assert ({"verified": 1}, []) == (tallies(done), open_kinds)
