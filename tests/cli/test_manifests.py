"""``catalog export`` and ``import``: what md5sum, hashdeep and BagIt say of ours, and what we make of theirs."""

from __future__ import annotations

import hashlib
import os
import random
import re
import subprocess
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import bagit
import pytest
from xxhash import xxh3_128

from support.cli import Box, Completed, make_command
from support.machine import need_programs
from support.nastytree import NAMES
from support.planted import plant, plant_path
from support.privileges import let_in, run_as_nobody
from support.proc import signal_at
from support.results import get_number
from support.shapes import damage, put, put_sparse
from support.stored import query

VERDICTS = (
    "verified",
    "already",
    "differing",
    "missing",
    "unreadable",
    "outside",
    "left_out",
    "unknown",
    "bad",
)


@pytest.fixture
def nasty(tmp_path: Path) -> bytes:
    """A folder of files whose names are hard to write, each with a content of its own, and one of several blocks."""
    root = os.fsencode(tmp_path) + b"/nasty root"
    for folder in (b"", b"sub", b"sub/a-b", b"sub/a"):
        os.makedirs(os.path.join(root, folder), exist_ok=True)
        for name in (*NAMES, b"-"):
            put(os.path.join(root, folder, name), folder + b": " + name)
    put(root + b"/large", os.urandom(3_000_000))
    return root


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder with some files."""
    return plant(tmp_path / "data", 20)


def walk(root: bytes) -> list[bytes]:
    """List the files below a folder, relative to it."""
    found = [os.path.join(folder, name) for folder, _, names in os.walk(root) for name in names]
    return [os.path.relpath(path, root) for path in found]


def sum_up(root: Path, command: str = "md5sum", place: str = ".") -> bytes:
    """Let a real program write a manifest of a folder, names relative to it."""
    find = ["find", place, "-type", "f", "-exec", command, "{}", "+"]
    return subprocess.run(find, cwd=root, capture_output=True, check=True).stdout


def counts(result: Completed) -> dict[str, int]:
    """Return the counts of an import that are not zero; each entry is in exactly one."""
    found = {name: get_number(result.summary, name) for name in VERDICTS}
    assert "import" == result.summary["job"]
    assert sum(found.values()) == result.summary["entries"]
    return {name: count for name, count in found.items() if count}


def told(result: Completed) -> list[tuple[object, object, object]]:
    """Return outcome, path and line of each entry that was told of."""
    return [(one["outcome"], one.get("path"), one["line"]) for one in result.of_type("import")]


def recorded(integrity: Box) -> dict[str, str]:
    """Return the reasons of all baselines by name."""
    rows = query(integrity, "SELECT CAST(name AS TEXT), reason FROM file")
    return {str(name): str(reason) for name, reason in rows}


def test_md5sum_accepts_what_is_exported(integrity: Box, nasty: bytes, tmp_path: Path) -> None:
    """
    Whatever the names are, ``cd ROOT && md5sum -c FILE`` finds each file and finds it right.

    Bytes go through a pipe as they go into a file.
    """
    integrity.run("scan", nasty, expect=0)
    integrity.run("catalog", "export", "--output", tmp_path / "sums", expect=0)
    command = ["md5sum", "-c", "--strict", "--quiet", tmp_path / "sums"]
    done = subprocess.run(command, cwd=nasty, capture_output=True, check=False)

    assert (0, b"", b"") == (done.returncode, done.stdout, done.stderr)
    assert len(walk(nasty)) == len((tmp_path / "sums").read_bytes().splitlines())
    done = subprocess.run(make_command("catalog", "export"), env=integrity.environment, capture_output=True, check=True)
    assert ((tmp_path / "sums").read_bytes(), b"") == (done.stdout, done.stderr)


@pytest.mark.parametrize("is_absolute", [False, True])
def test_hashdeep_accepts_what_is_exported(integrity: Box, data: Path, tmp_path: Path, is_absolute: bool) -> None:
    """An audit passes, with names relative to the root and with absolute ones, and sees a file that changed."""
    need_programs("hashdeep")
    put(data / "with,comma and\\backslash")
    integrity.run("scan", data, expect=0)
    options = ["--absolute"] * is_absolute
    integrity.run("catalog", "export", "--format", "hashdeep", "--output", tmp_path / "known", *options, expect=0)
    command = ["hashdeep", "-r", "-a", "-vv", "-k", tmp_path / "known", *([] if is_absolute else ["-l"])]

    def audit() -> tuple[int, str]:
        place = data if is_absolute else "."
        done = subprocess.run([*command, place], cwd=data, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout

    code, text = audit()
    assert 0 == code, text
    assert re.search(r"Files matched: 21$", text, re.MULTILINE)
    put(plant_path(data, 3), b"another")
    code, text = audit()
    assert 1 == code, text


def check_bag(bag: bytes, name: bytes) -> set[bytes]:
    """Check a BagIt manifest as RFC 8493 says, by other code than ours; return the names in it."""
    found = set()
    with open(os.path.join(bag, name), "rb") as manifest:
        for line in manifest.read().splitlines(keepends=True):
            match = re.fullmatch(rb"([0-9a-f]{32}) +([^\r\n]+)\n", line)
            assert match is not None, line
            path = match[2].replace(b"%0D", b"\r").replace(b"%0A", b"\n").replace(b"%25", b"%")
            with open(os.path.join(bag, path), "rb") as file:
                assert match[1].decode() == hashlib.file_digest(file, "md5").hexdigest(), path
            assert path not in found
            found.add(path)
    return found


@pytest.mark.parametrize("is_part", [False, True])
def test_bag_is_whole(integrity: Box, nasty: bytes, tmp_path: Path, is_part: bool) -> None:
    """The payload is in one manifest, everything else with that manifest in the other; also in a part of a root."""
    bag = os.fsencode(tmp_path) + b"/bags/one"
    os.makedirs(bag)
    os.rename(nasty, bag + b"/data")
    put(bag + b"/bagit.txt", b"BagIt-Version: 1.0\nTag-File-Character-Encoding: UTF-8\n")
    put(bag + b"/tagmanifest-md5.txt", b"an old one\n")
    put(bag + b"/manifest-md5.txt", b"an old one\n")
    integrity.run("scan", os.path.dirname(bag) if is_part else bag, expect=0)
    integrity.run("catalog", "export", bag, "--format", "bagit", "--output", bag, expect=0)

    assert {b"data/" + path for path in walk(bag + b"/data")} == check_bag(bag, b"manifest-md5.txt")
    assert {b"bagit.txt", b"manifest-md5.txt"} == check_bag(bag, b"tagmanifest-md5.txt")
    alone = integrity.run("catalog", "export", bag, "--format", "bagit", "--output", tmp_path / "manifest", expect=0)
    assert (tmp_path / "manifest").read_bytes() == Path(os.fsdecode(bag), "manifest-md5.txt").read_bytes()
    assert "outside of data/" in alone.stderr


def make_bag(integrity: Box, bag: Path, *names: str) -> Completed:
    """Make a bag with files of these names, and export its manifests."""
    (bag / "data").mkdir(parents=True)
    for name in names:
        put(bag / "data" / name, name.encode())
    put(bag / "bagit.txt", b"BagIt-Version: 1.0\nTag-File-Character-Encoding: UTF-8\n")
    integrity.run("scan", bag, expect=0)
    return integrity.run("catalog", "export", bag, "--format", "bagit", "--output", bag, expect=0)


def test_bagit_python_accepts_a_bag(integrity: Box, tmp_path: Path) -> None:
    """Its own validation passes, with names that need care and percent signs that nobody can take for escapes."""
    names = ("plain", "two words", "line\nend", "cr\rwithin", "100%", "50% wool", "%", "a%zz", "back\\slash", "ü")
    done = make_bag(integrity, tmp_path / "bag", *names)

    assert bagit.Bag(str(tmp_path / "bag")).validate()
    assert "percent sign" not in done.stderr


def test_escaped_percent_signs_are_told(integrity: Box, tmp_path: Path) -> None:
    """RFC 8493 demands ``%25``, bagit-python does not know it: the export follows the RFC and says so."""
    done = make_bag(integrity, tmp_path / "bag", "a%0Ab", "100%25")

    assert "2 names with a percent sign" in done.stderr
    assert b"data/a%250Ab" in (tmp_path / "bag" / "manifest-md5.txt").read_bytes()
    assert {b"data/a%0Ab", b"data/100%25"} == check_bag(bytes(tmp_path / "bag"), b"manifest-md5.txt")
    with pytest.raises(bagit.BagValidationError):
        bagit.Bag(str(tmp_path / "bag")).validate()


def test_what_is_no_bag_is_refused(integrity: Box, data: Path) -> None:
    """BagIt's manifests list what lies below data/, under names relative to the bag."""
    integrity.run("scan", data, expect=0)

    assert "is not a bag" in integrity.run("catalog", "export", "--format", "bagit", expect=2).stderr
    integrity.run("catalog", "export", "--format", "bagit", "--absolute", expect=2)
    put(data / "data")
    integrity.run("scan", data, expect=0)
    integrity.run("catalog", "export", "--format", "bagit", expect=2)


