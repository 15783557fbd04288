"""
Run ``par2``: that of the extra `parity`, or one on PATH.

I1  Its memory is limited, whatever the files are: it works through large sets in several passes.
I2  What it reads counts for the pace of the disk: it is stopped while others have their turn.
I3  It ends when this process is killed, where setpriv(1) is there: it would compute for nobody, or stay stopped.
"""

from __future__ import annotations

import math
import os
import re
import shutil
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING, NamedTuple

from integrity.copies.program import Running
from integrity.errors import ConfigError, CopyUnreachable
from integrity.extras import how_to_install

if TYPE_CHECKING:
    from integrity.files.span import Pace

MEMORY_MIB = 256
_MISSING = re.compile(rb"You need (\d+) more recovery block")


def find_par2() -> str:
    """
    Return the path of the program.

    Raises:
        ConfigError: it is not installed.
    """
    package = find_spec("par2")
    places = [] if package is None else list(package.submodule_search_locations or ())
    inside = [os.path.join(place, "binaries", "par2") for place in places]
    found = next((one for one in inside if os.access(one, os.X_OK)), None) or shutil.which("par2")
    if found is None:
        raise ConfigError(f"par2 is not installed, which makes parity: apt install par2; or {how_to_install('parity')}")
    return found


class Healed(NamedTuple):
    """
    What came of healing a set.

    Attributes:
        is_whole: all of its files are good.
        missing_slices: as many more good ones would be needed; 0: not known.
        reason: what par2 said last.
    """

    is_whole: bool
    missing_slices: int
    reason: str


class Par2:
    """
    Run the program for one set; see ``ReadingProgram``.

    Args:
        shown: the set, for people.
        must_stop: ends it when it returns true.
        pace: of the disk that it reads from.

    Attributes:
        pid: of its last run; 0: there was none.
    """

    name = "par2"
    idle_s = math.inf  # it says nothing while it computes

    def __init__(self, shown: str, must_stop: Callable[[], bool], pace: Pace, *, threads: int | None = None) -> None:
        self.shown = shown
        self.must_stop = self._wait_for_turn
        self._is_stopped = must_stop
        self._pace = pace
        self._options = [f"-m{MEMORY_MIB}"]
        if threads is not None:
            self._options += [f"-t{threads}", f"-T{threads}"]
        self.pid = 0
        self._read_bytes = 0
        self._continued_at = 0.0

    def failed(self, reason: str) -> CopyUnreachable:
        """Return the error that it does not work; see ``ReadingProgram``."""
        return CopyUnreachable(f"{self.shown}: {reason}")

    def create(self, base: bytes, target: bytes, slice_bytes: int, slices: int, files: Sequence[bytes]) -> str:
        """
        Make the files of a set, an index and one with all recovery slices; return why it failed, or an empty string.

        Raises:
            ReadInterrupted: it was ended.
        """
        options: list[str | bytes] = ["-q", "-q", f"-s{slice_bytes}", f"-c{slices}", "-n1", b"-B" + base]
        code, lines = self._run("create", *options, target, *files)
        said = next((line.decode("utf-8", "replace") for line in reversed(lines) if line), "")
        return "" if code == 0 else said or f"it failed with code {code}"

    def repair(self, base: bytes, target: bytes) -> Healed:
        """
        Restore the files of a set below a folder; what was there stays under another name.

        Raises:
            ReadInterrupted: it was ended.
        """
        code, lines = self._run("repair", "-q", b"-B" + base, target)
        missing = next((int(found[1]) for line in lines if (found := _MISSING.search(line))), 0)
        said = next((line.decode("utf-8", "replace") for line in reversed(lines) if line), "")
        return Healed(code == 0, missing, said or f"it failed with code {code}")

    def _run(self, command: str, *words: str | bytes) -> tuple[int, list[bytes]]:
        wrapper = ("setpriv", "--pdeathsig", "KILL") if shutil.which("setpriv") else ()
        line: list[str | bytes] = [*wrapper, find_par2(), command, *self._options, *words]
        self._pace.take(0)
        self._read_bytes, self._continued_at = 0, time.monotonic()
        try:
            with Running(self, line, package="par2", may_read_all=True) as running:
                self.pid = running.pid
                lines = list(running.lines())
                return running.wait(), [*lines, *(said.strip() for said in running.log_lines())]
        finally:
            self._pace.took(0, 0)

    def _wait_for_turn(self) -> bool:
        """Let the disk have its pace; return whether to end. Called several times a second."""
        if self._pace.holds_back and not self._is_stopped():
            read_bytes = self._count_read()
            piece, self._read_bytes = read_bytes - self._read_bytes, read_bytes
            self._pace.took(piece, time.monotonic() - self._continued_at, max(1, piece >> 20))
            with suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGSTOP)
                try:
                    self._pace.take(piece)
                finally:
                    os.killpg(self.pid, signal.SIGCONT)
            self._continued_at = time.monotonic()
        return self._is_stopped()

    def _count_read(self) -> int:
        try:
            with open(f"/proc/{self.pid}/io", "rb") as file:
                return int(file.readline().split()[1])
        except OSError:  # it has just ended
            return self._read_bytes
