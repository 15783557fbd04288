"""The manual: man pages made from help and configuration, and the pages that findings name."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import click
import pytest

from integrity.cli.exitcodes import TABLE
from integrity.cli.main import cli
from integrity.config.sample import sample
from integrity.kinds import TABLE as KINDS
from support.cli import Box
from support.machine import need_programs

NAMES = [*cli.list_commands(click.Context(cli))]
UNKNOWN_PAGE = 2


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with all man pages."""
    folder = tmp_path_factory.mktemp("manual")
    Box(folder / "home").run("manual", "--man-pages", folder / "man", expect=0)
    return folder / "man"


def read(page: Path) -> str:
    """Return a man page as a reader sees it, on one line and without double blanks."""
    done = subprocess.run(["mandoc", "-T", "utf8", "-O", "width=1000", page], capture_output=True, check=True)
    return " ".join(re.sub("\N{BACKSPACE}", "", re.sub(".\N{BACKSPACE}", "", done.stdout.decode())).split())


def find_page(pages: Path, name: str) -> Path:
    (page,) = pages.glob(f"man?/integrity-{name}.[18]")
    return page


def find_commands(name: str) -> list[click.Command]:
    """Return a command, and those in it."""
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    return [command, *getattr(command, "commands", {}).values()]


def test_there_is_a_page_for_each_command(pages: Path) -> None:
    """As well as one for the program, the configuration and the service."""
    expected = {f"integrity-{name}.{8 if name == 'daemon' else 1}" for name in NAMES}

    assert expected | {"integrity.1", "integrity.toml.5"} == {page.name for page in pages.glob("man?/*")}


def test_mandoc_finds_nothing_wrong(pages: Path) -> None:
    """Neither errors nor style."""
    need_programs("mandoc")
    done = subprocess.run(["mandoc", "-T", "lint", *pages.glob("man?/*")], capture_output=True, text=True, check=False)

    assert done.stdout == ""


def test_groff_warns_of_nothing(pages: Path) -> None:
    """What `man` uses on Debian."""
    need_programs("man", "groff")
    done = subprocess.run(
        ["man", "--warnings", "-E", "UTF-8", "-l", *pages.glob("man?/*")], capture_output=True, text=True, check=True
    )

    assert done.stderr == ""


@pytest.mark.parametrize("name", NAMES)
def test_page_has_every_option(name: str, pages: Path) -> None:
    """Those of the commands in a group as well, each with its explanation."""
    need_programs("mandoc")
    text = read(find_page(pages, name))

    for command in find_commands(name):
        assert f"integrity {name}" in text
        for option in command.params:
            if isinstance(option, click.Option) and not option.hidden:
                assert all(word in text for word in option.opts), option.opts
                assert " ".join((option.help or "").replace("`", "").split()) in text


def test_page_of_the_program_has_global_options_exit_codes_and_variables(pages: Path) -> None:
    """Nothing of it is written down a second time, so nothing can be missing."""
    need_programs("mandoc")
    text = read(pages / "man1/integrity.1")

    assert [] == [name for name in NAMES if f"integrity-{name}(" not in text]
    assert [] == [option.opts for option in cli.params if not all(word in text for word in option.opts)]
    assert [] == [option.envvar for option in cli.params if str(option.envvar or "") not in text]
    assert [] == [code for code, meaning in TABLE if f"{code.value} {meaning}" not in text]


def test_page_of_the_configuration_has_every_key(pages: Path) -> None:
    """Every key of the sample, and every table."""
    need_programs("mandoc")
    text = read(pages / "man5/integrity.toml.5")
    keys = re.findall(r"^(?:# )?([a-z_]+) = ", sample(), re.MULTILINE)
    tables = re.findall(r"^(?:# )?(\[+[a-z_]+\]+)", sample(), re.MULTILINE)

    assert len(keys) > 20
    assert [] == [key for key in keys if f"{key} = " not in text]
    assert [] == [table for table in tables if table not in text]


def test_each_kind_of_finding_has_a_page(integrity: Box) -> None:
    """A finding names its page: it is there, and begins with the words that people know."""
    for entry in KINDS:
        text = integrity.run("manual", entry.kind.value, expect=0).stdout

        assert text.startswith(f"# {entry.headline}\n")


def test_findings_name_their_page(integrity: Box, tmp_path: Path) -> None:
    """Where they are found, where they are explained, and in the list if more is asked for."""
    (tmp_path / "archive").mkdir()
    file = tmp_path / "archive/letter.txt"
    for path in (file, file.with_name("other.txt")):
        path.write_text("content")
    integrity.configure(f'[[root]]\npath = "{tmp_path}/archive"\npolicy = "archive"\n')
    integrity.run("scan", expect=0)
    file.unlink()

    assert "integrity manual missing" in integrity.run("scan", expect=1).stdout
    assert "integrity manual missing" in integrity.run("explain", file, expect=1).stdout
    assert "integrity manual missing" in integrity.run("-v", "findings", expect=1).stdout
    assert "integrity manual" not in integrity.run("findings", expect=1).stdout


def test_pages_are_listed_with_titles(integrity: Box) -> None:
    """Without a topic."""
    lines = integrity.run("manual", expect=0).stdout.splitlines()

    assert "rot" in [line.split()[0] for line in lines]
    assert all(len(line.split()) > 1 for line in lines)


def test_pages_are_plain_text(integrity: Box) -> None:
    """No comments, no fences, no targets of links: they are read in a terminal."""
    names = [line.split()[0] for line in integrity.run("manual", expect=0).stdout.splitlines()]
    text = integrity.run("manual", *names, expect=0).stdout

    assert [] == [mark for mark in ("<!--", "```", ".md)", "\n\n\n") if mark in text]
    assert set() == set(re.findall(r"\(integrity manual ([\w-]+)\)", text)) - set(names)


def test_unknown_page_is_named(integrity: Box) -> None:
    """With the command that lists them all."""
    done = integrity.run("manual", "rust", expect=UNKNOWN_PAGE)

    assert "there is no page rust; all pages:  integrity manual" in done.stderr


def test_page_as_json(integrity: Box) -> None:
    """An object for each page."""
    (page,) = integrity.run("--json", "manual", "gate", expect=0).of_type("page")

    assert "gate" == page["topic"]


def test_folder_that_can_not_be_written(integrity: Box, tmp_path: Path) -> None:
    """Exit code 2, and the reason."""
    (tmp_path / "file").touch()
    done = integrity.run("manual", "--man-pages", tmp_path / "file", expect=UNKNOWN_PAGE)

    assert "can't write the man pages" in done.stderr
