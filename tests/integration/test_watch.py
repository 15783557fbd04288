"""A watcher tells every change, causes none itself, and says what it does not see."""

from __future__ import annotations

import json
import os
import shutil
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import cast

import pytest

from integrity.files.excludes import Excludes
from integrity.files.walk import walk
from integrity.files.watch.inotify import EventHandler, EventReader
from integrity.files.watch.watcher import Blindness, BlindReason, WatchedRoot, Watcher
from support.cli import JsonObject
from support.clock import Clock
from support.inotify import (
    burst,
    fill_at_once,
    is_limiting_possible,
    make_folders,
    rename_about,
    run_limited,
    save_as_editors_do,
)
from support.loopfs import LoopFS
from support.mounts import bound, hidden, small_tmpfs, vanish
from support.privileges import as_nobody, let_in
from support.proc import count_descriptors
from support.programs import sh
from support.reading import opened_root
from support.shapes import put, put_deep
from support.waiting import wait_until

RENEW_S = 300.0


class Heard:
    """Keep what a watcher tells; ``gate`` holds its threads up while it is closed."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.gate.set()
        self._lock = threading.Lock()
        self._touched: list[tuple[bytes, bytes]] = []
        self._blind: list[tuple[bytes, Blindness]] = []

    def touched(self, root: bytes, path: bytes) -> None:
        self.gate.wait()
        with self._lock:
            self._touched.append((root, path))

    def went_blind(self, root: bytes, blindness: Blindness) -> None:
        with self._lock:
            self._blind.append((root, blindness))

    def paths(self) -> set[bytes]:
        with self._lock:
            return {path for _, path in self._touched}

    def told(self) -> set[tuple[bytes, bytes]]:
        with self._lock:
            return set(self._touched)

    def alarms(self) -> list[BlindReason]:
        with self._lock:
            return [blindness.reason for _, blindness in self._blind]

    def clear(self) -> None:
        with self._lock:
            self._touched.clear()
            self._blind.clear()

    def wait_for(self, *paths: bytes) -> None:
        """Wait until paths were told."""
        wait_until(lambda: self.paths() >= set(paths), f"events of {set(paths) - self.paths()!r}")

    def wait_for_alarm(self, reason: BlindReason) -> None:
        wait_until(lambda: reason in self.alarms(), f"{reason}, not only {self.alarms()}")


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def watcher(heard: Heard, clock: Clock) -> Iterator[Watcher]:
    watcher = Watcher(heard, monotonic=clock, renew_interval_s=RENEW_S)
    try:
        yield watcher
    finally:
        heard.gate.set()
        watcher.close()


def root_at(path: bytes, *patterns: str, is_remote: bool = False, cross_mounts: bool = False) -> WatchedRoot:
    return WatchedRoot(path, Excludes(patterns), is_remote, cross_mounts)


def find_reasons(watcher: Watcher, root: bytes) -> set[tuple[BlindReason, bytes]]:
    return {(blindness.reason, blindness.path) for blindness in watcher.blindness(root)}


def find_folders(top: bytes) -> set[bytes]:
    with opened_root(top) as fd:
        return {listing.folder for listing in walk(fd, excludes=Excludes())}


def count_watches() -> int:
    """Count the watches that the kernel holds for this process."""
    watches = 0
    for name in os.listdir("/proc/self/fdinfo"):
        with suppress(FileNotFoundError), open(f"/proc/self/fdinfo/{name}", encoding="ascii") as lines:
            watches += sum(line.startswith("inotify wd:") for line in lines)
    return watches


def check_every_folder_is_watched(top: bytes, heard: Heard) -> None:
    """Write a file in each folder and wait until each is told, under its present path, and nothing else."""
    mark = b"mark-%d" % len(os.listdir(top))
    os.symlink(b"nowhere", os.path.join(top, mark))
    heard.wait_for(mark)  # and all that happened before it
    heard.clear()
    files = {os.path.join(folder, b"is-it-seen") for folder in find_folders(top)}
    for file in files:
        put(os.path.join(top, file))
    heard.wait_for(*files)
    assert files == heard.paths()


@contextmanager
def limits_possible() -> Iterator[None]:
    if not is_limiting_possible():
        pytest.skip("this kernel lets this user have no user namespace of his own")
    yield


class TestEvents:
    def test_every_kind_of_change_is_told(self, top: bytes, heard: Heard, watcher: Watcher) -> None:
        """Created, written, deleted, moved, linked: each name is told, relative to its root."""
        for name in (b"written", b"deleted", b"from"):
            put(os.path.join(top, name))
        os.mkdir(top + b"/sub")
        os.mkdir(top + b"/removed")
        watcher.watch([root_at(top)])

        put(top + b"/created")
        put(top + b"/sub/created")
        put(top + b"/written", b"more")
        os.unlink(top + b"/deleted")
        os.rename(top + b"/from", top + b"/sub/to")
        os.mkdir(top + b"/made")
        os.rmdir(top + b"/removed")

        changed = {b"created", b"sub/created", b"written", b"deleted", b"from", b"sub/to", b"made", b"removed"}
        heard.wait_for(*changed)
        assert {(top, path) for path in changed} == heard.told()
        assert [] == heard.alarms()

    def test_files_are_told_however_a_program_saves_them(self, top: bytes, heard: Heard, watcher: Watcher) -> None:
        """In place, by rename, as a link, without a name at first, through a mapping: the final name is told."""
        watcher.watch([root_at(top)])

        heard.wait_for(*save_as_editors_do(top))

    def test_names_are_any_bytes(self, top: bytes, heard: Heard, watcher: Watcher) -> None:
        """Names that are not UTF-8, hold a line feed or are as long as may be, of files and of folders."""
        names = [b"\xff\xfe", b"line\nfeed", b"x" * 255, b" ", b"\\", "\N{SNOWMAN}".encode()]
        for name in names:
            os.mkdir(os.path.join(top, name))
        watcher.watch([root_at(top)])

        paths = [os.path.join(folder, name) for folder in names for name in names]
        for path in paths:
            put(os.path.join(top, path))

        heard.wait_for(*paths)
        assert set(paths) == heard.paths()

    def test_reading_causes_no_event(self, top: bytes, heard: Heard, watcher: Watcher) -> None:
        """Whoever walks a root and reads every file hears nothing of it."""
        make_folders(top, 20, fan=4)
        files = [os.path.join(top, folder, b"file") for folder in find_folders(top)]
        for file in files:
            put(file)
        watcher.watch([root_at(top)])

        find_folders(top)
        for file in files:
            with open(file, "rb") as opened:
                opened.read()
        put(top + b"/after")

        heard.wait_for(b"after")
        assert {b"after"} == heard.paths()

    def test_excluded_folders_have_no_watch(self, top: bytes, heard: Heard, watcher: Watcher) -> None:
        """Those of the built-in list and of patterns, there before or made later; nothing of them is told."""
        for name in (b"@eaDir/in", b"kept/cache/in", b"cache/in"):
            os.makedirs(os.path.join(top, name))
        watcher.watch([root_at(top, "/kept/cache/", "*.part")])
        assert 4 == watcher.folder_count()  # the root, cache and what is in it, kept

        os.makedirs(top + b"/#recycle/in")
        for name in (b"@eaDir/in/f", b"kept/cache/in/f", b"#recycle/in/f", b"kept/f.part"):
            put(os.path.join(top, name))
        put(top + b"/cache/in/f")

        heard.wait_for(b"cache/in/f")
        assert {b"cache/in/f"} == heard.paths()
        assert 4 == watcher.folder_count()

    def test_symbolic_links_are_not_followed(self, tmp_path: Path, top: bytes, heard: Heard, watcher: Watcher) -> None:
        """A link to a folder outside, one that leads in a circle: names like others."""
        outside = tmp_path / "outside"
        outside.mkdir()
        os.symlink(os.fsencode(outside), top + b"/out")
        os.symlink(b".", top + b"/circle")
        watcher.watch([root_at(top)])
        os.symlink(os.fsencode(outside), top + b"/later")

        put(outside / "unseen")
        put(top + b"/seen")

        heard.wait_for(b"seen")
        assert {b"later", b"seen"} == heard.paths()
        assert 1 == watcher.folder_count()

    def test_nested_roots_are_told_each(self, top: bytes, heard: Heard, watcher: Watcher) -> None:
        """A file that lies in two roots is told for both."""
        os.makedirs(top + b"/in/ner")
        watcher.watch([root_at(top), root_at(top + b"/in")])

        put(top + b"/in/ner/f")

        wait_until(lambda: {(top, b"in/ner/f"), (top + b"/in", b"ner/f")} <= heard.told(), "both")


class TestFolders:
    def test_folders_filled_at_once_are_told(self, top: bytes, heard: Heard, watcher: Watcher) -> None:
        """What was made in a folder before it could be watched lies below a folder that is told; then it is watched."""
        watcher.watch([root_at(top)])

        files = fill_at_once(top, 200)

        heard.wait_for(*(b"at-once-%d" % nth for nth in range(200)))
        assert 200 == len(files)
        check_every_folder_is_watched(top, heard)
        assert 601 == watcher.folder_count()

    def test_tree_moved_in_is_watched(self, tmp_path: Path, top: bytes, heard: Heard, watcher: Watcher) -> None:
        """One event comes for all of it; every folder in it is watched afterwards."""
        source = os.fsencode(tmp_path / "source")
        os.mkdir(source)
        make_folders(source, 300)
        watcher.watch([root_at(top)])

        os.rename(source, top + b"/in")

        heard.wait_for(b"in")
        check_every_folder_is_watched(top, heard)

    def test_renamed_folder_is_told_under_its_new_name(self, top: bytes, heard: Heard, watcher: Watcher) -> None:
        """Also what lies deeper in it, and both names when it is renamed."""
        os.makedirs(top + b"/old/deep/er")
        watcher.watch([root_at(top)])

        os.rename(top + b"/old", top + b"/new")
        heard.wait_for(b"old", b"new")
        heard.clear()
        put(top + b"/new/deep/er/f")

        heard.wait_for(b"new/deep/er/f")
        assert {b"new/deep/er/f"} == heard.paths()

    def test_folder_made_just_before_a_rename_is_watched(self, top: bytes, heard: Heard, watcher: Watcher) -> None:
        """Its event is read when its path is another already; the event of the rename leads to it."""
        os.makedirs(top + b"/old/deep")
        watcher.watch([root_at(top)])
        heard.gate.clear()
        put(top + b"/held")

        os.makedirs(top + b"/old/deep/new/er")
        os.rename(top + b"/old", top + b"/renamed")
        heard.gate.set()

        check_every_folder_is_watched(top, heard)
        assert 5 == watcher.folder_count()

    def test_storm_of_renames_leaves_no_folder_unwatched(self, top: bytes, heard: Heard, watcher: Watcher) -> None:
        """Folders swapped and moved into one another while new ones are made in them, faster than anybody follows."""
        watcher.watch([root_at(top)])

        rename_about(top, 100)
        put(top + b"/after")

        heard.wait_for(b"after")
        check_every_folder_is_watched(top, heard)
        watcher.tend()
        check_every_folder_is_watched(top, heard)
        assert len(find_folders(top)) == watcher.folder_count()

    def test_folder_that_left_is_let_go(self, tmp_path: Path, top: bytes, heard: Heard, watcher: Watcher) -> None:
        """With all below it; it was told when it left, and after that nobody hears of it."""
        outside = os.fsencode(tmp_path / "outside")
        os.mkdir(top + b"/leaves")
        make_folders(top + b"/leaves", 100)
        watcher.watch([root_at(top)])

        os.rename(top + b"/leaves", outside)
        heard.wait_for(b"leaves")
        watcher.tend()
        heard.clear()
        put(outside + b"/d1/unseen")
        put(top + b"/seen")

        heard.wait_for(b"seen")
        assert {b"seen"} == heard.paths()
        assert 1 == watcher.folder_count()
        assert 1 == count_watches()
        assert [] == heard.alarms()

    def test_folder_thrown_into_a_waste_basket_is_let_go(self, top: bytes, heard: Heard, watcher: Watcher) -> None:
        """A move into an excluded folder is a departure, too, though no event tells where to."""
        os.makedirs(top + b"/thrown/in")
        os.mkdir(top + b"/#recycle")
        watcher.watch([root_at(top)])

        os.rename(top + b"/thrown", top + b"/#recycle/thrown")
        os.mkdir(top + b"/thrown")  # another one under the same name
        put(top + b"/after")
        heard.wait_for(b"thrown", b"after")
        watcher.tend()

        assert 2 == watcher.folder_count()
        check_every_folder_is_watched(top, heard)

    def test_folder_that_came_back_is_watched(self, tmp_path: Path, top: bytes, heard: Heard, watcher: Watcher) -> None:
        """With what was made in it while it was away."""
        outside = os.fsencode(tmp_path / "outside")
        os.makedirs(top + b"/goes/deep")
        watcher.watch([root_at(top)])

        os.rename(top + b"/goes", outside)
        os.makedirs(outside + b"/deep/made/away")
        heard.wait_for(b"goes/deep/made")  # and it was not found there
        os.rename(outside, top + b"/goes")

        check_every_folder_is_watched(top, heard)
        watcher.tend()
        check_every_folder_is_watched(top, heard)
        assert 5 == watcher.folder_count()

    def test_removed_folders_cost_nothing(self, top: bytes, heard: Heard, watcher: Watcher) -> None:
        """What was removed is forgotten, and is watched when it is made again."""
        watcher.watch([root_at(top)])
        for _ in range(2):
            for folder in make_folders(top, 120):
                put(os.path.join(folder, b"file"))
            check_every_folder_is_watched(top, heard)
            for name in os.listdir(top):
                if os.path.isdir(os.path.join(top, name)):
                    shutil.rmtree(os.path.join(top, name))
            wait_until(lambda: watcher.folder_count() == 1, "what was removed to be forgotten")

    def test_folders_deeper_than_any_path_are_watched(self, top: bytes, heard: Heard, watcher: Watcher) -> None:
        """A path that no system call takes is told as any other."""
        put_deep(top, 60, b"x" * 100)
        watcher.watch([root_at(top)])
        assert 61 == watcher.folder_count()

        path = b"/".join([b"x" * 100] * 60)
        fd = os.open(top, os.O_RDONLY)
        for _ in range(60):
            deeper = os.open(b"x" * 100, os.O_RDONLY, dir_fd=fd)
            os.close(fd)
            fd = deeper
        os.mkdir(b"new", dir_fd=fd)
        heard.wait_for(path + b"/new")
        os.close(os.open(b"new/file", os.O_CREAT | os.O_WRONLY, dir_fd=fd))
        os.close(fd)

        heard.wait_for(path + b"/new/file")


class TestLostEvents:
    @pytest.fixture
    def full(self, top: bytes, heard: Heard, watcher: Watcher) -> bytes:
        """Give a root of 3,000 folders whose queue has overflowed, with a folder that was made when it was full."""
        make_folders(top, 3000)
        watcher.watch([root_at(top)])
        heard.gate.clear()
        burst(top)
        os.makedirs(top + b"/made/when-full")
        heard.gate.set()
        heard.wait_for_alarm(BlindReason.OVERFLOW)
        return top

    def test_root_is_watched_anew_after_lost_events(
        self, full: bytes, heard: Heard, watcher: Watcher, clock: Clock
    ) -> None:
        """
        Lost events are told once; the message names the setting, and later events come.

        Then the root is watched anew with the folders made meanwhile, it is told that it has to be scanned, and
        blindness is over. A second overflow waits for its interval.
        """
        put(full + b"/d0/later")
        heard.wait_for(b"d0/later")

        assert [BlindReason.OVERFLOW] == heard.alarms()
        assert {(BlindReason.OVERFLOW, b"")} == find_reasons(watcher, full)
        assert "fs.inotify.max_queued_events" in watcher.blindness(full)[0].message
        assert 3001 == watcher.folder_count()

        watcher.tend()

        assert [BlindReason.OVERFLOW, BlindReason.OVERFLOW] == heard.alarms()
        assert () == watcher.blindness(full)
        assert 3003 == watcher.folder_count()
        check_every_folder_is_watched(full, heard)
        assert [] == heard.alarms()

        heard.clear()
        heard.gate.clear()
        burst(full)
        heard.gate.set()
        heard.wait_for_alarm(BlindReason.OVERFLOW)

        clock.now += RENEW_S - 1
        watcher.tend()
        assert {(BlindReason.OVERFLOW, b"")} == find_reasons(watcher, full)
        clock.now += 1
        watcher.tend()
        assert () == watcher.blindness(full)
        assert [BlindReason.OVERFLOW, BlindReason.OVERFLOW] == heard.alarms()

    def test_burst_in_one_root_does_not_blind_another(
        self, tmp_path: Path, top: bytes, heard: Heard, watcher: Watcher
    ) -> None:
        """Each has a queue of its own."""
        other = os.fsencode(tmp_path / "other")
        os.mkdir(other)
        watcher.watch([root_at(top), root_at(other)])
        heard.gate.clear()
        put(top + b"/seen")
        burst(other)
        heard.gate.set()
        heard.wait_for_alarm(BlindReason.OVERFLOW)

        assert {(BlindReason.OVERFLOW, b"")} == find_reasons(watcher, other)
        assert () == watcher.blindness(top)
        heard.wait_for(b"seen")

    @pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
    def test_dead_reader_is_noticed(self, top: bytes, clock: Clock) -> None:
        """Where a thread that reads events dies, that is blindness, and the root is watched anew."""

        class Fragile(Heard):
            def touched(self, root: bytes, path: bytes) -> None:
                if path == b"deadly":
                    raise ValueError(path)
                super().touched(root, path)

        heard = Fragile()
        watcher = Watcher(heard, monotonic=clock)
        watcher.watch([root_at(top)])
        try:
            threads = threading.active_count()
            put(top + b"/deadly")
            wait_until(lambda: threading.active_count() < threads, "the end of the thread")

            watcher.tend()

            assert [BlindReason.OVERFLOW, BlindReason.OVERFLOW] == heard.alarms()
            check_every_folder_is_watched(top, heard)
        finally:
            watcher.close()


class TestRefusals:
    def test_remote_root_is_not_watched(self, top: bytes, heard: Heard, watcher: Watcher) -> None:
        """It is blind as a state, which alarms nobody."""
        watcher.watch([root_at(top, is_remote=True)])
        put(top + b"/unseen")
        watcher.tend()

        assert {(BlindReason.REMOTE, b"")} == find_reasons(watcher, top)
        assert [] == heard.alarms()
        assert 0 == watcher.folder_count()

    def test_unreadable_folder_is_told_until_it_can_be_read(
        self, tmp_path: Path, top: bytes, heard: Heard, watcher: Watcher, clock: Clock
    ) -> None:
        """It is named; the others are watched. Once it can be read it is told as touched, and watched."""
        let_in(tmp_path)
        os.makedirs(top + b"/closed/in")
        os.mkdir(top + b"/open")
        os.chmod(top + b"/closed", 0o000)
        with as_nobody():
            watcher.watch([root_at(top)])
            assert [BlindReason.UNREADABLE] == heard.alarms()
            (blindness,) = watcher.blindness(top)
            assert b"closed" == blindness.path
            assert os.fsdecode(top) + "/closed: can't be watched: Permission denied" in blindness.message
            clock.now += RENEW_S
            watcher.tend()
            assert [BlindReason.UNREADABLE] == heard.alarms()
        assert 2 == watcher.folder_count()

        os.chmod(top + b"/closed", 0o755)
        clock.now += RENEW_S
        with as_nobody():
            watcher.tend()

        assert () == watcher.blindness(top)
        assert b"closed" in heard.paths()
        check_every_folder_is_watched(top, heard)

    def test_unreadable_folder_that_is_gone_is_no_blindness(
        self, tmp_path: Path, top: bytes, heard: Heard, watcher: Watcher, clock: Clock
    ) -> None:
        """What is not there need not be seen."""
        let_in(tmp_path)
        os.mkdir(top + b"/closed")
        os.chmod(top + b"/closed", 0o000)
        with as_nobody():
            watcher.watch([root_at(top)])
        os.rmdir(top + b"/closed")
        clock.now += RENEW_S
        watcher.tend()

        assert () == watcher.blindness(top)

    def test_unreadable_root_is_told(
        self, tmp_path: Path, top: bytes, heard: Heard, watcher: Watcher, clock: Clock
    ) -> None:
        """A root that can't be listed is not silently watched by nobody."""
        let_in(tmp_path)
        os.chmod(top, 0o700)
        if os.geteuid() != 0:
            os.chmod(top, 0o000)
        with as_nobody():
            watcher.watch([root_at(top)])
        assert {(BlindReason.UNREADABLE, b"")} == find_reasons(watcher, top)
        assert [BlindReason.UNREADABLE] == heard.alarms()
        assert 0 == watcher.folder_count()

        os.chmod(top, 0o700)
        clock.now += RENEW_S
        watcher.tend()

        assert () == watcher.blindness(top)
        check_every_folder_is_watched(top, heard)

    def test_too_few_watches_are_told_until_there_are_enough(self, top: bytes) -> None:
        """The number that is missing and the setting are told, once; with more watches all folders are seen."""
        with limits_possible():
            made = make_folders(top, 100)
            said = run_in_limits(top, made[-1], watches=50)

        assert {"folders": 50, "alarms": ["watch_limit"]} == said["first"]
        assert "51 of its folders are not watched" in said["message"]
        assert "user.max_inotify_watches is 50, raise it: sysctl -w user.max_inotify_watches=65536" in said["message"]
        assert {"folders": 50, "alarms": []} == said["same"]
        assert {"folders": 60, "alarms": ["watch_limit"]} == said["a_bit"]
        assert {"folders": 101, "alarms": ["watch_limit"]} == said["raised"]
        assert [] == said["blind"]
        assert said["is_seen"]

    def test_no_watch_at_all_is_told(self, top: bytes) -> None:
        """A root whose own folder can't be watched is blind, and not an error."""
        with limits_possible():
            made = make_folders(top, 10)
            said = run_in_limits(top, made[-1], watches=0)

        assert {"folders": 0, "alarms": ["watch_limit"]} == said["first"]
        assert {"folders": 11, "alarms": ["watch_limit"]} == said["a_bit"]
        assert said["is_seen"]

    def test_no_instance_is_told_until_there_is_one(self, top: bytes) -> None:
        """The setting is named; the next try that succeeds ends it."""
        with limits_possible():
            made = make_folders(top, 10)
            said = run_in_limits(top, made[-1], instances=0)

        assert {"folders": 0, "alarms": ["instance_limit"]} == said["first"]
        assert "user.max_inotify_instances is 0, raise it: sysctl -w user.max_inotify_instances=" in said["message"]
        assert {"folders": 0, "alarms": []} == said["same"]
        assert 11 == said["raised"]["folders"]
        assert [] == said["blind"]
        assert said["is_seen"]


