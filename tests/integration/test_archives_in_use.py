"""Repositories that their owner uses meanwhile; and as whom, with what, restic and borg are started."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from support.archives import COUNT, PASSWORD, Borg, Pair, Restic, with_archives
from support.cli import Box
from support.planted import plant
from support.results import kinds_by_name, tallies
from support.waiting import wait_until


@with_archives()
def test_repository_is_only_read(pair: Pair) -> None:
    """All of it works on a read-only file system: no lock is taken that a backup or clean-up would meet."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to mount")
    pair.archive.back_up(pair.root)
    pair.run("scan")
    place = str(pair.archive.place)
    subprocess.run(["mount", "--bind", "-o", "ro", place, place], check=True)
    try:
        pair.compare("--read")
        pair.run("versions", pair.large)
        pair.run("history", "nightly")
    finally:
        subprocess.run(["umount", place], check=True)


@with_archives()
def test_reading_goes_on_beside_a_backup(pair: Pair) -> None:
    """The lock of a backup under way neither stops a comparison nor is in its way."""
    pair.archive.back_up(pair.root)
    pair.run("scan")
    with pair.archive.begin_backup():
        assert {"verified": COUNT + 1} == tallies(pair.compare("--read"))


@with_archives(long=Borg)
def test_clean_up_meanwhile_hides_no_file(pair: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it moved elsewhere while the archive was written is read again, from there."""
    plant(pair.root / "kept", 20, size_bytes=300_000)
    old = plant(pair.root / "old", 20, size_bytes=300_000)
    pair.archive.back_up(pair.root)
    shutil.rmtree(old)
    pair.archive.back_up(pair.root)
    pair.run("scan")
    began, go_on = tmp_path / "began", tmp_path / "go-on"
    os.mkfifo(go_on)
    put_before(
        pair,
        monkeypatch,
        f'case "$*" in *--archive=tar*|*export-tar*) [ -e {began} ] ||'
        f' {{ {pair.real} "$@" | {{ head -c 100000; : > {began}; cat {go_on} -; }}; exit; }};; esac',
    )
    with ThreadPoolExecutor() as pool:
        compared = pool.submit(pair.compare, "--read")
        wait_until(began.exists, "the beginning of the archive")
        pair.archive.forget(0)
        go_on.write_bytes(b"")
        assert {"verified": COUNT + 1 + 20} == tallies(compared.result())


def put_before(pair: Pair, monkeypatch: pytest.MonkeyPatch, lines: str) -> None:
    """Put a script of the same name before the real program, which it ends in."""
    folder = pair.root.parent / "bin"
    folder.mkdir(mode=0o755)
    script = folder / pair.archive.program
    script.write_text(f'#!/bin/sh\n{lines}\nexec {pair.real} "$@"\n')
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


@pytest.fixture
def told(pair: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Note how the program is started."""
    log = tmp_path / "told"
    log.touch()
    log.chmod(0o666)
    put_before(pair, monkeypatch, f'echo "$(id -u) $HOME $TZ $(readlink /proc/self/fd/0) $*" >> {log}')
    return log


@with_archives(long=Restic)
def test_password_stands_nowhere(pair: Pair, told: Path) -> None:
    """Not on a command line, in the catalog, or in what is printed."""
    pair.archive.back_up(pair.root)
    pair.run("scan")
    shown = pair.compare("--read").stdout
    assert "--" in told.read_text()
    assert PASSWORD not in told.read_text() + shown
    assert PASSWORD.encode() not in b"".join(one.read_bytes() for one in pair.integrity.home.glob("catalog*"))


@with_archives(long=Borg)
@pytest.mark.root
def test_root_reads_as_the_owner_of_a_repository(pair: Pair, told: Path) -> None:
    """Nothing of another's programs or settings runs as root, waits for an answer, or depends on a time zone."""
    owner = pwd.getpwnam("nobody")
    pair.archive.back_up(pair.root)
    pair.run("scan")
    for folder in pair.archive.place.parents:
        folder.chmod(folder.stat().st_mode | 0o055) if str(folder).startswith("/tmp/") else None
    for one in (pair.archive.place, *pair.archive.place.rglob("*"), pair.archive.password_file):
        os.chown(one, owner.pw_uid, owner.pw_gid)
    pair.compare("--read")
    expected = f"{owner.pw_uid} {owner.pw_dir} UTC /dev/null"
    assert {expected} == {line.partition(" --")[0].rpartition(" ")[0] for line in told.read_text().splitlines()}


@with_archives(long=Restic)
def test_password_is_what_a_command_prints(pair: Pair) -> None:
    """The program asks the command by itself."""
    pair.archive.back_up(pair.root)
    pair.configure(password_file="", password_command=f"cat {pair.archive.password_file}")
    pair.run("scan")
    pair.compare()


def test_backups_are_chosen_by_all_of_their_tags(integrity: Box, tmp_path: Path) -> None:
    """One that lacks a tag is no version, although it is newer."""
    pair = Pair(integrity, tmp_path, Restic)
    pair.archive.back_up(pair.root, tags=("photos", "nas"))
    pair.small.write_text("edited")
    pair.archive.back_up(pair.root, tags=("nas",))
    pair.run("scan")
    pair.configure(tags=["nas", "photos"])
    assert {pair.small.name: "copy_stale"} == kinds_by_name(pair.compare(expect=1))
    pair.configure(tags=["nas"])
    pair.compare()


def test_repository_of_another_version_is_told(integrity: Box, tmp_path: Path) -> None:
    """In borg's own words, and nothing is called missing for it."""
    pair = Pair(integrity, tmp_path, Borg)
    pair.archive.back_up(pair.root)
    pair.run("scan")
    config = pair.archive.place / "config"
    config.write_text(config.read_text().replace("version = 1", "version = 9"))
    done = pair.compare(expect=3)
    (finding,) = done.findings
    assert "copy_unreadable" == finding["kind"]
    assert "version 9 is not supported" in finding["message"]
    assert "missing" not in tallies(done)
