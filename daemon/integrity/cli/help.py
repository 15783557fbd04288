"""What stands below the options in the help of a command: examples, and where the global options are listed."""

from __future__ import annotations

_ELSEWHERE = "Options of all commands, such as --json and -q: integrity --help"


def find_examples(epilog: str | None) -> list[str]:
    """Return the commands of the examples in the end of a command's help."""
    lines = (line for line in (epilog or "").split("\n") if line.startswith("  "))
    return [line.strip().partition("  ")[0] for line in lines]


def examples(*lines: tuple[str, str]) -> str:
    """Return the end of a command's help: each line is a command that can be typed, and what it does."""
    width = max(len(command) for command, _ in lines)
    shown = (f"  {command:<{width}}  {effect}".rstrip() for command, effect in lines)
    return "\n".join(["\b", "Examples:", *shown, "", _ELSEWHERE])
