"""``integrity sum``: forms, modes, exit codes, and what it does without."""

from __future__ import annotations

import base64
import hashlib
import os
import signal
import subprocess
import sys
import unicodedata
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
import xxhash
from blake3 import blake3

from support import AnyPath
from support.cli import Box, make_command
from support.programs import sh
from support.warmstart import get_warm_start

EMPTY = "d41d8cd98f00b204e9800998ecf8427e"
ABC = hashlib.md5(b"abc").hexdigest()


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Make some files."""
    folder = tmp_path / "tree"
    (folder / "sub").mkdir(parents=True)
    for name, data in (("a", b"abc"), ("empty", b""), ("sub/b", b"xyz" * 5), ("new\nline", b"abc")):
        (folder / name).write_bytes(data)
    return folder


def run(box: Box, folder: Path, *words: AnyPath, stdin: bytes = b"") -> tuple[int, bytes, bytes]:
    """Run ``integrity sum`` in a folder; bytes in, bytes out."""
    if not stdin:
        done = box.run("sum", *words, cwd=folder)
        out, err = (text.encode("utf-8", "surrogateescape") for text in (done.stdout, done.stderr))
        return done.code, out, err
    return get_warm_start().run(["sum", *words], box.environment, folder, timeout_s=60, stdin=stdin)


def test_default_is_what_md5sum_prints(integrity: Box, tree: Path) -> None:
    """In the order of the arguments, standard input among them; names are escaped."""
    expected = f"{EMPTY}  empty\n{ABC}  -\n\\{ABC}  new\\nline\n{ABC}  a\n".encode()

    assert (0, expected, b"") == run(integrity, tree, "empty", "-", "new\nline", "a", stdin=b"abc")
    assert (0, f"{ABC}  -\n".encode(), b"") == run(integrity, tree, stdin=b"abc")


def test_nothing_of_the_catalog_is_needed_or_made(integrity: Box, tree: Path) -> None:
    """Neither a catalog nor a configuration is looked at, and what they need is not loaded."""
    heavy = ("sqlalchemy", "alembic", "tomllib", "watchdog", "integrity.catalog")
    program = (
        "import sys; from integrity.cli import main; code = main(['sum', '--md5', '--xxh3', '--blake3', '-r', '.']);"
        f"print([name for name in {heavy} if name in sys.modules]); sys.exit(code)"
    )
    integrity.configure("nonsense = [")
    done = subprocess.run([sys.executable, "-c", program], env=integrity.environment, cwd=tree, capture_output=True)

    assert (0, b"") == (done.returncode, done.stderr)
    assert done.stdout.endswith(b"\n[]\n")
    assert not integrity.catalog.exists()


def test_unreadable_files_are_told_and_exit_1(integrity: Box, tree: Path) -> None:
    """In the words of md5sum, and the others are digested."""
    code, out, err = run(integrity, tree, "gone", "sub", "a")

    assert (1, f"{ABC}  a\n".encode()) == (code, out)
    assert err == b"integrity sum: gone: No such file or directory\nintegrity sum: sub: Is a directory\n"


def test_several_algorithms_are_written_with_their_names(integrity: Box, tree: Path) -> None:
    """Once each, in one order, whatever the order of the options is."""
    expected = f"MD5 (a) = {ABC}\nSHA1 (a) = {hashlib.sha1(b'abc').hexdigest()}\n".encode()

    assert (0, expected, b"") == run(integrity, tree, "--sha1", "--md5", "--sha1", "a")


def test_lines_of_md5sum_are_refused_for_several_algorithms(integrity: Box, tree: Path) -> None:
    """They could not be told apart."""
    for option in ("--untagged", "--binary", "--text"):
        code, out, err = run(integrity, tree, "--sha1", "--md5", option, "a")

        assert (2, b"") == (code, out)
        assert b"--tag" in err
        assert b"--hashdeep" in err


def test_forms_of_lines(integrity: Box, tree: Path) -> None:
    """BSD, NUL, the mark of binary mode, and XXH3 in both ways."""
    xxh3 = "78af5f94892f3950"
    for words, expected in (
        (["--tag", "new\nline"], f"\\MD5 (new\\nline) = {ABC}\n"),
        (["-z", "new\nline"], f"{ABC}  new\nline\0"),
        (["-z", "--tag", "new\nline"], f"MD5 (new\nline) = {ABC}\0"),
        (["-b", "a"], f"{ABC} *a\n"),
        (["-t", "a"], f"{ABC}  a\n"),
        (["--xxh3", "a"], f"XXH3 (a) = {xxh3}\n"),
        (["--xxh3", "--untagged", "a"], f"XXH3_{xxh3}  a\n"),
    ):
        assert (0, expected.encode(), b"") == run(integrity, tree, *words)


def test_pieces(integrity: Box, tree: Path) -> None:
    """Each piece has a line with its first and last byte, or an object with where it begins and how long it is."""
    five = [hashlib.md5((b"xyz" * 5)[at : at + 6]).hexdigest() for at in (0, 6, 12)]
    lines = [f"{digest}  sub/b offset {place}\n" for digest, place in zip(five, ("0-5", "6-11", "12-14"), strict=True)]

    assert (0, "".join(lines).encode(), b"") == run(integrity, tree, "--piecewise", "6", "sub/b")
    assert (0, f"{EMPTY}  empty offset 0-0\n".encode(), b"") == run(integrity, tree, "--piecewise", "1K", "empty")
    objects = integrity.run("--json", "sum", "--piecewise", "10", tree / "sub/b", expect=0).of_type("sum")
    assert [(0, 10, 15), (10, 5, 15)] == [(each["offset"], each["length"], each["size_bytes"]) for each in objects]


def test_hashdeep_file(integrity: Box, tree: Path) -> None:
    """Its two algorithms by default; the header says where and how it was made."""
    _, out, _ = run(integrity, tree, "--hashdeep", "a", stdin=b"unused")  # in a process that has its own words
    lines = out.decode().splitlines()

    assert ["%%%% HASHDEEP-1.0", "%%%% size,md5,sha256,filename", f"## Invoked from: {tree}"] == lines[:3]
    assert lines[3][4:] == " integrity sum --hashdeep a"
    assert [f"3,{ABC},{hashlib.sha256(b'abc').hexdigest()},a"] == lines[5:]
    assert b"size,sha1,filename" in run(integrity, tree, "--hashdeep", "--sha1", "a")[1]


def test_objects(integrity: Box, tree: Path) -> None:
    """A name that is no text stands beside it in base64; what could not be read is an object as well."""
    name = os.fsencode(tree) + b"/\xff"
    Path(os.fsdecode(name)).write_bytes(b"abc")
    done = integrity.run("--json", "sum", "--md5", "--xxh64", name, tree / "gone", expect=1)
    found, unreadable, summary = done.objects

    assert {
        "type": "sum",
        "schema": 1,
        "path": f"{tree}/\\xff",
        "path_b64": base64.b64encode(name).decode(),
        "size_bytes": 3,
        "md5": ABC,
        "xxh64": "44bc2cf5ad770999",
    } == found
    assert ("unreadable", "No such file or directory") == (unreadable["type"], unreadable["message"])
    assert {"type": "summary", "schema": 1, "job": "sum", "files": 1, "unreadable": 1, "bytes_read": 3} == summary


@pytest.mark.parametrize(
    "words", [[], ["--tag"], ["-z"], ["-z", "--tag"], ["--hashdeep"], ["--sha256"], ["--md5", "--xxh128"], ["--xxh3"]]
)
def test_own_files_are_checked(integrity: Box, tree: Path, words: list[str]) -> None:
    """Each form is read back as it was written, and damage is found."""
    _, sums, _ = run(integrity, tree, *words, "-r", ".")
    sums_path = tree.parent / "sums"
    sums_path.write_bytes(sums)
    code, out, err = run(integrity, tree, "-c", sums_path)

    assert (0, b"") == (code, err)
    assert {b"./a: OK", b"./empty: OK", b"\\./new\\nline: OK", b"./sub/b: OK"} == set(out.splitlines())
    (tree / "a").write_bytes(b"abd")
    code, out, err = run(integrity, tree, "-c", "--quiet", sums_path)
    assert (1, {b"./a: FAILED"}) == (code, set(out.splitlines()))
    assert b"did NOT match" in err


def test_own_objects_are_checked(integrity: Box, tree: Path) -> None:
    """JSON goes in as it came out, summary included; the answer is JSON, too."""
    done = integrity.run("--json", "sum", "-r", tree, expect=0)
    sums = tree.parent / "sums"
    sums.write_text(done.stdout)
    (tree / "a").write_bytes(b"abd")
    (tree / "empty").unlink()
    objects = integrity.json("sum", "-c", sums, expect=1)

    verdicts = {Path(str(each["path"])).name: (each["ok"], each["verdict"]) for each in objects[:-1]}
    assert {
        "a": (False, "failed"),
        "empty": (False, "unreadable"),
        "new\nline": (True, "ok"),
        "b": (True, "ok"),
    } == verdicts
    assert ("summary", "check", 2, 1, 1, 0) == tuple(
        objects[-1][key] for key in ("type", "job", "ok", "failed", "unreadable", "bad_lines")
    )


def test_checking_by_standard_input(integrity: Box, tree: Path) -> None:
    """Without a name the lines come from there; with -q only what is wrong is told."""
    line = f"{ABC}  a\n".encode()
    quiet = get_warm_start().run(["-q", "sum", "-c"], integrity.environment, tree, timeout_s=60, stdin=line)

    assert (0, b"a: OK\n", b"") == run(integrity, tree, "-c", stdin=line)
    assert (0, b"a: OK\n", b"") == run(integrity, tree, "-c", "-", stdin=line)
    assert (0, b"", b"") == quiet


def test_bag_and_sfv_are_checked(integrity: Box, tree: Path) -> None:
    """A bag from anywhere, for its paths are relative to it."""
    (tree / "manifest-md5.txt").write_text(f"{ABC}  new%0Aline\n{ABC} a\n")
    (tree / "x.sfv").write_bytes(b"; made by hand\r\na 352441C2\r\nempty 00000001\r\n")

    assert (0, b"\\tree/new\\nline: OK\ntree/a: OK\n", b"") == run(
        integrity, tree.parent, "-c", "tree/manifest-md5.txt"
    )
    assert (1, b"a: OK\nempty: FAILED\n") == run(integrity, tree, "-c", "x.sfv")[:2]


def test_match_and_its_opposite(integrity: Box, tree: Path) -> None:
    """Names alone, escaped as in a check, or with NUL."""
    known = tree.parent / "known"
    known.write_text(f"{ABC}  whatever\n")

    assert (0, b"./a\n\\./new\\nline\n", b"") == run(integrity, tree, "-r", "--match", known)
    assert (0, b"./empty\n./sub/b\n", b"") == run(integrity, tree, "-r", "--not-match", known)
    assert (0, b"a\0new\nline\0", b"") == run(integrity, tree, "-z", "--match", known, "a", "new\nline")
    assert integrity.json("sum", "--match", known, tree / "a", expect=0)[0]["known"] is True


def test_match_with_digests(integrity: Box, tree: Path) -> None:
    """With a style the lines carry the digests, of known files and of unknown ones, as those of md5deep -M and -X."""
    known = tree.parent / "known"
    known.write_text(f"{ABC}  whatever\n")

    assert (0, f"{ABC}  a\n".encode()) == run(integrity, tree, "--untagged", "--match", known, "a", "empty")[:2]
    assert (0, f"MD5 (empty) = {EMPTY}\n".encode()) == run(
        integrity, tree, "--tag", "--not-match", known, "a", "empty"
    )[:2]
    out = run(integrity, tree, "--hashdeep", "--not-match", known, "a", "empty")[1]
    assert out.startswith(b"%%%% HASHDEEP-1.0\n%%%% size,md5,filename\n")
    assert out.endswith(f"0,{EMPTY},empty\n".encode())
    known.write_text(f"{ABC}  whatever\n{'0' * 40}  other\n")
    assert 2 == run(integrity, tree, "--untagged", "--match", known, "a")[0]


def test_warning_names_the_algorithm_of_the_line(integrity: Box, tree: Path) -> None:
    """Of a file with lines of several kinds, the tag, the number of digits, or the line before says which was meant."""
    (tree / "sums").write_text(f"{ABC}  a\nSHA256 (a) = 12\n{'0' * 40}\nnonsense\nSHA1 (a) = {'0' * 40}\nnonsense\n")
    (tree / "manifest-sha512.txt").write_text("nonsense\n")
    _, _, err = run(integrity, tree, "-c", "-w", "sums", "manifest-sha512.txt")
    lines = err.decode().splitlines()

    assert [
        "integrity sum: sums: 2: improperly formatted SHA256 checksum line",
        "integrity sum: sums: 3: improperly formatted SHA1 checksum line",
        "integrity sum: sums: 4: improperly formatted MD5 checksum line",
        "integrity sum: sums: 6: improperly formatted SHA1 checksum line",
        "integrity sum: manifest-sha512.txt: 1: improperly formatted SHA512 checksum line",
    ] == [line for line in lines if "improperly formatted" in line and "WARNING" not in line]


def test_match_refuses_what_tells_nothing(integrity: Box, tree: Path) -> None:
    """With nothing known every file would be unknown."""
    (tree / "nonsense").write_text("nonsense\n")
    code, out, err = run(integrity, tree, "--not-match", "nonsense", "--not-match", "gone", "a")

    assert (1, b"") == (code, out)
    assert err.splitlines()[:2] == [
        b"integrity sum: nonsense: no properly formatted checksum lines found",
        b"integrity sum: gone: No such file or directory",
    ]


def test_audit(integrity: Box, tree: Path) -> None:
    """Passed when every file is where it was, failed when not; what differs stands above the counts."""
    known = tree.parent / "known"
    known.write_bytes(run(integrity, tree, "--hashdeep", "-r")[1])
    code, out, _ = run(integrity, tree, "--audit", known, "-r")

    assert code == 0
    assert out.splitlines()[0] == b"integrity sum: Audit passed"
    assert b"          Files matched: 4\n" in out
    (tree / "a").rename(tree / "moved\n")
    (tree / "empty").write_bytes(b"x")
    code, out, _ = run(integrity, tree, "--audit", known, "-r")
    assert code == 1
    assert out.splitlines()[:4] == [
        b"./empty: No match",
        b"\\./moved\\n: Moved from ./a",
        b"./empty: Known file not used",
        b"integrity sum: Audit failed",
    ]
    (tree / "sub").rename(tree / "other")
    moves = {
        each["origin"]: each["path"] for each in integrity.json("sum", "--audit", known, "-r", tree) if "origin" in each
    }
    assert f"{tree}/other/b" == moves["./sub/b"]
    states = [each.get("state") for each in integrity.json("sum", "--audit", known, "-r", tree, expect=1)]
    assert "missing" in states


def test_options_that_contradict_each_other_are_refused(integrity: Box, tree: Path) -> None:
    """Nothing is read, and the message says what is wrong."""
    for words in (
        ["--quiet", "a"],
        ["--strict", "a"],
        ["--ignore-missing", "a"],
        ["-c", "--tag", "a"],
        ["-c", "-r", "a"],
        ["-c", "--match", "x", "a"],
        ["--match", "x", "--audit", "x", "a"],
        ["--audit", "x", "--piecewise", "1K", "a"],
        ["--hashdeep", "-z", "a"],
        ["--tag", "-b", "a"],
        ["--piecewise", "0", "a"],
    ):
        code, out, err = run(integrity, tree, *words)

        assert (2, b"") == (code, out)
        assert err.startswith(b"integrity: ")


def test_output_comes_before_what_is_said_of_the_next_file(integrity: Box, tree: Path) -> None:
    """On one terminal both streams make sense together."""
    done = subprocess.run(
        make_command("sum", "a", "gone", "a"),
        env=integrity.environment,
        cwd=tree,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )

    assert [ABC.encode(), b"integrity", ABC.encode()] == [text.split()[0] for text in done.stdout.splitlines()]


def test_finished_files_are_told_while_the_next_is_read(integrity: Box, tree: Path) -> None:
    """Who watches a pipe sees a digest soon; the signal of a terminal ends even what waits for a FIFO."""
    os.mkfifo(tree / "fifo")
    with subprocess.Popen(
        make_command("sum", *["a"] * 300, "fifo"), env=integrity.environment, cwd=tree, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        with open(tree / "fifo", "wb"):  # waits for the reader
            first = process.stdout.readline()
            process.send_signal(signal.SIGINT)
            rest = process.stdout.read()

    assert f"{ABC}  a\n".encode() == first
    assert rest.count(b"\n") <= 299
    assert process.returncode == 130


def test_closed_pipe_is_quiet(integrity: Box, tree: Path) -> None:
    """As for all commands: a reader that leaves is no error."""
    (tree / "sums").write_text(f"{ABC}  a\n")
    read_end, write_end = os.pipe()
    os.close(read_end)
    for words in (["a"], ["-c", "sums"], ["-c", *["sums"] * 200]):
        closed = subprocess.run(
            make_command("sum", *words), env=integrity.environment, cwd=tree, stdout=write_end, stderr=subprocess.PIPE
        )
        assert (141, b"") == (closed.returncode, closed.stderr)
    os.close(write_end)


@pytest.mark.parametrize(
    ("redirection", "reason"), [(">/dev/full", "No space left on device"), (">&-", "Bad file descriptor")]
)
def test_output_that_can_not_be_written_is_an_error(redirection: str, reason: str, integrity: Box, tree: Path) -> None:
    """A full disk and a closed stdout end it with the words and the exit code of ``md5sum``."""
    (tree / "sums").write_text(f"{ABC}  a\n")
    peer = integrity.redirect(["md5sum", "a"], redirection, tree)
    for words in ("sum a", "--json sum a", "sum -c sums", "sum --match sums a", "sum --hashdeep a"):
        ours = integrity.redirect(make_command(*words.split()), redirection, tree)

        assert (peer.returncode, f"integrity sum: write error: {reason}\n".encode()) == (ours.returncode, ours.stderr)


def test_closed_streams_that_are_not_needed_are_not_missed(integrity: Box, tree: Path) -> None:
    """Nothing to print, or to read, or to complain of: then it does not matter what is closed."""
    (tree / "sums").write_text(f"{ABC}  a\n")
    silent = integrity.redirect(make_command("sum", "-c", "--status", "sums"), "<&- >&- 2>&-", tree)
    reading = integrity.redirect(make_command("sum", "a", "-"), "<&-", tree)

    assert (0, b"", b"") == (silent.returncode, silent.stdout, silent.stderr)
    assert (1, f"{ABC}  a\n".encode()) == (reading.returncode, reading.stdout)
    assert b"integrity sum: -: Bad file descriptor\n" == reading.stderr


_TELLS_IMPORTS = """
import sys, threading
class Teller:
    def find_spec(self, name, path=None, target=None):
        if threading.current_thread() is not threading.main_thread():
            print(name, file=sys.stderr)
