"""Many files through few threads: every task answered once, in bounded memory, whatever the disk does."""

from __future__ import annotations

import hashlib
import os
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import count, islice, pairwise
from pathlib import Path

import pytest
import xxhash
from awscrt import checksums

from integrity.errors import DeviceFailing, DeviceStalled, ReadInterrupted, Unreadable, Vanished
from integrity.files.read_errors import ErrorBudget
from integrity.files.span import Pace, ReadMode
from integrity.hashing.digests import Want, want_to_record
from integrity.hashing.engine import Engine
from integrity.hashing.tasks import Done, Failed, Partial, Result, Resume, Task
from integrity.hashing.work_queue import BUFFER_BYTES
from integrity.model import Digests
from support.expected import expect_blocks, expect_crc64nvme
from support.faultfs import FaultFS, Rule
from support.reading import let_age, make_capability, reading
from support.shapes import put_sparse

MIB = 1 << 20
WANT = want_to_record(blake3=False)
MODES = pytest.mark.parametrize("mode", list(ReadMode))
SERIAL = pytest.mark.parametrize("is_serial", [False, True])


def make_files(folder: Path, sizes: Iterable[int]) -> dict[bytes, bytes]:
    """Make a file of each size; return their contents by name."""
    files = {}
    for number, size in enumerate(sizes):
        name = f"f{number:04}"
        files[name.encode()] = os.urandom(size)
        (folder / name).write_bytes(files[name.encode()])
    return files


def make_tasks(files: dict[bytes, bytes], want: Want = WANT, block_size: int = MIB) -> list[Task]:
    return [Task(path, len(content), want, block_size, tag=path) for path, content in files.items()]


def expect_digests(content: bytes) -> Digests:
    md5, xxh3 = hashlib.md5(content).digest(), xxhash.xxh3_128_digest(content)
    return Digests(md5, xxh3, crc64nvme=expect_crc64nvme(content))


def one_done(results: Iterable[Result]) -> Done:
    (result,) = results
    assert isinstance(result, Done)
    return result


def one_failed(results: Iterable[Result]) -> Failed:
    (result,) = results
    assert isinstance(result, Failed)
    return result


def count_readers() -> int:
    return sum(thread.name.startswith(("read-", "hash")) for thread in threading.enumerate())


class SetAfter:
    """A stop signal that is set when something was done so often."""

    def __init__(self, limit: int) -> None:
        self.left = limit

    def is_set(self) -> bool:
        return self.left <= 0


class Meeting(Pace):
    """A pace that finds out whether two threads read at the same time, and in which order sizes are read."""

    def __init__(self, patience_s: float) -> None:
        self.sizes: list[int] = []
        self.meetings = 0
        self._barrier = threading.Barrier(2)
        self._patience_s = patience_s

    def take(self, size_bytes: int) -> None:
        self.sizes.append(size_bytes)
        if self.meetings:
            return
        try:
            self._barrier.wait(self._patience_s)
            self.meetings += 1
        except threading.BrokenBarrierError:
            self._barrier.reset()


