"""
Changes of names and of content in an order that nobody would think of, with damage among them, against the truth.

A sequence is a list of steps on a few small files of one size, most of them written in one tick of the clock, so that
their witnesses coincide. Where inodes tell nothing, no two files have one size, and no name is passed on: there nobody
can know which file is which.
Jobs run in this process, and nothing waits but for the clock to tick; a second passes with each step, as what the
catalog knows of before and after is in seconds.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count, repeat
from pathlib import Path

from integrity.catalog import findings
from integrity.jobs.admin.forget import forget, plan_forgetting
from integrity.jobs.context import Context
from integrity.jobs.options import ScanOptions, ScrubOptions
from integrity.jobs.report import Summary
from integrity.jobs.runner import scan, scrub
from integrity.model import Finding
from integrity.pauses import Pauses
from support.jobs import Told, open_context
from truth.disks import Disk
from truth.tree import Damage, File, Tree

_SIZE_BYTES = 4_096
_FILES = ("a/0", "a/1", "a/2", "b/0", "b/1", "b/2")
_FOLDERS = ("a", "b", "c")


@dataclass(frozen=True)
class Step:
    """
    One step: what is done, and to which of the files or folders that are there when it is its turn.

    Attributes:
        action: a key of ``ACTIONS``.
        first: which, counted round.
        second: which other, or the number of a new name.
    """

    action: str
    first: int
    second: int


class Clock:
    """The time of the machine, and as many seconds more as were let pass."""

    def __init__(self) -> None:
        self.seconds = 0

    def __call__(self) -> float:
        """Tell the time."""
        return time.time() + self.seconds


class Model:
    """
    One sequence on one disk.

    Args:
        disk: mounted.
        context: of ``open_quick_context``; for many sequences, one after the other.
        number: of the sequence: its folder.
        has_stable_inodes: else no two files have one size, and no name is passed on to another file.
    """

    def __init__(self, disk: Disk, context: Context, number: int, *, has_stable_inodes: bool = True) -> None:
        self._context = context
        assert isinstance(context.clock, Clock)
        self._clock = context.clock
        self._has_stable_inodes = has_stable_inodes
        self._sizes = repeat(_SIZE_BYTES) if has_stable_inodes else count(_SIZE_BYTES)
        self._tree = Tree(disk, disk.folder / f"sequence-{number}", seed=number)
        self._flipped: set[tuple[File, int]] = set()
        self._versions: dict[str, list[tuple[bytes, int]]] = {}
        self.errors: list[str] = []

    def play(self, steps: Iterable[Step]) -> None:
        """Plant, record, play all steps, and look at everything once more."""
        try:
            for name, data in [(name, self._tree.content(next(self._sizes))) for name in _FILES]:
                self._tree.write(name, data)
            self._scrub()
            for step in steps:
                self._clock.seconds += 1
                if self._tree.names and (self._has_stable_inodes or step.action not in _PASSING_ON):
                    ACTIONS[step.action](self, step.first, step.second)
            self._clock.seconds += 1
            self._judge_end(self._scrub())
        finally:
            shutil.rmtree(self._tree.folder)
            for leaving in plan_forgetting(self._context.catalog, self._root):
                forget(self._context.catalog, leaving, now=self._context.now())

    # Names

    def _name(self, number: int) -> str:
        names = sorted(self._tree.names)
        return names[number % len(names)]

    def _folder(self, number: int) -> str:
        folders = sorted({name.partition("/")[0] for name in self._tree.names})
        return folders[number % len(folders)]

    def _new_name(self, number: int) -> str:
        return f"{_FOLDERS[number % len(_FOLDERS)]}/{number // len(_FOLDERS) % 5}"

    # Honest changes

    def _rename(self, first: int, second: int) -> None:
        old, new = self._name(first), self._new_name(second)
        is_free = new not in self._tree.names
        if is_free or (self._has_stable_inodes and self._tree.names[new] is not self._tree.names[old]):
            self._tree.rename(old, new)  # of one file by its other name rename(2) does nothing

    def _swap(self, first: int, second: int) -> None:
        one, other = self._name(first), self._name(second)
        if one != other and self._tree.names[one] is not self._tree.names[other]:
            self._tree.swap(one, other)

    def _exchange(self, first: int, second: int) -> None:
        one, other = self._name(first), self._name(second)
        if one != other and self._tree.names[one] is not self._tree.names[other]:
            self._tree.exchange(one, other)

    def _cycle(self, first: int, _: int) -> None:
        names = [self._name(first + step) for step in range(3)]
        if len({self._tree.names[name] for name in names}) == 3:
            self._tree.swap(names[0], names[1])
            self._tree.swap(names[1], names[2])

    def _chain(self, first: int, second: int) -> None:
        old, new = self._name(first), self._new_name(second)
        if new not in self._tree.names:
            self._tree.rename(old, new)
            self._tree.write(old, next(self._sizes))

    def _link(self, first: int, second: int) -> None:
        new = self._new_name(second)
        if new not in self._tree.names:
            self._tree.link(self._name(first), new)

    def _unlink(self, first: int, _: int) -> None:
        name = self._name(first)
        self._keep_version(name)
        self._tree.remove(name)

    def _copy(self, first: int, second: int) -> None:
        old, new = self._name(first), self._new_name(second)
        if self._tree.names.get(new) is not self._tree.names[old]:
            self._tree.copy(old, new)

    def _move_by_copy(self, first: int, second: int) -> None:
        old, new = self._name(first), self._new_name(second)
        if new not in self._tree.names:
            self._tree.copy(old, new)
            self._tree.remove(old)

    def _edit(self, first: int, second: int) -> None:
        name = self._name(first)
        self._keep_version(name)
        self._tree.edit(name, second % 64 * 64, os.urandom(8))

    def _save(self, first: int, _: int) -> None:
        name = self._name(first)
        self._keep_version(name)
        self._tree.save(name, next(self._sizes))

    def _keep_version(self, name: str) -> None:
        """Back a file up, before it changes."""
        mtime_ns = self._tree.path(name).stat().st_mtime_ns
        self._versions.setdefault(name, []).append((self._tree.names[name].data, mtime_ns))

    def _restore(self, first: int, second: int) -> None:
        names = sorted(self._versions)
        if names:
            name = names[first % len(names)]
            versions = self._versions[name]
            self._tree.restore(name, *versions[second % len(versions)])

    def _touch(self, first: int, _: int) -> None:
        self._tree.touch(self._name(first))

    def _chmod(self, first: int, _: int) -> None:
        self._tree.chmod(self._name(first))

    def _rename_folder(self, first: int, second: int) -> None:
        old, new = self._folder(first), _FOLDERS[second % len(_FOLDERS)]
        if not self._tree.find(new):
            shutil.rmtree(self._tree.path(new), ignore_errors=True)  # it may be there, empty
            self._tree.rename(old, new)

    def _swap_folders(self, first: int, second: int) -> None:
        one, other = self._folder(first), self._folder(second)
        if one != other:
            (self._tree.swap if first % 2 else self._tree.exchange)(one, other)

    # Damage

    def _flip(self, first: int, second: int) -> None:
        name, offset = self._name(first), second % 64 * 64
        bit = self._tree.names[name], offset
        if bit not in self._flipped:  # the second time would undo the first
            self._flipped.add(bit)
            self._tree.flip(name, offset)

    # Jobs

    def _scan(self, _: int = 0, __: int = 0) -> None:
        self._judge(lambda: scan(self._context, self._root, ScanOptions()))
        self._tree.was_read()

    def _scrub(self, _: int = 0, __: int = 0) -> Summary:
        summary = self._judge(lambda: scrub(self._context, self._root, ScrubOptions()))
        self._tree.was_read()
        self._tree.was_scrubbed()
        return summary

    def _scrub_blindly(self, _: int = 0, __: int = 0) -> None:
        counts = self._judge(lambda: scrub(self._context, self._root, ScrubOptions(scan_first=False))).counts
        if counts.moved or counts.new or counts.missing:  # it scanned at its end, to find out what became of some
            self._tree.was_read()
        self._tree.was_scrubbed()

    @property
    def _root(self) -> tuple[bytes]:
        return (os.fsencode(self._tree.folder),)

    def _judge(self, job: Callable[[], Summary]) -> Summary:
        """Run a job and hold what it says against the truth."""
        self._context.report = told = Told()
        summary = job()
        self._accuse(told.findings)
        self._tree.forget_past()
        return summary

    def _accuse(self, said: Iterable[Finding]) -> None:
        for finding in said:
            for name in map(os.fsdecode, (finding.path or b"", *finding.names)):
                files = self._tree.met.get(name, [])
                if all(file.damage is Damage.NONE for file in files):
                    self.errors.append(f"false: {finding.kind} ({finding.certainty}) {name}: {finding.message}")

    def _judge_end(self, summary: Summary) -> None:
        with self._context.catalog.read() as connection:
            still = list(findings.find_findings(connection))  # of this root: all others are forgotten
        self._accuse(still)
        names_said = {os.fsdecode(finding.path or b"") for finding in still}
        for file, names in self._tree.files():
            bad = self._tree.find_bad_blocks(names[0])
            assert bad == [] or file.damage is not Damage.NONE, f"the model is wrong about {names}"
            if bad == [] or file.damage is not Damage.DUE:
                continue
            if not names_said.intersection(names):
                self.errors.append(f"missed: {names}")
            elif not (summary.has_integrity_problem or summary.is_incomplete):
                self.errors.append(f"all is well, with a finding about {names}")


ACTIONS: dict[str, Callable[[Model, int, int], object]] = {
    "rename": Model._rename,
    "swap": Model._swap,
    "exchange": Model._exchange,
    "cycle": Model._cycle,
    "chain": Model._chain,
    "link": Model._link,
    "unlink": Model._unlink,
    "copy": Model._copy,
    "move_by_copy": Model._move_by_copy,
    "edit": Model._edit,
    "save": Model._save,
    "restore": Model._restore,
    "touch": Model._touch,
    "chmod": Model._chmod,
    "rename_folder": Model._rename_folder,
    "swap_folders": Model._swap_folders,
    "flip": Model._flip,
    "scan": Model._scan,
    "scrub": Model._scrub,
    "scrub_blindly": Model._scrub_blindly,
}
"""What a step can do."""

_PASSING_ON = frozenset({"swap", "exchange", "cycle", "chain", "swap_folders"})


@contextmanager
def open_quick_context(path: Path) -> Iterator[Context]:
    """Open a catalog, best on a tmpfs, for jobs that wait for nothing but the ticks of the file system's clock."""
    with open_context(path) as context:
        context.pauses, context.jobs, context.clock = Pauses(confirm_s=0, retry_s=0), 1, Clock()
        yield context
