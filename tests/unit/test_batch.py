"""Reading many small files in one call: what it takes, what it leaves, and that it never mixes versions."""

from __future__ import annotations

import errno
import gc
import mmap
import os
import platform
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path

import pytest

from integrity.errors import ReadInterrupted
from integrity.files.batch import READ, Arena
from integrity.files.buffers import Buffers
from integrity.files.direct_io import direct_alignment
from integrity.files.page_cache import drop_clean_pages, page_bytes, resident_bytes
from integrity.files.span import Pace, ReadMode
from integrity.model import ReadHow, Witness
from support import AnyPath
from support.batches import BatchFile, read_batch
from support.bitrot import flip_bit
from support.loopfs import LoopFS
from support.machine import need_programs
from support.preload import Shims
from support.privileges import as_nobody
from support.reading import let_age, make_capability, reading
from support.seccomp import pass_without
from support.waiting import wait_until

LIMIT_BYTES = 64 << 10
TESTS = Path(__file__).parents[1]
CACHESTAT = 451
PREADV2 = 327 if platform.machine() == "x86_64" else 286


@pytest.fixture
def arena() -> Iterator[memoryview]:
    """Give a writable piece of memory."""
    with mmap.mmap(-1, 256 << 10) as memory, memoryview(memory) as view:
        yield view


def need_way(folder: Path, mode: ReadMode) -> None:
    """Skip where no file can be read in this way: nothing would be taken, rightly."""
    probe = folder / "probe"
    probe.write_bytes(b"x")
    with open(probe, "rb") as file:
        if mode is ReadMode.RECORD and resident_bytes(file.fileno(), 1) != page_bytes(1):
            pytest.skip("the file system under the tests' folder does not tell what it has in memory")
        if mode is ReadMode.DISK and not direct_alignment(file.fileno()):
            pytest.skip("the kernel does not vouch for O_DIRECT under the tests' folder")
    probe.unlink()


def content_of(file: BatchFile | None) -> bytes | None:
    return None if file is None else bytes(file.data)


def stat_witness(path: AnyPath) -> Witness:
    stat = os.lstat(path)
    return Witness(stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino)


def drop(path: AnyPath) -> None:
    """Leave nothing of a file in memory."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())

        def is_dropped() -> bool:
            drop_clean_pages(file.fileno())
            return resident_bytes(file.fileno(), os.fstat(file.fileno()).st_size) == 0

        wait_until(is_dropped, "pages dropped")


class TestTaken:
    def test_a_file_larger_than_the_arena_is_left(self, tmp_path: Path, arena: memoryview) -> None:
        """Waiting would not help it."""
        (tmp_path / "f").write_bytes(bytes(8192))
        with reading(tmp_path) as reader:
            assert [None] == read_batch(reader, [b"f"], LIMIT_BYTES, arena[:4096])

    def test_reading_moves_no_atime(self, tmp_path: Path, arena: memoryview) -> None:
        """Reading one's own files does not move their access time."""
        need_way(tmp_path, ReadMode.RECORD)
        (tmp_path / "f").write_bytes(b"x")
        os.utime(tmp_path / "f", ns=(0, os.stat(tmp_path / "f").st_mtime_ns))
        with reading(tmp_path) as reader:
            assert b"x" == content_of(*read_batch(reader, [b"f"], LIMIT_BYTES, arena))

        assert 0 == os.stat(tmp_path / "f").st_atime_ns


