"""Parity: what it makes, what it heals, and what it refuses, with the real par2."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from integrity.copies.parity.packets import read_set
from integrity.copies.parity.program import find_par2
from support.cli import Box
from support.parity import find_set_files, make_random, needs_par2, protect, rot
from support.repairs import CONFIG, leftovers
from support.service import Service
from support.shapes import put
from support.smtpsink import SmtpSink, mail_toml
from support.waiting import wait_until

pytestmark = needs_par2

KIB = 1024


PHOTOS = {f"2019/{number}.jpg": make_random(number, 20 * KIB + 500 * number) for number in range(40)}
FILM = {"film.mkv": make_random(99, 3 << 20)}


@pytest.fixture
def parity(tmp_path: Path) -> Path:
    """Name the folder for parity."""
    return tmp_path / "parity"


@pytest.fixture
def root(integrity: Box, tmp_path: Path, parity: Path) -> Path:
    """Protect some photos and a film."""
    integrity.configure(CONFIG)
    protect(integrity, tmp_path / "root", parity, PHOTOS | FILM)
    return tmp_path / "root"


def test_sets_are_read_by_any_program(root: Path, parity: Path) -> None:
    """Each set is one PAR2 file that verifies the files under their names below the root."""
    names = set()
    for path in find_set_files(parity):
        done = subprocess.run([find_par2(), "verify", "-q", f"-B{root}", path], capture_output=True, check=False)
        assert done.returncode == 0, done
        with open(path, "rb") as file:
            names |= {one.name.decode() for one in read_set(file).files}
    assert names == PHOTOS.keys() | FILM.keys()


def test_files_of_similar_sizes_share_a_set(root: Path, parity: Path) -> None:
    """A photo does not take as much parity as a slice of a film."""
    sizes = []
    for path in find_set_files(parity):
        with open(path, "rb") as file:
            sizes.append(sorted(one.size_bytes for one in read_set(file).files))
    assert all(of_set[-1] < 8 * of_set[0] for of_set in sizes)
    assert sum(map(len, sizes)) == len(PHOTOS | FILM)


def test_flipped_bits_are_healed(integrity: Box, root: Path) -> None:
    """The finding of a damaged file says that parity heals it, and it does, keeping owner, mode and times."""
    film = root / "film.mkv"
    film.chmod(0o640)
    if os.geteuid() == 0:
        os.chown(film, 1234, 5678)
    integrity.run("scan", root, expect=0)
    before = film.stat()
    rot(film, (100_000, b"?"), (2 << 20, bytes(512)))
    [found] = integrity.findings("scrub", root, expect=1)
    assert "without a backup" in str(found["next_steps"])
    assert "--from parity" in str(found["next_steps"])

    integrity.run("repair", root, "--apply", expect=0)

    after = film.stat()
    assert film.read_bytes() == FILM["film.mkv"]
    assert (after.st_mode, after.st_uid, after.st_gid, after.st_mtime_ns) == (
        *(before.st_mode, before.st_uid, before.st_gid, before.st_mtime_ns),
    )
    assert integrity.findings("findings", expect=0) == []


def test_cut_off_and_lost_files_are_healed(integrity: Box, tmp_path: Path, parity: Path) -> None:
    """In an archive a lost file is a finding; parity has all of a small one, with its permissions."""
    root = tmp_path / "root"
    integrity.configure(f'{CONFIG}[[root]]\npath = "{root}"\npolicy = "archive"\n')
    (root / "2019").mkdir(parents=True)
    protect(integrity, root, parity, PHOTOS, "--parity", "20%")
    lost, cut = root / "2019/3.jpg", root / "2019/4.jpg"
    lost.chmod(0o604)
    integrity.run("scan", root, expect=0)
    lost.unlink()
    rot(cut, size=5000)
    integrity.run("scan", root)
    integrity.run("scrub", root)

    integrity.run("repair", lost, cut, "--from", "parity", "--apply", expect=0)

    assert lost.read_bytes() == PHOTOS["2019/3.jpg"]
    assert cut.read_bytes() == PHOTOS["2019/4.jpg"]
    assert leftovers(root) == [next(root.rglob(".4.jpg.integrity-*"))]


def test_too_much_damage_is_refused_and_what_is_missing_is_told(integrity: Box, root: Path) -> None:
    """Nothing is touched where parity is not enough."""
    film = root / "film.mkv"
    rot(film, (0, make_random(7, 1 << 20)))
    integrity.run("scrub", root, expect=1)
    damaged = film.read_bytes()

    said = integrity.run("repair", film, "--apply", expect=1).stdout

    assert "too much is damaged" in said
    assert film.read_bytes() == damaged
    assert leftovers(root) == []


def test_blocks_come_from_a_backup_and_the_rest_from_parity(integrity: Box, root: Path, tmp_path: Path) -> None:
    """A backup with half of the blocks good and parity that is enough for the other half heal together."""
    film, copy = root / "film.mkv", tmp_path / "backup"
    copy.mkdir()
    rot(film, (0, make_random(7, 512 * KIB)), (2 << 20, make_random(8, 64 * KIB)))
    put(copy / "film.mkv", FILM["film.mkv"])
    rot(copy / "film.mkv", (2 << 20, make_random(9, 64 * KIB)))
    integrity.run("scrub", root, expect=1)

    said = integrity.run("repair", film, "--from", copy, "--from", "parity", "--apply", expect=0).stdout

    assert film.read_bytes() == FILM["film.mkv"]
    assert "intact in parity" in said
    assert str(copy) in said


def test_healing_writes_into_no_other_file(integrity: Box, tmp_path: Path, parity: Path) -> None:
    """What is put together from a backup is put nowhere that another file of the set is linked."""
    root, copy = tmp_path / "root", tmp_path / "backup"
    other = make_random(98, 3 << 20)
    protect(integrity, root, parity, FILM | {"film.mkv.made": other})
    copy.mkdir()
    rot(root / "film.mkv", (0, make_random(7, 1 << 20)), (2 << 20, make_random(8, 64 * KIB)))
    put(copy / "film.mkv", FILM["film.mkv"])
    rot(copy / "film.mkv", (2 << 20, make_random(9, 64 * KIB)))
    integrity.run("scrub", root, expect=1)

    integrity.run("repair", root / "film.mkv", "--from", copy, "--from", "parity", "--apply", expect=0)

    assert (root / "film.mkv").read_bytes() == FILM["film.mkv"]
    assert (root / "film.mkv.made").read_bytes() == other


def test_set_heals_files_that_were_renamed(integrity: Box, root: Path) -> None:
    """Files are found by what they have, so a folder may be renamed."""
    (root / "2019").rename(root / "summer of 2019")
    integrity.run("scan", root, expect=0)
    rot(root / "summer of 2019/5.jpg", (100, b"damage"))
    integrity.run("scrub", root, expect=1)

    integrity.run("repair", root, "--apply", expect=0)

    assert (root / "summer of 2019/5.jpg").read_bytes() == PHOTOS["2019/5.jpg"]


def test_several_damaged_files_are_healed_together(integrity: Box, root: Path) -> None:
    """One line of advice for all of them says that no backup is needed."""
    for number in range(6):
        rot(root / f"2019/{number}.jpg", (100, b"damage"))

    said = integrity.run("scrub", root, expect=1).stdout

    assert "restore the recorded content from parity" in said
    assert "--from parity" in said
    assert "from a backup" not in said


def test_names_of_any_bytes(integrity: Box, tmp_path: Path, parity: Path) -> None:
    """Names that are patterns to par2, options, or no UTF-8 are protected like others."""
    root = tmp_path / "root"
    names = ["What?.mp3", "a*.mp3", "-r5", 'q"<>:|x', "[x] ünï.jpg", os.fsdecode(b"\xff.jpg")]
    contents = {name: make_random(number, 30 * KIB) for number, name in enumerate(names)}
    protect(integrity, root, parity, contents, "--parity", "30%")
    for name in names:
        rot(root / name, (1000, b"damage"))
        integrity.run("scrub", root / name, expect=1)
        integrity.run("repair", root / name, "--apply", "--discard", expect=0)
        assert (root / name).read_bytes() == contents[name]


def test_names_that_mean_others_to_par2(integrity: Box, tmp_path: Path, parity: Path) -> None:
    """par2 takes a pattern for all files that it matches, of which some are not recorded."""
    root = tmp_path / "root"
    contents = {"Who?.mp3": make_random(1, 9 * KIB), "other": make_random(2, 9 * KIB)}
    protect(integrity, root, parity, contents)
    put(root / "Whom.mp3", make_random(3, 9 * KIB))
    put(root / "What?.mp3", make_random(4, 9 * KIB))
    put(root / "When.mp3", make_random(4, 9 * KIB))
    integrity.run("scan", root, expect=0)
    put(root / "Whats.mp3", make_random(5, 9 * KIB))

    said = integrity.run("protect", root, "--folder", parity, expect=3).stdout

    assert "What?.mp3" in said
    names = set()
    for path in find_set_files(parity):
        with open(path, "rb") as file:
            names |= {one.name for one in read_set(file).files}
    assert names == {b"Who?.mp3", b"other", b"Whom.mp3", b"When.mp3"}


def test_names_that_par2_would_change_are_left_out(integrity: Box, tmp_path: Path, parity: Path) -> None:
    """A backslash is a slash to par2, so such a name might lead out of the folder that it heals in."""
    root = tmp_path / "root"
    names = {
        "..\\..\\up": make_random(1, 9 * KIB),
        "tab\t": make_random(2, 9 * KIB),
        "plain": make_random(3, 9 * KIB),
        "1": make_random(4, 9 * KIB),
        "n" * 254: make_random(5, 9 * KIB),  # it would be renamed to ….1 when it is damaged
        "n" * 253: make_random(6, 9 * KIB),
    }
    protect(integrity, root, parity, names, "--parity", "60%")

    [path] = find_set_files(parity)

    with open(path, "rb") as file:
        assert {one.name for one in read_set(file).files} == {b"n" * 253, b"plain"}
    rot(root / ("n" * 253), (5, b"damage"))
    integrity.run("scrub", root, expect=1)
    integrity.run("repair", root, "--apply", "--discard", expect=0)


def test_plan_tells_space_and_time_and_writes_nothing(integrity: Box, root: Path, parity: Path) -> None:
    """What is told is near what is made."""
    made = sum(path.stat().st_size for path in find_set_files(parity))
    other = parity.parent / "other"
    other.mkdir()
    put(root / "new.jpg", make_random(77, 100 * KIB))
    integrity.run("scan", root, expect=0)

    [plan] = [
        one for one in integrity.json("protect", root, "--folder", other, "--plan") if one["type"] == "parity_plan"
    ]

    assert plan["files"] == 1
    assert 0 < int(str(plan["parity_bytes"])) < made
    assert list(other.iterdir()) == []
    shown = integrity.run("protect", root, "--folder", other, "--plan", expect=0).stdout
    command = shown.rpartition("To protect them:  integrity ")[2].split()
    integrity.run(*command, expect=0)
    assert find_set_files(other)


def test_file_that_is_not_what_was_recorded_is_left_out(integrity: Box, root: Path, parity: Path) -> None:
    """A set that would be of other content than the recorded one is thrown away; the others are protected."""
    for name in ("new.jpg", "rotten.jpg"):
        put(root / name, make_random(len(name), 50 * KIB))
    integrity.run("scan", root, expect=0)
    rot(root / "rotten.jpg", (5, b"damage"))

    said = integrity.run("protect", root, "--folder", parity, expect=3).stdout

    assert f"scrub {root}/rotten.jpg" in said
    names = set()
    for path in find_set_files(parity):
        with open(path, "rb") as file:
            names |= {one.name for one in read_set(file).files}
    assert b"new.jpg" in names
    assert b"rotten.jpg" not in names


def test_what_mail_and_status_say(integrity: Box, root: Path) -> None:
    """Parity is no copy, but what it heals is not without remedy."""
    rot(root / "film.mkv", (100_000, b"?"))
    with SmtpSink() as sink:
        integrity.configure(f'{CONFIG}{mail_toml(sink.port)}[alerts]\ngroup = "0s"\n[[root]]\npath = "{root}"\n')
        integrity.run("scrub", root, expect=1)
        with Service(integrity):
            wait_until(lambda: bool(sink.received), "a mail")
        assert "parity can heal it without a backup" in str(sink.received[0])

    assert "can be repaired from parity" in integrity.run("status", expect=1).stdout


def test_version_of_a_backup_is_looked_for_although_there_is_parity(integrity: Box, root: Path, tmp_path: Path) -> None:
    """Whether parity is enough shows only when it is asked; a backup that has the file whole is advised first."""
    for day in (1, 2):
        version = tmp_path / f"backup/2026-11-0{day}"
        version.mkdir(parents=True)
        put(version / "film.mkv", FILM["film.mkv"] if day == 1 else b"damaged before")
    integrity.configure(
        f'{CONFIG}[[root]]\npath = "{root}"\n[[copy]]\nname = "nightly"\nof = "{root}"\n'
        f'url = "snapshots:{tmp_path}/backup/*"\n'
    )
    rot(root / "film.mkv", (100_000, b"?"))

    integrity.run("scrub", root, expect=1)

    [found] = integrity.findings("findings", expect=1)
    first = str(found["next_steps"][0])  # type: ignore[index]
    assert "nightly has it as recorded" in first
    assert "its parity may heal it" in first