class TestAnswers:
    @MODES
    @SERIAL
    @pytest.mark.parametrize("jobs", [1, 2, 3])
    def test_every_task_is_answered_once_and_rightly(
        self, tmp_path: Path, mode: ReadMode, is_serial: bool, jobs: int
    ) -> None:
        """Small, large, sparse and missing files together, each with the digests of its bytes (I1)."""
        files = make_files(
            tmp_path, [*(n * 97 for n in range(200)), MIB, MIB + 1, 2 * BUFFER_BYTES + MIB + 5, BUFFER_BYTES, 0, 1]
        )
        for number in range(5):  # several segments in one buffer, beside whatever is hashed
            content = b"a" * 8192 + bytes(8192 * (number + 1)) + b"b" * 8192 + bytes(8192) + b"c" * 5
            name = b"sparse%d" % number
            end = len(content)
            pieces = [(0, content[:8192]), (end - 16389, b"b" * 8192), (end - 5, b"c" * 5)]
            put_sparse(tmp_path / name.decode(), end, pieces)
            files[name] = content
        tasks = make_tasks(files) + [Task(b"gone%d" % number, 5, WANT, MIB) for number in range(3)]
        with reading(tmp_path, mode) as reader:
            engine = Engine(reader, jobs=jobs, is_serial=is_serial)
            results = list(engine.run(tasks))

        assert Counter(task.path for task in tasks) == Counter(result.task.path for result in results)
        for result in results:
            if result.task.path.startswith(b"gone"):
                assert isinstance(result, Failed)
                assert isinstance(result.error, Vanished)
                continue
            content = files[result.task.path]
            assert isinstance(result, Done)
            assert (expect_digests(content), len(content)) == (
                result.reading.digests,
                result.reading.witness.size_bytes,
            )
            assert (expect_blocks(content, MIB) if len(content) > MIB else None) == result.reading.blocks
        assert sum(map(len, files.values())) == engine.bytes_done
        assert 0 == count_readers()

    def test_nothing_to_do_is_soon_done(self, tmp_path: Path) -> None:
        """No tasks, no results, and an engine can be used again."""
        files = make_files(tmp_path, [5])
        with reading(tmp_path) as reader:
            engine = Engine(reader, jobs=2)
            assert [] == list(engine.run([]))
            assert [b"f0000"] == [result.task.tag for result in engine.run(make_tasks(files))]

    def test_very_sparse_files_have_blocks_and_their_crc(self, tmp_path: Path) -> None:
        """Nobody wants to wait for the MD5 of zeros that were never stored; the CRC costs nothing."""
        put_sparse(tmp_path / "f", 5 << 30, [(0, b"x" * 8192)])
        with reading(tmp_path) as reader:
            done = one_done(Engine(reader, jobs=1).run([Task(b"f", 5 << 30, WANT, 64 * MIB)]))

        zeros = checksums.crc64nvme(bytes(64 * MIB))
        crc64nvme = checksums.crc64nvme(b"x" * 8192 + bytes(64 * MIB - 8192))
        for _ in range(79):
            crc64nvme = checksums.combine_crc64nvme(crc64nvme, zeros, 64 * MIB)
        assert Digests(crc64nvme=crc64nvme.to_bytes(8, "big")) == done.reading.digests
        assert len(done.reading.blocks or ()) == 80

    def test_tick_comes_while_nothing_is_ready(self, tmp_path: Path) -> None:
        """Whoever consumes results is not left alone with a file that takes long; without a tick this would not end."""
        let_go = threading.Event()

        class Held(Pace):
            def take(self, size_bytes: int) -> None:
                assert let_go.wait(60)

        files = make_files(tmp_path, [10_000])
        with reading(tmp_path, ReadMode.DISK, pace=Held()) as reader:
            one_done(Engine(reader, jobs=1).run(make_tasks(files), tick=let_go.set))

    def test_an_error_of_ours_reaches_the_consumer(self, tmp_path: Path) -> None:
        """What is no answer about a file ends the run, instead of leaving it to wait for ever."""

        class Broken(Pace):
            def take(self, size_bytes: int) -> None:
                raise RuntimeError("broken")

        files = make_files(tmp_path, [5000] * 3)
        with (
            reading(tmp_path, ReadMode.DISK, pace=Broken()) as reader,
            pytest.raises(RuntimeError, match="broken"),
        ):
            list(Engine(reader, jobs=2).run(make_tasks(files)))
        assert 0 == count_readers()