class TestLeft:
    def test_two_dots_are_left_only_as_a_whole_component(self, tmp_path: Path, arena: memoryview) -> None:
        """A way up is refused wherever it stands in a path; two dots within a name mean nothing."""
        need_way(tmp_path, ReadMode.RECORD)
        (tmp_path / "a..").mkdir()
        names = [b"a..b", b"..a", b"a..", b"...", b"a../..b.."]
        for name in (b"a..b", b"..a", b"...", b"a../..b.."):
            (tmp_path / os.fsdecode(name)).write_bytes(name)
        up = [b"..", b"../..a", b"a../..", b"a../../..a", b"a../../a..b", b"./../..a"]
        with reading(tmp_path) as reader:
            files = read_batch(reader, [*names, *up], LIMIT_BYTES, arena)

        contents = [None if name == b"a.." else name for name in names]
        assert [*contents, *([None] * len(up))] == [content_of(file) for file in files]

    def test_times_beyond_64_bits_of_nanoseconds_are_left(self, tmp_path: Path, arena: memoryview) -> None:
        """A date that a record can't hold is not bent into one that it can."""
        (tmp_path / "f").write_bytes(b"x")
        os.utime(tmp_path / "f", ns=(0, 9_300_000_000 * 10**9))
        if os.stat(tmp_path / "f").st_mtime_ns != 9_300_000_000 * 10**9:
            pytest.skip("the file system under the tests' folder can't hold the year 2264")
        with reading(tmp_path) as reader:
            assert [None] == read_batch(reader, [b"f"], LIMIT_BYTES, arena)

    @pytest.mark.root
    def test_files_on_the_disk_are_left_there(self, each_fs: LoopFS, arena: memoryview) -> None:
        """What is not in memory, or not all of it, is neither read nor brought there."""
        for name in (b"cold", b"part"):
            with open(each_fs.path(name), "wb") as file:
                file.write(os.urandom(60_000))
            drop(each_fs.path(name))
        with open(each_fs.path(b"part"), "rb", buffering=0) as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
            file.read(4096)
            before = resident_bytes(file.fileno(), 60_000)
            with reading(each_fs.mnt) as reader:
                assert [None, None] == read_batch(reader, [b"cold", b"part"], LIMIT_BYTES, arena)
            assert before == resident_bytes(file.fileno(), 60_000)
        with open(each_fs.path(b"cold"), "rb") as file:
            assert 0 == resident_bytes(file.fileno(), 60_000)


class AskedPace(Pace):
    """A pace that remembers what it was asked for, and told."""

    def __init__(self, piece_bytes: int, *, is_over: bool = False, share_bytes: float = 1e9) -> None:
        self._piece_bytes, self._is_over, self._share_bytes = piece_bytes, is_over, share_bytes
        self.taken: list[int] = []
        self.told: list[tuple[int, int]] = []

    def piece_bytes(self) -> int:
        return self._piece_bytes

    def share_bytes(self, duration_s: float) -> float:
        return self._share_bytes

    def take(self, size_bytes: int) -> None:
        if self._is_over:
            raise ReadInterrupted("stop")
        self.taken.append(size_bytes)

    def took(self, size_bytes: int, duration_s: float, reads: int = 1) -> None:
        assert duration_s >= 0
        self.told.append((size_bytes, reads))