_IN_LIMITS = """
import json, os, sys, threading
from integrity.files.excludes import Excludes
from integrity.files.watch.watcher import WatchedRoot, Watcher

top, deepest = map(os.fsencode, sys.argv[1:])
alarms, seen = [], threading.Event()

class Sink:
    def touched(self, root, path):
        if path.endswith(b"is-it-seen"):
            seen.set()
    def went_blind(self, root, blindness):
        alarms.append(blindness.reason)

def say(watcher):
    told, alarms[:] = list(alarms), []
    return {"folders": watcher.folder_count(), "alarms": told}

now = [0.0]
watcher = Watcher(Sink(), monotonic=lambda: now[0])
watcher.watch([WatchedRoot(top, Excludes(), False)])
said = {"first": say(watcher), "message": watcher.blindness(top)[0].message}
now[0] += 1e6
watcher.tend()
said["same"] = say(watcher)
for step, limits in (("a_bit", {"watches": "60"}), ("raised", {"watches": "10000", "instances": "10000"})):
    for name, value in limits.items():
        with open("/proc/sys/user/max_inotify_" + name, "w") as file:
            file.write(value)
    watcher.tend()
    said[step] = say(watcher)
said["blind"] = [blindness.reason for blindness in watcher.blindness(top)]
open(os.path.join(deepest, b"is-it-seen"), "w").close()
said["is_seen"] = seen.wait(10)
watcher.close()
print(json.dumps(said))
"""


