"""Global options behind the command, and their place in the commands that are advised."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from integrity.cli.params import list_repeated
from integrity.cli.session import Session
from integrity.config import default_catalog_path
from support.cli import Box, make_environment
from support.planted import plant_path


def test_json_may_stand_anywhere(integrity: Box, root: Path) -> None:
    """All output is objects, wherever the option stands."""
    integrity.run("scan", root, expect=0)

    for words in (
        *("--json catalog stats", "catalog --json stats", "catalog stats --json"),
        *("status --json", "--json root list --json"),
    ):
        assert integrity.run(*words.split(), expect=0).objects


@pytest.mark.files(1)
def test_catalog_behind_the_command_is_used(integrity: Box, root: Path, tmp_path: Path) -> None:
    """It wins over the environment, as it does before the command."""
    other = tmp_path / "other.db"
    done = integrity.run("scan", root, "--catalog", other, expect=0)

    assert other.exists()
    assert not integrity.catalog.exists()
    assert f"next: integrity --catalog {other} scrub" in done.stdout


def test_options_behind_two_dashes_are_names(integrity: Box, tmp_path: Path) -> None:
    """Behind `--` nothing is an option."""
    (tmp_path / "data/-q").mkdir(parents=True)
    done = integrity.run("scan", "--", "-q", cwd=tmp_path / "data", expect=0)

    assert "scan: all is well" in done.stdout
    assert f"{tmp_path}/data/-q" in integrity.run("root", "list", expect=0).stdout


@pytest.mark.files(1, is_recorded=True)
def test_value_of_an_option_is_no_option(integrity: Box, root: Path) -> None:
    """A reason may look like a global option."""
    assert "accepted" in integrity.run("accept", plant_path(root, 0), "--reason", "-q", expect=0).stdout


def test_two_catalogs_are_refused(integrity: Box) -> None:
    """One before and another one behind the command leave open which is meant."""
    done = integrity.run("--catalog", "/a.db", "status", "--catalog", "/b.db", expect=2)

    assert "--catalog: given twice, with different values" in done.stderr


def test_quiet_and_verbose_behind_the_command(integrity: Box, root: Path) -> None:
    """-q prints nothing while all is well; -v lists what is left out."""
    (root / "@eaDir").mkdir()

    assert "" == integrity.run("scan", root, "-q", expect=0).stdout
    assert "@eaDir" in integrity.run("scan", root, "-v", expect=0).stdout


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


@pytest.mark.parametrize("catalog", ["c d.db", "home/catalog.db"])
def test_printed_command_can_be_run_as_it_stands(tmp_path: Path, catalog: str) -> None:
    """Not on PATH, with a catalog that was named or of the environment: what is printed is typed into sh, and works."""
    data = tmp_path / "a b"
    data.mkdir()
    (data / "file").write_bytes(b"content")
    named = ["--catalog", str(tmp_path / catalog)] if " " in catalog else []
    printed = run_by_path(tmp_path / "home", "scan", *named, str(data))
    advised = printed.partition("next: ")[2].strip()
    done = subprocess.run(
        ["dash", "-c", advised], env={"PATH": "/usr/bin:/bin"}, cwd="/", capture_output=True, text=True
    )

    own = shlex.join(["--config", f"{tmp_path}/home/integrity.toml", "--catalog", f"{tmp_path}/{catalog}"])
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
