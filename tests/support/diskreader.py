"""
Read a disk until killed: ``diskreader.py scrub|rival COUNTER FOLDER OPTIONS``, for ``support.diskload``.

``rival`` is what any other program may be: it reads a file with O_DIRECT, 256 KiB after 256 KiB. ``scrub`` is our own
reader, engine and pace. Both tell in the file COUNTER how many bytes they have read.
"""

from __future__ import annotations

import json
import mmap
import os
import struct
import sys
from collections.abc import Callable, Iterator
from itertools import cycle

from integrity.config.definition import PaceConfig as PaceSettings
from integrity.files.block_devices import find_device
from integrity.files.capability import find_capability
from integrity.files.open_beneath import open_root
from integrity.files.read import Reader
from integrity.files.span import ReadMode
from integrity.files.system_load import Pressure
from integrity.hashing.digests import want_to_verify
from integrity.hashing.engine import Engine
from integrity.hashing.tasks import Done, Task
from integrity.jobs.pace.throttle import DevicePace
from integrity.jobs.report import Stop

COUNTER = struct.Struct("<Qd")  # bytes read, allowed bytes a second
_RIVAL_BYTES = 256 << 10


def main() -> None:
    """Read for ever."""
    kind, counter, folder, options = sys.argv[1:]
    with open(counter, "r+b") as file, mmap.mmap(file.fileno(), COUNTER.size) as shared:

        def tell(size_bytes: int, rate: float = 0.0) -> None:
            COUNTER.pack_into(shared, 0, size_bytes, rate)

        if kind == "rival":
            _read_plainly(os.fsencode(folder), tell)
        else:
            _scrub(os.fsencode(folder), json.loads(options), tell)


def _read_plainly(folder: bytes, tell: Callable[[int], None]) -> None:
    buffer = mmap.mmap(-1, _RIVAL_BYTES)
    fd = os.open(os.path.join(folder, b"rival"), os.O_RDONLY | os.O_DIRECT)
    end = os.fstat(fd).st_size
    total = 0
    while True:
        for offset in range(0, end, _RIVAL_BYTES):
            total += os.preadv(fd, [buffer], offset)
            tell(total)


def _scrub(folder: bytes, options: dict[str, int], tell: Callable[[int, float], None]) -> None:
    root_fd = open_root(folder)
    has_pressure, has_blocks = options.pop("has_pressure"), options.pop("has_blocks")
    jobs, needed = options.pop("jobs"), options.pop("needed_bytes_per_s")
    layers = find_device(root_fd).layers if has_blocks else ()
    pressure = Pressure(layers) if has_pressure else Pressure(layers, pressure_file="/nowhere")
    pace = _Telling(
        PaceSettings(floor_bytes_per_s=options.pop("floor_bytes_per_s")),
        Stop(),
        needed_bytes_per_s=lambda: needed,
        pressure=pressure,
        is_sure=pressure.has_stalls,
    )
    pace.tell = tell
    reader = Reader(root_fd, find_capability(root_fd, folder), mode=ReadMode.DISK, pace=pace)
    for result in Engine(reader, jobs=jobs, is_serial=jobs == 1).run(_tasks(folder)):
        assert isinstance(result, Done), result


class _Telling(DevicePace):
    """The pace itself, which tells what it sees."""

    tell: Callable[[int, float], None]
    total = 0

    def took(self, size_bytes: int, duration_s: float, reads: int = 1) -> None:
        super().took(size_bytes, duration_s)
        self.total += size_bytes
        self.tell(self.total, self.rate_bytes_per_s)


def _tasks(folder: bytes) -> Iterator[Task]:
    want = want_to_verify(is_one_block=False, deep=False, blake3=False)
    for name in cycle(sorted(name for name in os.listdir(folder) if name.startswith(b"ours"))):
        yield Task(name, os.stat(os.path.join(folder, name)).st_size, want, 1 << 20)


if __name__ == "__main__":
    main()
