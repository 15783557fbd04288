"""
Measure the rows of each table.

``algorithms``: CPU time per GiB, in this process and by the usual program for it. ``lanes``: speed of each path of the
C core on many messages of one length, on one thread. ``large``: MD5 of one large file, one stream per contender.
``objects``: short messages, where creating the object costs more than hashing. ``python``: every algorithm of this
Python, plain and as HMAC. ``tools``: what a user would type for a folder and for a large file; whole programs with
their start.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from blake3 import blake3
from xxhash import xxh3_128, xxh64

from hashing.measure import (
    BenchHasher,
    Contender,
    Row,
    Table,
    Turn,
    by_cpu,
    compare,
    hash_file,
    make_short_contender,
    measure_in_turn,
    repeat_short,
    spell_length,
)
from hashing.programs import (
    CONSTRUCTORS,
    HASHLIB,
    INTEGRITY_SUM,
    MD5DEEP,
    MD5SUM,
    OPENSSL_MD5,
    OURS,
    Program,
    coreutil,
    make_program_contender,
    measure_allocation,
)
from hashing.workspace import Workspace, describe_file
from integrity.config import format_size
from integrity.hashing import Md5, native_status
from integrity.hashing.md5_standin import StandinMd5


class _Algorithm(NamedTuple):
    name: str
    make: Callable[[], BenchHasher]
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
    """
    Hash a file with each algorithm; the ratio compares CPU seconds with MD5's.

    Wall time would mislead: some programs use several processors.
    """
    settings, path, size_bytes = workspace.settings, workspace.quarter_file, workspace.quarter_bytes
    group = describe_file(size_bytes)
    contenders: list[Contender] = []
    for name, make, program in _ALGORITHMS:
        row = Row(table=Table.ALGORITHMS, group=group, what=name, size_bytes=size_bytes)
        contenders.append(Contender(row, partial(hash_file, path, make)))
        command: list[bytes | str] = [*program.command, path]
        contenders.append(make_program_contender(Table.ALGORITHMS, group, program, command, size_bytes))
    return compare(measure_in_turn(contenders, settings.runs), "MD5", by_cpu)


_LANE_MESSAGES_BYTES = (64, 4 << 10, 64 << 10, 1 << 20)
_MESSAGES_AT_LEAST = 64
"""Messages at a time: fills the widest path twice over."""
_ARENA_AT_LEAST_BYTES = 1 << 20
_HASHLIB = "hashlib"


def measure_lanes(workspace: Workspace) -> list[Row]:
    """Digest messages of each length on each path, and one after the other with hashlib."""
    rows: list[Row] = []
    for size_bytes in _LANE_MESSAGES_BYTES:
        arena = os.urandom(max(_MESSAGES_AT_LEAST * size_bytes, _ARENA_AT_LEAST_BYTES))
        peer = make_short_contender(
            _make_lane_row(_HASHLIB, arena, size_bytes), partial(_digest_in_turn, memoryview(arena), size_bytes)
        )
        rows += measure_in_turn([*_make_path_contenders(arena, size_bytes), peer], workspace.settings.runs)
    return compare(rows, _HASHLIB)


def _make_path_contenders(arena: bytes, size_bytes: int) -> list[Contender]:
    native = native_status()
    if not native.is_native:
        return [Contender(_make_lane_row("C core", arena, size_bytes, note=f"not in use: {native.path}"), None)]
    from integrity.hashing.md5_native import list_paths

    return [
        Contender(_make_lane_row(path, arena, size_bytes), _measure_on(path, arena, size_bytes))
        for path in list_paths()
    ]


def _measure_on(path: str, arena: bytes, size_bytes: int) -> Callable[[], Turn]:
    """Return a function that measures one path, which is the only one in use during the measurement."""
    from integrity.hashing.md5_native import digest_arena, only_path

    with only_path(path):
        once = repeat_short(partial(digest_arena, arena, size_bytes))

    def run() -> Turn:
        with only_path(path):
            return Turn(once())

    return run


def _digest_in_turn(arena: memoryview, size_bytes: int) -> None:
    for offset in range(0, len(arena), size_bytes):
        hashlib.md5(arena[offset : offset + size_bytes], usedforsecurity=False).digest()


def _make_lane_row(what: str, arena: bytes, size_bytes: int, note: str = "") -> Row:
    return Row(
        table=Table.LANES,
        group=f"messages of {spell_length(size_bytes)}",
        what=what,
        size_bytes=len(arena),
        message_bytes=size_bytes,
        note=note,
    )


def measure_large(workspace: Workspace) -> list[Row]:
    """Hash the large file with each contender."""
    settings, path = workspace.settings, workspace.large_file
    group = describe_file(settings.size_bytes)
    native = native_status()
    own = (
        ("integrity", Md5, "" if native.is_native else f"not the C core: {native.path}"),
        ("hashlib", partial(hashlib.md5, usedforsecurity=False), ""),
        ("integrity fallback", StandinMd5, ""),
    )
    contenders = [
        Contender(
            Row(table=Table.LARGE, group=group, what=what, size_bytes=settings.size_bytes, note=note),
            partial(hash_file, path, make),
        )
        for what, make, note in own
    ]
    contenders += [
        make_program_contender(Table.LARGE, group, program, [*program.command, path], settings.size_bytes)
        for program in (MD5SUM, OPENSSL_MD5)
    ]
    return compare(measure_in_turn(contenders, settings.runs), MD5SUM.name)


_MESSAGES_BYTES = (16, 64, 1024)


def measure_objects(workspace: Workspace) -> list[Row]:
    """Hash a message of each size with each contender."""
    native = native_status()
    rows: list[Row] = []
    for size_bytes in _MESSAGES_BYTES:
        message = os.urandom(size_bytes)
        contenders = [
            make_short_contender(
                Row(
                    table=Table.OBJECTS,
                    group=f"{size_bytes:,} bytes",
                    what=what,
                    size_bytes=size_bytes,
                    allocated_bytes=measure_allocation(what, size_bytes),
                    note=f"not the C core: {native.path}" if what == OURS and not native.is_native else "",
                ),
                partial(_digest, make, message),
            )
            for what, make in CONSTRUCTORS.items()
        ]
        rows += measure_in_turn(contenders, workspace.settings.runs)
    return compare(rows, HASHLIB)


def _digest(make: Callable[[bytes], BenchHasher], message: bytes) -> bytes:
    return make(message).digest()


_MESSAGE_BYTES = 1_000_000
_OBJECTS = 1000
_KEY = bytes(range(32))
_SHAKE_BYTES = 32  # SHAKE digests have any length; this is usual for their strength


def measure_python(workspace: Workspace) -> list[Row]:
    """Measure each algorithm as plain hash and as HMAC."""
    message = os.urandom(_MESSAGE_BYTES)
    names = sorted(hashlib.algorithms_available)
    contenders = [_make_plain(name, message) for name in names]
    contenders += [_make_hmac(name, message) for name in names]
    return compare(measure_in_turn(contenders, workspace.settings.runs), "md5")


def _make_plain(name: str, message: bytes) -> Contender:
    create = partial(hashlib.new, name, usedforsecurity=False)
    try:
        has_fixed_size = create().digest_size > 0
    except ValueError as error:  # OpenSSL knows the name, but the system's configuration disables it
        return _make_unmeasured("plain", name, f"not to be had here: {error}")
    digest_arguments = () if has_fixed_size else (_SHAKE_BYTES,)

    def work() -> None:
        stream = create()
        stream.update(message)
        stream.digest(*digest_arguments)

    return _make_contender("plain", name, create, work)


def _make_hmac(name: str, message: bytes) -> Contender:
    create = partial(hmac.new, _KEY, digestmod=name)
    try:
        if hashlib.new(name, usedforsecurity=False).digest_size == 0:
            return _make_unmeasured("HMAC", name, "has no HMAC: its digest has no size of its own")
        create()
    except ValueError as error:
        return _make_unmeasured("HMAC", name, f"not to be had here: {error}")

    def work() -> None:
        stream = create()
        stream.update(message)
        stream.digest()

    return _make_contender("HMAC", name, create, work)


def _make_contender(group: str, name: str, create: Callable[[], object], work: Callable[[], None]) -> Contender:
    create_one, hash_one = repeat_short(create), repeat_short(work)
    return Contender(_make_row(group, name), lambda: Turn(hash_one(), create=create_one().per(1 / _OBJECTS)))


def _make_unmeasured(group: str, name: str, why: str) -> Contender:
    return Contender(_make_row(group, name, why), None)


def _make_row(group: str, name: str, note: str = "") -> Row:
    return Row(table=Table.PYTHON, group=group, what=name, size_bytes=_MESSAGE_BYTES, note=note)


def measure_tools(workspace: Workspace) -> list[Row]:
    """Hash the folder with each tool, then the large file."""
    settings, tree = workspace.settings, workspace.tree
    group = f"folder of {tree.files:,} {'file' if tree.files == 1 else 'files'}, {format_size(tree.size_bytes)}"
    folder_commands: tuple[tuple[Program, list[bytes | str]], ...] = (
        # Programs that can't walk get the names from find, whose time is included.
        (MD5SUM, ["find", tree.path, "-type", "f", "-exec", *MD5SUM.command, "{}", "+"]),
        (MD5DEEP, [*MD5DEEP.command, "-r", "-o", "f", tree.path]),
        (OPENSSL_MD5, ["find", tree.path, "-type", "f", "-exec", *OPENSSL_MD5.command, "{}", "+"]),
        (INTEGRITY_SUM, [*INTEGRITY_SUM.command, "-r", tree.path]),
    )
    on_folder = [
        make_program_contender(Table.TOOLS, group, program, command, tree.size_bytes)
        for program, command in folder_commands
    ]
    rows = measure_in_turn(on_folder, settings.runs)
    group = describe_file(settings.size_bytes)
    path = workspace.large_file
    on_file = [
        make_program_contender(Table.TOOLS, group, program, [*program.command, path], settings.size_bytes)
        for program in (MD5SUM, MD5DEEP, OPENSSL_MD5, INTEGRITY_SUM)
    ]
    return compare([*rows, *measure_in_turn(on_file, settings.runs)], MD5SUM.name)


_MEASURES = {
    Table.LARGE: measure_large,
    Table.OBJECTS: measure_objects,
    Table.TOOLS: measure_tools,
    Table.ALGORITHMS: measure_algorithms,
    Table.PYTHON: measure_python,
    Table.LANES: measure_lanes,
}


def measure_table(table: Table, workspace: Workspace) -> list[Row]:
    """
    Measure one table. This takes between a second and, with a large file, minutes.

    Contenders that can't be measured here, such as a missing tool, have a row with the reason.
    """
    return _MEASURES[table](workspace)
