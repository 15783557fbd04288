"""A root against manifests that real tools wrote, and against such as nobody should have written."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import unicodedata
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import bagit
import pytest
import xxhash

from support.cli import Box, complete, make_command
from support.comparing import compare, counts, said
from support.machine import need_programs
from support.planted import plant_path
from support.proc import measure
from support.shapes import put

MIB = 1 << 20
COUNT = 30
pytestmark = pytest.mark.files(COUNT, size_bytes=3000)
EMPTY = b"d41d8cd98f00b204e9800998ecf8427e"


@pytest.fixture
def root(root: Path, integrity: Box) -> Path:
    """Record the files, a large one and an empty one."""
    put(root / "large", os.urandom(2 * MIB + 5))
    put(root / "empty", b"")
    integrity.run("scan", root, expect=0)
    return root


def list_names(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


def write_with(tool: list[str], root: Path, manifest: Path) -> None:
    """Have a tool write a manifest of all files."""
    need_programs(tool[0])
    done = subprocess.run([*tool, *list_names(root)], cwd=root, check=True, capture_output=True)
    manifest.write_bytes(done.stdout)


def write_list(root: Path, manifest: Path, hash_of: Callable[..., Any] = hashlib.md5) -> None:
    """Write lines without an algorithm."""
    lines = [f"{hash_of((root / name).read_bytes()).hexdigest()}  {name}\n" for name in list_names(root)]
    manifest.write_text("".join(lines))


def write_sfv(root: Path, manifest: Path) -> None:
    lines = [f"{name} {zlib.crc32((root / name).read_bytes()):08X}\r\n" for name in list_names(root)]
    manifest.write_bytes(("; made by hand\r\n" + "".join(lines)).encode())


def write_bag(root: Path, manifest: Path) -> None:
    lines = [f"{hashlib.sha512((root / name).read_bytes()).hexdigest()}  data/{name}\n" for name in list_names(root)]
    manifest.write_text("".join(lines))


def write_ours(algorithm: str, root: Path, manifest: Path, *options: str) -> None:
    command = make_command(*options, "sum", f"--{algorithm}", *list_names(root))
    done = subprocess.run(command, cwd=root, check=True, capture_output=True)
    manifest.write_bytes(done.stdout)


FORMS = {
    "MD5SUMS": lambda root, manifest: write_with(["md5sum"], root, manifest),
    "SHA1SUMS": lambda root, manifest: write_with(["sha1sum", "-b"], root, manifest),
    "sha256": lambda root, manifest: write_with(["sha256sum"], root, manifest),
    "bsd": lambda root, manifest: write_with(["sha512sum", "--tag"], root, manifest),
    "zeros": lambda root, manifest: write_with(["md5sum", "-z"], root, manifest),
    "xxh128": lambda root, manifest: write_with(["xxh128sum"], root, manifest),
    "hashdeep": lambda root, manifest: write_with(["hashdeep", "-l", "-c", "md5,sha256"], root, manifest),
    "files.sfv": write_sfv,
    "manifest-sha512.txt": write_bag,
    "b2sum": lambda root, manifest: write_with(["b2sum"], root, manifest),
    "blake2.list": lambda root, manifest: write_with(["b2sum", "-l", "256"], root, manifest),
    "sha384.list": lambda root, manifest: write_with(["sha384sum"], root, manifest),
    "list.of.64.bits": lambda root, manifest: write_with(["xxh64sum"], root, manifest),
    "sha3": lambda root, manifest: write_with(["openssl", "dgst", "-sha3-256"], root, manifest),
    "b3sum": lambda root, manifest: write_with(["b3sum"], root, manifest),
    "sum.xxh128": lambda root, manifest: write_ours("xxh128", root, manifest),
    "sum.json": lambda root, manifest: write_ours("sha256", root, manifest, "--json"),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form(root: Path, integrity: Box, tmp_path: Path, form: str) -> None:
    """A good manifest is exit 0; of changed, missing, edited and extra files each is told as what it is."""
    manifest = tmp_path / form
    FORMS[form](root, manifest)
    done = compare(integrity, root, "--with", manifest, expect=0)
    assert {"verified": COUNT + 2} == counts(done)
    assert (0, COUNT + 2) == (done.summary["files_read"], done.summary["files_published"])

    shutil.copytree(root, tmp_path / "other")
    put(tmp_path / "other" / "extra")
    put(plant_path(tmp_path / "other", 3), b"other content")
    plant_path(tmp_path / "other", 4).unlink()
    FORMS[form](tmp_path / "other", manifest)
    done = compare(integrity, root, "--with", manifest, expect=1)
    expected = {"copy_conflict": {"d3/3.txt"}, "copy_missing": {"d4/4.txt"}, "copy_extra": {"extra"}}
    assert expected == said(done, root)
    assert {"verified": COUNT, "missing": 1, "changed": 1, "conflicting": 1, "extra": 1} == counts(done)


def test_stale_by_a_digest_that_is_kept(root: Path, integrity: Box, tmp_path: Path) -> None:
    """What was edited since the manifest was written is an older version, not damage."""
    manifest = tmp_path / "sums"
    write_with(["md5sum"], root, manifest)
    put(root / "large", b"edited")
    assert {"copy_stale": {"large"}} == said(compare(integrity, root, "--with", manifest, expect=1), root)


@pytest.mark.parametrize("prefix", ["./", "{root}/", "root/", "{root}//./"])
def test_names_that_begin_elsewhere(root: Path, integrity: Box, tmp_path: Path, prefix: str) -> None:
    """
    Names from find, absolute ones, and those from the folder above, where the manifest lies.

    Carriage returns at the ends of lines and a byte order mark, as on Windows, belong to no name.
    """
    manifest = tmp_path / "sums"
    write_list(root, manifest)
    text = manifest.read_bytes().replace(b"  ", f"  {prefix.format(root=root)}".encode())
    for content in (text, b"\xef\xbb\xbf" + text.replace(b"\n", b"\r\n")):
        manifest.write_bytes(content)
        assert {"verified": COUNT + 2} == counts(compare(integrity, root, "--with", manifest, expect=0))


def test_names_that_are_all_refused_prove_nothing(root: Path, integrity: Box, tmp_path: Path) -> None:
    """Of a backup somewhere else, with absolute names: nothing is missing, whether the list was good before or not."""
    manifest = tmp_path / "sums"
    lines = {name: hashlib.md5((root / name).read_bytes()).hexdigest() for name in list_names(root)}
    for _ in range(2):
        manifest.write_text("".join(f"{digest}  /mnt/backup/{name}\n" for name, digest in lines.items()))
        done = compare(integrity, root, "--with", manifest, expect=3)
        assert set() == set(said(done, root)) - {"copy_unreadable"}
        manifest.write_text("".join(f"{digest}  {name}\n" for name, digest in lines.items()))
        compare(integrity, root, "--with", manifest, expect=0)


def test_odd_names_as_md5sum_escapes_them(integrity: Box, tmp_path: Path) -> None:
    """Line feeds, backslashes and bytes that are no UTF-8 come back from the manifest as they were."""
    root = os.fsencode(tmp_path / "root")
    os.mkdir(root)
    names = [b"new\nline", b"back\\slash", b"bad\xff", b"-n", b" ", b"\\n", b"*star", b"  two"]
    for name in names:
        put(os.path.join(root, name), b"1" + name)
    manifest = tmp_path / "sums"
    done = subprocess.run([b"md5sum", b"--", *names], cwd=root, check=True, capture_output=True)
    manifest.write_bytes(done.stdout)
    assert {"verified": len(names)} == counts(compare(integrity, root, "--with", manifest, expect=0))


def test_several_lists_in_one_file(root: Path, integrity: Box, tmp_path: Path) -> None:
    """A list by MD5 and one by SHA-256 one after the other are both held against; said twice is not contradicted."""
    one, two, manifest = tmp_path / "one", tmp_path / "two", tmp_path / "sums"
    write_with(["md5sum", "--tag"], root, one)
    write_with(["sha256sum", "--tag"], root, two)
    manifest.write_bytes(one.read_bytes() + two.read_bytes() + one.read_bytes())
    assert {"verified": COUNT + 2} == counts(compare(integrity, root, "--with", manifest, expect=0))
    text = manifest.read_bytes()
    for new in (hashlib.md5, hashlib.sha256):
        digest = new((root / "large").read_bytes()).hexdigest().encode()
        text = text.replace(digest, digest[::-1])
    manifest.write_bytes(text)
    assert {"copy_conflict": {"large"}} == said(compare(integrity, root, "--with", manifest, expect=1), root)


def test_names_that_are_listed_twice_and_differently(root: Path, integrity: Box, tmp_path: Path) -> None:
    """Which of the two is meant can't be told: not comparable, with the reason, exit 3."""
    manifest = tmp_path / "sums"
    write_with(["md5sum"], root, manifest)
    with manifest.open("ab") as file:
        file.write(EMPTY + b"  large\n")
    done = compare(integrity, root, "--with", manifest, expect=3)
    assert {"copy_not_comparable": {"large", ""}} == said(done, root)
    assert {"verified": COUNT + 1, "skipped": 1, "not_comparable": 1} == counts(done)
    write_with(["md5sum"], root, manifest)
    compare(integrity, root, "--with", manifest, expect=0)
    integrity.run("findings", expect=0)


