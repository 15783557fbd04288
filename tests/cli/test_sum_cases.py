"""
Facts that the suites of coreutils (md5sum, cksum) and hashdeep (audits) rest on, as cases of our own.

They stand here with what they must give, so that they hold whatever version of those programs a machine has.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from support.cli import Box

EMPTY = "d41d8cd98f00b204e9800998ecf8427e"
SHA_EMPTY = hashlib.sha256(b"").hexdigest()


class Case(NamedTuple):
    """Options, files by name, the list that is checked, and what must be printed; without the program's name."""

    options: str
    files: Mapping[str, str]
    sums: str
    out: str
    err: str = ""
    code: int = 1


ONE_BAD = "WARNING: 1 line is improperly formatted"
ONE_WRONG = "WARNING: 1 computed checksum did NOT match"
NO_LINES = "sums: no properly formatted checksum lines found"

CHECKS = {
    "plain": Case("", {"f": ""}, f"{EMPTY}  f\n", "f: OK", code=0),
    "line ends of Windows": Case("", {"f": ""}, f"{EMPTY}  f\r\n", "f: OK", code=0),
    "strict and an empty line": Case("--strict", {"f": ""}, f"{EMPTY}  f\n\n", "f: OK", code=0),
    "strict and a bad line first": Case("--strict", {"f": ""}, f"ERR\n{EMPTY}  f\n", "f: OK", ONE_BAD),
    "bad line without strict": Case("", {"f": ""}, f"ERR\n{EMPTY}  f\n", "f: OK", ONE_BAD, code=0),
    "status": Case("--status", {"f": "foo"}, f"{EMPTY}  f\n", ""),
    "status of what is right": Case("--status", {"f": ""}, f"{EMPTY}  f\n", "", code=0),
    "quiet": Case("--quiet", {"f": ""}, f"{EMPTY}  f\n", "", code=0),
    "quiet and wrong": Case("--quiet", {"f": "foo"}, f"{EMPTY}  f\n", "f: FAILED", ONE_WRONG),
    "many failures": Case(
        "",
        {"f": "foo"},
        f"{EMPTY}  f\n{EMPTY}  f\ninvalid\n",
        "f: FAILED\nf: FAILED",
        f"{ONE_BAD}\nWARNING: 2 computed checksums did NOT match",
    ),
    "many failures, each told": Case(
        "--warn",
        {"f": "foo"},
        f"{EMPTY}  f\n{EMPTY}  f\ninvalid\n",
        "f: FAILED\nf: FAILED",
        f"sums: 3: improperly formatted MD5 checksum line\n{ONE_BAD}\nWARNING: 2 computed checksums did NOT match",
    ),
    "a failure between two": Case(
        "--warn", {"f": "", "g": "a"}, f"{EMPTY}  f\n{EMPTY}  g\n{EMPTY}  f\n", "f: OK\ng: FAILED\nf: OK", ONE_WRONG
    ),
    "tag of another algorithm": Case("--md5", {"f": ""}, f"SHA1 (f) = {EMPTY}\n", "", NO_LINES),
    "tag": Case("", {"f": ""}, f"MD5 (f) = {EMPTY}\n", "f: OK", code=0),
    "tag and wrong": Case("--status", {"f": "bar"}, f"MD5 (f) = {EMPTY}\n", ""),
    "openssl": Case("", {"f": ""}, f"MD5(f)= {EMPTY}\n", "f: OK", code=0),
    "openssl, another algorithm": Case("--md5", {"f": ""}, f"SHA1(f)= {EMPTY}\n", "", NO_LINES),
    "missing and ignored": Case("--ignore-missing", {"f": ""}, f"{EMPTY}  f\n{EMPTY}  gone\n", "f: OK", code=0),
    "missing first and ignored": Case(
        "--quiet --ignore-missing", {"f": ""}, f"{EMPTY}  no/f\n{EMPTY}  f\n", "", code=0
    ),
    "nothing but missing": Case("--ignore-missing", {}, f"{EMPTY}  gone\n", "", "sums: no file was verified"),
    "digest that begins with zeros": Case(
        "--ignore-missing", {"f": "9t"}, "006999e6df389641adf1fa3a74801d9d  f\n", "f: OK", code=0
    ),
    "missing": Case(
        "",
        {},
        f"{EMPTY}  gone\n",
        "gone: FAILED open or read",
        "gone: No such file or directory\nWARNING: 1 listed file could not be read",
    ),
    "tag without an end": Case("", {}, "MD5 (", "", NO_LINES),
    "NULs for digits": Case("", {"h": ""}, "\0" * 32 + "  h\n", "", NO_LINES),
    "empty list": Case("", {}, "", "", NO_LINES),
    "blank lines only": Case("", {}, "\n\n", "", NO_LINES),
    "reversed form": Case(
        "--strict",
        {"a": "", " b": "", "*c": "", " ": ""},
        f"{EMPTY} a\n{EMPTY}  b\n{EMPTY} *c\n{EMPTY}  \n",
        "a: OK\n b: OK\n*c: OK\n : OK",
        code=0,
    ),
    "header of a signature before": Case(
        "",
        {"a": "", " b": ""},
        f"____not_all_hex_so_no_match_____ blah\n{EMPTY}  a\n{EMPTY}   b\n",
        "a: OK\n b: OK",
        ONE_BAD,
        code=0,
    ),
    "blank and backslash before": Case("--strict", {"f": ""}, f" \\{EMPTY}  f\n", "f: OK", code=0),
    "blank and backslash before a tag": Case("--strict", {"f": ""}, f" \\MD5 (f) = {EMPTY}\n", "f: OK", code=0),
    "signed list": Case(
        "",
        {"f": ""},
        "-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA256\n\n# a comment\n"
        f"SHA256 (f) = {SHA_EMPTY}\n-----BEGIN PGP SIGNATURE-----\n\nSHA256+BCAAdFiEE/x\n=AWU7\n"
        "-----END PGP SIGNATURE-----\n",
        "f: OK",
        "WARNING: 6 lines are improperly formatted",
        code=0,
    ),
    "one algorithm of a mixed list": Case(
        "--sha256",
        {"f": ""},
        f"MD5 (f) = {'0' * 32}\nSHA256 (f) = {SHA_EMPTY}\n",
        "f: OK",
        ONE_BAD,
        code=0,
    ),
    "mixed list": Case("", {"f": ""}, f"MD5 (f) = {EMPTY}\nSHA256 (f) = {SHA_EMPTY}\n", "f: OK\nf: OK", code=0),
    "escaped name": Case("", {"a\nb\\c": ""}, f"\\{EMPTY}  a\\nb\\\\c\n", "\\a\\nb\\\\c: OK", code=0),
    "escapes in a tag": Case("--strict", {"t\n\\f": ""}, f"\\MD5 (t\\n\\\\f) = {EMPTY}\n", "\\t\\n\\\\f: OK", code=0),
}