sys.meta_path.insert(0, Teller())
from integrity.cli import main
sys.exit(main(["sum", *sys.argv[1:]]))
"""


def test_threads_import_nothing(integrity: Box, tree: Path) -> None:
    """Nobody waits for a thread that hangs, and an interpreter that ends while it imports crashes."""
    command = [sys.executable, "-P", "-c", _TELLS_IMPORTS, "--md5", "--sha256", "a", "sub/b"]
    done = subprocess.run(command, env=integrity.environment, cwd=tree, capture_output=True)

    assert (0, b"") == (done.returncode, done.stderr)


@pytest.mark.root
def test_block_device_is_read_to_its_end(integrity: Box, tmp_path: Path) -> None:
    """When it is named; it has no size of its own."""
    image = tmp_path / "image"
    image.write_bytes(os.urandom(3 << 20))
    device = sh("losetup", "--find", "--show", "--read-only", image).strip()
    try:
        (found,) = integrity.run("--json", "sum", device, expect=0).of_type("sum")
    finally:
        sh("losetup", "--detach", device)

    assert (hashlib.md5(image.read_bytes()).hexdigest(), 3 << 20) == (found["md5"], found["size_bytes"])


HASHES = {
    "b2": hashlib.blake2b,
    "b2 of 256 bits": lambda data: hashlib.blake2b(data, digest_size=32),
    "blake2s": hashlib.blake2s,
    "sha3-256": hashlib.sha3_256,
    "sha3-384": hashlib.sha3_384,
    "sha3-512": hashlib.sha3_512,
    "sha224": hashlib.sha224,
    "sha384": hashlib.sha384,
    "xxh3": xxhash.xxh3_64,
    "xxh64": xxhash.xxh64,
    "xxh128": xxhash.xxh3_128,
    "b3": blake3,
}


def write_list(tree: Path, hash_of: Callable[..., Any], names: Iterable[str], *, name: str = "list") -> None:
    """Write lines without an algorithm."""
    lines = [f"{hash_of((tree / each).read_bytes()).hexdigest()}  {each}\n" for each in names]
    (tree / name).write_text("".join(lines))


@pytest.mark.parametrize("kind", HASHES)
def test_algorithm_is_found_by_what_files_turn_out_to_be(integrity: Box, tree: Path, kind: str) -> None:
    """The list says nothing of it; a file that differs is FAILED, since another line shows the algorithm, or alone."""
    write_list(tree, HASHES[kind], ["a", "empty", "sub/b"])
    write_list(tree, HASHES[kind], ["a"], name="alone")
    (tree / "a").write_bytes(b"rotten")

    code, out, _ = run(integrity, tree, "-c", "list")
    assert (1, b"a: FAILED\nempty: OK\nsub/b: OK\n") == (code, out)
    assert (1, b"a: FAILED\n") == run(integrity, tree, "-c", "alone")[:2]


@pytest.mark.parametrize(("name", "words"), [("list", ("--md5",)), ("MD5SUMS", ()), ("list", ("--algorithm", "md5"))])
def test_many_lines_that_fail_have_failed_if_the_algorithm_is_stated(
    integrity: Box, tree: Path, name: str, words: tuple[str, ...]
) -> None:
    """By an option or by the list's name; else they are perhaps of another one: said once, exit 3, nothing accused."""
    lines = [f"{number:032x}  {number}\n" for number in range(31)]
    for number in range(30):
        (tree / str(number)).write_text(str(number))
    (tree / name).write_text("".join(lines[:30]))
    (tree / "other").write_text("".join(lines[:30]))
    (tree / "longer").write_text("".join(lines))

    code, out, _ = run(integrity, tree, "-c", *words, name)
    assert (1, 30) == (code, out.count(b": FAILED\n"))
    code, out, err = run(integrity, tree, "-c", "other")
    assert (3, b"", 1) == (code, out, err.count(b"perhaps they are of another algorithm"))
    code, out, _ = run(integrity, tree, "-c", "longer")  # that a file is not there needs no digest
    assert (1, b"30: FAILED open or read\n") == (code, out)