def test_one_wrong_digest_of_one_file_is_a_difference(root: Path, integrity: Box, tmp_path: Path) -> None:
    """One file is no evidence for another algorithm; a list that says two things of it is not right by one of them."""
    sha256 = hashlib.sha256((root / "large").read_bytes()).hexdigest()
    for text in (f"{1:0128x}  large\n", f"{'0' * 32}  large\n{sha256}  large\n"):
        (tmp_path / "list").write_text(text)
        done = compare(integrity, root / "large", "--with", tmp_path / "list", expect=1)
        assert {"copy_conflict": {"large"}} == said(done, root)


def test_bytes_can_not_be_asked_of_a_manifest(root: Path, integrity: Box, tmp_path: Path) -> None:
    """--read is refused with exit 2 and says why; nothing is kept."""
    manifest = tmp_path / "sums"
    write_with(["md5sum"], root, manifest)
    for option in (("--read",), ("--read-percent", "5")):
        assert "digests only" in integrity.run("compare", root, "--with", manifest, *option, expect=2).stderr


def test_only_the_files_that_have_to_be_are_read(root: Path, integrity: Box, tmp_path: Path) -> None:
    """By MD5 not one byte is; by SHA-256 each byte once."""
    manifest = tmp_path / "sums"
    write_with(["md5sum"], root, manifest)
    assert 0 == compare(integrity, root, "--with", manifest, "--no-scan", expect=0).summary["bytes_read"]
    write_with(["sha256sum"], root, manifest)
    done = compare(integrity, root, "--with", manifest, "--no-scan", expect=0)
    assert COUNT * 3000 + 2 * MIB + 5 == done.summary["bytes_read"]


