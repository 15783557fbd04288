"""
What this machine can do, and what becomes of a test that needs more.

A test that needs root, a device or a program that is not there is skipped with the exact reason. In CI (``CI=true``)
a missing program or library is a failure instead: the test command should have installed it, and a rig that silently
tests nothing is what this project is against.
"""

from __future__ import annotations

import ctypes.util
import functools
import os
import subprocess
import tempfile
from typing import NoReturn

import pytest

from support.programs import find_missing

RIG_PROGRAMS = (
    "btrfs",
    "cc",
    "e2fsck",
    "mkfs.btrfs",
    "mkfs.ext4",
    "mkfs.xfs",
    "mount",
    "setpriv",
    "strace",
    "umount",
    "unshare",
    "xfs_io",
)
_CAP_SYS_ADMIN_BIT = 21  # linux/capability.h


def is_privileged() -> bool:
    """Tell whether this process may mount; root in an ordinary container may not."""
    with open("/proc/self/status", encoding="ascii", errors="replace") as lines:
        effective = next(int(line.split()[1], 16) for line in lines if line.startswith("CapEff:"))
    return os.geteuid() == 0 and bool(effective >> _CAP_SYS_ADMIN_BIT & 1)


def need_root() -> None:
    """Skip the running test where there is no root with devices and rights to mount; see the module for programs."""
    if why_not := _find_obstacle():
        pytest.skip(why_not)
    need_programs(*RIG_PROGRAMS)
    if ctypes.util.find_library("fuse3") is None:
        _refuse("libfuse3 (Debian package fuse3)")


def need_programs(*programs: str) -> None:
    """Skip the running test, in CI fail it, where one of ``programs`` is missing."""
    if missing := find_missing(*programs):
        _refuse(", ".join(missing))


def need_linking(compiler: str, *flags: str, package: str) -> None:
    """Skip the running test, in CI fail it, where ``compiler`` can't link with ``flags``: that takes ``package``."""
    need_programs(compiler)
    with tempfile.TemporaryDirectory() as folder:
        command = [compiler, "-x", "c", "-", *flags, "-o", f"{folder}/linked"]
        done = subprocess.run(command, input=b"int main(void) { return 0; }", capture_output=True, check=False)
    if done.returncode != 0:
        _refuse(f"what {compiler} {' '.join(flags)} needs (Debian package {package})")


def need_file_system(fs_type: str) -> None:
    """Skip the running test where the kernel does not know ``fs_type``."""
    if not is_known(fs_type):
        pytest.skip(f"this kernel has no {fs_type}")


def _refuse(what: str) -> NoReturn:
    if os.environ.get("CI") == "true":
        pytest.fail(f"missing in CI, although the test command should install it: {what}", pytrace=False)
    pytest.skip(f"missing here: {what}")


@functools.cache
def _find_obstacle() -> str | None:
    """Say what keeps the rig from running here, programs aside."""
    if os.geteuid() != 0:
        return "needs root: run the tests with sudo"
    if not is_privileged():
        return "needs CAP_SYS_ADMIN: this root may not mount (a container?)"
    for device, what in (("/dev/loop-control", "loop devices"), ("/dev/fuse", "FUSE")):
        if not os.path.exists(device):
            return f"needs {what}: there is no {device} (kernel module missing, or a container without devices)"
    return None


@functools.cache
def is_known(fs_type: str) -> bool:
    """Look for a file system in the kernel, built in, loaded, or ready to be loaded."""
    with open("/proc/filesystems", encoding="ascii") as lines:
        if any(line.split()[-1] == fs_type for line in lines):
            return True
    if find_missing("modprobe"):
        return False
    return subprocess.run(["modprobe", "--dry-run", "--quiet", fs_type], check=False).returncode == 0
