"""Bare surroundings: a root folder that is no mount point, without /proc, /sys, /dev, locale, time zone or home."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Collection, Mapping
from contextlib import closing
from pathlib import Path

import pytest

from integrity.catalog.db import Connection
from integrity.files.capability import identify
from integrity.same_place import recognise
from support import AnyPath
from support.bitrot import flip_bit
from support.cli import Completed, complete, make_command
from support.loopfs import LoopFS
from support.machine import need_root
from support.planted import age
from support.reading import opened_root

pytestmark = pytest.mark.root

USER = 4242
"""A user whom no list of users names."""

_OWN = {str(Path(__file__).parents[2]), sys.prefix, sys.base_prefix, "/usr"}
_SYSTEM = {
    "proc": "mount -t proc proc {root}/proc",
    "sys": "mount -t sysfs -o ro sysfs {root}/sys",
    "dev": "mount --rbind /dev {root}/dev",
}


class Chroot:
    """
    A folder to run the program in as its root; what is mounted there nobody else sees. Root only.

    Args:
        folder: an empty one; its file system is the one of the new root.
        has: which of proc, sys and dev are mounted.
    """

    def __init__(self, folder: Path, has: Collection[str] = ("proc", "sys", "dev")) -> None:
        self.folder = folder
        for name in ("tmp", "data", "etc", "root", *_SYSTEM):
            (folder / name).mkdir(parents=True)
        (folder / "tmp").chmod(0o1777)
        for name in ("bin", "lib", "lib64"):
            (folder / name).symlink_to(f"usr/{name}")
        places = sorted(place for place in _OWN if place == "/usr" or not place.startswith("/usr/"))
        for place in places:
            (folder / place.lstrip("/")).mkdir(parents=True, exist_ok=True)
        root = shlex.quote(str(folder))
        mounts = [f"mount --rbind {shlex.quote(place)} {root}{shlex.quote(place)}" for place in places]
        mounts += [_SYSTEM[name].format(root=root) for name in _SYSTEM if name in has]
        self._mounts = " && ".join(mounts)

    def run(
        self, *args: AnyPath, env: Mapping[str, str] | None = None, uid: int = 0, cwd: str = "/", expect: int = 0
    ) -> Completed:
        """Run ``integrity`` inside, with no environment but ``env``; ``expect`` is its exit code."""
        words = [f"{name}={value}" for name, value in (env or {}).items()]
        user = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups"] if uid else []
        inside = ["chroot", self.folder, *user, "env", "-i", f"--chdir={cwd}", *words, *make_command(*args)]
        script = f'{self._mounts} && exec "$@"'
        done = subprocess.run(
            ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh", *inside],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
        completed = complete(done.returncode, done.stdout, done.stderr, is_json="--json" in args)
        assert completed.code == expect, f"{args!r}: exit {completed.code}: {completed.stdout}{completed.stderr}"
        return completed


def make_chroot(folder: Path, *has: str) -> Chroot:
    """Make one with a photo that is no longer new."""
    need_root()
    chroot = Chroot(folder / "chroot", has)
    (chroot.folder / "data/photo.jpg").write_bytes(os.urandom(3_000_000))
    age(chroot.folder / "data/photo.jpg")
    return chroot


@pytest.mark.parametrize("has", [("proc",), ("proc", "sys"), ("proc", "sys", "dev")], ids="+".join)
def test_chroot_whose_root_is_no_mount_point(has: tuple[str, ...], ext4: LoopFS) -> None:
    """Files on the mount that its list of mounts leaves out are recorded, and damage of them is found."""
    chroot = make_chroot(ext4.folder, *has)

    assert "1 file: 1 new" in chroot.run("scan", "/data").stdout
    chroot.run("scrub", "/data")
    flip_bit(chroot.folder / "data/photo.jpg", 2_000_000)
    assert "DAMAGED (bit rot)  /data/photo.jpg" in chroot.run("scrub", "/data", expect=1).stdout
    status = chroot.run("status", expect=1)
    assert "1 damaged file" in status.stdout
    assert "" == status.stderr  # it has no time zone either


@pytest.mark.parametrize("has", [("proc",), ("proc", "sys", "dev")], ids="+".join)
def test_setup_in_a_chroot(has: tuple[str, ...], ext4: LoopFS) -> None:
    """The self-test finds its damage, without /var/tmp too, and the service that is written of starts."""
    chroot = make_chroot(ext4.folder, *has)

    said = chroot.run("setup", "--yes", "--root", "/data", "--mail-to", "none").stdout
    assert "ok      one bit of a test file was flipped, and a scrub found it" in said
    assert "No service was installed: systemd does not run here" in said
    assert "1 file: 1 new" in chroot.run("scan").stdout
    assert "/data: all is well" in chroot.run("config", "check").stdout or chroot.run("status").code == 0


def test_disk_is_the_same_inside_and_outside_of_a_chroot(ext4: LoopFS) -> None:
    """Its UUID tells, so that what was recorded inside is not suspended outside."""
    chroot = make_chroot(ext4.folder, "proc")
    chroot.run("scan", "/data")

    with closing(Connection(bytes(chroot.folder / "var/lib/integrity/catalog.db"), "mode=ro")) as c:
        recorded = c.value("SELECT fs_id FROM root")
    with opened_root(ext4.folder) as fd:
        assert recognise(recorded, identify(fd, bytes(ext4.folder)).names) is not None
    assert recorded.startswith("uuid:")


def test_chroot_without_proc_says_what_is_missing(tmp_path: Path) -> None:
    """Nothing is recorded that could not be told from another disk later."""
    chroot = make_chroot(tmp_path)

    assert "mount it: mount -t proc proc /proc" in chroot.run("scan", "/data", expect=3).stderr
    assert "hash core" in chroot.run("--version").stdout


def test_names_are_bytes_whatever_the_locale(tmp_path: Path) -> None:
    """A name in UTF-8, and one in no encoding, are recorded and shown."""
    chroot = make_chroot(tmp_path, "proc")
    for number, env in enumerate(({}, {"LANG": "C"}, {"LC_ALL": "POSIX"}, {"LANG": "xx_YY.UTF-8"})):
        for name in (f"Prüfung{number}.jpg".encode(), b"\xff%d.jpg" % number):
            Path(os.fsdecode(os.path.join(bytes(chroot.folder), b"data", name))).write_bytes(name)
        assert f" {2 if number else 3} new" in chroot.run("scan", "/data", env=env).stdout
        assert rf"\xff{number}.jpg" in chroot.run("explain", b"/data/\xff%d.jpg" % number, env=env).stdout


def test_user_without_home_and_name(tmp_path: Path) -> None:
    """
    A container's user has neither: places are named by their paths, and no folder called ~ is made.

    Where he may write nowhere, what is missing, and the variable that gives it, are named.
    """
    chroot = make_chroot(tmp_path, "proc")
    refused = chroot.run("scan", "/data", uid=USER, cwd="/tmp", expect=4)
    assert "/.local/state/integrity/catalog.db: cannot make a catalog: Permission denied; " in refused.stderr
    assert not list((chroot.folder / "tmp").glob("~*"))

    given = {"INTEGRITY_CATALOG": "/tmp/catalog.db"}
    assert "1 file: 1 new" in chroot.run("scan", "/data", uid=USER, env=given).stdout

    (chroot.folder / "tmp").chmod(0o755)
    assert "set XDG_RUNTIME_DIR" in chroot.run("scan", "/data", uid=USER, expect=2).stderr
