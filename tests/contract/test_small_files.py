"""
Both ways to read small files give the same: the short way by the batch, and the long way file by file.

So it is for what lies in memory when it is to be recorded, and for what is to be read from the disk.

The long way is the contract: whatever a file is, the engine's answer must not depend on the C core being there.
"""

from __future__ import annotations

import errno
import os
import random
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from threading import Event, Thread
from time import monotonic

import pytest

from integrity.errors import ReadInterrupted, Unreadable, Vanished
from integrity.files.buffers import Buffers
from integrity.files.direct_io import direct_alignment
from integrity.files.page_cache import drop_clean_pages, page_bytes, resident_bytes
from integrity.files.read import Reader
from integrity.files.read_errors import ErrorBudget
from integrity.files.span import ReadMode
from integrity.hashing.digests import Want, want_to_record
from integrity.hashing.engine import Engine
from integrity.hashing.tasks import Done, DoneBatch, Failed, Result, Task
from integrity.hashing.work_queue import SIDE_BY_SIDE, AnswerBatch, Batch, Shared, WorkQueue
from integrity.hashing.worker import Worker
from integrity.model import ReadHow
from support.answers import answer, answer_all, comparable
from support.batches import read_batch
from support.loopfs import LoopFS
from support.privileges import as_nobody
from support.reading import let_age, make_capability, reading
from support.shapes import put_deep, put_sparse

BLOCK_BYTES = 64 << 10
WANT = want_to_record(blake3=True)


@pytest.fixture(params=list(ReadMode))
def mode(request: pytest.FixtureRequest) -> ReadMode:
    """Read for each purpose in turn."""
    found: ReadMode = request.param
    return found


@contextmanager
def reading_at(folder: Path, mode: ReadMode, now_ns: int, fs_type: str = "ext4") -> Iterator[Reader]:
    """Give a reader that lives at one moment."""
    capability = make_capability(fs_type, granularity_ns=1)
    with reading(folder, mode, capability=capability, clock_ns=lambda: now_ns) as reader:
        yield reader


def count_short(folder: Path, mode: ReadMode, paths: list[bytes]) -> int:
    """Count the files that the short way takes."""
    with reading(folder, mode) as reader:
        memory = Buffers(4 << 20, 1).acquire()
        return sum(file is not None for file in read_batch(reader, paths, BLOCK_BYTES, memory))


def make_tasks(paths: list[bytes], want: Want = WANT) -> list[Task]:
    return [Task(path, 100, want, BLOCK_BYTES, tag=path) for path in paths]


def both(
    folder: Path, mode: ReadMode, tasks: list[Task], now_ns: int, fs_type: str = "ext4"
) -> tuple[dict[bytes, object], dict[bytes, object]]:
    """Return the answers of the long way, and those of the short one."""
    with reading_at(folder, mode, now_ns, fs_type) as reader:
        short = answer(reader, tasks, is_short=True)
        long = answer(reader, tasks, is_short=False)
    return comparable(long), comparable(short)


def build(folder: Path) -> list[bytes]:
    """Fill a folder with every odd case; return the paths to read."""
    sizes = {b"empty": 0, b"one": 1, b"page": 4096, b"block-1": BLOCK_BYTES - 1, b"block": BLOCK_BYTES}
    sizes |= {b"block+1": BLOCK_BYTES + 1, b"bad\xff\xfeutf8": 77, b"new\nline": 78, b"dots..in..name": 79}
    for name, size in sizes.items():
        (folder / os.fsdecode(name)).write_bytes(os.urandom(size))
    os.link(folder / "page", folder / "hard")
    for name, pieces in (("first", [(8192, b"x" * 8192)]), ("last", [(0, b"x" * 8192)]), ("all", [])):
        put_sparse(folder / name, 20_000, pieces)
    put_sparse(folder / "middle", 60_000, [(0, b"a" * 8192), (40_000, b"b" * 20_000)])
    for name in ("first", "last", "all", "middle"):
        (folder / name).read_bytes()  # holes have pages in memory, too
    put_deep(folder, 40, b"d" * 200)
    (folder / "folder").mkdir()
    (folder / "folder" / "in").write_bytes(b"in")
    os.symlink("page", folder / "link")
    os.symlink("folder", folder / "way")
    os.mkfifo(folder / "fifo")
    with socket.socket(socket.AF_UNIX) as one:
        at = os.open(folder, os.O_PATH)
        one.bind(f"/proc/self/fd/{at}/socket")
        os.close(at)
    (folder / "secret").write_bytes(b"secret")
    (folder / "secret").chmod(0)
    (folder / "old").write_bytes(b"old")
    os.utime(folder / "old", ns=(0, -(10**18)))
    (folder / "cold").write_bytes(os.urandom(30_000))
    names = [
        *sizes,
        b"hard",
        b"first",
        b"last",
        b"all",
        b"middle",
        b"folder",
        b"folder/in",
        b"link",
        b"way/in",
        b"fifo",
    ]
    names += [
        b"socket",
        b"secret",
        b"old",
        b"cold",
        b"gone",
        b"page/x",
        b"",
        b"/page",
        b"../x",
        b"folder/../one",
    ]
    return [*names, b"/".join([b"d" * 200] * 40) + b"/bottom.txt", b"x" * 5000]