def test_objects_are_those_of_sum(integrity: Box, data: Path) -> None:
    """With --json each line is what ``integrity --json sum`` prints, with all digests that are recorded."""
    integrity.run("scan", data, expect=0)
    exported = integrity.run("--json", "catalog", "export", "--absolute", expect=0)
    paths = [str(one["path"]) for one in exported.of_type("sum")]
    summed = integrity.run("--json", "sum", "--md5", "--xxh128", *paths, expect=0)

    assert summed.of_type("sum") == exported.of_type("sum")
    assert 20 == exported.of_type("catalog_export")[0]["files"]
    integrity.run("--json", "catalog", "export", "--format", "hashdeep", expect=2)


def test_part_of_a_root_and_several_roots(integrity: Box, data: Path, tmp_path: Path) -> None:
    """Names stay relative to the root; those of several roots are absolute or refused."""
    other = plant(tmp_path / "other", 3)
    integrity.run("scan", data, other, expect=0)
    part = integrity.run("catalog", "export", data / "d1", data / "d1" / "1.txt", data / "d2", expect=0).stdout
    names = [line[34:] for line in part.splitlines()]

    assert ["d1/1.txt", "d1/15.txt", "d1/8.txt", "d2/16.txt", "d2/2.txt", "d2/9.txt"] == names
    assert "--absolute" in integrity.run("catalog", "export", expect=2).stderr
    whole = integrity.run("catalog", "export", "--absolute", expect=0).stdout
    assert 23 == len(whole.splitlines())
    assert f"  {other}/d1/1.txt\n" in whole
    integrity.run("catalog", "export", data / "none", expect=2)
    integrity.run("catalog", "export", tmp_path, expect=2)


