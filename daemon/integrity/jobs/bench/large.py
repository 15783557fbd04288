"""Table ``large``: MD5 of one large file, by us and by others, one stream each."""

from __future__ import annotations

import hashlib
from functools import partial

from integrity.hashing import Md5, native_status
from integrity.hashing.md5_standin import StandinMd5
from integrity.jobs.bench.programs import MD5SUM, OPENSSL_MD5, enter_program
from integrity.jobs.bench.reading import hash_file
from integrity.jobs.bench.rows import Row, Table, compare
from integrity.jobs.bench.turns import Contender, measure_in_turn
from integrity.jobs.bench.workspace import Workspace, describe_file


def measure_large(workspace: Workspace) -> list[Row]:
    """Hash the large file with each."""
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
        enter_program(Table.LARGE, group, program, [*program.command, path], settings.size_bytes)
        for program in (MD5SUM, OPENSSL_MD5)
    ]
    return compare(measure_in_turn(contenders, settings.runs), MD5SUM.name)
