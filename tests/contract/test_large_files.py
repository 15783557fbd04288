"""
Large files in memory: what is answered beside others through the C core is what each would be answered alone.

Reading one by one is the contract; only how long that takes may differ.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from integrity.errors import ReadInterrupted, Unstable
from integrity.files.read import OpenFile
from integrity.hashing import large_batch
from integrity.hashing.digests import Want, want_to_confirm, want_to_record, want_to_verify
from integrity.hashing.tasks import Done, Failed, Partial, Resume, Task
from support.answers import answer_large, comparable
from support.reading import let_age, make_capability, reading
from support.shapes import put_sparse

BLOCK_BYTES = 64 << 10
WANT = want_to_record(blake3=False)
NOW_NS = 2 * 10**18


def make_tasks(folder: Path, want: Want = WANT) -> list[Task]:
    return [
        Task(os.fsencode(path.name), path.lstat().st_size, want, BLOCK_BYTES, tag=path.name)
        for path in sorted(folder.iterdir())
    ]


def build(folder: Path) -> None:
    """Fill a folder with large files, and with what looked like one when it was listed."""
    for size in (BLOCK_BYTES + 1, 2 * BLOCK_BYTES, 131073, 1_000_000, 5_000_001):
        (folder / f"size-{size}").write_bytes(os.urandom(size))
    put_sparse(folder / "sparse", 3_000_000, [(70_000, b"x" * 100_000)])
    (folder / "small").write_bytes(b"small")
    (folder / "empty").write_bytes(b"")
    (folder / "folder").mkdir()
    (folder / "link").symlink_to("small")
    os.link(folder / "size-1000000", folder / "hard")


def both(folder: Path, tasks: list[Task]) -> tuple[dict[bytes, object], dict[bytes, object]]:
    """Answer all one by one, and beside each other."""
    with reading(folder, capability=make_capability(granularity_ns=1), clock_ns=lambda: NOW_NS) as reader:
        alone = answer_large(reader, tasks, is_beside=False)
        beside = answer_large(reader, tasks, is_beside=True)
    return comparable(alone), comparable(beside)


@pytest.mark.parametrize(
    "want",
    [
        WANT,
        want_to_record(blake3=True),
        want_to_confirm(blake3=False),
        want_to_verify(is_one_block=False, deep=False, blake3=False),
    ],
)
def test_both_ways_agree_on_every_odd_file(tmp_path: Path, want: Want) -> None:
    """Witness, digests, blocks, how, bytes read, or the error in its very words."""
    build(tmp_path)
    let_age(tmp_path)
    tasks = [*make_tasks(tmp_path, want), Task(b"gone", 1 << 20, want, BLOCK_BYTES)]

    alone, beside = both(tmp_path, tasks)

    assert alone == beside
    assert len(tasks) == len(alone)


def test_both_ways_agree_on_probes_and_resumed_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What an earlier run has read is not read again, unless the file is another one now."""
    monkeypatch.setattr(large_batch, "_MOST_NS", 0)
    build(tmp_path)
    let_age(tmp_path)
    with reading(tmp_path, clock_ns=lambda: NOW_NS) as reader:
        task = next(task for task in make_tasks(tmp_path) if task.tag == "size-5000001")
        results = answer_large(reader, [task], is_beside=True, stop=StopAfter(5))
    (partial,) = [one for one in results if isinstance(one, Partial)]
    resume = Resume(partial.offset, partial.md5_state, partial.witness)
    tasks = [
        task._replace(resume=resume, tag="resumed"),
        task._replace(path=b"hard", resume=resume, tag="another"),
        task._replace(path=b"size-131073", probe=(BLOCK_BYTES, 100), tag="probed"),
    ]

    alone, beside = both(tmp_path, tasks)

    assert alone == beside
    resumed = beside[task.path]
    assert isinstance(resumed, Done)
    assert resumed.first_block == partial.offset // BLOCK_BYTES > 0


class StopAfter:
    """A stop signal that is set when it was asked so many times."""

    def __init__(self, times: int) -> None:
        self._left = times

    def is_set(self) -> bool:
        """Say whether it is set by now."""
        self._left -= 1
        return self._left < 0


@pytest.mark.parametrize("times", range(3, 30, 4))
def test_interrupted_files_keep_what_was_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: int) -> None:
    """Whenever the run is stopped, what was read up to a block's border is kept and gone on with."""
    monkeypatch.setattr(large_batch, "_MOST_NS", 0)
    for number in range(3):
        (tmp_path / f"file-{number}").write_bytes(os.urandom(3_000_001))
    let_age(tmp_path)
    tasks = make_tasks(tmp_path)
    with reading(tmp_path, clock_ns=lambda: NOW_NS) as reader:
        expected = comparable(answer_large(reader, tasks, is_beside=False))
        results = answer_large(reader, tasks, is_beside=True, stop=StopAfter(times))
        partials = {one.task.path: one for one in results if isinstance(one, Partial)}
        failed = [one for one in results if isinstance(one, Failed)]
        assert all(isinstance(one.error, ReadInterrupted) for one in failed)
        again = [
            one.task._replace(resume=resume_from(partials[one.task.path])) if one.task.path in partials else one.task
            for one in failed
        ]
        later = answer_large(reader, again, is_beside=True)

    for one in (*results, *later):
        if isinstance(one, Done):
            whole = expected[one.task.path]
            assert isinstance(whole, Done)
            assert whole.reading.digests.md5 == one.reading.digests.md5
            assert whole.reading.blocks is not None
            assert one.reading.blocks is not None
            assert whole.reading.blocks.md5[16 * one.first_block :] == one.reading.blocks.md5
    assert {one.task.path for one in (*results, *later) if isinstance(one, Done)} == {task.path for task in tasks}


def resume_from(partial: Partial) -> Resume:
    return Resume(partial.offset, partial.md5_state, partial.witness)


@pytest.mark.parametrize("happens", ["shrinks", "grows", "is written to", "is replaced", "vanishes"])
def test_a_file_that_changes_while_it_is_read_is_no_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, happens: str
) -> None:
    """Neither way makes a record of bytes that never were there together."""
    for number in range(3):
        (tmp_path / f"file-{number}").write_bytes(os.urandom(1_000_000))
    let_age(tmp_path)
    path = tmp_path / "file-1"
    inode = path.stat().st_ino
    lend = OpenFile.lend

    def change_when_lent(self: OpenFile) -> int | None:
        fd = lend(self)
        if self.stat.st_ino == inode:
            change(path, happens)
        return fd

    tasks = make_tasks(tmp_path)
    monkeypatch.setattr(OpenFile, "lend", change_when_lent)
    with reading(tmp_path) as reader:
        answers = {one.task.path: one for one in answer_large(reader, tasks, is_beside=True)}

    failed = answers.pop(b"file-1")
    assert isinstance(failed, Failed)
    assert isinstance(failed.error, Unstable) == (happens != "vanishes")
    assert all(isinstance(one, Done) for one in answers.values())


def change(path: Path, happens: str) -> None:
    if happens == "shrinks":
        os.truncate(path, 300_000)
    elif happens == "grows":
        with path.open("ab") as file:
            file.write(b"more")
    elif happens == "is written to":
        with path.open("r+b") as file:
            file.write(b"other")
    elif happens == "is replaced":
        other = path.with_name("other")
        other.write_bytes(os.urandom(1_000_000))
        other.rename(path)
    else:
        path.rename(path.with_name("elsewhere"))