def test_output_is_replaced_whole_or_not_at_all(integrity: Box, data: Path, tmp_path: Path) -> None:
    """What stood there stays until the new one is complete, keeps its permissions, and nothing is left beside it."""
    integrity.run("scan", data, expect=0)
    place = tmp_path / "out" / "sums"
    place.parent.mkdir()
    put(place, b"former")
    place.chmod(0o640)
    (tmp_path / "link").symlink_to(place)
    integrity.run("catalog", "export", data, "--format", "bagit", "--output", place, expect=2)
    assert b"former" == place.read_bytes()
    integrity.run("catalog", "export", "--output", tmp_path / "link", expect=0)

    assert (20, 0o640) == (len(place.read_bytes().splitlines()), place.stat().st_mode & 0o777)
    assert [place] == list(place.parent.iterdir())
    assert (tmp_path / "link").is_symlink()
    integrity.run("catalog", "export", "--output", place.parent, expect=2)
    integrity.run("catalog", "export", "--output", "/dev/null", expect=2)
    integrity.run("catalog", "export", "--output", tmp_path / "none" / "sums", expect=2)


def test_manifest_does_not_list_itself(integrity: Box, data: Path) -> None:
    """It lies in the root and is recorded, but by then it is another one."""
    put(data / "MD5SUMS", b"an older one")
    integrity.run("scan", data, expect=0)
    integrity.run("catalog", "export", "--output", data / "MD5SUMS", expect=0)

    subprocess.run(["md5sum", "-c", "--strict", "--quiet", "MD5SUMS"], cwd=data, check=True)


def test_files_in_question_are_written_as_they_were(integrity: Box, data: Path) -> None:
    """While a finding is open the baseline is what is known to be good."""
    integrity.configure(f'[[root]]\npath = "{data}"\npolicy = "archive"\n')
    before = integrity.run("scan", data, expect=0) and integrity.run("catalog", "export", expect=0).stdout
    put(plant_path(data, 3), b"another")
    integrity.run("scan", data, expect=1)
    done = integrity.run("catalog", "export", expect=0)

    assert before == done.stdout
    assert "1 file of these in question" in done.stderr


