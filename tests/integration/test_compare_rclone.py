"""``compare`` with copies that the real rclone reads: with digests and without, encrypted, and with secrets in URLs."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from support import AnyPath
from support.cli import Box, Completed
from support.comparing import steps
from support.machine import need_programs
from support.planted import plant
from support.results import kinds_by_name, messages, tallies
from support.running import Running
from support.s3box import ACCESS, SECRET, S3Box
from support.shapes import damage
from support.stored import query
from support.waiting import wait_until

PASSWORD = "never-shown-anywhere"


class Pair:
    """
    A root, and an rclone of its own to copy it with: ``pair.copy_to("disk:/there"); pair.compare("disk:/there")``.

    Attributes:
        config: rclone's.
        copy: a folder for copies.
    """

    def __init__(self, integrity: Box, folder: Path, count: int = 20) -> None:
        self.integrity, self.folder = integrity, folder
        self.root = plant(folder / "root", count, size_bytes=3000)
        self.copy = folder / "copy"
        self.copy.mkdir()
        self.config = folder / "rclone.conf"
        self.config.write_text("[disk]\ntype = local\n")
        self.env = {"RCLONE_CONFIG": str(self.config)}

    def add_remote(self, name: str, **options: str) -> None:
        """Add a remote to rclone's config."""
        lines = [f"[{name}]", *(f"{key} = {value}" for key, value in options.items())]
        self.config.write_text(self.config.read_text() + "\n".join(lines) + "\n")

    def rclone(self, *args: AnyPath) -> str:
        """Run rclone."""
        done = subprocess.run(["rclone", *args], env=os.environ | self.env, capture_output=True, check=True, text=True)
        return done.stdout.strip()

    def compare(self, remote: str, *options: AnyPath, expect: int) -> Completed:
        """Compare, and insist on an exit code."""
        command = ["--json", "-v", "compare", self.root, "--with", f"rclone:{remote}", *options]
        return self.integrity.run(*command, env=self.env, expect=expect)


@pytest.fixture
def few(integrity: Box, tmp_path: Path) -> Pair:
    """Make a root of few files, where rclone derives a key for each: that is slow on purpose."""
    need_programs("rclone")
    return Pair(integrity, tmp_path, 4)


@pytest.fixture
def pair(integrity: Box, tmp_path: Path) -> Pair:
    """Make a root of some files."""
    need_programs("rclone")
    return Pair(integrity, tmp_path)


def plant_differences(root: Path, copy: Path) -> dict[str, str]:
    """Make one difference of each kind."""
    (copy / "d0" / "0.txt").write_bytes((root / "d0" / "0.txt").read_bytes()[::-1])
    os.truncate(copy / "d1" / "1.txt", 100)
    (copy / "d2" / "2.txt").unlink()
    (copy / "d3" / "extra").write_bytes(b"x")
    return {"0.txt": "copy_newer", "1.txt": "copy_newer", "2.txt": "copy_missing"}


@pytest.mark.parametrize("options", [(), ("--read",)])
def test_local_disk_by_rclone_is_compared(pair: Pair, options: tuple[str, ...]) -> None:
    """Rclone computes the digests on the disk: the bytes are read, by whom does not matter."""
    pair.rclone("copy", pair.root, f"disk:{pair.copy}")
    assert {"verified": 20} == tallies(pair.compare(f"disk:{pair.copy}", *options, expect=0))
    expected = plant_differences(pair.root, pair.copy)
    done = pair.compare(f"disk:{pair.copy}", *options, expect=1)

    assert expected == kinds_by_name(done)
    assert {"verified": 17, "changed": 2, "missing": 1} == tallies(done)
    assert (0, 19) == (done.summary["files_published"], done.summary["files_read"])
    assert 1 == done.summary["files_extra"]