def test_one_match_among_many_proves_the_algorithm(integrity: Box, tree: Path) -> None:
    """Then the others have FAILED, also those that came before it."""
    for number in range(30):
        (tree / str(number)).write_text(str(number))
    write_list(tree, hashlib.sha3_512, map(str, range(30)))
    for number in range(29):
        (tree / str(number)).write_text("rotten")

    code, out, err = run(integrity, tree, "-c", "list")
    assert (1, 29, 1) == (code, out.count(b": FAILED\n"), out.count(b": OK\n"))
    assert b"its digests of 128 digits are SHA3-512" in err


def test_large_file_is_read_once(integrity: Box, tree: Path) -> None:
    """What showed the algorithm is not read again."""
    os.mkfifo(tree / "fifo")
    (tree / "list").write_text(f"{hashlib.blake2b(b'abc').hexdigest()}  fifo\n")
    writer = subprocess.Popen(["sh", "-c", "printf abc > fifo"], cwd=tree)

    assert (0, b"fifo: OK\n") == run(integrity, tree, "-c", "list")[:2]
    assert 0 == writer.wait()


def test_list_of_windows_is_read(integrity: Box, tree: Path) -> None:
    """Comments that begin with a semicolon, UTF-16, CRLF, backslashes and another case; said once."""
    text = (
        f"; made by a program\r\n; on Windows\r\n\r\n{ABC} *A\r\n{hashlib.md5(b'xyz' * 5).hexdigest()} *.\\sub\\b\r\n"
    )
    (tree / "win.md5").write_bytes(text.encode("utf-16"))

    code, out, err = run(integrity, tree, "-c", "win.md5")
    assert (0, b"A: OK\n.\\sub\\b: OK\n") == (code, out)
    assert 2 == len(err.splitlines())
    assert b"UTF-16" in err


