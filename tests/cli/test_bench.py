"""``integrity bench``: rows, figures and words; what it refuses; that nothing stays behind."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from integrity.cli.bench import TABLES
from integrity.jobs.bench.measure import TITLES, Table
from support.cli import Box, JsonObject, make_command

TINY = ("--size", "64K", "--files", "3", "--runs", "1")
COSTS = ("wall_s", "user_s", "system_s", "cpu_s")
ALGORITHMS = ["XXH128", "XXH64", "MD5", "SHA-1", "SHA-512", "SHA-256", "BLAKE3"]
ALGORITHM_PROGRAMS = ["xxh128sum", "xxh64sum", "md5sum", "sha1sum", "sha512sum", "sha256sum", "b3sum"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Make a folder for the files that are hashed."""
    path = tmp_path / "work"
    path.mkdir()
    return path


def measure(integrity: Box, folder: Path, *words: str | Path, **environment: str) -> list[JsonObject]:
    """Run with tiny files and return the rows."""
    done = integrity.run("--json", "bench", "--folder", folder, *TINY, *words, env=environment, expect=0)
    assert [] == os.listdir(folder)
    return done.of_type("bench")


def put_on_path(folder: Path, *programs: str) -> str:
    """Make a PATH that holds these programs of the machine only."""
    folder.mkdir()
    for program in programs:
        found = shutil.which(program)
        assert found, program
        (folder / program).symlink_to(found)
    return str(folder)


def pick(rows: Sequence[JsonObject], **fields: object) -> JsonObject:
    """Return the one row with these fields."""
    (row,) = [row for row in rows if all(row[name] == value for name, value in fields.items())]
    return row


def number(value: object) -> float:
    """Insist on a number."""
    assert isinstance(value, int | float), value
    return value


def test_names_of_tables_are_those_of_the_job() -> None:
    """The names that the help knows are those that can be measured."""
    assert list(Table) == list(TABLES)
    assert set(Table) == set(TITLES)


def test_large_file_by_all(integrity: Box, folder: Path) -> None:
    """Each way has wall, user and system seconds of one file, and its ratio to md5sum."""
    rows = measure(integrity, folder, "large")

    assert ["integrity", "hashlib", "integrity fallback", "md5sum", "openssl md5"] == [row["what"] for row in rows]
    for row in rows:
        assert ("large", "one file of 64.0 KiB", 64 << 10) == (row["table"], row["group"], row["size_bytes"])
        if row["note"] and "not installed" in str(row["note"]):
            continue
        assert all(number(row[name]) >= 0 for name in COSTS)
        assert number(row["cpu_s"]) == number(row["user_s"]) + number(row["system_s"])
        assert number(row["bytes_per_s"]) == pytest.approx((64 << 10) / number(row["wall_s"]))
        assert number(row["ratio"]) == pytest.approx(number(rows[3]["wall_s"]) / number(row["wall_s"]))
    assert ("md5sum", 1) == (rows[3]["reference"], rows[3]["ratio"])


def test_core_that_is_off_is_named(integrity: Box, folder: Path) -> None:
    """Where the C core is not in use, its rows say so and why."""
    rows = measure(integrity, folder, "large", "objects", "lanes", INTEGRITY_NATIVE="off")

    large = pick(rows, table="large", what="integrity")
    assert "INTEGRITY_NATIVE=off" in str(large["note"])
    assert all("INTEGRITY_NATIVE=off" in str(row["note"]) for row in rows if row["what"] in {"integrity", "C core"})
    assert pick(rows, table="lanes", what="C core", message_bytes=64)["wall_s"] is None


def test_short_messages_with_memory(integrity: Box, folder: Path) -> None:
    """16, 64 and 1,024 bytes: operations a second and bytes allocated, ours beside hashlib's."""
    rows = measure(integrity, folder, "objects")

    expected = [(size, what) for size in (16, 64, 1024) for what in ("integrity", "hashlib")]
    assert expected == [(row["size_bytes"], row["what"]) for row in rows]
    for row in rows:
        assert number(row["operations_per_s"]) > 1000
        # An object, and 16 bytes of digest as an object of its own at the least.
        assert row["allocated_bytes"] is None or 100 < number(row["allocated_bytes"]) < 5000


def test_folder_and_file_with_each_tool(integrity: Box, folder: Path) -> None:
    """The tools in one order for the folder and for the file; each has figures, or a reason."""
    rows = measure(integrity, folder, "tools")

    names = ["md5sum", "md5deep", "openssl md5", "integrity sum"]
    assert [*names, *names] == [row["what"] for row in rows]
    assert {"folder of 3 files, 820 B", "one file of 64.0 KiB"} == {row["group"] for row in rows}
    assert all((row["wall_s"] is None) == bool(row["note"]) for row in rows)
    assert all(number(row["wall_s"]) > 0 for row in rows if row["what"] in {"md5sum", "integrity sum"})


