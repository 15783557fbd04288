"""
Run other programs, and our own as one, and measure the memory of one digest object with its digest.

An execution's memory is what it leaves in use: 1,000 objects that hashed a message, and their digests, are kept alive,
and the growth of the heap is divided by 1,000. tracemalloc sees only Python's allocator and ``ffi.new``, not the
contexts that OpenSSL takes from malloc. So a separate process runs with ``PYTHONMALLOC=malloc``, and mallinfo2(3) of
glibc returns the bytes in use: ``uordblks``, and ``hblkhd`` for mapped chunks. Both count chunks rounded by malloc to
16 bytes, 8 of them its own. (Python's allocator takes up to 16 bytes less for each small object.)
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

from hashing.measure import BenchHasher, Contender, Row, Table, Turn, run_program
from integrity.hashing import Md5

OURS = "integrity"
HASHLIB = "hashlib"
CONSTRUCTORS: dict[str, Callable[[bytes], BenchHasher]] = {OURS: Md5, HASHLIB: hashlib.md5}
"""Functions that return an object which has hashed a message."""

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
    Return the bytes per object; None if the C library can't tell (musl, and glibc before 2.33).

    ``what`` is one of ``CONSTRUCTORS``, ``size_bytes`` the length of the message.
    """
    command = [sys.executable, "-P", "-m", __name__, what, str(size_bytes)]
    rooms = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    environment = {**os.environ, "PYTHONMALLOC": "malloc", "PYTHONPATH": rooms}
    done = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=True)
    return float(done.stdout) if done.stdout else None


def _main(what: str, size_bytes: int) -> None:
    """Measure in this process and write the figure to stdout; write nothing if there is none."""
    heap = _find_heap_meter()
    if heap is None:
        return
    make, message = CONSTRUCTORS[what], os.urandom(size_bytes)
    # One-time costs of the first object, such as looking up the algorithm, do not count.
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
"""Exit code of all of them after a file that they could not read; they continue with the others."""


@dataclass(frozen=True, slots=True)
class Program:
    """
    A program that prints digests of files.

    Args:
        name: as the tables show it.
        command: the words before the files.
        package: of Debian, that contains it; empty for our own.
    """

    name: str
    command: tuple[str, ...]
    package: str

    @property
    def is_installed(self) -> bool:
        """Return whether the program can be run."""
        return shutil.which(self.command[0]) is not None


def coreutil(name: str) -> Program:
    """Return a program of the GNU core utilities."""
    return Program(name, (name,), "coreutils")


MD5SUM = coreutil("md5sum")
OPENSSL_MD5 = Program("openssl md5", ("openssl", "md5"), "openssl")
MD5DEEP = Program("md5deep", ("md5deep",), "hashdeep")
# -P: do not search the current folder for modules; neither does the installed command.
INTEGRITY_SUM = Program("integrity sum", (sys.executable, "-P", "-m", "integrity", "sum"), "")


def make_program_contender(
    table: Table, group: str, program: Program, command: Sequence[bytes | str], size_bytes: int
) -> Contender:
    """Create a contender for a program's command; if it is not installed, its row says so."""
    is_installed = program.is_installed
    note = "" if is_installed else f"not installed (Debian package {program.package})"
    row = Row(table=table, group=group, what=program.name, size_bytes=size_bytes, note=note)
    return Contender(row, partial(_run, command) if is_installed else None)


def _run(command: Sequence[bytes | str]) -> Turn:
    ended = run_program(command, _environment())
    if ended.code not in {0, _UNREADABLE}:
        return Turn(None, note=f"failed with exit code {ended.code}: {ended.error}")
    return Turn(ended.cost, note=f"exit code {ended.code}: {ended.error}" if ended.code else "")


def _environment() -> dict[str, str]:
    """Return the environment without our options, except INTEGRITY_NATIVE, which selects the implementation."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("INTEGRITY_") or name == "INTEGRITY_NATIVE"
    }
