"""Table ``algorithms``: CPU time for each GiB, in this process and, beside it, by the program people use for it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from blake3 import blake3
from xxhash import xxh3_128, xxh64

from integrity.hashing import Md5
from integrity.jobs.bench.programs import MD5SUM, Program, coreutil, enter_program
from integrity.jobs.bench.reading import Hasher, hash_file
from integrity.jobs.bench.rows import Row, Table, by_cpu, compare
from integrity.jobs.bench.turns import Contender, measure_in_turn
from integrity.jobs.bench.workspace import Workspace, describe_file


class _Algorithm(NamedTuple):
    name: str
    make: Callable[[], Hasher]
    program: Program


_ALGORITHMS = (
    _Algorithm("XXH128", xxh3_128, Program("xxh128sum", ("xxh128sum",), "xxhash")),
    _Algorithm("XXH64", xxh64, Program("xxh64sum", ("xxh64sum",), "xxhash")),
    _Algorithm("MD5", Md5, MD5SUM),
    _Algorithm("SHA-1", lambda: hashlib.sha1(usedforsecurity=False), coreutil("sha1sum")),
    _Algorithm("SHA-512", hashlib.sha512, coreutil("sha512sum")),
    _Algorithm("SHA-256", hashlib.sha256, coreutil("sha256sum")),
    _Algorithm("BLAKE3", blake3, Program("b3sum", ("b3sum",), "b3sum")),
)


def measure_algorithms(workspace: Workspace) -> list[Row]:
    """Hash a file with each; the ratio is that of CPU seconds to MD5's, as some programs use several processors."""
    settings, path, size_bytes = workspace.settings, workspace.quarter_file, workspace.quarter_bytes
    group = describe_file(size_bytes)
    contenders: list[Contender] = []
    for name, make, program in _ALGORITHMS:
        row = Row(table=Table.ALGORITHMS, group=group, what=name, size_bytes=size_bytes)
        contenders.append(Contender(row, partial(hash_file, path, make)))
        command: list[bytes | str] = [*program.command, path]
        contenders.append(enter_program(Table.ALGORITHMS, group, program, command, size_bytes))
    return compare(measure_in_turn(contenders, settings.runs), "MD5", by_cpu)