def drop(path: Path) -> None:
    with open(path, "rb") as file:
        os.fsync(file.fileno())
        drop_clean_pages(file.fileno())


@pytest.mark.parametrize("want", [WANT, want_to_record(blake3=False), Want(xxh3_128=True), Want(md5=True), Want()])
def test_both_ways_agree_on_every_odd_file(tmp_path: Path, mode: ReadMode, want: Want) -> None:
    """Witness, digests, how, bytes read, or the error in its very words."""
    paths = build(tmp_path)
    drop(tmp_path / "cold")
    let_age(tmp_path / "cold")

    long, short = both(tmp_path, mode, make_tasks(paths, want), os.stat(tmp_path / "cold").st_mtime_ns + 10**10)

    assert set(paths) == set(long)
    for path in paths:
        assert long[path] == short[path], path
    taken = [path for path, one in long.items() if isinstance(one, Done)]
    assert {b"empty", b"block", b"block+1", b"hard", b"middle", b"cold", b"bad\xff\xfeutf8"} < set(taken)
    assert {b"link", b"way/in", b"fifo", b"socket", b"gone"}.isdisjoint(taken)


def test_the_short_way_is_taken(tmp_path: Path, mode: ReadMode) -> None:
    """What the other tests compare are really two ways: plain files go the one, odd ones the other."""
    paths = build(tmp_path)
    with open(tmp_path / "one", "rb") as file:
        if mode is ReadMode.RECORD and resident_bytes(file.fileno(), 1) != page_bytes(1):
            pytest.skip("the file system under the tests' folder does not tell what it has in memory")
        if mode is ReadMode.DISK and not direct_alignment(file.fileno()):
            pytest.skip("the kernel does not vouch for O_DIRECT under the tests' folder")
    drop(tmp_path / "cold")

    taken = [path for path in paths if count_short(tmp_path, mode, [path])]

    plain = {b"empty", b"one", b"page", b"block-1", b"block", b"hard", b"folder/in"}
    plain |= {b"bad\xff\xfeutf8", b"new\nline", b"dots..in..name"}
    assert plain | {b"old"} == set(taken) - {b"secret", *([b"cold"] if mode is ReadMode.DISK else [])}


def test_a_path_that_is_none_disturbs_no_other(tmp_path: Path, mode: ReadMode) -> None:
    """A NUL byte in a path, which no file can have, is refused for that path alone."""
    (tmp_path / "a").write_bytes(b"a")
    (tmp_path / "b").write_bytes(b"b")

    long, short = both(tmp_path, mode, make_tasks([b"a", b"a\0b", b"b"]), 4 * 10**18)

    assert long == short
    assert [True, False, True] == [isinstance(one, Done) for one in short.values()]


def test_both_ways_agree_on_what_is_racy(tmp_path: Path, mode: ReadMode) -> None:
    """A file written less than a granule before, or after, the reading began."""
    (tmp_path / "f").write_bytes(b"x")
    written_ns = os.stat(tmp_path / "f").st_ctime_ns
    for after_ns in (-(10**12), -(10**7), 0, 10**7, 19_999_999, 20_000_000, 20_000_001, 10**9):
        long, short = both(tmp_path, mode, make_tasks([b"f"]), written_ns + after_ns)
        assert long == short