def test_name_with_a_backslash_is_itself(integrity: Box, tree: Path) -> None:
    """If it is there; one whose other spelling is in the list, too, is missing."""
    (tree / "sub\\b").write_bytes(b"abc")
    (tree / "list").write_text(f"\\{ABC}  sub\\\\b\n{ABC}  A\n{ABC}  a\n")

    code, out, _ = run(integrity, tree, "-c", "list")
    assert (1, b"sub\\b: OK\nA: FAILED open or read\na: OK\n") == (code, out)


def test_names_of_macos_are_found(integrity: Box, tree: Path) -> None:
    """Their accents are letters of their own there."""
    (tree / "Käse").write_bytes(b"abc")
    (tree / "list").write_text(f"{ABC}  {unicodedata.normalize('NFD', 'Käse')}\n")

    assert 0 == run(integrity, tree, "-c", "--quiet", "list")[0]


def test_any_algorithm_can_be_written(integrity: Box, tree: Path) -> None:
    """By its name, as other programs write it."""
    expected = hashlib.sha3_256(b"abc").hexdigest()

    assert f"SHA3-256 (a) = {expected}\n".encode() == run(integrity, tree, "--algorithm", "sha3-256", "--tag", "a")[1]
    assert b"must be one of md5, " in run(integrity, tree, "--algorithm", "rot13", "a")[2]


def test_audit_finds_the_algorithm(integrity: Box, tree: Path) -> None:
    """As a check does."""
    write_list(tree, hashlib.blake2b, ["a", "empty", "sub/b"], name="../known")
    (tree / "new\nline").unlink()
    code, out, _ = run(integrity, tree, "--audit", "../known", "-r", ".")

    assert (0, b"integrity sum: Audit passed") == (code, out.splitlines()[0])
