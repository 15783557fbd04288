"""How sets live: stale and damaged ones are made anew, those that are needed stay, a full disk stops nothing else."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from integrity.copies.parity.packets import read_set
from integrity.copies.parity.program import Par2
from integrity.errors import ReadInterrupted
from integrity.files.span import Pace
from support.cli import Box, make_command
from support.machine import need_programs
from support.mounts import filled, small_tmpfs
from support.parity import find_set_files, make_random, needs_par2, protect, rot
from support.planted import age
from support.privileges import NOBODY, as_nobody, let_in
from support.service import Service
from support.shapes import put
from support.stored import query, rewrite
from support.waiting import wait_until

pytestmark = needs_par2

KIB = 1024
PHOTOS = {f"2019/{number}.jpg": make_random(number, 20 * KIB + 250 * number) for number in range(40)}


@pytest.fixture
def parity(tmp_path: Path) -> Path:
    """Name the folder for parity."""
    return tmp_path / "parity"


@pytest.fixture
def root(integrity: Box, tmp_path: Path, parity: Path) -> Path:
    """Protect some photos of similar sizes."""
    protect(integrity, tmp_path / "root", parity, PHOTOS)
    return tmp_path / "root"


def edit(integrity: Box, root: Path, *names: str) -> None:
    """Change files as a program does."""
    for name in names:
        put(root / name, make_random(len(name) + 1000, 30 * KIB))
    age(*(root / name for name in names))
    integrity.run("scan", root, expect=0)


def find_protected(folder: Path) -> set[str]:
    """List the names of the files in the sets of a folder."""
    names = set()
    for path in find_set_files(folder):
        with open(path, "rb") as file:
            names |= {one.name.decode() for one in read_set(file).files}
    return names


def heals(integrity: Box, path: Path) -> bool:
    """Damage a file, repair it from parity, and tell whether it is what it was."""
    content = path.read_bytes()
    rot(path, (1000, b"damage"))
    integrity.run("scrub", path, expect=1)
    integrity.run("repair", path, "--from", "parity", "--apply", "--discard")
    return path.read_bytes() == content


def test_stale_set_is_made_anew_before_half_of_its_parity_is_used_up(
    integrity: Box, tmp_path: Path, parity: Path
) -> None:
    """One edited photo takes little of a set; with a quarter of its parity stale it is made anew."""
    root = tmp_path / "root"
    protect(integrity, root, parity, PHOTOS, "--parity", "20%")
    [before] = find_set_files(parity)
    edit(integrity, root, "2019/1.jpg")
    integrity.run("protect", root, "--folder", parity, "--parity", "20%", expect=0)
    assert before in find_set_files(parity)
    [status] = [one for one in integrity.json("status") if one["type"] == "root"]
    assert 0 < float(status["parity"]["least_percent"]) < 20  # type: ignore[index]

    edit(integrity, root, *(f"2019/{number}.jpg" for number in range(2, 5)))
    integrity.run("protect", root, "--folder", parity, "--parity", "20%", expect=0)

    assert before not in find_set_files(parity)
    assert find_protected(parity) == PHOTOS.keys()
    assert heals(integrity, root / "2019/3.jpg")
    assert heals(integrity, root / "2019/30.jpg")


def test_set_of_a_damaged_file_stays(integrity: Box, root: Path, parity: Path) -> None:
    """However stale it is: until the file is healed, it may be the only one that can."""
    [before] = find_set_files(parity)
    rot(root / "2019/9.jpg", (1000, b"damage"))
    integrity.run("scrub", root, expect=1)
    (root / "2019/1.jpg").unlink()
    edit(integrity, root, "2019/2.jpg")
    before.chmod(0o600)
    rot(before, (-8 + before.stat().st_size, b"damage"))
    rewrite(integrity, "UPDATE parity_set SET checked_at = 0")

    integrity.run("protect", root, "--folder", parity, expect=0)

    assert before in find_set_files(parity)
    integrity.run("repair", root, "--apply", expect=0)
    assert (root / "2019/9.jpg").read_bytes() == PHOTOS["2019/9.jpg"]
    integrity.run("protect", root, "--folder", parity, expect=0)
    assert before not in find_set_files(parity)


@pytest.mark.parametrize("where", ["first", "middle", "last"])
def test_damaged_set_is_found_and_made_anew(integrity: Box, root: Path, parity: Path, where: str) -> None:
    """Sets are read as often as files; a damaged one is replaced while it heals what it can."""
    [before] = find_set_files(parity)
    size = before.stat().st_size
    rot(before, ({"first": 100, "middle": size // 2, "last": size - 8}[where], b"damage"))
    rewrite(integrity, "UPDATE parity_set SET checked_at = 0")

    done = integrity.run("protect", root, "--folder", parity, expect=0)

    assert "a parity set is damaged" in done.stdout + done.stderr
    [after] = find_set_files(parity)
    assert after != before
    assert heals(integrity, root / "2019/30.jpg")


def test_set_that_was_cut_off_is_made_anew_at_once(integrity: Box, root: Path, parity: Path) -> None:
    """Its size shows it, without reading."""
    [before] = find_set_files(parity)
    os.truncate(before, before.stat().st_size // 2)

    done = integrity.run("protect", root, "--folder", parity, expect=0)

    assert "a parity set is damaged" in done.stdout + done.stderr
    assert before not in find_set_files(parity)


def test_want_of_room_to_heal_is_told(integrity: Box, root: Path, parity: Path, tmp_path: Path) -> None:
    """par2 itself says only that a repair is possible."""
    for number in range(2):
        rot(root / f"2019/{number}.jpg", (1000, b"damage"))
    integrity.run("scrub", root, expect=1)
    with small_tmpfs(tmp_path / "tmp", size_bytes=32 * KIB), small_tmpfs(tmp_path / "new", size_bytes=2 << 20) as new:
        shutil.move(next(parity.iterdir()), os.fsdecode(new))
        integrity.run("protect", root, "--folder", new)
        with filled(new):
            said = integrity.run("repair", root, env={"TMPDIR": str(tmp_path / "tmp")}, expect=1).stdout

    assert "set TMPDIR to a folder with more" in said


def test_new_files_join_a_small_set(integrity: Box, root: Path, parity: Path) -> None:
    """A set is read again only when as much is new as it has, so that many small ones grow into one."""
    (root / "2020").mkdir()
    for number in range(60):
        put(root / f"2020/{number}.jpg", make_random(number + 500, 25 * KIB))
    (root / "few").mkdir()
    put(root / "few/a.jpg", make_random(1, 25 * KIB))
    integrity.run("scan", root, expect=0)
    age(*root.glob("2020/*"))

    integrity.run("protect", root / "few", "--folder", parity, expect=0)
    assert len(find_set_files(parity)) == 2
    integrity.run("protect", root, "--folder", parity, expect=0)

    assert len(find_set_files(parity)) == 1
    assert len(find_protected(parity)) == 101


def test_set_that_a_killed_run_or_an_older_catalog_does_not_know_is_adopted(
    integrity: Box, root: Path, parity: Path
) -> None:
    """Nothing is made twice, and nothing that may be needed is deleted."""
    before = find_set_files(parity)
    rewrite(integrity, "DELETE FROM parity_set")
    (before[0].parent / ".making-abc").mkdir()

    integrity.run("protect", root, "--folder", parity, expect=0)

    assert find_set_files(parity) == before
    assert sorted(before[0].parent.iterdir()) == before
    assert heals(integrity, root / "2019/30.jpg")


def test_what_a_killed_repair_has_left_is_removed(integrity: Box, root: Path, tmp_path: Path) -> None:
    """The links of a process that goes on stay."""
    places = [tmp_path / "tmp" / f".healing-{name}" for name in ("killed", "going-on")]
    for place in places:
        place.mkdir(parents=True)
        (place / "9.jpg").symlink_to(root / "2019/9.jpg")
    os.mkfifo(places[0].with_name(".healing-fifo"))
    places[0].with_name(".healing-link").symlink_to(root)
    lock = os.open(places[1], os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    rot(root / "2019/9.jpg", (1000, b"damage"))
    integrity.run("scrub", root, expect=1)

    integrity.run("repair", root, "--apply", env={"TMPDIR": str(tmp_path / "tmp")}, expect=0)

    os.close(lock)
    assert {one.name for one in places[0].parent.iterdir()} == {".healing-fifo", ".healing-link", places[1].name}
    assert (root / "2019/9.jpg").read_bytes() == PHOTOS["2019/9.jpg"]
    assert (root / "2019/9.jpg").read_bytes() == PHOTOS["2019/9.jpg"]


def test_parity_of_an_absent_disk_is_neither_forgotten_nor_made_elsewhere(
    integrity: Box, root: Path, parity: Path
) -> None:
    """An empty folder is what an unmounted disk looks like."""
    parity.rename(parity.with_name("away"))
    parity.mkdir()

    done = integrity.run("protect", root, "--folder", parity, expect=3)

    assert "mount its disk" in done.stdout + done.stderr
    assert list(parity.iterdir()) == []
    assert query(integrity, "SELECT count(*) FROM parity_set") == [(1,)]
    rot(root / "2019/9.jpg", (1000, b"damage"))
    integrity.run("scrub", root, expect=1)
    assert "mount its disk" in integrity.run("repair", root).stdout
    parity.rmdir()
    parity.with_name("away").rename(parity)
    integrity.run("repair", root, "--apply", expect=0)


def test_full_disk_stops_the_making_of_sets_and_nothing_else(integrity: Box, tmp_path: Path) -> None:
    """What there is stays, what fits no more is told, and scans and scrubs go on."""
    disk = tmp_path / "disk"
    with small_tmpfs(disk, size_bytes=70 << 20):
        protect(integrity, tmp_path / "root", disk / "parity", PHOTOS)
        put(tmp_path / "root/new.jpg", make_random(5, 30 * KIB))
        integrity.run("scan", expect=0)
        with filled(disk, keep_bytes=1 << 20):
            plan = integrity.run("protect", tmp_path / "root", "--plan", expect=0).stdout
            assert "there is not enough space: 64.0 MiB must be free" in plan
            done = integrity.run("protect", tmp_path / "root", "--folder", disk / "parity", expect=3)
            assert "is full" in done.stdout + done.stderr
            integrity.run("scan", expect=0)
            integrity.run("scrub", expect=0)
            assert "could not make all" in integrity.run("status").stdout
        integrity.run("protect", tmp_path / "root", "--folder", disk / "parity", expect=0)
        assert find_protected(disk) == PHOTOS.keys() | {"new.jpg"}


def test_service_makes_parity_in_its_windows_of_what_has_rested(integrity: Box, tmp_path: Path, parity: Path) -> None:
    """Files that were verified and not changed for a week are protected, and younger ones not yet."""
    root = tmp_path / "root"
    parity.mkdir()
    for name, content in PHOTOS.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        put(root / name, content)
    put(root / "young.jpg", make_random(7, 25 * KIB))
    age(*root.rglob("*.jpg"))
    integrity.configure(
        f'[[root]]\npath = "{root}"\nparity = "10%"\nparity_folder = "{parity}"\n[schedule]\nscrub = "00:00-24:00"\n'
    )
    integrity.run("scan", expect=0)
    rewrite(integrity, "UPDATE file SET recorded_at = recorded_at - 8 * 86400 WHERE name != CAST('young.jpg' AS BLOB)")

    with Service(integrity):
        wait_until(lambda: query(integrity, "SELECT count(*) FROM parity_set") == [(1,)], "a set")

    assert find_protected(parity) == PHOTOS.keys()
    assert os.listdir(next(parity.iterdir())) == [find_set_files(parity)[0].name]
    [status] = [one for one in integrity.json("status") if one["type"] == "root"]
    assert status["parity"]["files"] == len(PHOTOS)  # type: ignore[index]


class Recorded(Pace):
    """A pace that records what was taken, and ends the reading after so much."""

    def __init__(self, most_bytes: int) -> None:
        self.taken: list[int] = []
        self._most_bytes = most_bytes

    def take(self, size_bytes: int) -> None:
        self.taken.append(size_bytes)
        if sum(self.taken) > self._most_bytes:
            raise ReadInterrupted("enough")


@pytest.mark.parametrize("most_bytes", [1 << 60, 1 << 20])
def test_what_par2_reads_counts_for_the_pace_of_the_disk(tmp_path: Path, most_bytes: int) -> None:
    """It is stopped while others have their turn, and nothing of it is left when the reading is to end."""
    large = tmp_path / "large"
    with open(large, "xb") as file:
        file.truncate(400 << 20)
    pace = Recorded(most_bytes)
    par2 = Par2("a set", lambda: False, pace, threads=1)

    def create() -> str:
        return par2.create(bytes(tmp_path) + b"/", bytes(tmp_path / "set.par2"), 256 << 10, 80, [bytes(large)])

    if most_bytes == 1 << 60:
        assert create() == ""
    else:
        with pytest.raises(ReadInterrupted):
            create()
    assert sum(pace.taken) > 1 << 20
    assert not Path(f"/proc/{par2.pid}").exists()


_CREATE = """
import sys
from integrity.copies.parity.program import Par2
from integrity.files.span import UNLIMITED
folder, large = (one.encode() for one in sys.argv[1:])
par2 = Par2("a set", lambda: print(par2.pid, flush=True), UNLIMITED, threads=1)
par2.create(folder + b"/", folder + b"/set.par2", 4 << 20, 200, [large])
"""


def test_par2_ends_with_a_run_that_is_killed(tmp_path: Path) -> None:
    """Nobody would wait for it, or let it go on where it was stopped for others."""
    need_programs("setpriv")
    large = tmp_path / "large"
    with open(large, "xb") as file:
        file.truncate(8 << 30)
    with subprocess.Popen([sys.executable, "-c", _CREATE, tmp_path, large], stdout=subprocess.PIPE) as run:
        assert run.stdout is not None
        pid = next(number for line in run.stdout if (number := int(line)))
        run.kill()
    try:
        wait_until(lambda: not Path(f"/proc/{pid}").exists(), "the end of par2")
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def test_sets_that_were_moved_are_found_in_their_new_folder(integrity: Box, root: Path, parity: Path) -> None:
    """A new disk for the parity: its files are copied there, and nothing is made again."""
    parity.rename(parity.with_name("new"))
    before = find_set_files(parity.with_name("new"))

    integrity.run("protect", root, "--folder", parity.with_name("new"), expect=0)

    assert find_set_files(parity.with_name("new")) == before
    assert query(integrity, "SELECT count(*) FROM parity_set") == [(1,)]
    assert heals(integrity, root / "2019/30.jpg")


def test_moved_sets_are_those_that_they_were(integrity: Box, root: Path, parity: Path) -> None:
    """A set that is needed is followed, not recorded anew by names that its files had; so is that of a moved root."""
    rot(root / "2019/9.jpg", (1000, b"damage"))
    integrity.run("scrub", root, expect=1)
    (root / "2019").rename(root / "summer")
    integrity.run("scan", root, expect=0)
    moved, new = root.with_name("elsewhere"), parity.with_name("new")
    root.rename(moved)
    integrity.run("root", "rebind", root, moved, expect=1)
    parity.rename(new)
    before = find_set_files(new)

    integrity.run("protect", moved, "--folder", new, expect=0)

    assert find_set_files(new) == before
    integrity.run("repair", moved, "--apply", "--discard", expect=0)
    assert (moved / "summer/9.jpg").read_bytes() == PHOTOS["2019/9.jpg"]


def test_lost_sets_in_another_folder_are_made_anew(integrity: Box, root: Path, parity: Path) -> None:
    """A set that is gone from its folder is gone, wherever the folder is; without the folder its disk may be absent."""
    [lost] = find_set_files(parity)
    other = parity.with_name("other")
    other.mkdir()
    lost.parent.rename(root.with_name("away"))
    done = integrity.run("protect", root, "--folder", other, expect=3)
    assert "mount its disk" in done.stdout + done.stderr
    assert find_set_files(other) == []

    lost.parent.mkdir()  # as is told where it is lost
    done = integrity.run("protect", root, "--folder", other, expect=0)

    assert "is gone" in done.stdout + done.stderr
    assert find_protected(other) == PHOTOS.keys()


def test_folder_and_share_are_named_once(integrity: Box, tmp_path: Path, parity: Path) -> None:
    """What was protected once is protected again without its options, as `status` and a plan advise."""
    root = tmp_path / "root"
    protect(integrity, root, parity, PHOTOS, "--parity", "20%")
    put(root / "new.jpg", make_random(5, 25 * KIB))
    integrity.run("scan", root, expect=0)

    plan = integrity.run("protect", root, "--plan", "--parity", "7%", expect=0).stdout
    assert f"--folder {parity} --parity 7%" in plan
    assert f"--folder {parity} --parity 20%" in integrity.run("protect", root, "--plan", expect=0).stdout
    integrity.run("protect", root, expect=0)

    assert find_protected(parity) == PHOTOS.keys() | {"new.jpg"}


def test_folder_in_the_root_is_left_out_however_it_is_written(integrity: Box, root: Path, parity: Path) -> None:
    """The configuration may name it through a link."""
    (root / "parity").mkdir()
    link = parity.with_name("link")
    link.symlink_to(root)
    integrity.configure(f'[[root]]\npath = "{root}"\nparity = "5%"\nparity_folder = "{link}/parity"\n')
    put(root / "new.jpg", make_random(5, 25 * KIB))
    integrity.run("scan", root, expect=0)
    integrity.run("protect", root, expect=0)

    integrity.run("scan", root, expect=0)

    assert len(find_set_files(root)) == 1
    assert query(integrity, "SELECT count(*) FROM file") == [(len(PHOTOS) + 1,)]


def test_root_that_was_moved_keeps_its_parity(integrity: Box, root: Path, parity: Path) -> None:
    """Names in a set are below the root, so another place of it changes nothing, and old sets are still replaced."""
    new = root.with_name("elsewhere")
    root.rename(new)
    integrity.run("root", "rebind", root, new, expect=0)

    assert heals(integrity, new / "2019/30.jpg")
    [before] = find_set_files(parity)
    edit(integrity, new, *(f"2019/{number}.jpg" for number in range(5)))
    integrity.run("protect", new, "--folder", parity, expect=0)
    assert before not in find_set_files(parity)
    assert find_protected(parity) == PHOTOS.keys()


def test_what_is_no_set_or_can_not_be_read_is_left_alone(integrity: Box, root: Path, parity: Path) -> None:
    """It may be a set on a disk that fails; only what newer sets replace is deleted."""
    [known] = find_set_files(parity)
    other = known.with_name("mine.par2")
    other.write_bytes(b"something else")
    (root / "2019").rename(root / "else")
    rewrite(integrity, "DELETE FROM parity_set")
    rewrite(integrity, "DELETE FROM file")
    integrity.run("scan", root, expect=0)

    integrity.run("protect", root, "--folder", parity, expect=0)
    done = integrity.run("protect", root, "--folder", parity, expect=0)

    assert "left alone" in done.stdout + done.stderr
    assert other.read_bytes() == b"something else"
    assert known.exists()


def test_folder_that_can_not_be_written_is_told(integrity: Box, root: Path, parity: Path) -> None:
    """A file in the place of the folder is no bug of the program."""
    other = parity.with_name("other")
    other.mkdir()
    name = next(parity.iterdir()).name
    put(other / name, b"a file")
    put(root / "new.jpg", make_random(5, 25 * KIB))
    integrity.run("scan", root, expect=0)

    said = integrity.run("protect", root, "--folder", other, expect=2).stderr

    assert "can't be used for parity" in said
    assert "the last attempt failed" in integrity.run("status").stdout


def test_protecting_by_hand_that_failed_promises_nothing(integrity: Box, tmp_path: Path) -> None:
    """The service protects by itself only what the configuration says."""
    folder = tmp_path / "photos"
    folder.mkdir()
    put(folder / "a.jpg", make_random(1, 25 * KIB))
    integrity.run("scan", folder, expect=0)
    integrity.run("protect", folder, "--folder", tmp_path / "unmounted", expect=2)

    status = integrity.run("status").stdout

    assert "none yet; the last attempt failed" in status
    assert "window" not in status


@pytest.mark.root
def test_service_protects_files_that_only_its_capability_lets_it_read(nobodys_box: Box, tmp_path: Path) -> None:
    """The unit's user owns no file of others; what it starts has no capability unless it is given one."""
    need_programs("setpriv")
    box, root, parity = nobodys_box, tmp_path / "root", tmp_path / "parity"
    with as_nobody():
        environment = box.environment  # makes its folders
    for folder in (root, parity):
        folder.mkdir()
        let_in(folder)
    os.chown(parity, NOBODY, NOBODY)
    for number in range(10):
        put(root / f"{number}.jpg", make_random(number, 20 * KIB))
        (root / f"{number}.jpg").chmod(0o600)
    age(*root.iterdir())
    box.configure(
        f'[[root]]\npath = "{root}"\nparity = "10%"\nparity_folder = "{parity}"\n[schedule]\nscrub = "00:00-24:00"\n'
    ).chmod(0o644)
    capability = "+dac_read_search"
    wrapper = ["setpriv", "--no-new-privs", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    wrapper += [f"--inh-caps={capability}", f"--ambient-caps={capability}"]
    subprocess.run([*wrapper, *make_command("scan", root)], env=environment, check=True, capture_output=True)
    with as_nobody():
        rewrite(box, "UPDATE file SET recorded_at = recorded_at - 8 * 86400")

    with Service(box, wrapper=wrapper):
        wait_until(lambda: query(box, "SELECT count(*) FROM parity_set") == [(1,)], "a set")

    assert find_protected(parity) == {f"{number}.jpg" for number in range(10)}
