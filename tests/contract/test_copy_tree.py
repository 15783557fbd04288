"""A mounted folder as a copy."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from contract.copysuite import LARGE, CopySuite, MakeCopy
from integrity.copies.folder import TreeCopy
from integrity.copies.opening import open_copy
from integrity.copies.protocol import Copy, CopyEntry, Trouble
from integrity.errors import CopyUnreachable, Unreadable, Unstable
from integrity.files.excludes import Excludes
from support.faultfs import FaultFS, Rule
from support.flakydisk import FlakyDisk
from support.loopfs import LoopFS
from support.nastytree import NAMES, nasty_tree
from support.privileges import as_nobody, let_in


class TestTree(CopySuite):
    is_folder = True

    @pytest.fixture
    def make(self) -> MakeCopy:
        return lambda folder: open_copy(os.fsdecode(bytes(folder)))

    @pytest.fixture
    def gone(self, tmp_path: Path) -> Copy:
        return open_copy(str(tmp_path / "not" / "mounted"))


def list_paths(copy: Copy, prefix: bytes = b"") -> set[bytes]:
    return {found.path for found in copy.list(prefix) if isinstance(found, CopyEntry)}


def test_folder_of_an_unmounted_disk_is_unreachable(tmp_path):
    """What systems put there themselves makes no copy of an empty folder."""
    (tmp_path / "lost+found").mkdir()
    with pytest.raises(CopyUnreachable, match=r"is empty.*mount it"), TreeCopy(bytes(tmp_path)):
        pass


@pytest.mark.root
def test_another_disk_in_its_place_has_another_identity(ext4: LoopFS, xfs: LoopFS):
    """Who keeps the identity can tell that it is not the copy of last time."""
    for fs in (ext4, xfs):
        Path(os.fsdecode(fs.path("file"))).write_bytes(b"x")
    identities = []
    for fs in (ext4, ext4, xfs):
        with TreeCopy(os.fsencode(fs.mnt)) as copy:
            identities.append(copy.identity())
    assert identities[0] == identities[1]
    assert identities[0].fs_id != identities[2].fs_id


def test_folder_that_cannot_be_listed_is_trouble_not_absence(tmp_path):
    """C2: of what lies in a folder without permission nothing is known, and that is said."""
    (tmp_path / "closed").mkdir()
    (tmp_path / "closed" / "file").write_bytes(b"x")
    (tmp_path / "file").write_bytes(b"x")
    (tmp_path / "secret").write_bytes(b"x")
    (tmp_path / "closed").chmod(0)
    (tmp_path / "secret").chmod(0)
    let_in(tmp_path)
    with as_nobody(), TreeCopy(bytes(tmp_path)) as copy:
        found = list(copy.list())
        below = list(copy.list(b"closed/file"))
        with pytest.raises(Unreadable, match="secret"):
            copy.open(b"secret")
    (tmp_path / "closed").chmod(0o700)
    assert {b"file", b"secret"} == {entry.path for entry in found if isinstance(entry, CopyEntry)}
    assert [b"closed"] == [trouble.path for trouble in found if isinstance(trouble, Trouble)]
    assert [b"closed/file"] == [trouble.path for trouble in below if isinstance(trouble, Trouble)]


def test_whole_folder_that_cannot_be_listed_is_unreachable(tmp_path):
    """C3: a copy that may not be looked at is not an empty one."""
    folder = tmp_path / "copy"
    folder.mkdir()
    (folder / "file").write_bytes(b"x")
    folder.chmod(0o311)
    let_in(tmp_path)
    with as_nobody(), pytest.raises(CopyUnreachable, match="copy"), TreeCopy(bytes(folder)):
        pass
    folder.chmod(0o700)


def test_excluded_folders_are_not_walked(tmp_path):
    """The root's own patterns keep snapshots beside the copy out; without any all is listed."""
    for name in (".snapshots/1/file", "file"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"x")
    with open_copy(str(tmp_path), excludes=Excludes()) as copy:
        assert {b"file"} == list_paths(copy)
    with open_copy(str(tmp_path)) as copy:
        assert {b"file", b".snapshots/1/file"} == list_paths(copy)


def test_file_that_changes_between_two_readings_is_unstable(tmp_path):
    """Two pieces of two versions are no piece of any."""
    target = tmp_path / "large.bin"
    target.write_bytes(LARGE)
    with TreeCopy(bytes(tmp_path)) as copy:
        file = copy.open(b"large.bin")
        file.read(2_000_000, 10)
        with target.open("r+b") as changed:
            changed.write(b"!")
        os.utime(target, ns=(1, 1))
        with pytest.raises(Unstable):
            file.read(0, 10)
        file.close()


def test_holes_read_as_zeros(tmp_path):
    """A sparse file is read without its holes being fetched."""
    target = tmp_path / "sparse"
    with target.open("wb") as file:
        file.seek(1 << 32)
        file.write(b"end")
    with TreeCopy(bytes(tmp_path)) as copy:
        opened = copy.open(b"sparse")
        assert b"\0" * 100 == opened.read(1 << 31, 100)
        assert b"\0\0end" == opened.read((1 << 32) - 2, 100)
        opened.close()


@pytest.mark.root
def test_bad_sector_spares_the_rest_of_the_file(flaky_ext4: FlakyDisk):
    """The range is in the error, and what lies before and behind it can be read."""
    target = Path(os.fsdecode(flaky_ext4.path("file")))
    target.write_bytes(LARGE)
    with target.open("rb") as written:
        os.fsync(written.fileno())
    flaky_ext4.bad_sector(target, 1_500_000)
    with TreeCopy(os.fsencode(flaky_ext4.mnt)) as copy:
        file = copy.open(b"file")
        assert LARGE[:1_000_000] == file.read(0, 1_000_000)
        with pytest.raises(Unreadable) as caught:
            file.read(1_400_000, 200_000)
        assert any(offset <= 1_500_000 < offset + length for offset, length in caught.value.ranges)
        assert LARGE[2_000_000:] == file.read(2_000_000, 2_000_000)
        file.close()


@pytest.mark.root
def test_folders_that_give_errors_are_not_missing_files(faulty: FaultFS, tmp_path: Path):
    """C2: a disk that fails in mid-listing makes Troubles, one for each folder that was not seen."""
    for name in ("good/file", "bad/file"):
        (tmp_path / "source" / name).parent.mkdir()
        (tmp_path / "source" / name).write_bytes(b"x")
    faulty.add(Rule("readdir", errno=errno.EIO, path="/bad"))
    with TreeCopy(os.fsencode(faulty.mnt)) as copy:
        found = list(copy.list())
    assert {b"good/file"} == {entry.path for entry in found if isinstance(entry, CopyEntry)}
    assert [b"bad"] == [trouble.path for trouble in found if isinstance(trouble, Trouble)]


@pytest.mark.root
def test_everything_that_breaks_walkers_is_listed_and_opened(ext4: LoopFS):
    """Every name and depth that a file system can hold: listed as it is, opened by what was listed."""
    folder = os.path.join(ext4.mnt, b"nasty")
    with nasty_tree(folder), TreeCopy(folder) as copy:
        troubles = [found for found in copy.list() if isinstance(found, Trouble)]
        entries = list_paths(copy)
        for path in entries:
            copy.open(path).close()
    assert [] == troubles
    assert {name for name in NAMES if b"/" not in name} <= {path.rpartition(b"/")[2] for path in entries}
    assert max(map(len, entries)) > 4096