@pytest.mark.root("strace")
def test_hostile_names_lead_nowhere(root: Path, integrity: Box, tmp_path: Path) -> None:
    """Up, absolute, empty, with NUL: told with the line, never opened or looked at; all else is compared."""
    secret = tmp_path / "hidden-away"
    put(secret, b"")
    manifest = tmp_path / "sums"
    write_with(["sha256sum"], root, manifest)
    (root / "link").symlink_to(secret)
    digest = hashlib.sha256(b"").hexdigest().encode()
    bad = [
        b"../hidden-away",
        bytes(secret),
        b"d1/../../hidden-away",
        b"/etc/shadow",
        b"..",
        b".",
        b"nul\0name",
    ]
    with manifest.open("ab") as file:
        file.write(b"".join(digest + b"  " + name + b"\n" for name in bad) + digest + b"  link\n")
    trace = tmp_path / "trace"
    command = ["strace", "-f", "--seccomp-bpf", "-qq", "-s", "300", "-e", "trace=file", "-o", str(trace)]
    full = [*command, *make_command("--json", "compare", root, "--with", manifest, "--no-scan")]
    done = subprocess.run(full, env=integrity.environment, capture_output=True, check=False)
    assert 3 == done.returncode, done.stdout + done.stderr
    for name in (b"hidden-away", b"shadow", b"nul\\0"):
        calls = [line for line in trace.read_bytes().splitlines() if name in line and b"execve(" not in line]
        assert [] == calls
    found = compare(integrity, root, "--with", manifest, "--no-scan", expect=3)
    assert {"verified": COUNT + 2, "extra": 1} == counts(found)
    told = "".join(str(note["message"]) for note in found.of_type("note"))
    assert all(f"line {COUNT + 2 + number:,}" in told for number in range(1, len(bad) + 1))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "holds no digests"),
        (b"\0\1\2\3" * 100_000, "is it a manifest?"),
        (b"just some words\n" * 5, "is it a manifest?"),
        (b"PK\3\4" + bytes(range(256)) * 50, "is it a manifest?"),
        (EMPTY + b"  nobody/knows\n", "none of its 1 files has the name of a recorded one"),
    ],
)
def test_what_is_no_manifest(root: Path, integrity: Box, tmp_path: Path, content: bytes, words: str) -> None:
    """Nothing, binary data, prose, or a list of other files: exit 3 with what was seen, and no word of any file."""
    manifest = tmp_path / "sums"
    manifest.write_bytes(content)
    done = integrity.run("compare", root, "--with", manifest, expect=3)
    assert words in done.stderr
    integrity.run("findings", expect=0)