def run_in_limits(
    top: bytes, deepest: bytes, *, watches: int | None = None, instances: int | None = None
) -> JsonObject:
    """Watch in a process with few watches or instances, then raise the limits; return what it said at each step."""
    done = run_limited(sys.executable, "-c", _IN_LIMITS, top, deepest, watches=watches, instances=instances)
    assert 0 == done.returncode, done.stderr
    said: JsonObject = json.loads(done.stdout)
    return said


class TestRootsThatGo:
    def test_removed_root_is_told_and_watched_when_it_is_back(self, top: bytes, heard: Heard, watcher: Watcher) -> None:
        """Told once, by the event; another folder of the same name is watched from the next ``tend`` on."""
        os.mkdir(top + b"/in")
        watcher.watch([root_at(top)])

        shutil.rmtree(top)
        heard.wait_for_alarm(BlindReason.ROOT_GONE)
        watcher.tend()
        watcher.tend()
        assert [BlindReason.ROOT_GONE] == heard.alarms()
        assert {(BlindReason.ROOT_GONE, b"")} == find_reasons(watcher, top)
        assert 0 == watcher.folder_count()

        os.makedirs(top + b"/new")
        watcher.tend()
        assert () == watcher.blindness(top)
        assert [BlindReason.ROOT_GONE, BlindReason.ROOT_GONE] == heard.alarms()
        check_every_folder_is_watched(top, heard)

    @pytest.mark.parametrize("gone", ["above/root", "above", None], ids=["renamed", "parent renamed", "never there"])
    def test_root_is_told_and_watched_when_it_is_there(
        self, top: bytes, heard: Heard, watcher: Watcher, gone: str | None
    ) -> None:
        """Of its parent's name no event tells; ``tend`` finds another folder at the path, or none."""
        root = top + b"/above/root"
        if gone:
            os.makedirs(root)
        watcher.watch([root_at(root)])
        if gone:
            os.rename(os.path.join(top, gone.encode()), top + b"/away")
        if gone == "above/root":
            heard.wait_for_alarm(BlindReason.ROOT_GONE)
        watcher.tend()
        assert {(BlindReason.ROOT_GONE, b"")} == find_reasons(watcher, root)

        os.makedirs(root)
        watcher.tend()
        assert () == watcher.blindness(root)
        check_every_folder_is_watched(root, heard)

    @pytest.mark.root
    def test_unmounted_root_is_told_and_watched_when_it_is_mounted(
        self, ext4: LoopFS, heard: Heard, watcher: Watcher
    ) -> None:
        """A watched root can be unmounted. Its empty mount point is not taken for it, the next disk there is."""
        os.makedirs(ext4.path("a/b"))
        watcher.watch([root_at(ext4.mnt)])

        sh("umount", ext4.mnt)
        heard.wait_for_alarm(BlindReason.UNMOUNTED)
        watcher.tend()
        watcher.tend()
        assert [BlindReason.UNMOUNTED] == heard.alarms()
        assert {(BlindReason.UNMOUNTED, b"")} == find_reasons(watcher, ext4.mnt)
        assert 0 == watcher.folder_count()

        ext4.mount()
        watcher.tend()
        assert () == watcher.blindness(ext4.mnt)
        check_every_folder_is_watched(ext4.mnt, heard)

    @pytest.mark.root
    def test_root_remounted_between_two_looks_is_watched(self, ext4: LoopFS, heard: Heard, watcher: Watcher) -> None:
        """The same disk under the same numbers has none of the old watches."""
        os.makedirs(ext4.path("a/b"))
        watcher.watch([root_at(ext4.path("a"))])

        ext4.remount()
        watcher.tend()

        assert () == watcher.blindness(ext4.path("a"))
        assert BlindReason.UNMOUNTED in heard.alarms()
        check_every_folder_is_watched(ext4.path("a"), heard)

    @pytest.mark.root
    def test_root_detached_lazily_is_noticed(self, ext4: LoopFS, heard: Heard, watcher: Watcher) -> None:
        """While somebody still uses it no event tells that its path leads elsewhere."""
        put(ext4.path("used"))
        watcher.watch([root_at(ext4.mnt)])
        with open(ext4.path("used"), "rb"):
            vanish(ext4.mnt)
            watcher.tend()
            assert {(BlindReason.UNMOUNTED, b"")} == find_reasons(watcher, ext4.mnt)
        ext4.mount()
        watcher.tend()
        assert () == watcher.blindness(ext4.mnt)

    @pytest.mark.root
    def test_overmounted_root_is_watched_as_it_is_seen(self, top: bytes, heard: Heard, watcher: Watcher) -> None:
        """What is mounted over it is watched, and the root again when it is gone."""
        os.mkdir(top + b"/in")
        watcher.watch([root_at(top)])

        with hidden(top):
            watcher.tend()
            assert [BlindReason.ROOT_GONE] == heard.alarms()
            assert 1 == watcher.folder_count()
        watcher.tend()

        assert () == watcher.blindness(top)
        check_every_folder_is_watched(top, heard)