class TestMemory:
    @SERIAL
    def test_tasks_are_taken_as_there_is_room(self, tmp_path: Path, is_serial: bool) -> None:
        """Of endless tasks only so many are taken ahead of the results (I2); who has enough closes the run."""
        make_files(tmp_path, [100])
        taken = 0

        def endless() -> Iterator[Task]:
            nonlocal taken
            for _ in count():
                taken += 1
                yield Task(b"f0000", 100, WANT, MIB)

        with reading(tmp_path) as reader:
            results = Engine(reader, jobs=2, is_serial=is_serial).run(endless())
            for given, _ in enumerate(islice(results, 5000)):
                assert taken - given <= (2 * 32 + 1) * 256
            results.close()
        assert 0 == count_readers()

    def test_closing_leaves_what_has_not_begun(self, tmp_path: Path) -> None:
        """Whoever wants no more results does not wait for the files that were handed out already."""
        files = make_files(tmp_path, [BUFFER_BYTES + MIB] * 8)
        with reading(tmp_path, ReadMode.DISK) as reader:
            engine = Engine(reader, jobs=1)
            results = engine.run(make_tasks(files) * 5)
            next(results)
            results.close()

        assert engine.bytes_done < 5 * 8 * (BUFFER_BYTES + MIB)
        assert 0 == count_readers()


class TestStopping:
    BLOCK = 4096

    def run_until(self, folder: Path, limit: int, task: Task, jobs: int) -> list[Result]:
        """Read a file, and stop at its ``limit``-th partial result."""
        stop = SetAfter(limit)
        results: list[Result] = []
        with reading(folder) as reader:
            for result in Engine(reader, jobs=jobs, stop=stop).run([task]):
                results.append(result)
                stop.left -= isinstance(result, Partial)
        return results

    def expect_whole(self, content: bytes, results: list[Result]) -> None:
        parts = [one.blocks for one in results if isinstance(one, Partial)]
        parts += [one.reading.blocks for one in results if isinstance(one, Done) and one.reading.blocks is not None]
        whole = expect_blocks(content, self.BLOCK)
        assert whole.md5 == b"".join(one.md5 for one in parts)
        assert whole.xxh3_128 == b"".join(one.xxh3_128 for one in parts)
        assert whole.crc64nvme == b"".join(one.crc64nvme for one in parts)

    def test_partial_results_come_in_order(self, tmp_path: Path) -> None:
        """Parts of a large file follow each other without a gap, before its answer (I3)."""
        files = make_files(tmp_path, [5 * BUFFER_BYTES + 5])
        (task,) = make_tasks(files, block_size=self.BLOCK)

        *parts, done = self.run_until(tmp_path, 100, task, 2)

        assert isinstance(done, Done)
        assert 3 <= len(parts)
        assert all(isinstance(part, Partial) for part in parts)
        for part, following in pairwise([*parts, done]):
            assert isinstance(part, Partial)
            assert not isinstance(following, Failed)
            assert part.first_block + len(part.blocks) == following.first_block
            assert part.offset == following.first_block * self.BLOCK
        self.expect_whole(files[task.path], [*parts, done])

    @pytest.mark.parametrize("jobs", [1, 2])
    def test_a_stopped_file_goes_on_where_it_was(self, tmp_path: Path, jobs: int) -> None:
        """The parts before a stop and the rest from there equal an undisturbed run."""
        files = make_files(tmp_path, [5 * BUFFER_BYTES + 5])
        let_age(tmp_path / "f0000")
        (task,) = make_tasks(files, block_size=self.BLOCK)

        *parts, failed = self.run_until(tmp_path, 2, task, jobs)

        assert isinstance(failed, Failed)
        assert isinstance(failed.error, ReadInterrupted)
        last = parts[-1]
        assert isinstance(last, Partial)
        assert last.offset < len(files[task.path])
        resume = Resume(last.offset, last.md5_state, last.witness)
        rest = self.run_until(tmp_path, 100, Task(task.path, task.size_bytes, WANT, self.BLOCK, resume=resume), jobs)
        done = rest[-1]
        assert isinstance(done, Done)
        self.expect_whole(files[task.path], [*parts, *rest])
        assert Digests(md5=hashlib.md5(files[task.path]).digest()) == done.reading.digests

    def test_a_racy_witness_does_not_void_a_resume_point(self, tmp_path: Path) -> None:
        """The reading goes on, and what was read then keeps the whole racy: it may have been written to since."""
        make_files(tmp_path, [9 * MIB])
        let_age(tmp_path / "f0000")
        stat = os.stat(tmp_path / "f0000")
        with reading(tmp_path) as reader:
            whole = one_done(Engine(reader, jobs=1).run([Task(b"f0000", 9 * MIB, WANT, MIB)]))
            witness = whole.reading.witness._replace(is_racy=True)
            resume = Resume(4 * MIB, None, witness)
            done = one_done(Engine(reader, jobs=1).run([Task(b"f0000", 9 * MIB, WANT, MIB, resume=resume)]))

        assert not whole.reading.witness.is_racy
        assert (4, stat.st_ino, True) == (
            done.first_block,
            done.reading.witness.inode,
            done.reading.witness.is_racy,
        )

    def test_after_a_stop_no_more_tasks_are_taken(self, tmp_path: Path) -> None:
        """What was taken is answered, and that is all."""
        make_files(tmp_path, [100])
        stop = threading.Event()
        taken = 0

        def endless() -> Iterator[Task]:
            nonlocal taken
            for _ in count():
                taken += 1
                if taken == 1000:
                    stop.set()
                yield Task(b"f0000", 100, WANT, MIB)

        with reading(tmp_path) as reader:
            results = list(Engine(reader, jobs=2, stop=stop).run(endless()))

        assert taken - 64 <= len(results) <= taken
        assert {Done, Failed} >= {type(result) for result in results}
        assert all(isinstance(one.error, ReadInterrupted) for one in results if isinstance(one, Failed))


