"""A catalog in the folder of somebody hostile, used by root: nothing of root's is touched, given away or shown."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.cli import Box
from support.machine import need_programs
from support.planted import plant, plant_path
from support.privileges import NOBODY, as_nobody, run_as_nobody
from support.results import tallies
from support.stored import rewrite

pytestmark = pytest.mark.root

SECRET = b"known to root alone\n" * 100
SIDE_FILES = [".lock", ".root-1.lock", "-wal", "-shm", "-journal", ".upgrading", ".restoring", ".restoring.partial"]


@pytest.fixture
def secret(nobodys_box: Box) -> Iterator[Path]:
    """Make a file of root's in a folder that is root's, on the file system of the catalog; it must stay as it is."""
    folder = nobodys_box.home.parent / "of root"
    folder.mkdir(mode=0o755)
    file = folder / "secret"
    file.write_bytes(SECRET)
    file.chmod(0o600)
    yield file
    seen = file.stat()
    assert (SECRET, 0, 0o600) == (file.read_bytes(), seen.st_uid, seen.st_mode & 0o777)


@pytest.fixture
def root(nobodys_box: Box) -> Path:
    """Let nobody record a few files of his, and back up his catalog."""
    with as_nobody():
        root = plant(nobodys_box.home.parent / "root", 3)
    assert 0 == run_as_nobody(nobodys_box, "scan", root).code
    assert 0 == run_as_nobody(nobodys_box, "catalog", "backup").code
    return root


def lay_link(place: Path, secret: Path) -> None:
    place.symlink_to(secret)


def give_second_name(place: Path, secret: Path) -> None:
    with _without_protection():
        place.hardlink_to(secret)


def lay_fifo(place: Path, _: Path) -> None:
    os.mkfifo(place)


def make_folder(place: Path, _: Path) -> None:
    place.mkdir()


@contextmanager
def _without_protection() -> Iterator[None]:
    """Where the kernel lets users link files of others; root may anyway."""
    os.seteuid(0)
    try:
        yield
    finally:
        os.seteuid(NOBODY)


@pytest.mark.parametrize("lay", [lay_link, give_second_name, lay_fifo, make_folder])
def test_whatever_lies_under_the_names_of_the_catalogs_files(
    nobodys_box: Box, root: Path, secret: Path, lay: Callable[[Path, Path], None]
) -> None:
    """Root's job is refused and says which file it is, or has no use for it; with all of it gone all is as before."""
    for suffix in SIDE_FILES:
        place = Path(f"{nobodys_box.catalog}{suffix}")
        with as_nobody():
            place.unlink(missing_ok=True)
            lay(place, secret)
        is_restored = suffix == ".restoring.partial"
        command = ["catalog", "restore", "--yes"] if is_restored else ["scrub", root]

        done = nobodys_box.run(*command, timeout=60)

        if done.code != 0:
            assert (4, True) == (done.code, str(place) in done.stderr), done.stderr
            assert "Traceback" not in done.stderr
        assert os.path.lexists(place) or lay is lay_fifo or done.code == 0, place
        with as_nobody():
            shutil.rmtree(place) if place.is_dir() else place.unlink(missing_ok=True)
    assert {"verified": 3} == tallies(run_as_nobody(nobodys_box, "--json", "scrub", root))


def test_found_backup_that_is_a_link_is_not_brought_back(nobodys_box: Box, root: Path, secret: Path) -> None:
    """Else a catalog of root's would become the owner's; what root names himself is his decision."""
    shutil.copyfile(nobodys_box.catalog, secret.with_name("catalog of root.db"))
    with as_nobody():
        nobodys_box.catalog.with_name("catalog-29990101T000000Z.db").symlink_to(secret.with_name("catalog of root.db"))

    refused = nobodys_box.run("catalog", "restore", "--yes", expect=4)

    assert "is a symbolic link" in refused.stderr
    assert "catalog-29990101T000000Z.db" in refused.stderr
    nobodys_box.run("catalog", "restore", "--yes", secret.with_name("catalog of root.db"), expect=0)
    assert NOBODY == nobodys_box.catalog.stat().st_uid
    assert {"verified": 3} == tallies(run_as_nobody(nobodys_box, "--json", "scrub", root))


def test_catalog_that_is_another_users_link(nobodys_box: Box, root: Path, secret: Path) -> None:
    """A link leads where its owner may go, and no further."""
    of_root = secret.with_name("catalog.db")
    shutil.copyfile(nobodys_box.catalog, of_root)
    before = of_root.read_bytes()
    with as_nobody():
        nobodys_box.catalog.unlink()
        nobodys_box.catalog.symlink_to(of_root)

    assert "is another user's symbolic link" in nobodys_box.run("scan", root, expect=4).stderr
    assert before == of_root.read_bytes()
    os.lchown(nobodys_box.catalog, 0, 0)  # root's own links lead wherever root says
    nobodys_box.run("scan", root, expect=0)


def test_snapshot_of_the_folder_by_hard_links_is_no_attack(nobodys_box: Box, root: Path) -> None:
    """Backup programs link whole folders, locks and all."""
    with as_nobody():
        for name in list(nobodys_box.home.glob("catalog*")):
            name.with_name(f"{name.name} of monday").hardlink_to(name)

    nobodys_box.run("scrub", root, expect=0)


def damage(box: Box, root: Path) -> Path:
    """Change a file and put its time back, have that found, and return its path."""
    path = plant_path(root, 1)
    before = path.stat()
    path.write_bytes(b"!" * before.st_size)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    box.run("scrub", root, expect=1)
    return path


def test_address_in_a_row_is_no_command(nobodys_box: Box, root: Path, tmp_path: Path) -> None:
    """A copy whose row was changed to what rclone would run a command for is asked by nobody who has not named it."""
    need_programs("rclone")
    shutil.copytree(root, nobodys_box.home.parent / "copy")
    nobodys_box.run("compare", root, "--with", nobodys_box.home.parent / "copy", expect=0)
    mark = nobodys_box.home.parent / "ran"
    url = f"rclone::webdav,url='http://127.0.0.1:1',bearer_token_command='touch {mark}':"
    assert 1 == rewrite(nobodys_box, "UPDATE copy SET url = ?", (url,))
    os.chown(nobodys_box.catalog, 0, 0)  # as in a catalog of root's own
    rotten = damage(nobodys_box, root)

    for words in (["repair", rotten], ["explain", rotten], ["status"]):
        nobodys_box.run("--json", *words)
    assert not mark.exists()


def test_root_goes_only_to_copies_of_the_configuration_in_somebody_elses_catalog(nobodys_box: Box, root: Path) -> None:
    """Its rows may name any machine, and root has keys for some; what root names, root goes to."""
    copy = nobodys_box.home.parent / "copy"
    shutil.copytree(root, copy)
    nobodys_box.run("compare", root, "--with", copy, expect=0)
    rotten = damage(nobodys_box, root)

    assert "no copy of it is known" in nobodys_box.run("repair", rotten).stdout
    assert "no copy of it is known" not in nobodys_box.run("repair", rotten, "--from", copy).stdout
    assert "no copy of it is known" not in run_as_nobody(nobodys_box, "repair", rotten).stdout
