"""The machine's own programs: running them, and saying which package one that is missing comes in."""

from __future__ import annotations

import shutil
import subprocess

from support import AnyPath

DEBIAN_PACKAGES = {
    "aarch64-linux-gnu-gcc": "gcc-aarch64-linux-gnu",
    "b3sum": "b3sum",
    "bindfs": "bindfs",
    "borg": "borgbackup",
    "borgmatic": "borgmatic",
    "btrfs": "btrfs-progs",
    "cc": "gcc",
    "chromium": "chromium",
    "e2fsck": "e2fsprogs",
    "fallocate": "util-linux",
    "fincore": "util-linux-extra",
    "fusermount3": "fuse3",
    "git": "git",
    "groff": "groff-base",
    "hashdeep": "hashdeep",
    "losetup": "mount",
    "man": "man-db",
    "mandoc": "mandoc",
    "md5deep": "hashdeep",
    "mergerfs": "mergerfs",
    "mkfs.btrfs": "btrfs-progs",
    "mkfs.exfat": "exfatprogs",
    "mkfs.ext4": "e2fsprogs",
    "mkfs.vfat": "dosfstools",
    "mkfs.xfs": "xfsprogs",
    "mount": "mount",
    "mount.exfat-fuse": "exfat-fuse",
    "nsenter": "util-linux",
    "pivot_root": "util-linux",
    "powerpc-linux-gnu-gcc": "gcc-powerpc-linux-gnu",
    "qemu-aarch64": "qemu-user",
    "qemu-ppc": "qemu-user",
    "qemu-x86_64": "qemu-user",
    "rclone": "rclone",
    "restic": "restic",
    "rsync": "rsync",
    "setpriv": "util-linux",
    "snapraid": "snapraid",
    "sqlite3": "sqlite3",
    "ssh-agent": "openssh-client",
    "ssh-keygen": "openssh-client",
    "sshd": "openssh-server",
    "strace": "strace",
    "systemctl": "systemd",
    "systemd-analyze": "systemd",
    "umount": "mount",
    "unionfs": "unionfs-fuse",
    "unshare": "util-linux",
    "xfs_io": "xfsprogs",
    "xxhsum": "xxhash",
}
"""Where the programs that the tests call come from, on Debian."""

SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Debian keeps what only root needs where an ordinary user's PATH, and cron's, does not look."""


class ProgramError(AssertionError):
    """Say that a program of the machine failed, in its own words."""


def sh(*command: AnyPath) -> str:
    """
    Run a program and return what it printed; no shell is involved.

    Raises:
        ProgramError: it did not exit with 0.
    """
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    if done.returncode != 0:
        words = " ".join(repr(word) for word in command)
        raise ProgramError(f"{words}: exit {done.returncode}: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout.decode(errors="surrogateescape")


def find_missing(*programs: str) -> list[str]:
    """Name those of ``programs`` that this machine lacks, each with the Debian package that brings it."""
    return [
        f"{program} (Debian package {DEBIAN_PACKAGES.get(program, program)})"
        for program in programs
        if shutil.which(program, path=SEARCH_PATH) is None
    ]