def test_manifest_that_vanished(root: Path, integrity: Box, tmp_path: Path) -> None:
    """Once it was compared, that it can't be reached is a finding, which ends when it is back."""
    manifest = tmp_path / "sums"
    write_with(["md5sum"], root, manifest)
    compare(integrity, root, "--with", manifest, expect=0)
    kept = manifest.read_bytes()
    manifest.unlink()
    done = compare(integrity, root, "--with", manifest, expect=3)
    assert {"copy_unreadable": {""}} == said(done, root)
    manifest.write_bytes(kept)
    compare(integrity, root, "--with", manifest, expect=0)
    integrity.run("findings", expect=0)


def spoil(manifest: Path, shape: str) -> None:
    """Fill up a manifest."""
    with manifest.open("ab") as file:
        if shape == "long line":
            file.write(b"a" * 50_000_000)
        elif shape == "sparse":
            file.truncate(1 << 28)
        elif shape in ("long names", "names up"):
            up = b"../" if shape == "names up" else b""
            for number in range(60):
                file.write(EMPTY + b"  " + up + b"x" * 1_000_000 + b"%d\n" % number)
        elif shape == "extra":
            file.write(b"".join(EMPTY + b"  n/%d\n" % number for number in range(25_000)))
        elif shape == "bad lines":
            file.write(b"x\n" * 150_000)
        else:
            file.write(b"".join(b"%032x  large\n%032x  empty\n" % (number, number) for number in range(15_000)))


@pytest.mark.root
def test_memory_is_constant(root: Path, integrity: Box, tmp_path: Path) -> None:
    """Whatever a manifest is filled with, a comparison takes no more memory for it than some buffers, and ends."""
    good, manifest = tmp_path / "good", tmp_path / "sums"
    write_with(["md5sum"], root, good)
    command = ("--json", "compare", root, "--no-scan", "--with")
    small = measure(make_command(*command, good), env=integrity.environment)
    assert 0 == small.code
    for shape in ("long line", "sparse", "long names", "names up", "extra", "bad lines", "repeated"):
        shutil.copy(good, manifest)
        spoil(manifest, shape)
        large = measure(make_command(*command, manifest), env=integrity.environment)
        assert large.code in (0, 3), (shape, large.stderr)
        assert large.peak_rss_bytes - small.peak_rss_bytes < (45 if "names" in shape else 8) << 20, shape
        summary = complete(large.code, large.stdout, large.stderr, is_json=True).summary
        assert COUNT + 2 - 2 * (shape == "repeated") == summary["files_verified"], shape


@pytest.mark.parametrize(
    "hash_of", [hashlib.md5, hashlib.sha3_512, hashlib.blake2b, hashlib.blake2s, hashlib.sha224, xxhash.xxh3_64]
)
def test_algorithm_is_found(root: Path, integrity: Box, tmp_path: Path, hash_of: Callable[..., Any]) -> None:
    """No word of the list or of its name says it; the file that differs is damaged, also while most files do."""
    manifest = tmp_path / "list"
    write_list(root, manifest, hash_of)
    assert {"verified": COUNT + 2} == counts(compare(integrity, root, "--with", manifest, expect=0))
    shutil.copytree(root, tmp_path / "other")
    for name in list_names(root)[1:]:
        put(tmp_path / "other" / name, b"other content")
    write_list(tmp_path / "other", manifest, hash_of)
    done = compare(integrity, root, "--with", manifest, expect=1)
    assert {"verified": 1, "changed": COUNT + 1, "conflicting": COUNT + 1} == counts(done)


def test_unknown_algorithm_accuses_nothing(root: Path, integrity: Box, tmp_path: Path) -> None:
    """Said once, exit 3; an option or a name that states the algorithm makes each file differ."""
    lines = "".join(f"{number:064x}  {name}\n" for number, name in enumerate(list_names(root)))
    (tmp_path / "list").write_text(lines)
    (tmp_path / "list.b3").write_text(lines)
    done = compare(integrity, root, "--with", tmp_path / "list", expect=3)
    assert {"skipped": COUNT + 2, "not_comparable": COUNT + 2} == counts(done)
    assert 1 == sum("perhaps they are of another algorithm" in str(note["message"]) for note in done.of_type("note"))
    expected = {"changed": COUNT + 2, "conflicting": COUNT + 2}
    assert expected == counts(compare(integrity, root, "--with", tmp_path / "list.b3", expect=1))
    for name in ("sha256", "blake2s"):
        done = compare(integrity, root, "--with", tmp_path / "list", "--algorithm", name, expect=1)
        assert expected == counts(done)


