"""
``integrity sum`` against the programs that it stands in for, on names that break them, in both directions.

What the others can't do is written down where it is left out: their ways with odd names are part of what is promised.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from integrity.cli.sum_run import quote_name
from support import AnyPath
from support.cli import Box
from support.machine import need_programs
from support.nastytree import NAMES

MORE = [
    b"\\",
    b"a\\nb",
    b"cr\rwithin",
    b"cr at end\r",
    b"*star",
    b" *",
    b"(a) = b",
    b"a offset 0-9",
    b"5,a",
    b"# no comment",
]
ALL = sorted({*NAMES, *MORE})

PLAIN = [name for name in ALL if not {*b"\n\r\\"} & {*name}]
"""Names that need no escapes."""

UTF8 = [name for name in ALL if name.decode("utf-8", "ignore").encode() == name]
"""Names that are text: b3sum replaces what is not."""


@pytest.fixture
def place(tmp_path: Path) -> bytes:
    """Make a folder with files of all these names."""
    folder = bytes(tmp_path / "place")
    os.mkdir(folder)
    for number, name in enumerate(ALL):
        with open(os.path.join(folder, name), "wb") as file:
            file.write(b"%d" % number * number * 100)
    return folder


class Runner:
    """Runs programs in one folder, each in the C.UTF-8 locale."""

    def __init__(self, box: Box, folder: bytes) -> None:
        self._box, self._folder = box, folder
        self._environment = box.environment | {"LC_ALL": "C.UTF-8"}

    def call(self, *command: AnyPath) -> tuple[int, bytes, bytes]:
        """Run a program; return code, output, errors."""
        done = subprocess.run(command, env=self._environment, cwd=self._folder, capture_output=True, timeout=60)
        return done.returncode, done.stdout, done.stderr

    def sum(self, *words: AnyPath) -> tuple[int, bytes, bytes]:
        """Run integrity sum; its name in messages is that of md5sum."""
        done = self._box.run("sum", *words, cwd=self._folder)
        out, err = (text.encode("utf-8", "surrogateescape") for text in (done.stdout, done.stderr))
        return done.code, out, re.sub(rb"^integrity sum: ", b"md5sum: ", err, flags=re.MULTILINE)


@pytest.fixture
def runner(integrity: Box, place: bytes) -> Runner:
    """Run programs in that folder."""
    return Runner(integrity, place)


def write_list(folder: bytes, data: bytes) -> bytes:
    """Keep digests beside the folder."""
    path = folder + b".sums"
    with open(path, "wb") as file:
        file.write(data)
    return path


def is_9_1(runner: Runner) -> bool:
    """Tell whether coreutils are those of Debian 12: later ones escape more in what a check prints."""
    return b"coreutils) 9.1\n" in runner.call("md5sum", "--version")[1]


@pytest.mark.parametrize("words", [[], ["--tag"], ["-z"], ["-z", "--tag"], ["-b"]], ids=" ".join)
@pytest.mark.parametrize("name", ["md5", "sha1", "sha256", "sha512"])
def test_coreutils_print_the_same(runner: Runner, name: str, words: Sequence[str]) -> None:
    """Byte for byte, whatever the names are."""
    assert runner.call(f"{name}sum", *words, "--", *ALL) == runner.sum(f"--{name}", *words, "--", *ALL)


def test_coreutils_check_ours_and_we_theirs(runner: Runner, place: bytes) -> None:
    """The same lines, messages and exit codes; with damage, missing files and lines that are none."""
    names = ALL if is_9_1(runner) else PLAIN
    for words in ([], ["--tag"]):
        path = write_list(place, runner.sum(*words, "--", *ALL)[1])
        assert (0, b"") == runner.call("md5sum", "-c", "--quiet", "--strict", path)[:2]
        path = write_list(place, runner.sum(*words, "--", *names)[1])
        assert runner.call("md5sum", "-c", path) == runner.sum("-c", path)
    os.unlink(os.path.join(place, names[1]))
    for name in names[5:7]:
        with open(os.path.join(place, name), "ab") as file:
            file.write(b"x")
    with open(path, "ab") as file:
        file.write(b"bad\n\n# comment\nbad too\n \n")
    for words in ([], ["--quiet"], ["--status"], ["-w"], ["--strict"], ["--ignore-missing"], ["-w", "--quiet"]):
        expected = runner.call("md5sum", "-c", *words, path)

        assert expected[0] == 1
        assert expected == runner.sum("-c", "--md5", *words, path)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"bad\n",
        b"d41d8cd98f00b204e9800998ecf8427e  gone\n",
        b"D41D8CD98F00B204E9800998ECF8427E *gone\r\n",
        b"d41d8cd98f00b204e9800998ecf8427e gone\nd41d8cd98f00b204e9800998ecf8427e  gone\n",
        b"d41d8cd98f00b204e9800998ecf8427e  gone\nd41d8cd98f00b204e9800998ecf8427e gone\n",
        b"\\d41d8cd98f00b204e9800998ecf8427e  g\\\\o\\nn\\re\n",
        b"\\d41d8cd98f00b204e9800998ecf8427e  g\\one\n",
        b"\td41d8cd98f00b204e9800998ecf8427e  gone",
        b"d41d8cd98f00b204e9800998ecf8427e \t gone\n",
        b"d41d8cd98f00b204e9800998ecf8427e  \n",
        b"d41d8cd98f00b204e9800998ecf8427e \n",
        b"MD5 (gone) = d41d8cd98f00b204e9800998ecf8427e\n",
        b"MD5(gone)= d41d8cd98f00b204e9800998ecf8427e\n",
        b"MD5 (gone)\t=\td41d8cd98f00b204e9800998ecf8427e\n",
        b"MD5 (gone) = d41d8cd98f00b204e9800998ecf8427e \n",
        b"MD5 (g) (one) = x) = d41d8cd98f00b204e9800998ecf8427e\n",
        b"\\MD5 (g\\none) = d41d8cd98f00b204e9800998ecf8427e\n",
        b"SHA1 (gone) = da39a3ee5e6b4b0d3255bfef95601890afd80709\n",
        b"d41d8cd98f00b204e9800998ecf8427  gone\n",
        b"d41d8cd98f00b204e9800998ecf8427ee  gone\n",
        b"#d41d8cd98f00b204e9800998ecf8427e  gone\n #x\n",
    ],
)
def test_md5sum_understands_a_line_as_we_do(runner: Runner, place: bytes, data: bytes) -> None:
    """What is an entry, what its name is, and what is said of it."""
    path = write_list(place, data)

    assert runner.call("md5sum", "-c", "-w", path) == runner.sum("-c", "-w", "--md5", path)


def test_messages_quote_names_as_coreutils_do(runner: Runner) -> None:
    """So that nothing that reads those of md5sum is led astray."""
    chars = [bytes([number]) for number in range(1, 128) if number != ord("/")]
    names = (
        [char for char in chars if char != b"-"]
        + [b"x" + char for char in chars]
        + [char + b"x" for char in chars[:44]]
    )
    names += [
        b"it's",
        b"it's $x",
        b"a'b\nc",
        b"\n'",
        b"'\n\n'x",
        "é ü".encode(),
        "é's".encode(),
        b"\xff",
        b"x\xc3",
        b"''",
        b"x'#~",
    ]
    names = [b"no/" + name for name in names] + [name for name in names if name[:1] not in b"-." and name not in ALL]
    _, _, errors = runner.call("md5sum", "--", *names)

    expected = [text.removeprefix("md5sum: ") for text in errors.decode("utf-8").splitlines()]
    assert expected == [f"{quote_name(name)}: No such file or directory" for name in names]


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        (["-H1"], ["--xxh64"]),
        (["-H2"], ["--xxh128"]),
        (["-H1", "--tag"], ["--xxh64", "--tag"]),
        (["-H2", "--tag"], ["--xxh128", "--tag"]),
        (["-H3", "--tag"], ["--xxh3"]),
    ],
)
def test_xxhsum(runner: Runner, place: bytes, theirs: list[str], ours: list[str]) -> None:
    """
    The same for all names without an end of line or a backslash, and each reads the other's.

    Version 0.8.1 knows no escapes at all: it writes such names as they are and can't read them escaped.
    """
    need_programs("xxhsum")
    code, out, _ = runner.call("xxhsum", *theirs, "--", *PLAIN)

    assert (code, out.rpartition(b"\r")[2]) == runner.sum(*ours, "--", *PLAIN)[:2]
    path = write_list(place, runner.sum(*ours, "--", *PLAIN)[1])
    assert 0 == runner.call("xxhsum", "-q", "-c", path)[0]
    path = write_list(place, out.rpartition(b"\r")[2])
    assert (0, b"", b"") == runner.sum("-c", "--quiet", *[word for word in ours if word != "--tag"], path)


def test_b3sum(runner: Runner, place: bytes) -> None:
    """
    The same for all names that are text and have no carriage return, and each reads the other's.

    Version 1.2.0 writes a carriage return as it is, and what is not UTF-8 as something else.
    """
    need_programs("b3sum")
    names = [name for name in UTF8 if b"\r" not in name]
    out = runner.call("b3sum", "--", *names)

    assert out == runner.sum("--blake3", "--", *names)
    path = write_list(place, out[1])
    assert 0 == runner.call("b3sum", "-c", "--quiet", path)[0]
    assert (0, b"", b"") == runner.sum("--blake3", "-c", "--quiet", path)


def test_hashdeep_audits_ours_and_we_theirs(runner: Runner, place: bytes) -> None:
    """
    Of all names without an end of line and a comma, in both directions; paths whole or relative.

    hashdeep takes what stands behind the last comma for the name.
    """
    need_programs("hashdeep")
    lost = [name for name in ALL if {*b"\n\r,"} & {*name}]
    theirs = runner.call("hashdeep", "-r", "-l", ".")[1]
    whole = runner.call("hashdeep", "-r", place)[1]
    for name in lost:
        os.unlink(os.path.join(place, name))
    path = write_list(place, runner.sum("--hashdeep", "-r", ".")[1])
    assert 0 == runner.call("hashdeep", "-r", "-l", "-a", "-k", path, ".")[0]
    for data in (runner.call("hashdeep", "-r", "-l", ".")[1], runner.call("hashdeep", "-r", place)[1]):
        path = write_list(place, data)
        code, out, _ = runner.sum("-r", "--audit", path, ".")
        assert (0, b"integrity sum: Audit passed") == (code, out.splitlines()[0])
    for data in (theirs, whole):
        path = write_list(place, data)
        code, out, _ = runner.sum("-r", "--audit", path, ".")
        assert code == 1
        assert b"New files found: 0\n" in out  # names with a comma are read; those with an end of line were lost before


def test_md5deep(runner: Runner, place: bytes) -> None:
    """The same digests and pieces, in another order; the same files match."""
    need_programs("md5deep")
    names = [name for name in PLAIN if not name.startswith(b"-")]
    for words in ([], ["-p", "512"]):
        ours = ["--piecewise", "512"] if words else []

        theirs = runner.call("md5deep", "-l", *words, *names)[1].splitlines()
        assert sorted(theirs) == sorted(runner.sum(*ours, *names)[1].splitlines())
    known = write_list(place, runner.call("md5sum", *names[:7])[1])
    for theirs_option, option in (("-m", "--match"), ("-x", "--not-match")):
        expected = runner.call("md5deep", "-l", theirs_option, known, *names)[1].splitlines()

        assert expected
        assert sorted(expected) == sorted(runner.sum(option, known, *names)[1].splitlines())


def test_recursive_is_find_and_sort_and_md5sum(runner: Runner, place: bytes) -> None:
    """What people have typed so far gives the same."""
    os.mkdir(os.path.join(place, b"sub"))
    os.rename(os.path.join(place, ALL[3]), os.path.join(place, b"sub", ALL[3]))
    os.symlink("sub", os.path.join(place, b"link"))
    typed = "find . -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum --"

    assert runner.call("sh", "-c", typed) == runner.sum("-r", ".")
