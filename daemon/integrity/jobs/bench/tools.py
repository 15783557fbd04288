"""Table ``tools``: what a user would type for a folder, and for a large file; whole programs, their start included."""

from __future__ import annotations

from integrity.config import format_size
from integrity.jobs.bench.programs import INTEGRITY_SUM, MD5DEEP, MD5SUM, OPENSSL_MD5, Program, enter_program
from integrity.jobs.bench.rows import Row, Table, compare
from integrity.jobs.bench.turns import measure_in_turn
from integrity.jobs.bench.workspace import Workspace, describe_file


def measure_tools(workspace: Workspace) -> list[Row]:
    """Hash the folder with each tool, then the large file."""
    settings, tree = workspace.settings, workspace.tree
    group = f"folder of {tree.files:,} {'file' if tree.files == 1 else 'files'}, {format_size(tree.size_bytes)}"
    folder_commands: tuple[tuple[Program, list[bytes | str]], ...] = (
        # Those that can't walk are handed the names by find, whose time is theirs.
        (MD5SUM, ["find", tree.path, "-type", "f", "-exec", *MD5SUM.command, "{}", "+"]),
        (MD5DEEP, [*MD5DEEP.command, "-r", "-o", "f", tree.path]),
        (OPENSSL_MD5, ["find", tree.path, "-type", "f", "-exec", *OPENSSL_MD5.command, "{}", "+"]),
        (INTEGRITY_SUM, [*INTEGRITY_SUM.command, "-r", tree.path]),
    )
    on_folder = [
        enter_program(Table.TOOLS, group, program, command, tree.size_bytes) for program, command in folder_commands
    ]
    rows = measure_in_turn(on_folder, settings.runs)
    group = describe_file(settings.size_bytes)
    path = workspace.large_file
    on_file = [
        enter_program(Table.TOOLS, group, program, [*program.command, path], settings.size_bytes)
        for program in (MD5SUM, MD5DEEP, OPENSSL_MD5, INTEGRITY_SUM)
    ]
    return compare([*rows, *measure_in_turn(on_file, settings.runs)], MD5SUM.name)
