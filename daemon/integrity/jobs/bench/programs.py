"""
How much memory one digest object takes, with the digest that it gave.

What is measured is what an execution leaves in use: 1,000 objects that have hashed a message, and their digests, are
kept alive, and the growth of the heap is divided by 1,000. What an execution allocates and frees again before it
returns is not in it.

tracemalloc would not do: it sees what comes from Python's own allocator (objects, and the memory of ``ffi.new``), but
not the contexts that OpenSSL, behind hashlib, takes from malloc; malloc's figures alone see those only. So a process of
its own is started with ``PYTHONMALLOC=malloc``, where both come from malloc, each once, and mallinfo2(3) of the GNU C
library says how much of it is in use: ``uordblks``, and ``hblkhd`` for what was mapped. Both count chunks as malloc
rounds them: to 16 bytes, 8 of them its own. (Python's own allocator takes up to 16 bytes less for each small object.)

Other people's programs, and our own as one of them: whether they are here, and what they take.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from integrity.hashing import Md5
from integrity.jobs.bench.measure import BenchHasher, Contender, Row, Table, Turn, run_program

OURS = "integrity"
HASHLIB = "hashlib"
CONSTRUCTORS: dict[str, Callable[[bytes], BenchHasher]] = {
    OURS: Md5,
    HASHLIB: hashlib.md5,
}
"""What makes an object that has hashed a message."""

_OBJECTS = 1000


class _Mallinfo2(ctypes.Structure):
    """``struct mallinfo2`` of mallinfo2(3)."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost",
        )
    )  # fmt: skip


def measure_allocation(what: str, size_bytes: int) -> float | None:
    """
    Give the bytes for each object, or None where the C library can't say: musl, and glibc before 2.33.

    Args:
        what: one of ``CONSTRUCTORS``.
        size_bytes: of the message.
    """
    command = [sys.executable, "-P", "-m", __name__, what, str(size_bytes)]
    environment = {**os.environ, "PYTHONMALLOC": "malloc"}
    done = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=True)
    return float(done.stdout) if done.stdout else None


def _main(what: str, size_bytes: int) -> None:
    """Measure in this process and write the figure to stdout; nothing where there is none."""
    heap = _find_heap_meter()
    if heap is None:
        return
    make, message = CONSTRUCTORS[what], os.urandom(size_bytes)
    # What the first object brings with it, an algorithm that is looked up, say, is not what an object takes.
    _keep(make, message, heap)
    os.write(1, b"%f" % (_keep(make, message, heap) / _OBJECTS))


def _keep(make: Callable[[bytes], BenchHasher], message: bytes, heap: Callable[[], int]) -> int:
    streams: list[BenchHasher | None] = [None] * _OBJECTS
    digests = [b""] * _OBJECTS
    before = heap()
    for index in range(_OBJECTS):
        stream = make(message)
        streams[index] = stream
        digests[index] = stream.digest()
    return heap() - before


def _find_heap_meter() -> Callable[[], int] | None:
    library = ctypes.CDLL(None)
    try:
        mallinfo2 = library.mallinfo2
    except AttributeError:
        return None
    mallinfo2.restype = _Mallinfo2

    def read() -> int:
        info = mallinfo2()
        return int(info.uordblks) + int(info.hblkhd)

    return read


if __name__ == "__main__":
    _main(sys.argv[1], int(sys.argv[2]))


_UNREADABLE = 1
"""What all of them exit with after a file that they could not read, having gone on with the others."""


@dataclass(frozen=True, slots=True)
class Program:
    """
    A program that prints digests of files.

    Args:
        name: as the tables show it.
        command: the words before the files.
        package: of Debian, that brings it; empty for ourselves.
    """

    name: str
    command: tuple[str, ...]
    package: str

    @property
    def is_installed(self) -> bool:
        """Say whether it can be run."""
        return shutil.which(self.command[0]) is not None


def coreutil(name: str) -> Program:
    """Name a program of the GNU core utilities."""
    return Program(name, (name,), "coreutils")


MD5SUM = coreutil("md5sum")
OPENSSL_MD5 = Program("openssl md5", ("openssl", "md5"), "openssl")
MD5DEEP = Program("md5deep", ("md5deep",), "hashdeep")
# -P: the folder that we are started in is not searched for modules, as with the installed command.
INTEGRITY_SUM = Program("integrity sum", (sys.executable, "-P", "-m", "integrity", "sum"), "")


def enter_program(
    table: Table, group: str, program: Program, command: Sequence[bytes | str], size_bytes: int
) -> Contender:
    """Let a command of a program compete, if it is installed."""
    is_installed = program.is_installed
    note = "" if is_installed else f"not installed (Debian package {program.package})"
    row = Row(table=table, group=group, what=program.name, size_bytes=size_bytes, note=note)
    return Contender(row, partial(_run, command) if is_installed else None)


def _run(command: Sequence[bytes | str]) -> Turn:
    ended = run_program(command, _environment())
    if ended.code not in {0, _UNREADABLE}:
        return Turn(None, note=f"failed with exit code {ended.code}: {ended.complaint}")
    return Turn(ended.cost, note=f"exit code {ended.code}: {ended.complaint}" if ended.code else "")


def _environment() -> dict[str, str]:
    """Leave out options of ours that stand in the environment; which core computes is none."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("INTEGRITY_") or name == "INTEGRITY_NATIVE"
    }