def test_both_ways_agree_on_what_is_open_for_writing(tmp_path: Path, mode: ReadMode) -> None:
    """Just after it was written, and when any write must have ended."""
    (tmp_path / "f").write_bytes(b"x")
    written_ns = os.stat(tmp_path / "f").st_ctime_ns
    with open(tmp_path / "f", "ab"):
        for after_s in (1, 60, 3600):
            long, short = both(tmp_path, mode, make_tasks([b"f"]), written_ns + after_s * 10**9)
            assert long == short
            (done,) = short.values()
            assert isinstance(done, Done)
            assert (after_s < 900) == done.reading.witness.is_racy


def test_both_ways_agree_on_what_may_not_be_read(tmp_path: Path, mode: ReadMode) -> None:
    """Nobody in particular gets the same errors, and the same files."""
    tmp_path.chmod(0o755)
    paths = build(tmp_path)
    with reading_at(tmp_path, mode, 4 * 10**18) as reader, as_nobody():
        short = comparable(answer(reader, make_tasks(paths), is_short=True))
        long = comparable(answer(reader, make_tasks(paths), is_short=False))

    assert long == short
    if os.geteuid() == 0:
        refused = long[b"secret"]
        assert isinstance(refused, tuple)
        assert Unreadable is refused[0]
        assert os.strerror(errno.EACCES) in refused[1]


def test_both_ways_agree_on_probes(tmp_path: Path, mode: ReadMode) -> None:
    """A probe inside, at the end of and behind a small file."""
    (tmp_path / "f").write_bytes(os.urandom(5000))
    for probe in ((0, 100), (1000, 4000), (1000, 4001), (6000, 1)):
        tasks = [Task(b"f", 5000, WANT, BLOCK_BYTES, probe=probe)]
        long, short = both(tmp_path, mode, tasks, 4 * 10**18)
        assert long == short


def test_both_ways_agree_on_files_that_have_changed_since_they_were_listed(tmp_path: Path, mode: ReadMode) -> None:
    """A small file that has become large, and one that is a link by now, are read as what they are."""
    (tmp_path / "grown").write_bytes(os.urandom(3 * BLOCK_BYTES + 5))
    (tmp_path / "target").write_bytes(b"x")
    os.symlink("target", tmp_path / "swapped")

    long, short = both(tmp_path, mode, make_tasks([b"grown", b"swapped"]), 4 * 10**18)

    assert long == short
    grown, swapped = short[b"grown"], short[b"swapped"]
    assert isinstance(grown, Done)
    assert isinstance(swapped, tuple)
    assert (4, Vanished) == (len(grown.reading.blocks or ()), swapped[0])


def test_more_than_the_arena_holds_is_answered_whole(tmp_path: Path, mode: ReadMode) -> None:
    """A batch of more bytes than memory is set aside for is worked off in several calls."""
    paths = [b"f%d" % number for number in range(90)]
    for number, path in enumerate(paths):
        (tmp_path / path.decode()).write_bytes(bytes([number]) * BLOCK_BYTES)

    long, short = both(tmp_path, mode, make_tasks(paths), 4 * 10**18)

    assert (90, long) == (len(short), short)


def find_contents(results: list[Result]) -> dict[bytes, object]:
    """Return what was read of each file, not how: between two readings the kernel may take it from memory."""
    done = {one.task.path: one for one in results if isinstance(one, Done)}
    return {path: (one.reading.witness, one.reading.digests, one.reading.blocks) for path, one in done.items()}


def test_many_batches_are_answered_as_each_by_itself(tmp_path: Path, mode: ReadMode) -> None:
    """Digests that are computed beside those of later batches, in memory that is used again, are those of the file."""
    chance = random.Random(11)
    paths = [b"f%d" % number for number in range(600)]
    for path in paths:
        size = chance.choice((0, 1, 55, 56, 63, 64, 65, chance.randrange(3000), chance.randrange(BLOCK_BYTES)))
        (tmp_path / path.decode()).write_bytes(chance.randbytes(size))
    tasks = make_tasks(paths)
    batches = [tasks[at : at + 7] for at in range(0, len(tasks), 7)]

    with reading_at(tmp_path, mode, 4 * 10**18) as reader:
        together = find_contents(answer_all(reader, batches, is_short=True))
        alone = find_contents([one for task in tasks for one in answer(reader, [task], is_short=True)])
        long = find_contents(answer_all(reader, batches, is_short=False))

    assert len(paths) == len(long)
    assert long == together == alone