def run(integrity: Box, folder: Path, *words: str) -> tuple[int, str, str]:
    """Run ``integrity sum`` in a folder; its name is taken off the messages."""
    done = integrity.run("sum", *words, cwd=folder)
    return done.code, done.stdout, re.sub(r"(?m)^integrity sum: ", "", done.stderr)


def fill(folder: Path, files: Mapping[str, str]) -> Path:
    """Make a folder with these files."""
    folder.mkdir(exist_ok=True)
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    return folder


@pytest.mark.parametrize("name", CHECKS)
def test_checks_of_coreutils(integrity: Box, tmp_path: Path, name: str) -> None:
    """What a check prints, where, and how it exits."""
    case = CHECKS[name]
    place = fill(tmp_path / "place", case.files)
    (place / "sums").write_text(case.sums, newline="")

    expected = (case.code, case.out and f"{case.out}\n", case.err and f"{case.err}\n")
    assert expected == run(integrity, place, "-c", *case.options.split(), "sums")


def test_lists_that_are_not_there_are_told_each(integrity: Box, tmp_path: Path) -> None:
    """A missing list does not keep the next one from being looked at."""
    (tmp_path / "empty").touch()
    code, out, err = run(integrity, tmp_path, "-c", "gone-1", "empty", "gone-2")

    assert (1, "") == (code, out)
    assert [
        "gone-1: No such file or directory",
        "empty: no properly formatted checksum lines found",
        "gone-2: No such file or directory",
    ] == err.splitlines()


def test_list_that_lost_the_line_that_shows_its_form(integrity: Box, tmp_path: Path) -> None:
    """In the reversed form a name may begin with a blank; where the first line is gone, it is read as the usual one."""
    fill(tmp_path, {" b": "", "b": "other"})
    (tmp_path / "sums").write_text(f"{EMPTY}  b\n")

    assert "b: FAILED\n" == run(integrity, tmp_path, "-c", "--strict", "sums")[1]