def test_encrypted_remote_is_compared_by_its_bytes_only(few: Pair) -> None:
    """It has no digests: not comparable, exit 3 and what to do; rclone decrypts what --read reads."""
    password = few.rclone("obscure", PASSWORD)
    few.add_remote("secret", type="crypt", remote=str(few.copy), password=password)
    few.rclone("copy", few.root, "secret:")
    done = few.compare("secret:", expect=3)
    assert {"skipped": 4} == tallies(done)
    assert "--read" in messages(done)

    assert ["--read"] == [step.split()[-1] for step in steps(done, "copy_not_comparable")]
    assert 3 == few.integrity.run("findings").code  # never counted as good, by no command
    assert 3 == few.integrity.run("status").code

    assert {"verified": 4} == tallies(few.compare("secret:", "--read", expect=0))
    few.integrity.run("findings", expect=0)
    few.compare("secret:", expect=3)  # which tells nothing, and takes nothing away of what is known
    shown = few.integrity.run("explain", sorted(few.root.rglob("*.txt"))[0]).stdout
    assert ": intact, compared" in shown
    assert "data last read back" in shown
    (stored, *_) = (path for path in few.copy.rglob("*") if path.is_file())
    data = bytearray(stored.read_bytes())
    data[500] ^= 1
    stored.write_bytes(data)
    read = few.compare("secret:", "--read", expect=3)
    assert ["copy_unreadable"] == [each["kind"] for each in read.findings]
    assert {"verified": 3, "unreadable": 1} == tallies(read)


def test_store_behind_rclone_publishes_its_digests(pair: Pair, moto: S3Box) -> None:
    """What the store keeps comes with the listing; only what differs by it is downloaded."""
    bucket = moto.make_bucket()
    pair.add_remote(
        "store",
        type="s3",
        provider="Other",
        endpoint=moto.endpoint,
        access_key_id=ACCESS,
        secret_access_key=SECRET,
        force_path_style="true",
    )
    for path in pair.root.rglob("*.txt"):
        moto.put(bucket, f"backup/{path.relative_to(pair.root)}", path.read_bytes())
    moto.put(bucket, "backup/d0/7.txt", b"x" * 3000)
    done = pair.compare(f"store:{bucket}/backup", expect=1)

    assert {"7.txt": "copy_conflict"} == kinds_by_name(done)
    assert (19, 1) == (done.summary["files_published"], done.summary["files_read"])
    asked = {key for method, key in moto.find_questions(bucket) if method != "PUT" and key.startswith("backup/d")}
    assert {"backup/d0/7.txt"} == asked


def test_hash_of_an_unknown_kind_makes_no_difference(pair: Pair) -> None:
    """What is kept of OneDrive's and Dropbox's hashes can't be computed here: not comparable, never different."""
    pair.add_remote("secret", type="crypt", remote=str(pair.copy), password=pair.rclone("obscure", PASSWORD))
    pair.add_remote("odd", type="hasher", remote="secret:", hashes="quickxor,dropbox,mailru", auto_size="1M")
    pair.rclone("copy", pair.root, "odd:")
    assert pair.rclone("hashsum", "quickxor", "odd:", "--download")
    done = pair.compare("odd:", expect=3)

    assert {"skipped": 20} == tallies(done)
    assert ["copy_not_comparable"] == [each["kind"] for each in done.findings]


def make_witness(pair: Pair) -> Path:
    """Put a program before rclone that writes down how it was called; return what it writes to."""
    real, log = shutil.which("rclone"), pair.folder / "calls"
    programs = pair.folder / "bin"
    programs.mkdir()
    (programs / "rclone").write_text(f'#!/bin/sh\necho "$@" >>{log}\nexec {real} "$@"\n', encoding="utf-8")
    (programs / "rclone").chmod(0o755)
    pair.env["PATH"] = f"{programs}:{os.environ['PATH']}"
    return log