def test_own_folder_is_only_read(integrity: Box, folder: Path, tmp_path: Path) -> None:
    """A folder of the user's is hashed as it is: regular files, whatever their names, links left alone."""
    tree = tmp_path / "my tree"
    (tree / "a\nb").mkdir(parents=True)
    (tree / "a\nb" / "-n").write_bytes(b"12345")
    Path(os.fsdecode(os.fsencode(tree) + b"/\xff")).write_bytes(b"678")
    (tree / "link").symlink_to("nowhere")
    before = sorted((path, path.lstat().st_mtime_ns) for path in tree.rglob("*"))

    rows = measure(integrity, folder, "tools", "--tree", tree)

    assert ("folder of 2 files, 8 B", 8) == (rows[0]["group"], rows[0]["size_bytes"])
    assert [None] == [row["note"] for row in rows if row["what"] == "md5sum" and row["size_bytes"] == 8]
    assert before == sorted((path, path.lstat().st_mtime_ns) for path in tree.rglob("*"))


def test_missing_tool_is_named_with_its_package(integrity: Box, folder: Path, tmp_path: Path) -> None:
    """A tool that is not installed is a row that says what to install, and no error."""
    path = put_on_path(tmp_path / "bin", "md5sum", "find")

    rows = measure(integrity, folder, "tools", "algorithms", PATH=path)

    missing = [row for row in rows if "not installed" in str(row["note"])]
    assert {"md5deep": "hashdeep", "openssl md5": "openssl", "xxh128sum": "xxhash", "b3sum": "b3sum"}.items() <= {
        row["what"]: re.fullmatch(r"not installed \(Debian package (\w+)\)", str(row["note"]))[1] for row in missing
    }.items()
    assert all(row["wall_s"] is None and row["ratio"] is None for row in missing)


def test_tool_that_fails_is_told(integrity: Box, folder: Path, tmp_path: Path) -> None:
    """A tool that ends with an error has its words instead of figures; a file it could not read is a remark."""
    path = put_on_path(tmp_path / "bin", "find", "md5sum", "sh")
    for name, code in (("openssl", 7), ("md5deep", 1)):
        script = tmp_path / "bin" / name
        script.write_text(f"#!/bin/sh\necho 'something is wrong' >&2\nexit {code}\n", encoding="utf-8")
        script.chmod(0o755)

    rows = [row for row in measure(integrity, folder, "tools", PATH=path) if row["size_bytes"] == 64 << 10]

    openssl, md5deep = pick(rows, what="openssl md5"), pick(rows, what="md5deep")
    assert ("failed with exit code 7: something is wrong", None) == (openssl["note"], openssl["wall_s"])
    assert ("exit code 1: something is wrong", float) == (md5deep["note"], type(md5deep["wall_s"]))


def test_cpu_of_each_algorithm(integrity: Box, folder: Path) -> None:
    """CPU seconds for each GiB and how busy a processor was, on a quarter of the large file, with programs beside."""
    rows = measure(integrity, folder, "algorithms")

    expected = [name for pair in zip(ALGORITHMS, ALGORITHM_PROGRAMS, strict=True) for name in pair]
    assert expected == [row["what"] for row in rows]
    for row in rows:
        assert 16 << 10 == row["size_bytes"]
        if row["wall_s"] is not None:
            assert number(row["cpu_s_per_gib"]) == pytest.approx(number(row["cpu_s"]) * (1 << 16))
            assert number(row["cpu_percent"]) == pytest.approx(100 * number(row["cpu_s"]) / number(row["wall_s"]))


def test_every_algorithm_of_this_python(integrity: Box, folder: Path) -> None:
    """All that hashlib has, plain and as HMAC; those that have no HMAC say so."""
    rows = measure(integrity, folder, "python")

    names = sorted(hashlib.algorithms_available)
    assert [*names, *names] == [row["what"] for row in rows]
    for row in rows:
        assert (row["wall_s"] is None) == (row["create_1000_wall_s"] is None) == bool(row["note"])
        assert row["size_bytes"] == 1_000_000
    assert "no HMAC" in str(pick(rows, what="shake_128", group="HMAC")["note"])
    assert pick(rows, what="shake_128", group="plain")["note"] is None


