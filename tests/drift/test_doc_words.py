"""Commands, options and keys that the documents name are those of the program."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

from integrity.cli.main import cli
from integrity.cli.session import Session
from integrity.config import load_config
from support.doc_commands import find_commands
from support.generated import DOCUMENTS, ROOT

IDS = [str(path.relative_to(ROOT)) for path in DOCUMENTS]
_ENDS = re.compile(r"\s+(?:&&|\|\||\||>|;|#).*|;.*", re.DOTALL)


def find_lines(text: str) -> list[str]:
    """Return what follows ``integrity`` in code between backticks and in commands that are not run."""
    code = [*re.findall(r"`([^`\n]+)`", text), *(one.text for one in find_commands(text) if one.why_not)]
    found = [re.split(r"(?:^|/|&& |; |\[|sudo )integrity (?=[a-z-])", line, maxsplit=1)[1:] for line in code]
    return [_ENDS.sub("", line[0]) for line in found if line]


def parse(words: list[str]) -> None:
    """Parse a command line without running it; values may be placeholders."""
    context = cli.make_context("integrity", words, obj=Session(), resilient_parsing=True)
    words, command = [*context._protected_args, *context.args], cli
    while words and isinstance(command, click.Group):
        _, found, words = command.resolve_command(context, words)
        assert found is not None
        command = found  # type: ignore[assignment]  # a group has commands of both kinds
        context = command.make_context(command.name, words, parent=context, resilient_parsing=True)
        words = [*context._protected_args, *context.args] if isinstance(command, click.Group) else []


@pytest.mark.parametrize("document", DOCUMENTS, ids=IDS)
def test_commands_and_options_exist(document: Path) -> None:
    """In running text as well as in commands that no test runs."""
    wrong = []
    for line in find_lines(document.read_text(encoding="utf-8")):
        try:
            parse(shlex.split(line))
        except click.ClickException as error:
            wrong.append(f"integrity {line}: {error.format_message()}")

    assert [] == wrong


@pytest.mark.parametrize("document", DOCUMENTS, ids=IDS)
def test_configurations_can_be_loaded(document: Path, tmp_path: Path) -> None:
    """Each block of TOML is a configuration without errors."""
    for block in re.findall(r"^```toml\n(.*?)^```$", document.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL):
        (tmp_path / "integrity.toml").write_text(block, encoding="utf-8")
        load_config(bytes(tmp_path / "integrity.toml"))
