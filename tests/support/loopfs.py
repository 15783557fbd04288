"""
Real file systems on sparse images: the smallest disks money can't buy.

``LoopFS`` makes, mounts and removes one. What lies in the image can be damaged behind the file system's back with
``support.bitrot``.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from support import AnyPath
from support.bitrot import allow_damage
from support.machine import need_file_system
from support.mountinfo import get_mount, is_mounted
from support.programs import ProgramError, sh
from support.waiting import TimedOutError, wait_until

# Below 512 MB mkfs.ext4 takes 1 KiB blocks, and 4 KiB of a file would no longer be one aligned block.
_MKFS = {
    "ext4": ("mkfs.ext4", "-q", "-F", "-b", "4096"),
    "xfs": ("mkfs.xfs", "-q", "-f"),
    "btrfs": ("mkfs.btrfs", "-q", "-f"),
}
# The smallest that each mkfs takes, with room for the tests' files; sparse, so they cost only what is written.
_SIZES_BYTES = {"ext4": 128 << 20, "xfs": 320 << 20, "btrfs": 160 << 20}


def make_image(image: AnyPath, fs_type: str, *, size_bytes: int = 0, mkfs: Sequence[str] = ()) -> None:
    """Make a sparse ``image`` with an empty file system in it; ``mkfs`` are further options of its mkfs."""
    with open(image, "xb") as file:
        file.truncate(size_bytes or _SIZES_BYTES[fs_type])
    sh(*_MKFS[fs_type], *mkfs, image)
    allow_damage(image)


def unmount(point: AnyPath) -> None:
    """
    Unmount ``point``, waiting a moment for those who still have a file open there.

    Raises:
        ProgramError: it is still busy; it was then detached lazily, so that nothing stays behind.
    """
    refused = ""

    def is_gone() -> bool:
        nonlocal refused
        try:
            sh("umount", point)
        except ProgramError as error:
            refused = str(error)
            return not is_mounted(point)
        return True

    try:
        wait_until(is_gone, "umount", timeout_s=5, every_s=0.05)
    except TimedOutError as error:
        sh("umount", "-l", point)
        raise ProgramError(refused) from error


class LoopFS:
    """
    A mounted ext4, xfs or btrfs of its own: ``with LoopFS("ext4", mkfs=("-I", "128")) as fs: fs.mnt``.

    Attributes:
        mnt: where it is mounted, in bytes.
        folder: the same as a Path.
        image: the backing file. Reading or writing it goes behind the file system's back.
    """

    def __init__(
        self,
        fs_type: str = "ext4",
        *,
        size_bytes: int = 0,
        mkfs: Sequence[str] = (),
        options: str = "",
        image: AnyPath | None = None,
    ) -> None:
        """
        Say what to make; nothing happens before the context is entered.

        Args:
            fs_type: ext4, xfs or btrfs.
            size_bytes: of the image; 0 for the usual small one.
            mkfs: further options of mkfs.
            options: of mount, comma-separated.
            image: an existing image to mount; it is neither made nor removed here.
        """
        self.fs_type, self.options = fs_type, options
        self._given_image = image
        self._size_bytes, self._mkfs = size_bytes, tuple(mkfs)

    def __enter__(self) -> LoopFS:
        self._home = Path(tempfile.mkdtemp(prefix=f"loopfs-{self.fs_type}-"))
        self.folder = self._home / "mnt"
        self.mnt = os.fsencode(self.folder)
        self._is_image_ours = self._given_image is None
        self.image = os.fsencode(self._home / "disk.img" if self._given_image is None else self._given_image)
        self.folder.mkdir()
        try:
            need_file_system(self.fs_type)
            if self._is_image_ours:
                make_image(self.image, self.fs_type, size_bytes=self._size_bytes, mkfs=self._mkfs)
            self.mount()
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        try:
            if is_mounted(self.mnt):
                unmount(self.mnt)
        except ProgramError:
            if error is None:  # else the test's own failure is the one to tell
                raise
        finally:
            self._clean_up(error)

    def _clean_up(self, error: BaseException | None) -> None:
        """Remove image and folders; what a failed test left there is noted on its failure, which must not be hidden."""
        try:
            self._remove()
        except OSError as left:
            if error is None:
                raise
            error.add_note(f"not removed: {left}")

    @property
    def device(self) -> bytes:
        """The loop device, while mounted."""
        return get_mount(self.mnt).source

    def path(self, name: AnyPath) -> bytes:
        """Return the absolute path of ``name``, a path relative to the mount point."""
        return os.path.join(self.mnt, os.fsencode(name))

    def mount(self, options: str | None = None) -> None:
        """Mount the image, with ``options`` in place of the usual ones; the loop device frees itself at umount."""
        wanted = self.options if options is None else options
        sh("mount", "-t", self.fs_type, "-o", ",".join(filter(None, ("loop", wanted))), self.image, self.mnt)
        allow_damage(self.image)

    def umount(self) -> None:
        """Unmount; the mount point is then an empty folder, as when a disk is not mounted."""
        unmount(self.mnt)

    def remount(self, options: str | None = None) -> None:
        """Unmount and mount again: the surest way to empty the cache, of this file system only."""
        self.umount()
        self.mount(options)

    def _remove(self) -> None:
        """Remove image and folders; never a tree: a mount that is still there must not be emptied."""
        if self._is_image_ours and os.path.exists(self.image):
            os.unlink(self.image)
        self.folder.rmdir()
        self._home.rmdir()