@pytest.mark.root
class TestMountsBelow:
    def test_other_file_systems_are_left_out(self, top: bytes, heard: Heard, watcher: Watcher) -> None:
        """As in a scan; when one is unmounted what it hid is watched."""
        os.makedirs(top + b"/point/hidden")
        with small_tmpfs(top + b"/point", 1 << 20):
            os.mkdir(top + b"/point/inside")
            watcher.watch([root_at(top)])
            assert 1 == watcher.folder_count()
        watcher.tend()

        assert b"point" in heard.paths()
        assert [] == heard.alarms()
        check_every_folder_is_watched(top, heard)
        assert 3 == watcher.folder_count()

    def test_file_system_below_is_watched_if_asked(self, top: bytes, heard: Heard, watcher: Watcher) -> None:
        """There before, unmounted, mounted again: each is told, and what is there is watched."""
        os.makedirs(top + b"/point")
        with small_tmpfs(top + b"/point", 1 << 20):
            os.mkdir(top + b"/point/inside")
            watcher.watch([root_at(top, cross_mounts=True)])
            assert 3 == watcher.folder_count()
            put(top + b"/point/inside/f")
            heard.wait_for(b"point/inside/f")
        heard.wait_for_alarm(BlindReason.UNMOUNTED)
        assert {(BlindReason.UNMOUNTED, b"point")} == find_reasons(watcher, top)
        watcher.tend()
        assert () == watcher.blindness(top)
        assert [BlindReason.UNMOUNTED] == heard.alarms()
        check_every_folder_is_watched(top, heard)

        with small_tmpfs(top + b"/point", 1 << 20):
            os.mkdir(top + b"/point/anew")
            watcher.tend()
            assert b"point" in heard.paths()
            put(top + b"/point/anew/f")
            heard.wait_for(b"point/anew/f")

    def test_root_bound_into_itself_is_watched_once(self, top: bytes, heard: Heard, watcher: Watcher) -> None:
        """A folder that is seen twice is told under one of its paths, and the walk ends."""
        os.makedirs(top + b"/a/b")
        os.mkdir(top + b"/view")
        with bound(top, top + b"/view"):
            watcher.watch([root_at(top, cross_mounts=True)])
            assert 3 == watcher.folder_count()  # what the mount hides is not there

    def test_mounts_in_excluded_folders_are_not_told(self, top: bytes, heard: Heard, watcher: Watcher) -> None:
        """Neither is a watch made there."""
        os.makedirs(top + b"/@eaDir/point")
        watcher.watch([root_at(top, cross_mounts=True)])
        with small_tmpfs(top + b"/@eaDir/point", 1 << 20):
            watcher.tend()
            assert 1 == count_watches()
            put(top + b"/@eaDir/unseen")
            put(top + b"/seen")

        heard.wait_for(b"seen")
        assert {b"seen"} == heard.paths()
        assert 1 == watcher.folder_count()