def test_what_is_begun_is_answered_when_nothing_else_comes(tmp_path: Path, mode: ReadMode) -> None:
    """A thread that waits for more batches to go beside it does not keep the last one to itself."""
    (tmp_path / "f").write_bytes(b"x")
    with reading(tmp_path, mode) as reader:
        deliveries: SimpleQueue[AnswerBatch] = SimpleQueue()
        todo: WorkQueue[Batch] = WorkQueue(1, SIDE_BY_SIDE)
        terms = ErrorBudget(), Event(), monotonic, None, None, SIDE_BY_SIDE
        worker = Worker(Shared(reader, reader.small_readers(), *terms, todo, deliveries))
        thread = Thread(target=worker.work)
        thread.start()
        todo.put(Batch(0, make_tasks([b"f"])[0].as_batch()))
        delivery = deliveries.get(timeout=30)
        todo.end()
        thread.join()

    assert (1, 1) == (len(delivery.results), len(delivery.ended))


@pytest.mark.parametrize("is_short", [True, False])
def test_a_stop_answers_for_every_file(tmp_path: Path, mode: ReadMode, is_short: bool) -> None:
    """What was not begun when the run was to end is answered as interrupted, either way."""
    (tmp_path / "f").write_bytes(b"x")
    stop = Event()
    stop.set()
    with reading(tmp_path, mode) as reader:
        (result,) = answer(reader, make_tasks([b"f"]), is_short=is_short, stop=stop)

    assert isinstance(result, Failed)
    assert isinstance(result.error, ReadInterrupted)


@pytest.mark.root
def test_both_ways_leave_the_cache_as_it_was(each_fs: LoopFS, mode: ReadMode) -> None:
    """What was in memory stays there, what was not is not left there."""
    names = [b"warm", b"cold"]
    for name in names:
        with open(each_fs.path(name), "wb") as file:
            file.write(os.urandom(50_000))
    drop(Path(os.fsdecode(each_fs.path(b"cold"))))

    def count() -> list[int | None]:
        counts = []
        for name in names:
            with open(each_fs.path(name), "rb") as file:
                counts.append(resident_bytes(file.fileno(), 50_000))
        return counts

    folder = Path(os.fsdecode(each_fs.mnt))
    both(folder, mode, make_tasks(names), 4 * 10**18, each_fs.fs_type)

    is_dropped = mode is ReadMode.DISK and each_fs.fs_type == "btrfs"  # it vouches for nothing
    assert [0 if is_dropped else page_bytes(50_000), 0] == count()


@pytest.mark.root
def test_both_ways_agree_on_each_file_system(each_fs: LoopFS, mode: ReadMode) -> None:
    """All odd cases again, where holes and small files are stored differently."""
    folder = Path(os.fsdecode(each_fs.mnt))
    paths = build(folder)
    drop(folder / "cold")

    long, short = both(folder, mode, make_tasks(paths), 4 * 10**18, each_fs.fs_type)

    assert long == short


@pytest.mark.root
@pytest.mark.parametrize("is_serial", [False, True])
def test_recording_reads_by_the_batch_what_is_not_in_memory(each_fs: LoopFS, is_serial: bool) -> None:
    """A first scan of a whole disk meets almost only such files. What is in memory is read from there."""
    cold = ReadHow.CACHE_POSSIBLE if each_fs.fs_type == "btrfs" else ReadHow.DIRECT
    hows = {b"f%d" % number: (ReadHow.CACHE_POSSIBLE, cold)[number % 2] for number in range(300)}
    for number, path in enumerate(hows):
        with open(each_fs.path(path), "wb") as file:
            file.write(os.urandom(5000))
        if number % 2:
            drop(Path(os.fsdecode(each_fs.path(path))))
    tasks = make_tasks(list(hows))

    with reading_at(Path(os.fsdecode(each_fs.mnt)), ReadMode.RECORD, 4 * 10**18, each_fs.fs_type) as reader:
        answers = list(Engine(reader, jobs=2, is_serial=is_serial).run_batches(tasks))

    batches = [one for one in answers if isinstance(one, DoneBatch)]
    found = {path: how for done in batches for path, how in zip(done.tasks.paths, done.readings.hows, strict=True)}
    singly = len(answers) - len(batches)  # a busy system may take from memory what was to be read there
    taken = [path for path, how in found.items() if how is not hows[path]]
    assert singly + len(taken) <= 3
    assert all(hows[path] is ReadHow.CACHE_POSSIBLE for path in taken)
    assert len(hows) - singly == len(found) == sum(len(done.tasks) for done in batches)
