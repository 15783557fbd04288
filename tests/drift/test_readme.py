"""The README's commands are those of the program and of the tests."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

import pytest

from support.cli import Box

ROOT = Path(__file__).parents[2]


def find_commands() -> list[list[str]]:
    """Return the lines of each fenced block of the README, comments and prompts left out."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```[a-z]*\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [
        [line.removeprefix("$ ").strip() for line in block.splitlines() if line.strip() and not line.startswith("#")]
        for block in blocks
    ]


def find_integrity_commands(lines: list[str]) -> list[str]:
    """Return the commands of integrity in ``lines``: the first word behind the program that is no option."""
    found = []
    for line in lines:
        program, *words = shlex.split(line, comments=True)
        if Path(program).name == "integrity":
            found += [word for word in words if not word.startswith("-")][:1]
    return found


def test_first_command_exists(integrity: Box) -> None:
    """What the README's first block tells the user to type, the program knows."""
    commands = find_integrity_commands(find_commands()[0])

    assert commands
    for command in commands:
        integrity.run(command, "--help", expect=0)


def test_second_command_is_what_ci_runs() -> None:
    """The README's test command is one line, there, and the only thing that .ci/run does."""
    (command,) = find_commands()[1]
    ci = (ROOT / ".ci/run").read_text(encoding="utf-8").splitlines()

    assert ["sh", "tests/all.sh"] == shlex.split(command)
    assert (ROOT / "tests/all.sh").exists()
    assert f"exec {command}" == ci[-1]
    assert os.access(ROOT / ".ci/run", os.X_OK)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("integrity scan /data", ["scan"]),
        (".venv/bin/integrity --json scrub /data  # again", ["scrub"]),
        ("pip install .", []),
    ],
)
def test_commands_are_found_in_lines(line: str, expected: list[str]) -> None:
    """The check above sees a command behind a path and behind options."""
    assert expected == find_integrity_commands([line])