class TestDisk:
    @pytest.mark.root
    @pytest.mark.parametrize("fs_type", ["ext4", "xfs", "btrfs"])
    def test_bytes_come_from_the_disk(self, fs_type: str) -> None:
        """
        Rot below a file that lies in memory is seen (R4), and what is dirty is no rot.

        Memory is left as it is, but on btrfs, where only dropping it makes sure.
        """
        arena = Buffers(1 << 20, 1).acquire()
        with LoopFS(fs_type, options="nodatasum" if fs_type == "btrfs" else "") as fs:
            for name in (b"rotten", b"dirty"):
                with open(fs.path(name), "wb") as file:
                    file.write(b"good" * 2500)
            drop(fs.path(b"rotten"))
            with open(fs.path(b"rotten"), "rb") as file:
                assert b"good" * 2500 == file.read()
                flip_bit(fs.path(b"rotten"), 5000)
                with reading(fs.mnt, ReadMode.DISK, capability=make_capability(fs_type)) as reader:
                    rotten, dirty = read_batch(reader, [b"rotten", b"dirty"], LIMIT_BYTES, arena)
                kept_bytes = 0 if fs_type == "btrfs" else page_bytes(10_000)
                assert kept_bytes == resident_bytes(file.fileno(), 10_000)

            assert rotten is not None
            assert [5000] == [at for at, byte in enumerate(rotten.data) if byte != b"good"[at % 4]]
            assert b"good" * 2500 == content_of(dirty)

    @pytest.mark.root
    def test_no_file_is_taken_where_nobody_vouches(self, arena: memoryview) -> None:
        """Nor is anything read that is kept in a journal first."""
        with LoopFS("ext4", options="data=journal") as journalled:
            Path(os.fsdecode(journalled.path(b"f"))).write_bytes(b"x" * 5000)
            with reading(journalled.mnt, ReadMode.DISK) as reader:
                assert [None] == read_batch(reader, [b"f"], LIMIT_BYTES, arena)

    @pytest.mark.root
    def test_content_in_metadata_is_left_to_the_way_that_vouches_for_nothing(self, btrfs: LoopFS) -> None:
        """Btrfs stores small and compressed files so that O_DIRECT can't read past the cache."""
        Path(os.fsdecode(btrfs.path(b"f"))).write_bytes(b"inline")
        arena = Arena(Buffers(1 << 20, 1).acquire())
        with reading(btrfs.mnt, ReadMode.DISK, capability=make_capability("btrfs")) as reader:
            direct, dropped = reader.small_readers()
            assert (ReadHow.DIRECT, ReadHow.CACHE_POSSIBLE) == (direct.how, dropped.how)
            direct.read([b"f"], [6], LIMIT_BYTES, arena)
            assert READ not in arena.statuses()
            dropped.read([b"f"], [6], LIMIT_BYTES, arena)
            assert [READ] == arena.statuses()
        assert b"inline" == bytes(arena.memory[:6])

    @pytest.mark.root
    @pytest.mark.parametrize("fs_type", ["ext4", "xfs", "btrfs", "overlay"])
    def test_last_way_of_recording_leaves_the_cache_as_it_was(self, each_fs: LoopFS, fs_type: str) -> None:
        """What nobody had in memory is dropped, unless it may be another file system's; parts of files are left."""
        sizes, arena = [50_000, 50_000, 50_000], Arena(Buffers(1 << 20, 1).acquire())
        paths = [b"cold", b"warm", b"half"]
        for path in paths:
            with open(each_fs.path(path), "wb") as file:
                file.write(os.urandom(50_000))
            if path != b"warm":
                drop(each_fs.path(path))
        with open(each_fs.path(b"half"), "rb", buffering=0) as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
            os.pread(file.fileno(), 4096, 0)
        with reading(each_fs.mnt, capability=make_capability(fs_type)) as reader:
            last = reader.small_readers()[-1]
            last.read(paths, sizes, LIMIT_BYTES, arena)

        is_kept = fs_type == "overlay"
        assert [True, True, is_kept] == [status == READ for status in arena.statuses()]
        held = []
        for path in paths:
            with open(each_fs.path(path), "rb") as file:
                held.append(resident_bytes(file.fileno(), 50_000))
        assert [page_bytes(50_000) if is_kept else 0, page_bytes(50_000)] == held[:2]

    def test_where_it_would_not_do_there_is_no_short_way(self, tmp_path: Path) -> None:
        """File systems with caches of their own or on other machines, readings without maps."""
        capabilities = [make_capability(fs_type) for fs_type in ("overlay", "zfs", "nfs4", "tmpfs", "fuse.sshfs")]
        for capability in (*capabilities, make_capability(has_direct_io=False)):
            with reading(tmp_path, ReadMode.DISK, capability=capability) as reader:
                assert not reader.small_readers()
        with reading(tmp_path, ReadMode.DISK, use_holes=False) as reader:
            assert not reader.small_readers()

    def test_pace_is_asked_once_a_batch(self, tmp_path: Path) -> None:
        """It grants what is read, no more than it wants in one piece, and is told what came of it."""
        need_way(tmp_path, ReadMode.DISK)
        sizes = [1, 5000, 4096, 60_000, 0, 50_000, *[4096] * 60]
        paths = [b"f%d" % number for number in range(len(sizes))]
        for path, size in zip(paths, sizes, strict=True):
            (tmp_path / os.fsdecode(path)).write_bytes(os.urandom(size))
        pace, buffers = AskedPace(128 << 10), Buffers(1 << 20, 1)
        arena, answered = Arena(buffers.acquire()), 0
        with reading(tmp_path, ReadMode.DISK, pace=pace) as reader:
            (batch,) = reader.small_readers()
            while answered < len(paths):
                batch.read(paths[answered:], sizes[answered:], LIMIT_BYTES, arena)
                assert arena.count
                assert [size for _, size, *_ in arena.rows()] == sizes[answered : answered + arena.count]
                answered += arena.count

        assert len(pace.taken) == len(pace.told) < len(paths)
        assert max(pace.taken) <= 128 << 10
        assert sum(sizes) <= sum(pace.taken)
        assert sum(reads for _, reads in pace.told) == len(paths)
        with reading(tmp_path, pace=pace) as reader:
            read_batch(reader, paths, LIMIT_BYTES, arena.memory)
        assert len(pace.taken) == len(pace.told)  # memory is nobody else's

    def test_slow_pace_is_asked_for_each_file(self, tmp_path: Path) -> None:
        """Whoever may stop the run, the end of a window among them, never waits for a batch that takes hours."""
        need_way(tmp_path, ReadMode.DISK)
        paths = [b"f%d" % number for number in range(5)]
        for path in paths:
            (tmp_path / os.fsdecode(path)).write_bytes(b"x" * 1000)
        pace, arena = AskedPace(1 << 20, share_bytes=0.1), Arena(Buffers(1 << 20, 1).acquire())
        with reading(tmp_path, ReadMode.DISK, pace=pace) as reader:
            (batch,) = reader.small_readers()
            for number in range(len(paths)):
                batch.read(paths[number:], [1000] * (5 - number), LIMIT_BYTES, arena)
                assert arena.count == 1

        assert [1000] * 5 == pace.taken

    def test_pace_that_ends_the_run_leaves_nothing_read(self, tmp_path: Path) -> None:
        """Whoever asks is told so, before anything was read."""
        (tmp_path / "f").write_bytes(b"x")
        pace, arena = AskedPace(0, is_over=True), Arena(Buffers(1 << 20, 1).acquire())
        with reading(tmp_path, ReadMode.DISK, pace=pace) as reader:
            (batch,) = reader.small_readers()
            with pytest.raises(ReadInterrupted):
                batch.read([b"f"], [1], LIMIT_BYTES, arena)

        assert not arena.count
        assert not pace.told

    def test_tails_do_not_run_into_each_other(self, tmp_path: Path, arena: memoryview) -> None:
        """The disk writes whole sectors: behind the end of each file, but not over another, nor over the arena's."""
        need_way(tmp_path, ReadMode.DISK)
        sizes = [1, 511, 512, 513, 4095, 4096, 4097, 12_289, 0, 1]
        for number, size in enumerate(sizes):
            (tmp_path / str(number)).write_bytes(bytes([number + 1]) * size)
        paths = [b"%d" % number for number in range(len(sizes))]
        with reading(tmp_path, ReadMode.DISK) as reader:
            files, left = [], paths
            while left:
                read = read_batch(reader, left, LIMIT_BYTES, arena[: 16 << 10])
                files += [content_of(file) for file in read]
                left = left[len(read) :]

        assert [bytes([number + 1]) * size for number, size in enumerate(sizes)] == files