def test_algorithm_is_for_lists(root: Path, integrity: Box, tmp_path: Path) -> None:
    """A folder has bytes."""
    (tmp_path / "copy").mkdir()
    done = integrity.run("compare", root, "--with", tmp_path / "copy", "--algorithm", "md5", expect=2)
    assert "leave --algorithm out" in done.stderr
    assert 2 == integrity.run("compare", root, "--with", tmp_path / "copy", "--algorithm", "rot13").code


@pytest.mark.parametrize("name", ["MD5SUMS", "list of files", "sub/MD5SUMS"])
def test_list_in_the_folder_that_it_describes(root: Path, integrity: Box, name: str) -> None:
    """Neither the list nor another beside it is missing in the backup; a new file is, and a text that is no list."""
    base = (root / name).parent
    base.mkdir(exist_ok=True)
    put(base / "a", b"abc")
    write_list(base, base / "first.sha256", hashlib.sha256)
    (base / "first.sha256").rename(base / "first")
    lines = [
        f"{hashlib.md5((base / one).read_bytes()).hexdigest()}  {one}\n" for one in list_names(base) if one != "first"
    ]
    (root / name).write_text("".join(lines))
    compare(integrity, base, "--with", root / name, expect=0)
    put(base / "new", b"Invoice 20240101\n")
    done = compare(integrity, base, "--with", root / name, expect=1)
    assert {"copy_missing": {str((base / "new").relative_to(root))}} == said(done, root)


def test_list_that_has_a_line_of_itself(root: Path, integrity: Box, tmp_path: Path) -> None:
    """``md5sum * > MD5SUMS`` digests the list before it is written; also a list that was copied with the files."""
    put(root / "SHA512SUMS", b"")
    write_list(root, root / "SHA512SUMS", hashlib.sha512)
    shutil.copytree(root, tmp_path / "copy")
    for place in (root, tmp_path / "copy"):
        compare(integrity, root, "--with", place / "SHA512SUMS", expect=0)


def test_bag_against_its_own_manifests(integrity: Box, tmp_path: Path) -> None:
    """The payload manifest covers the payload, and the other one the rest."""
    bag = tmp_path / "bag"
    (bag / "sub").mkdir(parents=True)
    put(bag / "a.txt", b"abc")
    put(bag / "sub" / "b.txt", b"xyz")
    bagit.make_bag(str(bag), checksums=["md5", "sha512"])
    compare(integrity, bag, "--with", bag / "manifest-md5.txt", expect=0)
    compare(integrity, bag, "--with", bag / "tagmanifest-sha512.txt", expect=0)
    put(bag / "data" / "new", b"new")
    done = compare(integrity, bag, "--with", bag / "manifest-md5.txt", expect=1)
    assert {"copy_missing": {"data/new"}} == said(done, bag)


def test_list_in_another_spelling(root: Path, integrity: Box, tmp_path: Path) -> None:
    """Accents as macOS has them, capitals and backslashes: matched by name, and damage is damage; said once."""
    for number, name in enumerate(("Käse/Öl.txt", "Foto.JPG", "sub/deep/b.bin")):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        put(root / name, b"%d" % number)
    lines = {name: hashlib.md5((root / name).read_bytes()).hexdigest() for name in list_names(root)}
    lines["Foto.JPG"] = "0" * 32
    manifest = tmp_path / "list"
    text = "".join(f"{digest}  {name}\n" for name, digest in lines.items())
    text = unicodedata.normalize("NFD", text.replace("Foto.JPG", "foto.jpg").replace("/", "\\"))
    manifest.write_bytes(text.encode("utf-16"))
    done = compare(integrity, root, "--with", manifest, expect=1)
    assert {"copy_conflict": {"Foto.JPG"}} == said(done, root)
    assert 1 == sum("spelled otherwise" in str(note["message"]) for note in done.of_type("note"))


def test_two_spellings_of_one_file_contradict_each_other(root: Path, integrity: Box, tmp_path: Path) -> None:
    """Which of the two is meant can't be told; one that is listed as it is recorded stays what it is."""
    write_list(root, tmp_path / "list")
    with (tmp_path / "list").open("a") as file:
        file.write(f"{1:032x}  LARGE\n")
    assert {"copy_extra": {"LARGE"}} == said(compare(integrity, root, "--with", tmp_path / "list", expect=0), root)
    text = (tmp_path / "list").read_text().replace("  large\n", "  Large\n")
    (tmp_path / "list").write_text(text)
    done = compare(integrity, root, "--with", tmp_path / "list", expect=3)
    assert {"copy_not_comparable": {"large", ""}} == said(done, root)
