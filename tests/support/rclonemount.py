"""A folder mounted by rclone, whose file systems can be made to treat names as others do."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support import AnyPath
from support.machine import need_programs
from support.waiting import wait_until


@contextmanager
def mounted_by_rclone(source: Path, mount_point: Path, *options: str) -> Iterator[None]:
    """Mount ``source`` read-only as long as the block runs; needs root."""
    need_programs("rclone", "fusermount3")
    command: list[AnyPath] = ["rclone", "mount", "--config", os.devnull, "--read-only", *options, source, mount_point]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL) as rclone:
        try:
            wait_until(lambda: os.path.ismount(mount_point), "rclone's mount")
            yield
        finally:
            subprocess.run(["umount", "--lazy", mount_point], check=False)
            rclone.terminate()