class TestMeddling:
    """Something happens to the file right after it was read, and before anybody could look again."""

    SCRIPT = (
        "import sys; from integrity.files.read import Buffers, ReadMode; from support.batches import read_batch\n"
        "from support.reading import reading\n"
        "with reading(sys.argv[1], ReadMode(sys.argv[2])) as reader:\n"
        "    files = read_batch(reader, [b'd/f', b'd/other'], 65536, Buffers(1 << 20, 1).acquire())\n"
        "    print([file and bytes(file.data) for file in files])"
    )

    @pytest.mark.parametrize("mode", list(ReadMode))
    @pytest.mark.parametrize(
        ("command", "is_taken"),
        [
            ("true", True),
            ("printf x >> d/f", False),
            ("printf x | dd of=d/f conv=notrunc status=none", False),
            ("touch -r d/f t; printf x | dd of=d/f conv=notrunc status=none; touch -r t d/f", False),
            ("touch d/f", False),
            ("chmod 600 d/f", False),
            ("truncate -s 1 d/f", False),
            ("rm d/f", False),
            ("mv d/f d/g", False),
            ("cp d/f d/new; mv d/new d/f", False),
            ("mv d e; cp -r e d", False),
            ("mv d e", False),
            ("mv d e; ln -s e d", True),  # still the file that was read, on whatever way
        ],
    )
    def test_what_moves_while_it_is_read_is_left(
        self, tmp_path: Path, shims: Shims, command: str, is_taken: bool, mode: ReadMode
    ) -> None:
        """Size, times or inode moved, on the descriptor or at the path: not one stable version (R1)."""
        need_programs("dd")
        need_way(tmp_path, mode)
        root = tmp_path / "root"
        (root / "d").mkdir(parents=True)
        (root / "d" / "f").write_bytes(b"content")
        (root / "d" / "other").write_bytes(b"other")
        let_age(root / "d" / "other")
        run = subprocess.run(
            [sys.executable, "-c", self.SCRIPT, root, mode.value],
            cwd=root,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join([str(TESTS), *filter(None, sys.path)]),
                **shims.meddling("f", command),
            },
            capture_output=True,
            text=True,
            check=False,
        )

        content = b"content" if is_taken else None
        other = None if command.startswith("mv d e") and "cp" not in command else b"other"
        assert (f"{[content, other]}\n", "") == (run.stdout, run.stderr)


