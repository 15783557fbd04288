"""Commands that messages advise: quoted for every shell, and begun with what starts this program here."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from integrity import program
from integrity.paths import read_word, shell_path, shell_word

HOSTILE = [
    b"/a b",
    b"/it's",
    b"-x",
    b"/-x",
    b"/new\nline",
    b"/ends in newlines\n\n",
    b"\n",
    b"/\xff'\\\x1b[31m",
    "/\u00fc".encode(),
    "/\u202e".encode(),
    b"/$(id)`id`$HOME",
    b"/!!\xff!x%s%%\\n",
    b"/\xffa1",
    b"/\x011234",
    b'/"\xff',
    b"",
]
SHELLS = [["sh"], ["dash"], ["bash"], ["bash", "--posix"], ["busybox", "sh"], ["zsh"], ["ksh"]]


def read_back(shell: list[str], word: str) -> bytes:
    """Return the argument that a program gets from a shell, which sees it in a line of a script."""
    show = "import os, sys; sys.stdout.buffer.write(os.fsencode(sys.argv[1]))"
    line = f"{shell_word(sys.executable)} -c {shell_word(show)} {word}"
    return subprocess.run([*shell, "-c", line], capture_output=True, check=True).stdout


@pytest.mark.parametrize("shell", SHELLS, ids=" ".join)
def test_quoted_words_are_read_back_by_every_shell(shell: list[str]) -> None:
    """Whatever bytes a name has, the program that is called gets exactly them."""
    if shutil.which(shell[0]) is None:
        pytest.skip(f"{shell[0]} is not installed")

    for name in HOSTILE:
        assert name == read_back(shell, shell_word(name))


@given(st.binary(max_size=40).filter(lambda name: b"\0" not in name))
def test_any_word_is_read_back_by_dash(name: bytes) -> None:
    """The quoted word is printable, stands on one line, and is the name again for sh and for us."""
    word = shell_word(name)

    assert word.isprintable()
    assert name == read_back(["dash"], word)
    assert name == read_word(word).encode("utf-8", "surrogateescape")


def test_path_is_never_an_option() -> None:
    """A name that begins with a dash is called by its folder."""
    assert "./-x" == shell_path(b"-x")
    assert b"./-\xff" == read_back(["dash"], shell_path(b"-\xff"))


def test_quoted_word_does_nothing_in_an_interactive_bash() -> None:
    """An exclamation mark would be replaced by an earlier command, even between double quotes."""
    name = b"/!!\xff!x"
    done = subprocess.run(
        ["bash", "--norc", "--noprofile"],
        input=f"set -o history -H\ntrue before\nprintf %s {shell_word(name)}\n".encode(),
        capture_output=True,
        check=True,
    )

    assert name == done.stdout


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Have the program called by its full path, in a folder with a space, that PATH does not name."""
    place = tmp_path / "a b" / "integrity"
    place.parent.mkdir()
    place.touch(mode=0o755)
    monkeypatch.setattr(sys, "argv", [str(place)])
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    program.find_program.cache_clear()
    program.repeat_options(lambda: ())
    monkeypatch.setattr(program, "find_program", program.find_program.__wrapped__)
    return place


def test_program_on_path_is_called_by_its_name(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The short form is printed where it works, also if PATH leads to it by a link."""
    (script.parents[1] / "integrity").symlink_to(script)
    monkeypatch.setenv("PATH", f"/usr/bin:{script.parents[1]}")

    assert "integrity scan /data" == program.command("scan", b"/data")


def test_program_that_is_not_on_path_is_called_by_its_place(script: Path) -> None:
    """Also if another program of the same name is there."""
    assert f"'{script}' scan FOLDER" == program.command("scan FOLDER")
    other = script.parents[1] / "integrity"
    other.write_text("#!/bin/sh\n")
    other.chmod(0o755)
    os.environ["PATH"] += f":{script.parents[1]}"

    assert f"'{script}' scan FOLDER" == program.command("scan FOLDER")
    assert f"sudo '{script}' scan '/a b'" == program.sudo_command("scan", b"/a b")


def test_stored_commands_are_spelled_when_they_are_shown(script: Path) -> None:
    """A catalog is read by other programs and from other places than it was written by; other commands stay."""
    stored = program.stored_command("scrub", b"/a b")

    assert "integrity scrub '/a b'" == stored
    assert f"'{script}' scrub '/a b'" == program.spell_command(stored)
    assert "smartctl -a /dev/DISK" == program.spell_command("smartctl -a /dev/DISK")


def test_options_are_repeated_quoted(script: Path) -> None:
    """A catalog of its own is named in every advised command."""
    program.repeat_options(lambda: ("--catalog", b"/a b/\xff.db"))
    advised = program.command("status")
    program.repeat_options(lambda: ())

    assert f"'{script}' --catalog \"$(printf '/a b/\\377.db')\" status" == advised
