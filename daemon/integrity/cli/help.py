"""What help says besides the options: questions of a new user, examples, and where the global options are listed."""

from __future__ import annotations

_ELSEWHERE = "Options of all commands, such as --json and -q: integrity --help"

TASKS = (
    ("Watch a folder or a new disk", "integrity scan FOLDER"),
    ("Is it running? Is all well?", "integrity status"),
    ("What was found?", "integrity findings"),
    ("How bad is it, and what to do?", "integrity explain FILE"),
    ("When was a file last checked?", "integrity explain FILE"),
    ("Move to a new disk or NAS", "integrity root rebind --help"),
    ("Stop it, for a while or for good", "integrity service --help"),
)
"""The questions of a new user, and what answers them."""


def find_examples(epilog: str | None) -> list[str]:
    """Return the commands of the examples in the end of a command's help."""
    lines = (line for line in (epilog or "").split("\n") if line.startswith("  "))
    return [line.strip().partition("  ")[0] for line in lines]


def examples(*lines: tuple[str, str]) -> str:
    """Return the end of a command's help: each line is a command that can be typed, and what it does."""
    width = max(len(command) for command, _ in lines)
    shown = (f"  {command:<{width}}  {effect}".rstrip() for command, effect in lines)
    return "\n".join(["\b", "Examples:", *shown, "", _ELSEWHERE])
