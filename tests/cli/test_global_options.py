"""Global options behind the command, and their place in the commands that are advised."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import click
import pytest

from integrity.cli.global_options import list_repeated, make_options
from integrity.cli.main import COMMANDS, cli
from integrity.cli.session import Session
from integrity.config import default_catalog_path
from support.cli import Box, make_environment


def find_all(command: click.Command, words: tuple[str, ...]) -> list[tuple[tuple[str, ...], click.Command]]:
    """Return a command and its subcommands."""
    inner = command.commands.items() if isinstance(command, click.Group) else ()
    return [(words, command), *(found for name, one in inner for found in find_all(one, (*words, name)))]


def load_all() -> list[tuple[tuple[str, ...], click.Command]]:
    """Load every command as the program does."""
    context = cli.make_context("integrity", ["scan"], resilient_parsing=True)
    loaded = [(name, cli.get_command(context, name)) for name in COMMANDS]
    return [found for name, command in loaded if command is not None for found in find_all(command, (name,))]


def test_every_command_takes_every_global_option() -> None:
    """One mechanism for all; only `sum --quiet` is the option of md5sum."""
    names = {name for option in make_options() for name in option.opts}
    missing = {
        (*words, name)
        for words, command in load_all()
        for name in names - {name for one in command.params for name in one.opts}
    }

    assert {("sum", "-q")} == missing


def test_help_lists_global_options_once(integrity: Box) -> None:
    """They stand in the help of the program; that of a command says where."""
    assert "--catalog" in integrity.run("--help", expect=0).stdout
    text = integrity.run("scan", "--help", expect=0).stdout

    assert "--catalog" not in text
    assert "integrity --help" in text


@pytest.mark.parametrize(
    "words",
    [
        ["--json", "catalog", "stats"],
        ["catalog", "--json", "stats"],
        ["catalog", "stats", "--json"],
        ["status", "--json"],
        ["--json", "root", "list", "--json"],
    ],
)
def test_json_may_stand_anywhere(words: list[str], integrity: Box, tmp_path: Path) -> None:
    """All output is objects, wherever the option stands."""
    (tmp_path / "data").mkdir()
    integrity.run("scan", tmp_path / "data", expect=0)

    assert integrity.run(*words, expect=0).objects


def test_catalog_behind_the_command_is_used(integrity: Box, tmp_path: Path) -> None:
    """It wins over the environment, as it does before the command."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data/a").touch()
    other = tmp_path / "other.db"
    done = integrity.run("scan", tmp_path / "data", "--catalog", other, expect=0)

    assert other.exists()
    assert not integrity.catalog.exists()
    assert f"next: integrity --catalog {other} scrub" in done.stdout


def test_options_behind_two_dashes_are_names(integrity: Box, tmp_path: Path) -> None:
    """Behind `--` nothing is an option."""
    (tmp_path / "data/-q").mkdir(parents=True)
    done = integrity.run("scan", "--", "-q", cwd=tmp_path / "data", expect=0)

    assert "scan: all is well" in done.stdout
    assert f"{tmp_path}/data/-q" in integrity.run("root", "list", expect=0).stdout


def test_value_of_an_option_is_no_option(integrity: Box, tmp_path: Path) -> None:
    """A reason may look like a global option."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data/a").touch()
    integrity.run("scan", tmp_path / "data", expect=0)
    done = integrity.run("accept", tmp_path / "data/a", "--reason", "-q", expect=0)

    assert "accepted" in done.stdout


def test_two_catalogs_are_refused(integrity: Box) -> None:
    """One before and another one behind the command leave open which is meant."""
    done = integrity.run("--catalog", "/a.db", "status", "--catalog", "/b.db", expect=2)

    assert "--catalog: given twice, with different values" in done.stderr


def test_quiet_and_verbose_behind_the_command(integrity: Box, tmp_path: Path) -> None:
    """-q prints nothing while all is well; -v lists what is left out."""
    (tmp_path / "data/@eaDir").mkdir(parents=True)

    assert "" == integrity.run("scan", tmp_path / "data", "-q", expect=0).stdout
    assert "@eaDir" in integrity.run("scan", tmp_path / "data", "-v", expect=0).stdout


def test_error_is_an_object_whatever_is_wrong(integrity: Box) -> None:
    """An option behind a mistake counts as well."""
    (error,) = integrity.run("scan", "--nonsense", "--json", expect=2).objects

    assert "No such option" in str(error["message"])


def test_option_of_a_command_wins(integrity: Box) -> None:
    """`sum --quiet` is that of md5sum; the global one then stands before the command."""
    done = integrity.run("sum", "-q", "x", expect=2)

    assert "-q stands before the command: integrity -q sum ..." in done.stderr


def run_by_path(home: Path, *words: str, path: str = "/usr/bin:/bin") -> str:
    """Run the installed command by its full path and return what it printed."""
    program = Path(sys.executable).parent / "integrity"
    environment = make_environment(home) | {"PATH": path}
    done = subprocess.run([program, *words], env=environment, capture_output=True, text=True)
    return done.stdout + done.stderr


def test_printed_command_can_be_run_as_it_stands(tmp_path: Path) -> None:
    """Not on PATH, with a catalog of its own: what is printed is typed into sh, and works."""
    data = tmp_path / "a b"
    data.mkdir()
    (data / "file").write_bytes(b"content")
    printed = run_by_path(tmp_path / "home", "scan", "--catalog", str(tmp_path / "c d.db"), str(data))
    advised = printed.partition("next: ")[2].strip()
    done = subprocess.run(
        ["dash", "-c", advised], env={"PATH": "/usr/bin:/bin"}, cwd="/", capture_output=True, text=True
    )

    own = f"--config {tmp_path}/home/integrity.toml --catalog '{tmp_path}/c d.db'"
    assert f"{Path(sys.executable).parent / 'integrity'} {own} scrub" == advised
    assert (0, "") == (done.returncode, done.stderr)
    assert "1 verified" in done.stdout


def test_options_of_the_environment_are_repeated(tmp_path: Path) -> None:
    """A command that is copied into a shell without these variables is about the same catalog."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data/file").write_bytes(b"content")
    printed = run_by_path(tmp_path / "home", "scan", str(tmp_path / "data"))
    advised = printed.partition("next: ")[2].strip()
    done = subprocess.run(["dash", "-c", advised], env={"PATH": "/usr/bin:/bin"}, capture_output=True, text=True)

    own = f"--config {tmp_path}/home/integrity.toml --catalog {tmp_path}/home/catalog.db"
    assert f"{Path(sys.executable).parent / 'integrity'} {own} scrub" == advised
    assert (0, "") == (done.returncode, done.stderr)
    assert "1 verified" in done.stdout


def test_typed_default_is_repeated_where_the_environment_has_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next command of the same shell would be about the other one."""
    usual = default_catalog_path()
    monkeypatch.delenv("INTEGRITY_CATALOG", raising=False)
    assert [] == list(list_repeated(Session(catalog_option=usual)))
    monkeypatch.setenv("INTEGRITY_CATALOG", "/other.db")
    assert ["--catalog", usual] == list(list_repeated(Session(catalog_option=usual)))


def test_usage_errors_name_the_program_that_works(tmp_path: Path) -> None:
    """Also the hint to help."""
    assert f"try: {Path(sys.executable).parent}/integrity scan --help" in run_by_path(tmp_path, "scan", "--nonsense")
    assert "try: integrity scan --help" in run_by_path(
        tmp_path, "scan", "--nonsense", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    )