class TestSerial:
    """One spindle: one reader."""

    def test_one_reader_at_a_time_in_order(self, tmp_path: Path) -> None:
        """On a rotational disk never two threads read, and files are read in the order of the tasks."""
        small, later = [4096 + 512 * number for number in range(70)], [70_000 + number for number in range(20)]
        sizes = [*small, BUFFER_BYTES + MIB, *later]
        files = make_files(tmp_path, sizes)
        meeting = Meeting(0.01)
        one_by_one = make_capability("overlay")
        with reading(tmp_path, ReadMode.DISK, pace=meeting, capability=one_by_one) as reader:
            results = list(Engine(reader, jobs=2, is_serial=True).run(make_tasks(files)))

        assert len(files) == len(results)
        assert 0 == meeting.meetings
        assert [*small, BUFFER_BYTES, MIB, *later] == meeting.sizes

    def test_others_read_side_by_side(self, tmp_path: Path) -> None:
        """Elsewhere two threads do, which proves that the meeting above would have been seen."""
        files = make_files(tmp_path, [5000] * 200)
        meeting = Meeting(2)
        with reading(tmp_path, ReadMode.DISK, pace=meeting) as reader:
            for _ in Engine(reader, jobs=2).run(make_tasks(files)):
                if meeting.meetings:
                    break

        assert meeting.meetings


class TestSickDisks:
    @pytest.mark.root
    def test_the_budget_runs_out_on_the_way(self, faulty: FaultFS, tmp_path: Path) -> None:
        """Files before are read or unreadable, files behind are left."""
        files = make_files(tmp_path / "source", [5000] * 30)
        faulty.add(Rule("read", path="/f000[5-9]", errno=5))
        budget = ErrorBudget(max_errors=3)
        with reading(faulty.mnt, ReadMode.DISK, budget=budget) as reader:
            results = list(Engine(reader, jobs=1, budget=budget).run(make_tasks(files)))

        kinds = [type(one.error) if isinstance(one, Failed) else Done for one in results]
        assert [Done] * 5 == kinds[:5]
        assert {Unreadable, DeviceFailing} == set(kinds[5:])
        assert DeviceFailing is kinds[-1]