def test_sparse_files_have_no_md5_to_export(integrity: Box, tmp_path: Path) -> None:
    """They are counted, and what was asked for is not all there."""
    (tmp_path / "data").mkdir()
    put(tmp_path / "data" / "small")
    put_sparse(tmp_path / "data" / "huge", 2 << 30, [(0, b"start")])
    integrity.run("scan", tmp_path / "data", expect=0)
    done = integrity.run("catalog", "export", expect=3)

    assert 1 == len(done.stdout.splitlines())
    assert "1 very sparse file left out" in done.stderr


@pytest.mark.parametrize("form", ["md5sum", "hashdeep", "json"])
def test_export_can_be_imported(integrity: Box, nasty: bytes, tmp_path: Path, form: str) -> None:
    """Into another catalog, whatever the names are; it is found out what the manifest is."""
    integrity.run("scan", nasty, expect=0)
    integrity.run("catalog", "export", "--format", form, "--output", tmp_path / "manifest", expect=0)
    other = Box(tmp_path / "other")
    size = len(walk(nasty))
    first = other.run("--json", "catalog", "import", tmp_path / "manifest", "--root", nasty, expect=0)
    again = other.run("--json", "catalog", "import", tmp_path / "manifest", "--root", nasty, expect=0)

    assert ({"verified": size}, form) == (counts(first), first.summary["format"])
    assert ({"already": size}, 0, 0) == (counts(again), again.summary["not_compared"], again.summary["bytes_read"])
    assert [] == told(first) + told(again)
    columns = "SELECT name, size_bytes, mtime_ns, md5, xxh3_128, block_size_bytes FROM file ORDER BY 1, 4"
    assert query(integrity, columns) == query(other, columns)
    assert query(integrity, "SELECT md5, xxh3_128 FROM block_run") == query(
        other, "SELECT md5, xxh3_128 FROM block_run"
    )
    assert 0 == other.run("catalog", "check").code


def test_bag_can_be_imported(integrity: Box, nasty: bytes, tmp_path: Path) -> None:
    """Its names are relative to the folder that the manifest lies in, wherever in the root that is."""
    bag = os.fsencode(tmp_path) + b"/bags/one"
    os.makedirs(bag)
    os.rename(nasty, bag + b"/data")
    integrity.run("scan", bag, expect=0)
    integrity.run("catalog", "export", bag, "--format", "bagit", "--output", bag, expect=0)
    other = Box(tmp_path / "other")
    done = other.run(
        "--json", "catalog", "import", bag + b"/manifest-md5.txt", "--root", os.path.dirname(bag), expect=0
    )

    assert {"verified": len(walk(bag + b"/data"))} == counts(done)


def test_imported_files_are_scanned_and_scrubbed_like_others(integrity: Box, data: Path, tmp_path: Path) -> None:
    """The scan has nothing to read, the scrub verifies all, nothing is found."""
    put(tmp_path / "sums", sum_up(data))
    integrity.run("catalog", "import", tmp_path / "sums", "--root", data, expect=0)
    scan = integrity.summary("scan", data, expect=0)
    scrub = integrity.summary("scrub", data, expect=0)

    assert (20, 0) == (scan["files_not_due"], scan["bytes_read"])
    assert (20, 0) == (scrub["files_verified"], scrub["findings_open"])
    integrity.run("status", expect=0)
    (story,) = integrity.json("explain", plant_path(data, 3), expect=0)
    assert ("imported", str(tmp_path / "sums")) == (story["reason"], story["imported_from"])
    assert f"{tmp_path}/sums" in integrity.run("explain", plant_path(data, 3), expect=0).stdout


def test_changed_file_is_not_recorded(integrity: Box, data: Path, tmp_path: Path) -> None:
    """A flipped bit, another length and an edit since the manifest was made: each is told, none becomes a baseline."""
    need_programs("hashdeep")
    put(tmp_path / "known", sum_up(data, "hashdeep"))
    damage(plant_path(data, 1))
    put(plant_path(data, 2), b"longer than it was before")
    done = integrity.run("--json", "catalog", "import", tmp_path / "known", "--root", data, expect=1)

    assert {"verified": 18, "differing": 2} == counts(done)
    assert {str(plant_path(data, 1)), str(plant_path(data, 2))} == {str(path) for _, path, _ in told(done)}
    assert {"1.txt", "2.txt"}.isdisjoint(recorded(integrity))
    assert {"imported"} == set(recorded(integrity).values())
    assert "DIFFERS" in integrity.run("-q", "catalog", "import", tmp_path / "known", "--root", data, expect=1).stdout


