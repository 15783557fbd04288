"""Other people's programs, and our own as one of them: whether they are here, and what they take."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from integrity.jobs.bench.measure import run_program
from integrity.jobs.bench.rows import Row, Table
from integrity.jobs.bench.turns import Contender, Turn

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
