"""What README and manual show is run as it is written, page by page, with the real programs."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.doc_commands import DocCommand, DocSandbox, find_commands
from support.generated import DOCUMENTS, ROOT
from support.machine import need_programs

PROGRAMS = ("restic", "borg", "borgmatic", "rclone", "snapraid", "bash", "sqlite3", "rsync")
COMMANDS = {path: list(find_commands(path.read_text(encoding="utf-8"))) for path in sorted(DOCUMENTS)}
MOST_NOT_RUN = 45


@pytest.mark.root
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "document",
    [path for path, commands in COMMANDS.items() if any(not one.why_not for one in commands)],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_commands_end_as_the_document_says(document: Path, tmp_path: Path) -> None:
    """Each command of a page, in order, on a machine with photos and a backup of them."""
    commands = [command for command in COMMANDS[document] if not command.why_not]
    words = {word for command in commands for word in command.text.split()}
    need_programs(*(program for program in PROGRAMS if program in words))

    assert [] == DocSandbox(tmp_path).run(commands)


def test_few_commands_are_not_run() -> None:
    """Each with the reason."""
    left_out = [command for commands in COMMANDS.values() for command in commands if command.why_not]

    assert len(left_out) <= MOST_NOT_RUN
    assert sum(len(commands) for commands in COMMANDS.values()) > 3 * len(left_out)


def test_commands_are_found() -> None:
    """Prompts, continued lines, scripts, hidden commands, and what is said of a block."""
    document = """
<!-- setup: mkdir x -->
<!-- exits: 1 -->
```console
$ ls x
y
# cat x/y |
  wc
```

    $ indented
    output

<!-- not run: needs a network -->
```sh
first
second
```
```toml
# no command
```
"""

    assert [
        DocCommand(4, "mkdir x"),
        DocCommand(4, "ls x"),
        DocCommand(4, "cat x/y |\n  wc", 1),
        DocCommand(11, "indented"),
        DocCommand(15, "first\nsecond", why_not="needs a network"),
    ] == list(find_commands(document))