def test_baseline_is_never_replaced(integrity: Box, data: Path, tmp_path: Path) -> None:
    """What is recorded is compared with its record, and not read; it stays, right or wrong."""
    sums = sum_up(data)
    put(plant_path(data, 1), b"another")
    integrity.run("scan", data, expect=0)
    before = query(integrity, "SELECT * FROM file")
    put(tmp_path / "sums", sums)
    put(plant_path(data, 2), b"edited since")
    done = integrity.run("--json", "catalog", "import", tmp_path / "sums", "--root", data, expect=1)

    assert {"already": 19, "differing": 1} == counts(done)
    assert [str(plant_path(data, 1))] == [path for _, path, _ in told(done)]
    assert 0 == done.summary["bytes_read"]
    assert before == query(integrity, "SELECT * FROM file")


@pytest.mark.parametrize("program", ["sha1sum", "sha256sum", "sha512sum", "hashdeep", "xxhsum", "b3sum"])
def test_other_digests_verify_as_well(integrity: Box, data: Path, tmp_path: Path, program: str) -> None:
    """Digests that the catalog does not keep are computed on the way; a wrong one among right ones is enough."""
    need_programs(program)
    put(data / "large", os.urandom(3 << 20))
    put(tmp_path / "sums", sum_up(data, program))
    damage(plant_path(data, 1))
    options = ["--algorithm", "blake3"] if program == "b3sum" else []
    command = ["catalog", "import", tmp_path / "sums", "--root", data, *options]
    done = integrity.run("--json", *command, expect=1)
    again = integrity.run("--json", *command, expect=1)
    kept = 20 if program == "hashdeep" else 0

    assert {"verified": 20, "differing": 1} == counts(done)
    assert ({"already": 20, "differing": 1}, 20 - kept) == (counts(again), again.summary["not_compared"])
    assert [(None,)] == query(integrity, "SELECT DISTINCT blake3 FROM file")
    assert 20 == integrity.summary("scrub", "--deep", "--no-scan", data, expect=0)["files_verified"]


def test_lines_of_one_file_are_one_claim(integrity: Box, data: Path, tmp_path: Path) -> None:
    """
    A file that has a line for each algorithm is read once, and must be right in all of them.

    Two digests of one kind can't both be right: a manifest that contradicts itself proves nothing.
    """
    lines = integrity.run("sum", "-r", "--md5", "--sha256", "--tag", ".", cwd=data, expect=0).stdout
    wrong = re.sub(r"(SHA256 \(\./d3/3\.txt\) = ).*", r"\g<1>" + "0" * 64, lines)
    put(tmp_path / "sums", wrong.encode())
    done = integrity.run("--json", "catalog", "import", tmp_path / "sums", "--root", data, expect=1)

    assert {"verified": 38, "differing": 2} == counts(done)
    assert 19 == len(recorded(integrity))
    put(tmp_path / "sums", sum_up(data) + b"0" * 32 + b"  d3/3.txt\n")
    done = integrity.run("--json", "catalog", "import", tmp_path / "sums", "--root", data, expect=1)
    assert {"already": 19, "differing": 2} == counts(done)
    assert "3.txt" not in recorded(integrity)