VECTORS = {
    "": EMPTY,
    "a": "0cc175b9c0f1b6a831c399e269772661",
    "abc": "900150983cd24fb0d6963f7d28e17f72",
    "message digest": "f96b697d7cb7938d525a2f31aaf161d0",
    "abcdefghijklmnopqrstuvwxyz": "c3fcd3d76192e4007dfb496cca67e13b",
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789": "d174ab98d277d9f5a5611c2c9f419d9f",
    "1234567890" * 8: "57edf4a22be3c955ac49da2e2107b67a",
}


def test_vectors_of_rfc_1321(integrity: Box, tmp_path: Path) -> None:
    """RFC 1321, appendix A.5."""
    fill(tmp_path, {f"{number}": text for number, text in enumerate(VECTORS)})

    expected = "".join(f"{digest}  {number}\n" for number, digest in enumerate(VECTORS.values()))
    assert (0, expected, "") == run(integrity, tmp_path, *(str(number) for number in range(len(VECTORS))))


class Audit(NamedTuple):
    """What is done to the tree after it was listed, and what an audit says then."""

    moves: Mapping[str, str] = {}
    writes: Mapping[str, str] = {}
    removed: tuple[str, ...] = ()
    said: Mapping[str, str] = {}


TREE = {"one": "1", "two": "2", "twin-a": "same", "twin-b": "same", "empty": "", "sub/deep": "d"}
AUDITS = {
    "nothing": Audit(),
    "renamed": Audit(moves={"one": "uno"}, said={"uno": "moved"}),
    "into a folder": Audit(moves={"one": "sub/one"}, said={"sub/one": "moved"}),
    "folder renamed": Audit(moves={"sub": "other"}, said={"other/deep": "moved"}),
    "swapped": Audit(writes={"one": "2", "two": "1"}, said={"one": "moved", "two": "moved"}),
    "changed": Audit(writes={"one": "x"}, said={"one": "new", "one (known)": "missing"}),
    "same size, other content": Audit(writes={"two": "3"}, said={"two": "new", "two (known)": "missing"}),
    "removed": Audit(removed=("one",), said={"one (known)": "missing"}),
    "one of two twins removed": Audit(removed=("twin-a",), said={"twin-a (known)": "missing"}),
    "one of two twins renamed": Audit(moves={"twin-a": "x"}, said={"x": "moved"}),
    "a further copy": Audit(writes={"three": "1"}, said={"three": "new"}),
    "a new file": Audit(writes={"three": "3"}, said={"three": "new"}),
    "a new empty file": Audit(writes={"nought": ""}, said={"nought": "new"}),
    "renamed and replaced": Audit(moves={"one": "uno"}, writes={"one": "x"}, said={"uno": "moved", "one": "new"}),
    "emptied": Audit(writes={"one": ""}, said={"one": "new", "one (known)": "missing"}),
}


@pytest.mark.parametrize("name", AUDITS)
def test_audits_of_hashdeep(integrity: Box, tmp_path: Path, name: str) -> None:
    """What an audit says of each file that is not as it was listed; it passes only if there is none."""
    case = AUDITS[name]
    place = fill(tmp_path / "place", TREE)
    (tmp_path / "known").write_text(run(integrity, place, "--hashdeep", "-r", ".")[1])
    for old, new in case.moves.items():
        (place / old).rename(place / new)
    fill(place, case.writes)
    for gone in case.removed:
        (place / gone).unlink()
    done = integrity.run("--json", "sum", "-r", "--audit", tmp_path / "known", ".", cwd=place)
    said = {}
    for one in done.of_type("audit"):
        if one["state"] != "matched":
            path = str(one["path"]).removeprefix("./")
            said[f"{path} (known)" if one["state"] == "missing" else path] = one["state"]

    assert (bool(case.said), case.said) == (bool(done.code), said)


def test_audit_of_a_list_that_is_half_right(integrity: Box, tmp_path: Path) -> None:
    """A file of which one digest is right and the other wrong is not the listed one."""
    place = fill(tmp_path / "place", {"one": "1"})
    lines = run(integrity, place, "--hashdeep", "one")[1].splitlines(keepends=True)
    size, md5, _, path = lines[-1].split(",")
    (tmp_path / "known").write_text("".join(lines[:-1]) + f"{size},{md5},{'0' * 64},{path}")
    code, out, _ = run(integrity, place, "--audit", str(tmp_path / "known"), "one")

    assert 1 == code
    assert "one: No match\n" in out