def test_each_path_of_the_core(integrity: Box, folder: Path) -> None:
    """Each path that this machine can use, beside hashlib, with messages of four lengths."""
    rows = measure(integrity, folder, "lanes")

    by_length = {
        length: [row["what"] for row in rows if row["message_bytes"] == length] for length in (64, 4096, 65536, 1 << 20)
    }
    assert len(rows) == sum(map(len, by_length.values()))
    assert len({tuple(names) for names in by_length.values()}) == 1
    assert {"hashlib"} < set(by_length[64])
    assert all(number(row["bytes_per_s"]) > 0 for row in rows)


@pytest.mark.long
def test_all_tables_in_words(integrity: Box, folder: Path) -> None:
    """Without a name all tables come, with the machine on top; in each, columns stand below their headings."""
    text = integrity.run("bench", "--folder", folder, *TINY, expect=0).stdout

    assert re.match(r".+, \d+ processors?; hash core: .+\nPython 3\..+ the median of 1 run\n", text)
    assert list(TABLES) == re.findall(r"^(\w+): ", text, re.MULTILINE)
    assert {"x md5sum", "x hashlib", "x MD5", "x md5"} == set(re.findall(r"x [a-zA-Z0-9]+$", text, re.MULTILINE))
    for block in re.split(r"\n\n|^  \w.*\n", text, flags=re.MULTILINE)[2:]:
        heading, *lines = block.splitlines()
        figures = [line for line in lines if re.search(r"\d$", line)]
        assert all(len(line) == len(heading) for line in figures), block


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["large", "--size", "1000000T"], "choose a smaller --size or another --folder"),
        (["small"], "'small' is not one of 'large', 'objects'"),
        (["large", "--size", "big"], 'must be a size such as "50M"'),
        (["--runs", "0"], "0 is not in the range"),
        (["large", "--folder", "/nonexistent/x"], "name another folder with --folder"),
        (["tools", "--tree", "/nonexistent/x"], "/nonexistent/x: there is no such folder to hash"),
        (["large", "--plot", "plot.pdf"], "plot.pdf: a plot can be a .svg or a .png file"),
        (["large", "--plot", "svg"], "svg: a plot can be a .svg or a .png file"),
        (["large", "--plot", "/nonexistent/x.svg"], "/nonexistent/x.svg: no file can be made there"),
    ],
)
def test_refusals(words: list[str], expected: str, integrity: Box, folder: Path) -> None:
    """What can't be done is said before anything is measured, with what to do instead."""
    words = words if "--folder" in words else [*words, "--folder", str(folder)]
    done = integrity.run("bench", *words, expect=2)

    assert expected in done.stderr
    assert done.stdout == ""
    assert [] == os.listdir(folder)


def test_plot_without_matplotlib_names_the_extra(integrity: Box) -> None:
    """Who lacks the library is told how to get it, before anything is measured."""
    program = (
        "import sys; sys.modules['matplotlib'] = None; from integrity.cli import main;"
        "sys.exit(main(['bench', '--plot', 'x.svg']))"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", program], env=integrity.environment, capture_output=True, text=True, check=False
    )

    assert (2, "") == (done.returncode, done.stdout)
    assert "[plot]" in done.stderr


def test_interrupted_child_and_files_are_gone(integrity: Box, folder: Path, tmp_path: Path) -> None:
    """A signal ends the tool that runs and removes the large file; the exit code is that of an interruption."""
    path = put_on_path(tmp_path / "bin", "sh", "sleep")
    started = tmp_path / "started"
    os.mkfifo(started)
    script = tmp_path / "bin" / "md5sum"
    script.write_text(f"#!/bin/sh\necho $$ >'{started}'\nexec sleep 1000\n", encoding="utf-8")
    script.chmod(0o755)
    command = make_command("bench", "large", "--folder", folder, *TINY)
    process = subprocess.Popen(
        command, env=integrity.environment | {"PATH": path}, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    with process:
        pid = int(started.read_text(encoding="utf-8"))
        assert os.listdir(folder)
        process.send_signal(signal.SIGTERM)
        _, complaint = process.communicate(timeout=30)

    assert (130, b"integrity: interrupted") == (process.returncode, complaint[:22])
    assert [] == os.listdir(folder)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_no_catalog_is_needed(integrity: Box, folder: Path) -> None:
    """Neither a catalog nor SQLAlchemy is needed, and none is made."""
    program = (
        "import sys; from integrity.cli import main;"
        f"code = main(['bench', 'large', '--folder', {str(folder)!r}, '--size', '1K', '--runs', '1']);"
        "print('sqlalchemy' in sys.modules, 'matplotlib' in sys.modules); sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", program], env=integrity.environment, capture_output=True, text=True, check=True
    )

    assert done.stdout.endswith("\nFalse False\n")
    assert not integrity.catalog.exists()