def test_names_never_lead_out_of_the_root(integrity: Box, data: Path, tmp_path: Path) -> None:
    """Neither dots nor absolute names nor links: what lies outside is told, and not even looked at."""
    outside = plant(tmp_path / "outside", 3)
    (data / "link").symlink_to(outside)
    (data / "one").symlink_to(plant_path(outside, 1))
    (data / "fifo").unlink(missing_ok=True)
    os.mkfifo(data / "fifo")
    names = {
        "../outside/d1/1.txt": "outside",
        f"{outside}/d1/1.txt": "outside",
        "d1/../../outside/d1/1.txt": "outside",
        f"{tmp_path}/data2/x": "outside",
        ".": "outside",
        "link/d1/1.txt": "left_out",
        "one": "left_out",
        "fifo": "left_out",
        "d1": "left_out",
        "none/x": "missing",
        "d1/1.txt/x": "missing",
        "x" * 300: "missing",
        "./d1//1.txt": "verified",
        f"{data}/d2/2.txt": "verified",
        "../data/d3/./3.txt": "verified",
        "none/../d4/4.txt": "verified",
    }
    right = {name: (data / name).resolve() for name in names if names[name] == "verified" and "none" not in name}
    right["none/../d4/4.txt"] = data / "d4/4.txt"
    digests = {name: hashlib.md5(path.read_bytes()).hexdigest() for name, path in right.items()}
    inside = hashlib.md5(plant_path(outside, 1).read_bytes()).hexdigest()
    put(tmp_path / "sums", "".join(f"{digests.get(name, inside)}  {name}\n" for name in names).encode())
    done = integrity.run("--json", "catalog", "import", tmp_path / "sums", "--root", data, expect=3)
    expected = list(names.values())

    assert {kind: expected.count(kind) for kind in set(expected)} == counts(done)
    for outcome, _, line in told(done):
        assert expected[int(str(line)) - 1] == outcome
    assert {"1.txt", "2.txt", "3.txt", "4.txt"} == set(recorded(integrity))


def test_base_says_what_names_are_relative_to(integrity: Box, data: Path, tmp_path: Path) -> None:
    """A manifest made above the root, below it, or under another spelling of it."""
    put(tmp_path / "above", sum_up(tmp_path, place="data"))
    put(tmp_path / "below", sum_up(data / "d1"))
    (tmp_path / "spelled").symlink_to(data)
    (tmp_path / "absolute").write_bytes(sum_up(data / "d2", place=f"{tmp_path}/spelled/d2"))
    command = ["--json", "catalog", "import"]
    below = integrity.run(*command, tmp_path / "below", "--root", data, "--base", data / "d1", expect=0)
    spelled = integrity.run(*command, tmp_path / "absolute", "--root", tmp_path / "spelled", expect=0)
    above = integrity.run(*command, tmp_path / "above", "--root", data, "--base", tmp_path, expect=0)
    part = integrity.run(*command, tmp_path / "above", "--root", data / "d1", "--base", tmp_path, expect=3)

    assert [{"verified": 3}, {"verified": 3}] == [counts(below), counts(spelled)]
    assert {"verified": 14, "already": 6} == counts(above)
    assert {"already": 3, "outside": 17} == counts(part)
    assert [(str(data).encode(),)] == query(integrity, "SELECT path FROM root")


def test_missing_files_and_bad_lines_are_told(integrity: Box, data: Path, tmp_path: Path) -> None:
    """Each with its line; the others are imported, and the exit code says that there is more, as does the record."""
    put(tmp_path / "sums", b"nonsense\n" + sum_up(data) + b"# comment\n\n" + b"0" * 32 + b"  gone\nmore nonsense\n")
    done = integrity.run("--json", "catalog", "import", tmp_path / "sums", "--root", data, expect=3)

    assert {"verified": 20, "missing": 1, "bad": 2} == counts(done)
    assert [("bad", None, 1), ("bad", None, 25), ("missing", str(data / "gone"), 24)] == sorted(told(done), key=str)
    assert "incomplete" == done.summary["outcome"]
    assert [("import", "incomplete", 20, 1)] == query(integrity, "SELECT job, outcome, new, missing FROM run")


def test_wrong_words_are_refused(integrity: Box, data: Path, tmp_path: Path) -> None:
    """
    What is no manifest, one that is not there, a root that is a file or not there, an algorithm that nobody knows.

    Nothing is done for it: no root is made, not even a catalog.
    """
    for content, name, word in (
        (b"", "empty", "no digests"),
        (b"\0" + random.Random(1).randbytes(5000), "noise", "is it a manifest"),
        (b"; sfv\nd1/1.txt 1234ABCD\n", "sums.sfv", "CRC32"),
    ):
        put(tmp_path / name, content)
        assert word in integrity.run("catalog", "import", tmp_path / name, "--root", data, expect=2).stderr
    put(tmp_path / "sums", sum_up(data))
    command = ["catalog", "import", tmp_path / "sums"]
    integrity.run("catalog", "import", tmp_path / "none", "--root", data, expect=2)
    integrity.run("catalog", "import", data, "--root", data, expect=2)
    integrity.run(*command, expect=2)
    integrity.run(*command, "--root", tmp_path / "none", expect=2)
    integrity.run(*command, "--root", plant_path(data, 1), expect=2)
    integrity.run(*command, "--root", data, "--algorithm", "crc32", expect=2)
    integrity.run(*command, "--root", data, "--algorithm", "sha256", expect=2)
    assert not integrity.catalog.exists()
    put(tmp_path / "manifest-tiger.txt.d", b"0" * 32 + b"  d1/1.txt\n")  # a name like that of a bag's manifest
    integrity.run("catalog", "import", tmp_path / "manifest-tiger.txt.d", "--root", data, expect=1)
    integrity.run("scan", data, expect=0)
    integrity.run(*command, "--root", plant_path(data, 1), expect=2)