def test_a_mapped_file_cannot_change_unseen(tmp_path: Path, arena: memoryview) -> None:
    """What a mapping had written is brought to the disk first, so the next store through it moves the mtime (R1)."""
    need_way(tmp_path, ReadMode.RECORD)
    path = tmp_path / "f"
    path.write_bytes(bytes(4096))
    with (
        open(path, "r+b") as file,
        mmap.mmap(file.fileno(), 4096) as mapped,
        reading(tmp_path, clock_ns=lambda: time.time_ns() + 3600 * 10**9) as reader,  # recent ones are not taken
    ):
        mapped[0] = 1
        let_age(path)

        (one,) = read_batch(reader, [b"f"], LIMIT_BYTES, arena)
        assert one is not None
        assert (1, stat_witness(path)) == (one.data[0], one.witness)
        mapped[0] = 2

        assert stat_witness(path) != one.witness


def test_other_peoples_files_are_taken_only_if_they_tell(tmp_path: Path, arena: memoryview) -> None:
    """Where only the owner is told what is in memory, a file of somebody else is left."""
    tmp_path.chmod(0o755)
    (tmp_path / "f").write_bytes(b"x")
    with reading(tmp_path) as reader, open(tmp_path / "f", "rb") as file, as_nobody():
        is_told = resident_bytes(file.fileno(), 1) == page_bytes(1)

        assert [is_told] == [one is not None for one in read_batch(reader, [b"f"], LIMIT_BYTES, arena)]


def test_arena_in_a_cycle_can_be_collected() -> None:
    """CPython would crash on a memoryview in a cycle of garbage of which a buffer is still held."""
    for _ in range(100):
        cycle: list[object] = [Arena(memoryview(bytearray(4096))[:64])]
        cycle.append(cycle)
    gc.collect()


@pytest.mark.parametrize("mode", list(ReadMode))
def test_versions_are_never_mixed(tmp_path: Path, arena: memoryview, mode: ReadMode) -> None:
    """While another thread writes and renames without pause, what is taken is one version, or known as racy (R1)."""
    need_way(tmp_path, mode)
    contents = [bytes([number]) * (4096 * (1 + number % 4)) for number in range(8)]
    for name in ("rewritten", "renamed"):
        (tmp_path / name).write_bytes(contents[0])
    is_over = threading.Event()

    def write() -> None:
        for content in cycle(contents):
            (tmp_path / "rewritten").write_bytes(content)
            (tmp_path / "new").write_bytes(content)
            os.rename(tmp_path / "new", tmp_path / "renamed")
            if is_over.is_set():
                return

    writer = threading.Thread(target=write)
    writer.start()
    seen = 0
    try:
        with reading(tmp_path, mode) as reader:
            for _ in range(1000):
                rewritten, renamed = read_batch(reader, [b"rewritten", b"renamed"], LIMIT_BYTES, arena)
                if renamed is not None:
                    seen += 1
                    assert bytes(renamed.data) in contents
                if rewritten is not None and not rewritten.witness.is_racy:
                    # Whole, or as it stood while the writer was held up: empty, or the beginning of one content.
                    assert len(set(rewritten.data)) <= 1
    finally:
        is_over.set()
        writer.join()
    assert seen


@pytest.mark.parametrize(
    ("number", "code"), [(CACHESTAT, errno.ENOSYS), (CACHESTAT, errno.EPERM), (PREADV2, errno.EOPNOTSUPP)]
)
def test_without_a_system_call_all_of_this_holds(number: int, code: int) -> None:
    """On kernels and file systems that lack one of the calls, other calls do the same."""
    modules = ["unit/test_batch.py", *(["contract/test_small_files.py"] if code == errno.ENOSYS else [])]
    pass_without(
        number,
        code,
        "-k",
        "not Meddling and not each_fs and not each_file_system and not many_batches and not never_mixed",
        *modules,
    )
