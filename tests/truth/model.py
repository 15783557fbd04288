"""
Files that are changed and damaged in an order that nobody would think of, between runs of the program: a state machine.

Its rules are what can happen to a few small files of one size, most of them written in one tick of the clock, so that
their witnesses coincide, and what the program is asked to do. Each finding is held against the truth when it is said;
at the end all that is damaged must have been found. Where inodes tell nothing, no two files have one size, and no name
is passed on: there nobody can know which file is which.
Jobs run in this process, and nothing waits but for the clock to tick; a second passes with each step, as what the
catalog knows of before and after is in seconds.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from hashlib import md5
from itertools import count, repeat
from pathlib import Path

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from integrity.catalog import files, findings, maintenance
from integrity.jobs.admin.accept import AcceptedAs, accept_file, find_numbered
from integrity.jobs.admin.forget import forget, plan_forgetting
from integrity.jobs.context import Context
from integrity.jobs.options import ScanOptions, ScrubOptions
from integrity.jobs.report import Summary
from integrity.jobs.runner import scan, scrub
from integrity.jobs.targets import find_target
from integrity.kinds import REPAIRABLE
from integrity.model import Certainty, Finding
from integrity.pauses import Pauses
from support.jobs import Told, open_context
from truth.disks import Disk
from truth.tree import Damage, File, Tree

_SIZE_BYTES = 4_096
_FILES = ("a/0", "a/1", "a/2", "b/0", "b/1", "b/2")
_FOLDERS = ("a", "b", "c")
_NUMBERS = st.integers(0, 59)
_numbers_of_machines = count()


class Clock:
    """The time of the machine, and as many seconds more as were let pass."""

    def __init__(self) -> None:
        self.seconds = 0

    def __call__(self) -> float:
        """Tell the time."""
        return time.time() + self.seconds


class Files(RuleBasedStateMachine):
    """
    A folder on a disk; what is done to it leaves each name with its file, and each file with a size of its own.

    A rule's numbers say which of the files or folders that are there when it is its turn, counted round, or which of
    the names that a file can have.

    Args:
        disk: mounted.
        context: of ``open_quick_context``; for many machines, one after the other.
    """

    def __init__(self, disk: Disk, context: Context) -> None:
        super().__init__()
        number = next(_numbers_of_machines)
        self._context = context
        assert isinstance(context.clock, Clock)
        self._clock = context.clock
        self._sizes = self._find_sizes()
        self._tree = Tree(disk, disk.folder / f"machine-{number}", seed=number)
        self._flipped: set[tuple[File, int]] = set()
        self._versions: dict[str, list[tuple[bytes, int]]] = {}
        self._is_checked = True
        self._has_failed = False

    def _find_sizes(self) -> Iterator[int]:
        return count(_SIZE_BYTES)

    @initialize(flips=st.lists(st.tuples(_NUMBERS, _NUMBERS), max_size=2), is_known=st.booleans())
    def plant(self, flips: list[tuple[int, int]], is_known: bool) -> None:
        """Write the files and record them; some may be damaged then, which may be known."""
        for name, data in [(name, self._tree.content(next(self._sizes))) for name in _FILES]:
            self._tree.write(name, data)
        self._scrub()
        for first, place in flips:
            self.flip(first, place)
        if is_known:
            self._scrub()

    def play(self, steps: str) -> None:
        """Take the steps of a text, ``ACTION NUMBER NUMBER, ...``, as far as this machine knows them."""
        try:
            self.plant([], is_known=False)
            for action, *numbers in (step.split() for step in steps.split(", ")):
                self.pass_second()
                if self.has_files() and hasattr(self, action):
                    getattr(self, action)(*map(int, numbers))
                    self.check_catalog()
        finally:
            self.teardown()

    def teardown(self) -> None:
        """Look at everything once more, and forget it."""
        try:
            if not self._has_failed:
                self._judge_end(self._scrub())
        finally:
            shutil.rmtree(self._tree.folder)
            for leaving in plan_forgetting(self._context.catalog, self._root):
                forget(self._context.catalog, leaving, now=self._context.now())

    def has_files(self) -> bool:
        """Say whether there is anything to change."""
        return bool(self._tree.names)

    # Names

    def _name(self, number: int) -> str:
        names = sorted(self._tree.names)
        return names[number % len(names)]

    def _new_name(self, number: int) -> str:
        return f"{_FOLDERS[number % len(_FOLDERS)]}/{number // len(_FOLDERS) % 5}"

    # Honest changes

    @precondition(has_files)
    @rule(first=_NUMBERS, new=_NUMBERS)
    def rename(self, first: int, new: int) -> None:
        """Rename a file."""
        old, target = self._name(first), self._new_name(new)
        if self._may_replace(old, target):
            self._tree.rename(old, target)

    def _may_replace(self, _: str, target: str) -> bool:
        return target not in self._tree.names

    @precondition(has_files)
    @rule(first=_NUMBERS, new=_NUMBERS)
    def link(self, first: int, new: int) -> None:
        """Give a file another name."""
        if self._new_name(new) not in self._tree.names:
            self._tree.link(self._name(first), self._new_name(new))

    @precondition(has_files)
    @rule(first=_NUMBERS)
    def unlink(self, first: int) -> None:
        """Take a name from a file."""
        self._keep_version(self._name(first))
        self._tree.remove(self._name(first))

    @precondition(has_files)
    @rule(first=_NUMBERS, new=_NUMBERS)
    def copy(self, first: int, new: int) -> None:
        """Copy a file with its times, maybe over another one."""
        old, target = self._name(first), self._new_name(new)
        if self._tree.names.get(target) is not self._tree.names[old]:
            self._tree.copy(old, target)

    @precondition(has_files)
    @rule(first=_NUMBERS, new=_NUMBERS)
    def move_by_copy(self, first: int, new: int) -> None:
        """Move a file as is done between file systems."""
        old, target = self._name(first), self._new_name(new)
        if target not in self._tree.names:
            self._tree.copy(old, target)
            self._tree.remove(old)

    @precondition(has_files)
    @rule(first=_NUMBERS, place=_NUMBERS)
    def edit(self, first: int, place: int) -> None:
        """Write into a file."""
        self._keep_version(self._name(first))
        self._tree.edit(self._name(first), place * 64, os.urandom(8))

    @precondition(has_files)
    @rule(first=_NUMBERS, place=_NUMBERS)
    def edit_quietly(self, first: int, place: int) -> None:
        """Write into a file and put its time back: nobody can tell that from damage."""
        self._tree.edit_quietly(self._name(first), place * 64, os.urandom(8))

    @precondition(has_files)
    @rule(first=_NUMBERS)
    def save(self, first: int) -> None:
        """Save a new version as editors do."""
        self._keep_version(self._name(first))
        self._tree.save(self._name(first), next(self._sizes))

    @precondition(has_files)
    @rule(new=_NUMBERS)
    def write(self, new: int) -> None:
        """Write a new file."""
        if self._new_name(new) not in self._tree.names:
            self._tree.write(self._new_name(new), next(self._sizes))

    def _keep_version(self, name: str) -> None:
        """Back a file up, before it changes."""
        mtime_ns = self._tree.path(name).stat().st_mtime_ns
        self._versions.setdefault(name, []).append((self._tree.names[name].data, mtime_ns))

    @precondition(lambda self: self._versions)
    @rule(first=_NUMBERS, version=_NUMBERS)
    def restore(self, first: int, version: int) -> None:
        """Put back what a file held before it was edited or removed, with its time."""
        if names := sorted(self._versions):
            name = names[first % len(names)]
            versions = self._versions[name]
            self._tree.restore(name, *versions[version % len(versions)])

    @precondition(has_files)
    @rule(first=_NUMBERS)
    def touch(self, first: int) -> None:
        """Set the time of a file to now."""
        self._tree.touch(self._name(first))

    @precondition(has_files)
    @rule(first=_NUMBERS)
    def chmod(self, first: int) -> None:
        """Change the mode of a file."""
        self._tree.chmod(self._name(first))

    @precondition(has_files)
    @rule(first=_NUMBERS, new=_NUMBERS)
    def rename_folder(self, first: int, new: int) -> None:
        """Rename a folder."""
        old, target = self._folder(first), _FOLDERS[new % len(_FOLDERS)]
        if not self._tree.find(target):
            shutil.rmtree(self._tree.path(target), ignore_errors=True)  # it may be there, empty
            self._tree.rename(old, target)

    def _folder(self, number: int) -> str:
        folders = sorted({name.partition("/")[0] for name in self._tree.names})
        return folders[number % len(folders)]

    # Damage

    @precondition(has_files)
    @rule(first=_NUMBERS, place=_NUMBERS)
    def flip(self, first: int, place: int) -> None:
        """Flip a bit on the disk."""
        bit = self._tree.names[self._name(first)], place * 64
        if bit not in self._flipped:  # the second time would undo the first
            self._flipped.add(bit)
            self._tree.flip(self._name(first), place * 64)

    # What the program is asked

    @rule()
    def scan(self) -> None:
        """Scan."""
        self._judge(lambda: scan(self._context, self._root, ScanOptions()))
        self._tree.was_read()

    @rule()
    def scrub(self) -> None:
        """Scrub, with a scan before it."""
        self._scrub()

    def _scrub(self) -> Summary:
        summary = self._judge(lambda: scrub(self._context, self._root, ScrubOptions()))
        self._tree.was_read()
        self._tree.was_scrubbed()
        self._check_records()
        return summary

    @rule()
    def scrub_blindly(self) -> None:
        """Scrub without a scan before it."""
        counts = self._judge(lambda: scrub(self._context, self._root, ScrubOptions(scan_first=False))).counts
        if counts.moved or counts.new or counts.missing:  # it scanned at its end, to find out what became of some
            self._tree.was_read()
        self._tree.was_scrubbed()

    @precondition(lambda self: self.has_files() and self._find_open())
    @rule(number=_NUMBERS)
    def accept(self, number: int) -> None:
        """Scrub, and accept a file that has a finding as it is now."""
        self._scrub()
        found = [one for one in self._find_open() if one.kind in REPAIRABLE]
        if not found:
            return
        (path,) = find_numbered(self._context.catalog, [found[number % len(found)].id])
        with self._context.catalog.read() as connection:
            target = find_target(connection, path)
        done = accept_file(self._context, target, "as it should be")
        names = [os.path.relpath(os.fsdecode(each), self._tree.folder) for each in (path, *done.other_names)]
        assert done.outcome is (AcceptedAs.CONTENT if names[0] in self._tree.names else AcceptedAs.REMOVAL), done
        self._tree.was_accepted(names)
        assert not [one for one in self._find_open() if one.kind in REPAIRABLE and one.path == target.prefix]

    @property
    def _root(self) -> tuple[bytes]:
        return (os.fsencode(self._tree.folder),)

    def _find_open(self) -> list[Finding]:
        with self._context.catalog.read() as connection:
            return list(findings.find_findings(connection))  # of this root: all others are forgotten

    # What must be so

    def _judge(self, job: Callable[[], Summary]) -> Summary:
        """Run a job and hold what it says against the truth."""
        self._context.report = told = Told()
        summary = job()
        self._accuse(told.findings)
        self._tree.forget_past()
        self._is_checked = False
        return summary

    def _accuse(self, said: Iterable[Finding]) -> None:
        for finding in said:
            for name in map(os.fsdecode, (finding.path or b"", *finding.names)):
                files_there = self._tree.met.get(name, [])
                if finding.certainty is Certainty.TIMES_MOVED_TOGETHER:
                    for file in files_there:
                        self._tree.was_doubted(file)
                if all(file.damage is Damage.NONE for file in files_there):
                    self._fail(f"false: {finding.kind} ({finding.certainty}) {name}: {finding.message}")

    def _fail(self, error: str) -> None:
        self._has_failed = True
        raise AssertionError(error)

    def _judge_end(self, summary: Summary) -> None:
        still = self._find_open()
        self._accuse(still)
        names_said = {os.fsdecode(finding.path or b"") for finding in still}
        for file, names in self._tree.files():
            bad = self._tree.find_bad_blocks(names[0])
            assert bad == [] or file.damage is not Damage.NONE, f"the model is wrong about {names}"
            if bad == [] or file.damage is not Damage.DUE:
                continue
            assert names_said.intersection(names), f"missed: {names}"
            assert summary.has_integrity_problem or summary.is_incomplete, f"all is well, with a finding about {names}"

    def _check_records(self) -> None:
        """Find each file that is as it should be recorded with its content, unless a finding holds its record."""
        catalog = self._context.catalog
        held = {os.fsdecode(name) for one in self._find_open() for name in (one.path or b"", *one.names)}
        with catalog.read() as connection:
            root = find_target(connection, self._root[0]).root
            for name, file in self._tree.names.items():
                if file.damage is Damage.NONE and name not in held:
                    record = files.find_file(connection, root.id, os.fsencode(name))
                    if record is None or record.digests.md5 != md5(file.data).digest():
                        self._fail(f"recorded wrong: {name}: {record}")

    @invariant()
    def pass_second(self) -> None:
        """Let a second pass after each step."""
        self._clock.seconds += 1

    @invariant()
    def check_catalog(self) -> None:
        """All rows of the catalog fit with each other."""
        if self._is_checked:
            return
        self._is_checked = True
        report = maintenance.check(self._context.catalog)
        if not report.is_right:
            self._fail(str(report))


class FilesWithInodes(Files):
    """A folder on a disk whose inodes tell one file from another: all have one size, and names are passed on."""

    def _find_sizes(self) -> Iterator[int]:
        return repeat(_SIZE_BYTES)

    def _may_replace(self, old: str, target: str) -> bool:
        return self._are_two(old, target)  # of one file by its other name rename(2) does nothing

    def _are_two(self, *names: str) -> bool:
        return len({self._tree.names.get(name) for name in names}) == len(names)

    @precondition(Files.has_files)
    @rule(first=_NUMBERS, second=_NUMBERS)
    def swap(self, first: int, second: int) -> None:
        """Swap the names of two files, by way of a third."""
        if self._are_two(self._name(first), self._name(second)):
            self._tree.swap(self._name(first), self._name(second))

    @precondition(Files.has_files)
    @rule(first=_NUMBERS, second=_NUMBERS)
    def exchange(self, first: int, second: int) -> None:
        """Swap the names of two files in one call."""
        if self._are_two(self._name(first), self._name(second)):
            self._tree.exchange(self._name(first), self._name(second))

    @precondition(Files.has_files)
    @rule(first=_NUMBERS)
    def cycle(self, first: int) -> None:
        """Let three files change names."""
        names = [self._name(first + step) for step in range(3)]
        if self._are_two(*names):
            self._tree.swap(names[0], names[1])
            self._tree.swap(names[1], names[2])

    @precondition(Files.has_files)
    @rule(first=_NUMBERS, new=_NUMBERS)
    def chain(self, first: int, new: int) -> None:
        """Rename a file, and write another one under its former name."""
        old, target = self._name(first), self._new_name(new)
        if target not in self._tree.names:
            self._tree.rename(old, target)
            self._tree.write(old, next(self._sizes))

    @precondition(Files.has_files)
    @rule(first=_NUMBERS, second=_NUMBERS)
    def swap_folders(self, first: int, second: int) -> None:
        """Swap the names of two folders."""
        one, other = self._folder(first), self._folder(second)
        if one != other:
            (self._tree.swap if first % 2 else self._tree.exchange)(one, other)

    @precondition(Files.has_files)
    @rule(first=_NUMBERS)
    def append(self, first: int) -> None:
        """Write behind the end of a file."""
        self._keep_version(self._name(first))
        self._tree.append(self._name(first))

    @precondition(Files.has_files)
    @rule(first=_NUMBERS, size=_NUMBERS)
    def truncate(self, first: int, size: int) -> None:
        """Cut a file, or make it longer."""
        self._keep_version(self._name(first))
        self._tree.truncate(self._name(first), size * 128)


@contextmanager
def open_quick_context(path: Path) -> Iterator[Context]:
    """Open a catalog, best on a tmpfs, for jobs that wait for nothing but the ticks of the file system's clock."""
    with open_context(path) as context:
        context.pauses, context.jobs, context.clock = Pauses(confirm_s=0, retry_s=0), 1, Clock()
        yield context