def test_excluded_files_are_left_out(integrity: Box, data: Path, tmp_path: Path) -> None:
    """What no scan would record is not imported, either, and that is no fault."""
    (data / "@eaDir").mkdir()
    put(data / "@eaDir" / "thumb")
    put(tmp_path / "sums", sum_up(data))
    done = integrity.run("--json", "catalog", "import", tmp_path / "sums", "--root", data, expect=0)

    assert {"verified": 20, "left_out": 1} == counts(done)
    assert 20 == integrity.summary("scan", data, expect=0)["files_not_due"]


def test_moved_file_keeps_its_baseline(integrity: Box, data: Path, tmp_path: Path) -> None:
    """Its record stands under its former name until the next scan: it is compared with that."""
    integrity.run("scan", data, expect=0)
    plant_path(data, 1).rename(data / "moved.txt")
    plant_path(data, 2).rename(data / "wrong.txt")
    right = hashlib.md5((data / "wrong.txt").read_bytes()).hexdigest().encode()
    put(tmp_path / "sums", sum_up(data).replace(right, b"0" * 32))
    done = integrity.run("--json", "catalog", "import", tmp_path / "sums", "--root", data, expect=1)

    assert {"already": 19, "differing": 1} == counts(done)
    assert 2 == integrity.summary("scan", data, expect=0)["files_moved"]