def test_secrets_of_a_url_are_nowhere(few: Pair) -> None:
    """Neither printed nor kept, nor on rclone's command line, where everybody on the machine could read them."""
    password = few.rclone("obscure", PASSWORD)
    remote = f':crypt,remote="{few.copy}",password={password}:'
    few.rclone("copy", few.root, remote)
    calls = make_witness(few)
    (few.root / "d0" / "0.txt").write_bytes(b"newer than the copy")
    runs = [few.compare(remote, "--read", expect=1), few.compare(remote, expect=1)]
    shown = str(runs[0].summary["copy"])
    assert "rclone::crypt,...:" == shown
    runs += [
        few.integrity.run("-v", "findings", expect=1),
        few.integrity.run("--json", "explain", few.root / "d1" / "1.txt", expect=0),
        few.integrity.run("status"),
        few.integrity.run("compare", few.root, "--with", shown, env=few.env, expect=2),
    ]
    assert "its whole URL" in runs[-1].stderr
    few.rclone("purge", str(few.copy))
    runs.append(few.compare(remote, "--read", expect=3))
    assert ["copy_unreadable"] == [each["kind"] for each in runs[-1].findings if "copy" in str(each["kind"])][:1]

    files = [path for path in few.integrity.home.iterdir() if path.is_file() and path.name.startswith("catalog")]
    texts = [run.stdout + run.stderr for run in runs] + [path.read_bytes().decode("latin-1") for path in files]
    assert [] == [text for text in [*texts, calls.read_text()] if password in text or PASSWORD in text]
    assert "integritycopy:" in calls.read_text()
    assert [(shown, shown)] == query(few.integrity, "SELECT name, url FROM copy")


def test_remote_that_is_gone_makes_nothing_missing(pair: Pair) -> None:
    """
    Its folder is gone, or the remote is not configured any more: exit 3, one finding about the copy.

    A repair learns it when it asks for the file, as the store itself still answers, and could not cover it.
    """
    pair.rclone("copy", pair.root, f"disk:{pair.copy}")
    pair.compare(f"disk:{pair.copy}", expect=0)
    file = sorted(pair.root.rglob("*.*"))[0]
    good = file.read_bytes()
    damage(file, 5)
    pair.integrity.run("scrub", pair.root, expect=1)
    repair = ("repair", file, "--from", f"rclone:disk:{pair.copy}")
    pair.integrity.run(*repair, env=pair.env, expect=0)
    pair.copy.rename(pair.folder / "elsewhere")
    refused = pair.integrity.run(*repair, env=pair.env, expect=3)
    assert "can't be reached" in refused.stderr + refused.stdout
    (pair.folder / "elsewhere").rename(pair.copy)
    pair.integrity.run(*repair, "--apply", env=pair.env, expect=0)
    assert good == file.read_bytes()
    pair.copy.rename(pair.folder / "elsewhere")
    done = pair.compare(f"disk:{pair.copy}", expect=3)
    assert ["copy_unreadable"] == [each["kind"] for each in done.findings]
    assert {"not_due": 20} == tallies(done)
    pair.config.write_text("")
    done = pair.compare(f"disk:{pair.copy}", expect=3)
    assert ["copy_unreadable"] == [each["kind"] for each in done.findings]


def test_rclone_is_asked_for(pair: Pair, tmp_path: Path) -> None:
    """Where it is not installed nothing is done, and what to install is told."""
    (tmp_path / "nothing").mkdir()
    pair.env["PATH"] = str(tmp_path / "nothing")
    done = pair.compare(f"disk:{pair.copy}", expect=2)
    assert "apt install rclone" in done.stderr


def test_comparison_that_is_asked_to_end_does_not_wait_for_rclone(pair: Pair) -> None:
    """Rclone may compute for hours: SIGTERM ends it and the comparison, and no rclone is left."""
    pair.rclone("copy", pair.root, f"disk:{pair.copy}")
    pair.integrity.run("scan", pair.root, expect=0)
    programs, pid = pair.folder / "bin", pair.folder / "pid"
    programs.mkdir()
    script = f'case $* in *--hash-type*) echo $$ >{pid}; exec sleep 600;; esac\nexec {shutil.which("rclone")} "$@"\n'
    (programs / "rclone").write_text(f"#!/bin/sh\n{script}", encoding="utf-8")
    (programs / "rclone").chmod(0o755)
    pair.env["PATH"] = f"{programs}:{os.environ['PATH']}"
    command = ["--json", "compare", pair.root, "--with", f"rclone:disk:{pair.copy}"]
    with Running(pair.integrity, *command, env=pair.env) as running:
        wait_until(lambda: pid.exists() and bool(pid.read_text()), "rclone computes")
        os.kill(running.pid, 15)
        done = running.finish(10)

    assert 130 == done.code
    assert {"not_due": 20} == tallies(done)
    assert not os.path.exists(f"/proc/{pid.read_text().strip()}")