class TestWatcher:
    def test_roots_can_be_replaced(self, tmp_path: Path, heard: Heard, watcher: Watcher) -> None:
        """One stays as it is, one goes, one comes, one gets other settings and is told as a whole."""
        paths = [os.fsencode(tmp_path / name) for name in ("stays", "goes", "changes", "comes")]
        for path in paths:
            os.makedirs(path + b"/sub")
        stays, goes, changes, comes = paths
        kept = root_at(stays)
        watcher.watch([kept, root_at(goes), root_at(changes)])

        watcher.watch([kept, root_at(changes, "sub/"), root_at(comes)])
        assert {(changes, b"")} == heard.told()
        heard.clear()
        for path in (goes, stays, changes, comes):
            put(path + b"/sub/f")
            put(path + b"/f")

        expected = {(stays, b"f"), (stays, b"sub/f"), (changes, b"f"), (comes, b"f"), (comes, b"sub/f")}
        wait_until(lambda: heard.told() == expected, f"{expected}, not {heard.told()}")
        with pytest.raises(KeyError):
            watcher.blindness(goes)

    def test_closed_watcher_tells_nothing_and_keeps_nothing(self, top: bytes, heard: Heard, watcher: Watcher) -> None:
        """Neither a thread nor a descriptor stays; to close it again is no error."""
        threads, descriptors = threading.active_count(), count_descriptors()
        make_folders(top, 50)
        for _ in range(20):
            watcher.watch([root_at(top)])
        watcher.close()
        watcher.close()
        put(top + b"/unseen")

        assert set() == heard.paths() - {b""}
        assert (threads, descriptors) == (threading.active_count(), count_descriptors())
        assert 0 == watcher.folder_count()

    def test_reader_that_never_read_keeps_no_descriptor(self) -> None:
        """It may be stopped before its thread has come to its first read."""
        descriptors = count_descriptors()

        EventReader(cast(EventHandler, None)).stop()

        assert descriptors == count_descriptors()

    def test_tending_an_idle_root_changes_nothing(
        self, top: bytes, heard: Heard, watcher: Watcher, clock: Clock
    ) -> None:
        """Day after day nothing is told, and what is watched stays watched."""
        make_folders(top, 50)
        watcher.watch([root_at(top)])

        for _ in range(100):
            clock.now += 3600
            watcher.tend()

        assert set() == heard.paths()
        assert [] == heard.alarms()
        check_every_folder_is_watched(top, heard)