@pytest.fixture
def hanging(faulty: FaultFS, tmp_path: Path) -> Iterator[tuple[FaultFS, Path]]:
    """Give a folder whose reads can be made to hang; at the end they go on, and no thread is left."""
    yield faulty, tmp_path / "source"
    faulty.clear()
    for thread in threading.enumerate():
        if thread.name.startswith(("read-", "hash")):
            thread.join(10)
    assert 0 == count_readers()


@pytest.mark.root
class TestHangingDevices:
    """The reads hang in the kernel: ``stall_s`` is short, and all the waiting is for that."""

    @SERIAL
    def test_one_hanging_file_holds_up_no_other(self, hanging: tuple[FaultFS, Path], is_serial: bool) -> None:
        """Files before and behind it are answered; those that its thread had not begun are given up with it (I1)."""
        faulty, source = hanging
        files = make_files(source, [5000] * 200)
        faulty.add(Rule("read", path="/f0010", is_hung=True))
        with reading(faulty.mnt, ReadMode.DISK) as reader:
            engine = Engine(reader, jobs=2, is_serial=is_serial, stall_s=3)
            results = list(engine.run(make_tasks(files)))
            faulty.clear()

        assert Counter(list(files)) == Counter(result.task.path for result in results)
        stalled = sorted(one.task.path for one in results if isinstance(one, Failed))
        assert sorted(files)[10:64] == stalled
        for result in results:
            if isinstance(result, Failed):
                assert isinstance(result.error, DeviceStalled)
            elif isinstance(result, Done):
                assert expect_digests(files[result.task.path]) == result.reading.digests

    @pytest.mark.parametrize("jobs", [1, 2])
    def test_when_all_hang_every_file_is_answered(self, hanging: tuple[FaultFS, Path], jobs: int) -> None:
        """With no thread left the rest is not read, however much it is."""
        faulty, source = hanging
        files = make_files(source, [5000] * 50)
        faulty.add(Rule("read", is_hung=True))
        tasks = make_tasks(files) * 30
        with reading(faulty.mnt, ReadMode.DISK) as reader:
            results = list(Engine(reader, jobs=jobs, stall_s=0.5).run(tasks))
            faulty.clear()

        assert len(tasks) == len(results)
        assert {DeviceStalled} == {type(one.error) for one in results if isinstance(one, Failed)}
        assert all(isinstance(one, Failed) for one in results)

    def test_a_large_file_can_hang_too(self, hanging: tuple[FaultFS, Path]) -> None:
        """In mid-file, after parts of it were sent: one answer, and nothing after it (I3)."""
        faulty, source = hanging
        files = make_files(source, [5 * BUFFER_BYTES])
        faulty.add(Rule("read", offset=4 * BUFFER_BYTES + MIB, length=4096, is_hung=True))
        with reading(faulty.mnt, ReadMode.DISK) as reader:
            results = list(Engine(reader, jobs=2, stall_s=1).run(make_tasks(files, block_size=4096)))
            faulty.clear()

        assert [Partial] * (len(results) - 1) == [type(one) for one in results[:-1]]
        failed = one_failed(results[-1:])
        assert isinstance(failed.error, DeviceStalled)

    def test_waiting_for_the_turn_is_no_hanging(self, hanging: tuple[FaultFS, Path]) -> None:
        """A slow disk with one reader: the threads that wait longer than the limit are not given up."""
        faulty, source = hanging
        files = make_files(source, [5000] * 130)
        faulty.add(Rule("read", path="/f00[0-5]?", delay_s=0.05))
        with reading(faulty.mnt, ReadMode.DISK) as reader:
            results = list(Engine(reader, jobs=3, is_serial=True, stall_s=2).run(make_tasks(files)))

        assert {Done} == {type(one) for one in results}
