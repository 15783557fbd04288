"""What help says: examples that can be typed, and answers to what a new user asks."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest

from integrity.cli.main import COMMANDS, cli
from integrity.cli.params import TASKS, find_examples, make_options
from integrity.cli.session import Session
from support.cli import Box, make_environment


def find_all(command: click.Command, words: tuple[str, ...]) -> list[tuple[tuple[str, ...], click.Command]]:
    """Return a command and its subcommands."""
    inner = command.commands.items() if isinstance(command, click.Group) else ()
    return [(words, command), *(found for name, one in inner for found in find_all(one, (*words, name)))]


def load_all() -> dict[tuple[str, ...], click.Command]:
    """Load every command as the program does."""
    context = cli.make_context("integrity", ["scan"], resilient_parsing=True)
    loaded = {name: cli.get_command(context, name) for name in COMMANDS}
    return dict(found for name, command in loaded.items() if command for found in find_all(command, (name,)))


LOADED = load_all()


def parse(line: str) -> None:
    """Have click parse the integrity of a line; it raises what the user would see."""
    words = shlex.split(line)
    ends = [words.index(word) for word in ("<", ">", "&&") if word in words]
    words = words[: min(ends, default=len(words))]
    assert "integrity" == words.pop(0)
    context = cli.make_context("integrity", list(words), obj=Session())
    depth = max(count for count in (1, 2) if len(words) >= count and tuple(words[:count]) in LOADED)
    LOADED[tuple(words[:depth])].make_context(words[depth - 1], words[depth:], parent=context)


def test_every_command_takes_every_global_option() -> None:
    """One mechanism for all; only `sum --quiet` is the option of md5sum."""
    names = {name for option in make_options() for name in option.opts}
    missing = {
        (*words, name)
        for words, command in LOADED.items()
        for name in names - {name for one in command.params for name in one.opts}
    }

    assert {("sum", "-q")} == missing


def test_every_option_is_explained() -> None:
    """No option without help text."""
    options = [(words, one) for words, command in LOADED.items() for one in command.params]

    assert [] == [(words, one.opts) for words, one in options if isinstance(one, click.Option) and not one.help]


def test_help_lists_global_options_once(integrity: Box) -> None:
    """They stand in the help of the program; that of a command says where."""
    assert "--catalog" in integrity.run("--help", expect=0).stdout
    text = integrity.run("scan", "--help", expect=0).stdout

    assert "--catalog" not in text
    assert "integrity --help" in text


@pytest.mark.parametrize("words", LOADED, ids=" ".join)
def test_examples_can_be_typed(words: tuple[str, ...]) -> None:
    """Each help has two or three, which the program understands, and the first is about the command itself."""
    examples = find_examples(LOADED[words].epilog)

    assert 2 <= len(examples) <= 3
    assert " ".join(("integrity", *words)) in " ".join(examples)
    for example in examples:
        parse(example)


@pytest.mark.parametrize("words", LOADED, ids=" ".join)
def test_help_fits_on_a_screen(words: tuple[str, ...], integrity: Box) -> None:
    """No line is longer than 120 characters, and examples are not joined by wrapping."""
    text = integrity.run(*words, "--help", expect=0).stdout

    assert max(map(len, text.splitlines())) <= 120
    assert "on your PATH" not in text  # where it is
    for example in find_examples(LOADED[words].epilog):
        assert f"    {example}" in text


def test_tasks_name_commands_that_exist() -> None:
    """What the program's help answers with can be typed."""
    for _, line in TASKS:
        assert line.split(" ")[1] in COMMANDS


def test_help_says_how_to_call_a_program_that_is_not_on_path(tmp_path: Path) -> None:
    """The commands of help begin with the plain name."""
    place = Path(sys.executable).parent / "integrity"
    environment = make_environment(tmp_path) | {"PATH": "/usr/bin:/bin"}
    done = subprocess.run([place, "--help"], env=environment, capture_output=True, text=True, check=True)

    assert f"\nNot on your PATH; for integrity type: {place}\n" in done.stdout


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["ack"], "integrity: for example: integrity ack 12"),
        (["mute", "1"], "integrity: for example: integrity mute 12 --until 2w"),
        (["ack", "x"], "'x' is not a finding number; `findings` lists them"),
        (["compare"], "integrity: for example: integrity compare /srv/photos --with /mnt/backup/photos"),
    ],
)
def test_usage_error_says_what_to_type(words: list[str], expected: str, integrity: Box) -> None:
    """An example that works is worth more than the name of what is missing."""
    assert expected in integrity.run(*words, expect=2).stderr