def test_sparse_file_is_held_against_its_digest_all_the_same(integrity: Box, tmp_path: Path) -> None:
    """A recording computes none of the whole of it; the import does, and then records what a scan would."""
    (tmp_path / "data").mkdir()
    size = 1100 << 20
    put_sparse(tmp_path / "data" / "huge", size, [(0, b"start")])
    hasher = xxh3_128(b"start" + bytes((1 << 20) - 5))  # quicker than MD5, and as much a digest of the whole file
    for _ in range(size // (1 << 20) - 1):
        hasher.update(bytes(1 << 20))
    put(tmp_path / "sums", f"XXH128 (huge) = {hasher.hexdigest()}\n".encode())
    integrity.configure('[defaults]\nblock_size = "64MiB"\n')
    integrity.run("catalog", "import", tmp_path / "sums", "--root", tmp_path / "data", expect=0)

    assert [(None, "imported")] == query(integrity, "SELECT md5, reason FROM file")
    assert 1 == integrity.summary("scan", tmp_path / "data", expect=0)["files_not_due"]


def test_unreadable_file_is_told_and_not_recorded(integrity: Box, data: Path, tmp_path: Path) -> None:
    """What permissions keep away is not covered; the others are."""
    put(tmp_path / "sums", sum_up(data))
    let_in(integrity.home.parent)
    assert integrity.environment
    integrity.home.chmod(0o777)
    plant_path(data, 3).chmod(0)
    done = run_as_nobody(integrity, "--json", "catalog", "import", tmp_path / "sums", "--root", data)

    assert (3, {"verified": 19, "unreadable": 1}) == (done.code, counts(done))
    assert [str(plant_path(data, 3))] == [path for _, path, _ in told(done)]
    assert "3.txt" not in recorded(integrity)


def test_standard_input_is_a_manifest(integrity: Box, data: Path) -> None:
    """As in ``md5sum * | integrity catalog import - --root .``."""
    done = subprocess.run(
        make_command("catalog", "import", "-", "--root", "."),
        env=integrity.environment, cwd=data, input=sum_up(data), capture_output=True, check=False,
    )  # fmt: skip

    assert 0 == done.returncode, done.stderr
    (story,) = integrity.json("explain", plant_path(data, 1), expect=0)
    assert "standard input" == story["imported_from"]


@pytest.mark.root("strace")
def test_import_that_is_killed_at_a_write_is_completed(integrity: Box, tmp_path: Path) -> None:
    """In the middle of what is written; ``campaigns.kills`` has all other places."""
    root = plant(tmp_path / "data", 50)
    put(tmp_path / "sums", sum_up(root))
    integrity.run("scan", plant(tmp_path / "other", 2), expect=0)
    command = make_command("catalog", "import", tmp_path / "sums", "--root", root)
    signal_at(command, "pwrite64", 13, env=integrity.environment)
    done = integrity.run("--json", "catalog", "import", tmp_path / "sums", "--root", root, expect=0)

    assert 50 == sum(counts(done).values())
    assert 0 == integrity.run("catalog", "check").code
    assert 50 == integrity.summary("scrub", root, expect=0)["files_verified"]


@pytest.mark.parametrize("hash_of", [hashlib.blake2b, hashlib.sha3_256, hashlib.sha384, hashlib.sha256, xxh3_128])
def test_import_finds_the_algorithm(integrity: Box, data: Path, tmp_path: Path, hash_of: Callable[..., Any]) -> None:
    """The list does not name it; a file that differs from a line of it is not recorded, nor is any taken for rotten."""
    names = sorted(path.relative_to(data) for path in data.rglob("*") if path.is_file())
    lines = [f"{hash_of((data / name).read_bytes()).hexdigest()}  {name}\n" for name in names]
    (tmp_path / "list").write_text("".join(lines))
    put(data / names[0], b"rotten")

    done = integrity.run("--json", "catalog", "import", tmp_path / "list", "--root", data, expect=1)
    assert (len(names) - 1, 1) == (done.summary["verified"], done.summary["differing"])
    again = integrity.run("--json", "catalog", "import", tmp_path / "list", "--root", data, expect=1)
    assert (len(names) - 1, 1) == (again.summary["already"], again.summary["differing"])


def test_import_of_an_unknown_algorithm_accuses_nothing(integrity: Box, data: Path, tmp_path: Path) -> None:
    """Said once, exit 3; with the option each file differs."""
    for number in range(30):
        put(data / str(number), b"%d" % number)
    (tmp_path / "list").write_text("".join(f"{number:032x}  {number}\n" for number in range(30)))

    done = integrity.run("--json", "catalog", "import", tmp_path / "list", "--root", data, expect=3)
    assert (30, 0, 0) == (done.summary["unknown"], done.summary["differing"], done.summary["verified"])
    assert 1 == sum("perhaps they are of another algorithm" in str(note["message"]) for note in done.of_type("note"))
    command = ("--json", "catalog", "import", tmp_path / "list", "--root", data, "--algorithm", "md5")
    assert 30 == integrity.run(*command, expect=1).summary["differing"]


def test_import_leaves_the_list_itself_out(integrity: Box, data: Path) -> None:
    """``md5sum * > MD5SUMS`` digests the list before it is written."""
    put(data / "MD5SUMS", b"d41d8cd98f00b204e9800998ecf8427e  MD5SUMS\n")

    done = integrity.run("--json", "catalog", "import", data / "MD5SUMS", "--root", data, expect=0)
    assert (1, 0) == (done.summary["left_out"], done.summary["differing"])


def test_import_of_a_list_made_on_windows(integrity: Box, data: Path, tmp_path: Path) -> None:
    """Comments, backslashes, letter case and another Unicode form; said once, and recorded under the files' names."""
    (data / "Käse").mkdir()
    put(data / "Käse" / "Ü.txt", b"abc")
    md5 = hashlib.md5(b"abc").hexdigest()
    name = unicodedata.normalize("NFD", "käse\\ü.TXT")
    (tmp_path / "win.md5").write_text(f"; TeraCopy\r\n\r\n{md5} *{name}\r\n")

    done = integrity.run("--json", "catalog", "import", tmp_path / "win.md5", "--root", data, expect=0)
    assert 1 == done.summary["verified"]
    assert 1 == sum("spelled otherwise" in str(note["message"]) for note in done.of_type("note"))
    assert 1 == integrity.run("--json", "catalog", "import", tmp_path / "win.md5", "--root", data).summary["already"]
