"""
What a test run leaves out of the machine it runs on: its owner's settings and services, and the files of other runs.

``isolate`` is called once in each process of the run, before any test. What needs mounts is done for root only.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import pwd
import shutil
import signal
import stat
import sys
import tempfile
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from support.machine import is_privileged
from support.namespaces import enter_private_mounts
from support.programs import SEARCH_PATH, sh

_TEMP_ROOT = "PYTEST_DEBUG_TEMPROOT"
_PREFIX = "it-"
# Everything else is dropped: locale, proxies, XDG_*, SSH_AUTH_SOCK, and the variables of git, rclone, borg, AWS, ...
_KEPT = ("CI", "LD_LIBRARY_PATH", "PYTHONPATH", "TERM", "TMPDIR", "VIRTUAL_ENV", _TEMP_ROOT)
_KEPT_PREFIXES = ("INTEGRITY_TEST_", "INTEGRITY_SCREENSHOTS", "PYTEST_XDIST_")
_SET = {
    "FUSE_LIBRARY_NAME": "fuse3",  # mfusepy prefers libfuse 2 where the machine has both
    "GIT_CONFIG_NOSYSTEM": "1",
    "INTEGRITY_PAUSES": "0.02",  # what confirms damage takes milliseconds; ``support.cli.REAL_PAUSES``
    "LANG": "C.UTF-8",
    "TZ": "UTC",
}
_ENOUGH_BYTES, _DISK_BYTES = 8 << 30, 64 << 30
# Where a service of the machine's owner keeps its files.
_SYSTEM_FOLDERS = ("/etc/integrity", "/run/integrity", "/var/lib/integrity")


def isolate() -> None:
    """Give this process, and those that it starts, an environment in which nothing of the machine's owner is left."""
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):  # ignored under nohup or by a shell's &
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    os.umask(0o022)
    if is_privileged():
        enter_private_mounts()
        home = Path(pwd.getpwuid(os.geteuid()).pw_dir)
        _cover(home)
        for folder in filter(os.path.isdir, _SYSTEM_FOLDERS):
            _mount_empty(folder)
    else:
        home = Path(tempfile.mkdtemp(prefix="integrity-test-home-"))
        atexit.register(shutil.rmtree, home)
    kept = {name: value for name, value in os.environ.items() if name in _KEPT or name.startswith(_KEPT_PREFIXES)}
    path = f"{SEARCH_PATH}:{os.environ.get('PATH', '')}"
    os.environ.clear()
    os.environ.update({**kept, **_SET, "HOME": str(home), "PATH": path})
    time.tzset()
    if _TEMP_ROOT not in os.environ:  # else this is a worker, and has that of the run
        _remove_old_temp_roots()
        os.environ[_TEMP_ROOT] = _make_temp_root()
        if is_privileged() and _get_free_memory() >= _ENOUGH_BYTES:
            _mount_disk_in_memory(os.environ[_TEMP_ROOT])
    tempfile.tempdir = os.environ[_TEMP_ROOT]


def _make_temp_root() -> str:
    """
    Make the folder of this run's temporary files, locked until the end of this process.

    Not pytest's, which all runs share: each run that starts closes it to other users, also if a test of another run has
    just let one in.
    """
    new = Path(tempfile.mkdtemp(prefix=f".{_PREFIX}"))
    new.chmod(0o755)
    fcntl.flock(os.open(new, os.O_RDONLY), fcntl.LOCK_EX)
    # Only now can other runs find it. The name is short, for paths of sockets.
    return str(new.rename(new.with_name(_PREFIX + new.name[-4:])))


def _get_free_memory() -> int:
    with open("/proc/meminfo", encoding="ascii") as lines:
        return next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:"))


def _mount_disk_in_memory(folder: str) -> None:
    """
    Mount a disk whose image lies in memory.

    A program that writes a catalog waits for the disk at each commit, and so does each file system that a test makes:
    that was most of the time of a run. It is an ext4, not a tmpfs, so that all is as on other disks.
    """
    sh("mount", "-t", "tmpfs", "-o", "size=80%", "tmpfs", folder)
    image = os.path.join(folder, "disk.img")
    with open(image, "xb") as file:
        file.truncate(_DISK_BYTES)
    sh("mkfs.ext4", "-q", "-F", "-m", "0", "-E", "lazy_itable_init=1,lazy_journal_init=1", image)
    sh("mount", "-o", "loop,discard", image, folder)  # over the image: it goes with the last of this run's processes
    os.chmod(folder, 0o755)


def _remove_old_temp_roots() -> None:
    """Remove what failed tests of runs that have ended left to be looked at."""
    for root in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError):  # in use, another user's, or just removed by another run
            fd = os.open(root, os.O_RDONLY)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(root)
            finally:
                os.close(fd)


def _cover(home: Path) -> None:
    """
    Mount an empty folder over ``home``, and over each folder that keeps other users from what the tests run.

    Programs, checkout and temporary files that lie below are shown again where they were: who is nobody in particular
    can then start the program that is tested, wherever its Python and its checkout are.
    """
    places = _find_needed()
    covers = {home, *filter(None, map(_find_closed, places))} - {Path("/")}
    for cover in sorted(covers):
        if any(other in cover.parents for other in covers) or not cover.is_dir():
            continue
        inside = [place for place in places if cover in place.parents]
        with tempfile.TemporaryDirectory(dir="/tmp") as parking:
            spots = [Path(parking, str(number)) for number in range(len(inside))]
            for spot, place in zip(spots, inside, strict=True):
                spot.mkdir()
                sh("mount", "--rbind", place, spot)
            _mount_empty(cover)
            for spot, place in zip(spots, inside, strict=True):
                place.mkdir(parents=True)
                sh("mount", "--move", spot, place)
    os.chdir(os.getcwd())  # into what is mounted there now


def _find_needed() -> list[Path]:
    """Name the folders without which no test can run, leaving out those below another one."""
    checkout = str(Path(__file__).parents[2])
    modules = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    found = [sys.prefix, sys.base_prefix, checkout, tempfile.gettempdir(), os.getcwd(), *filter(None, modules)]
    places = {Path(os.path.realpath(place)) for place in found}
    return [place for place in places if not places & set(place.parents) and place.is_dir()]


def _find_closed(place: Path) -> Path | None:
    """Return the outermost folder above ``place`` that other users may not pass through."""
    above: Iterable[Path] = reversed(place.parents)
    return next((folder for folder in above if not folder.stat().st_mode & stat.S_IXOTH), None)


def _mount_empty(folder: str | Path) -> None:
    sh("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", folder)
