"""A scrub reads the disk and says how sure it is; a scan leaves the page cache as it was (R4). On real file systems."""

from __future__ import annotations

import ctypes
import mmap
import os
import random
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from integrity.files.buffers import Buffers
from integrity.files.page_cache import (
    drop_clean_pages,
    find_absent,
    page_bytes,
    resident_bytes,
    resident_bytes_by_mincore,
)
from integrity.files.span import ReadMode, find_data
from integrity.model import ReadHow
from support.bitrot import cached_bytes, drop_cache, flip_bit
from support.loopfs import LoopFS
from support.mounts import small_tmpfs
from support.reading import let_age, make_capability, read_all, reading

pytestmark = pytest.mark.root

BUFFER_BYTES = 256 << 10
MODES = pytest.mark.parametrize("mode", list(ReadMode))


@pytest.fixture(scope="module", params=["ext4", "xfs", "btrfs"])
def each_fs(request: pytest.FixtureRequest) -> Iterator[LoopFS]:
    """Mount each kind in turn, for all tests here."""
    with LoopFS(request.param) as fs:
        yield fs


@pytest.fixture(scope="module")
def ext4() -> Iterator[LoopFS]:
    """Mount an ext4."""
    with LoopFS("ext4") as fs:
        yield fs


@pytest.fixture(scope="module")
def btrfs() -> Iterator[LoopFS]:
    """Mount a btrfs."""
    with LoopFS("btrfs") as fs:
        yield fs


@pytest.fixture(autouse=True)
def _file_of_its_own(request: pytest.FixtureRequest) -> Iterator[None]:
    """Leave no file of a test to the next one."""
    yield
    for name in {"each_fs", "ext4", "btrfs"} & {*request.fixturenames}:
        with suppress(FileNotFoundError):
            os.unlink(request.getfixturevalue(name).path("f"))


def write(fs: LoopFS, size: int, name: str = "f") -> bytes:
    """Write a file of random bytes, bring it to the disk, leave it in the cache; return its content."""
    content = random.Random(size).randbytes(size)
    with open(fs.path(name), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    assert page_bytes(size) <= cached_bytes(fs.path(name))
    return content


def flipped(content: bytes, offset: int) -> bytes:
    return content[:offset] + bytes([content[offset] ^ 1]) + content[offset + 1 :]


def read(
    fs: LoopFS, buffers: Buffers, mode: ReadMode, *, fs_type: str = "", has_direct_io: bool = True
) -> tuple[bytes, ReadHow]:
    """Read "f" and return its bytes and how sure it is that they are the disk's."""
    capability = make_capability(fs_type or fs.fs_type, has_direct_io=has_direct_io)
    with reading(fs.mnt, mode, capability=capability) as reader, reader.open(b"f") as file:
        content = read_all(file, buffers)
        file.finish()
        return content, file.how


def count_read_from_disks() -> int:
    with open("/proc/self/io", encoding="ascii") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("read_bytes"))


def count_dirty(path: bytes) -> int:
    """Return the pages of a file that are not on the disk yet, by cachestat(2)."""
    whole_file, answer = (ctypes.c_uint64 * 2)(0, 0), (ctypes.c_uint64 * 5)()
    fd = os.open(path, os.O_RDONLY)
    try:
        if ctypes.CDLL(None).syscall(451, fd, whole_file, answer, 0) != 0:
            pytest.skip("this kernel has no cachestat(2)")
    finally:
        os.close(fd)
    return answer[1] + answer[2]


class TestScrub:
    def test_pages_are_dropped_first_where_o_direct_is_not_vouched_for(self, btrfs: LoopFS, buffers: Buffers) -> None:
        """As btrfs says nothing of its O_DIRECT, what is in memory goes before the disk is read."""
        content = write(btrfs, 5 * BUFFER_BYTES)

        assert (content, ReadHow.DIRECT) == read(btrfs, buffers, ReadMode.DISK)
        assert cached_bytes(btrfs.path("f")) == 0

    @pytest.mark.parametrize("has_direct_io", [True, False], ids=["direct", "dropped"])
    def test_all_of_a_cached_file_is_fetched_from_the_disk(
        self, each_fs: LoopFS, buffers: Buffers, has_direct_io: bool
    ) -> None:
        """The kernel counts as many bytes read from the disk as the file has, although all of them were in memory."""
        content = write(each_fs, 3 << 20)
        before = count_read_from_disks()
        seen, _ = read(each_fs, buffers, ReadMode.DISK, has_direct_io=has_direct_io)

        assert content == seen
        assert count_read_from_disks() - before >= 3 << 20

    def test_tmpfs_is_memory(self, tmp_path: Path, buffers: Buffers) -> None:
        """A tmpfs takes O_DIRECT, but there is no disk to be sure of."""
        with small_tmpfs(tmp_path / "tmpfs", 4 << 20) as folder:
            with open(folder + b"/f", "wb") as file:
                file.write(b"x" * 10000)
            for has_direct_io in (True, False):
                capability = make_capability("tmpfs", has_direct_io=has_direct_io)
                with (
                    reading(folder, ReadMode.DISK, capability=capability) as reader,
                    reader.open(b"f") as opened,
                ):
                    assert read_all(opened, buffers) == b"x" * 10000
                    assert ReadHow.CACHE_POSSIBLE == opened.how

    def test_o_direct_that_goes_through_the_cache_is_not_believed(self, buffers: Buffers) -> None:
        """ext4 with journalled data opens with O_DIRECT and reads the cache: its pages are dropped first."""
        with LoopFS("ext4", options="data=journal") as fs:
            content = write(fs, BUFFER_BYTES)
            fs.remount()  # checkpoints the journal, which keeps the pages
            assert (content, ReadHow.DROPPED) == read(fs, buffers, ReadMode.DISK)
            flip_bit(fs.path("f"), 4321)

            assert (flipped(content, 4321), ReadHow.DROPPED) == read(fs, buffers, ReadMode.DISK)

    @pytest.mark.parametrize(("size", "name"), [(1000, "inline"), (5 * BUFFER_BYTES, "compressed")])
    def test_compressed_and_inline_extents_may_come_from_memory(self, buffers: Buffers, size: int, name: str) -> None:
        """On btrfs what is compressed or lies inside metadata is never read past all caches, and nothing stays."""
        with LoopFS("btrfs", options="compress-force=zstd") as fs:
            with open(fs.path("f"), "wb") as file:
                file.write(b"abc" * (size // 3))
            os.sync()
            drop_cache(fs.path("f"))

            assert (b"abc" * (size // 3), ReadHow.CACHE_POSSIBLE) == read(fs, buffers, ReadMode.DISK)
            assert cached_bytes(fs.path("f")) == 0

    def test_pages_that_can_not_be_dropped_are_told(self, ext4: LoopFS, buffers: Buffers) -> None:
        """Without O_DIRECT a page that somebody has mapped stays in memory: the reading does not claim the disk."""
        content = write(ext4, BUFFER_BYTES)
        with open(ext4.path("f"), "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped:
            assert mapped[0] == content[0]

            assert (content, ReadHow.CACHE_POSSIBLE) == read(ext4, buffers, ReadMode.DISK, has_direct_io=False)
            assert (content, ReadHow.DIRECT) == read(ext4, buffers, ReadMode.DISK)

    def test_unknown_file_systems_are_not_believed(self, ext4: LoopFS, buffers: Buffers) -> None:
        """Where caches may sit elsewhere, not even O_DIRECT is sure to be the disk."""
        write(ext4, 5000)
        for fs_type in ("fuse.mergerfs", "nfs4", "overlay", "zfs"):
            assert ReadHow.CACHE_POSSIBLE == read(ext4, buffers, ReadMode.DISK, fs_type=fs_type)[1]


class TestCache:
    @pytest.mark.parametrize("has_direct_io", [True, False], ids=["direct", "buffered"])
    @pytest.mark.parametrize("size", [BUFFER_BYTES, 8 * BUFFER_BYTES], ids=["small", "large"])
    def test_a_file_that_was_cached_in_parts_keeps_its_parts(
        self, ext4: LoopFS, buffers: Buffers, size: int, has_direct_io: bool
    ) -> None:
        """A scan drops only what it brought: the pages that were there before are there afterwards, no others."""
        content = write(ext4, size)
        drop_cache(ext4.path("f"))
        fd = os.open(ext4.path("f"), os.O_RDONLY)
        try:
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)  # no readahead: exactly the pages asked for
            os.pread(fd, 16384, 0)
            os.pread(fd, 8192, size // 2 + 4096)
            os.pread(fd, 4096, size - 4096)
            before = list(find_absent(fd, 0, size))
            assert resident_bytes(fd, size) == 16384 + 8192 + 4096

            assert content == read(ext4, buffers, ReadMode.RECORD, has_direct_io=has_direct_io)[0]
            assert before == list(find_absent(fd, 0, size))
        finally:
            os.close(fd)

    def test_an_interrupted_reading_gives_the_cache_back(self, ext4: LoopFS, buffers: Buffers) -> None:
        """A reading that ends early drops what it had read; what is still being read ahead can't be dropped."""
        write(ext4, 8 * BUFFER_BYTES)
        drop_cache(ext4.path("f"))
        capability = make_capability(has_direct_io=False)
        with reading(ext4.mnt, ReadMode.RECORD, capability=capability) as reader, reader.open(b"f") as file:
            segments = file.segments(buffers)
            next(segments)
            next(segments)

        with open(ext4.path("f"), "rb") as left:
            assert resident_bytes(left.fileno(), 2 * BUFFER_BYTES) == 0

    def test_a_reading_that_was_not_finished_gives_the_cache_back(self, ext4: LoopFS, buffers: Buffers) -> None:
        """A small file that is closed without a verdict on its stability is not left behind, either."""
        write(ext4, 5000)
        drop_cache(ext4.path("f"))
        with reading(ext4.mnt, ReadMode.RECORD) as reader, reader.open(b"f") as file:
            read_all(file, buffers)

        assert cached_bytes(ext4.path("f")) == 0

    def test_where_residency_can_not_be_told_the_cache_is_left_alone(self, ext4: LoopFS, buffers: Buffers) -> None:
        """An overlay shows no pages of its own: dropping "ours" would drop others' below."""
        write(ext4, 5000)
        read(ext4, buffers, ReadMode.RECORD, fs_type="overlay")

        assert page_bytes(5000) <= cached_bytes(ext4.path("f"))

    def test_large_uncached_files_are_recorded_past_the_cache(self, ext4: LoopFS, buffers: Buffers) -> None:
        """A scan of a large file that nobody has in memory is as good as a scrub, and says so."""
        content = write(ext4, 4 * BUFFER_BYTES)
        drop_cache(ext4.path("f"))

        assert (content, ReadHow.DIRECT) == read(ext4, buffers, ReadMode.RECORD)


class TestWriteBack:
    def test_dirty_pages_are_written_before_the_first_stat(self, each_fs: LoopFS, buffers: Buffers) -> None:
        """What was written and not yet stored is on the disk once the file is open."""
        path = each_fs.path("f")
        with open(path, "wb") as file:
            file.write(os.urandom(100_000))
        assert count_dirty(path) > 0
        capability = make_capability(each_fs.fs_type)
        with reading(each_fs.mnt, ReadMode.DISK, capability=capability) as reader, reader.open(b"f") as opened:
            assert count_dirty(path) == 0
            assert 100_000 == len(read_all(opened, buffers))

    def test_a_store_through_a_mapping_is_noticed(self, each_fs: LoopFS, buffers: Buffers) -> None:
        """A page that was dirty before and is stored to again moves the times, so the reading is unstable."""
        path = each_fs.path("f")
        write(each_fs, 2 * BUFFER_BYTES)
        capability = make_capability(each_fs.fs_type)
        with open(path, "r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
            mapped[0] = 1
            let_age(path)
            with reading(each_fs.mnt, capability=capability) as reader, reader.open(b"f") as opened:
                read_all(opened, buffers)
                before = os.stat(path).st_mtime_ns
                mapped[1] = 2

                assert before < os.stat(path).st_mtime_ns


class TestSparseFiles:
    def test_data_is_widened_to_what_o_direct_may_need(self) -> None:
        """Data that begins and ends at blocks of 1 KiB is given as ranges that any alignment up to 4 KiB takes."""
        with LoopFS("ext4", mkfs=("-b", "1024")) as fs, open(fs.path("f"), "wb+") as file:
            file.truncate(1 << 20)
            for offset in (5 * 1024, 50 * 1024, 51 * 4096 + 3 * 1024):
                os.pwrite(file.fileno(), b"x" * 1024, offset)
            os.fsync(file.fileno())
            ranges = list(find_data(file.fileno(), 0, 1 << 20))

        assert [(4096, 4096), (12 * 4096, 4096), (51 * 4096, 4096)] == ranges

    @MODES
    @pytest.mark.parametrize("block_bytes", [1024, 4096])
    def test_random_sparse_files_are_read_right(self, buffers: Buffers, mode: ReadMode, block_bytes: int) -> None:
        """Holes that end at any block of the file system, also one smaller than O_DIRECT's place, read as zeros."""
        dice = random.Random(block_bytes)
        with LoopFS("ext4", mkfs=("-b", str(block_bytes))) as fs:
            for _ in range(20):
                size = dice.randrange(3 * BUFFER_BYTES)
                with open(fs.path("f"), "wb") as file:
                    file.truncate(size)
                    for _ in range(dice.randrange(6)):
                        start = dice.randrange(size + 1)
                        file.seek(start)
                        file.write(dice.randbytes(min(dice.randrange(1, 30_000), size - start)))
                with open(fs.path("f"), "rb") as file:
                    expected = file.read()
                drop_cache(fs.path("f"))

                assert expected == read(fs, buffers, mode)[0]

    def test_preallocated_space_reads_as_zeros(self, each_fs: LoopFS, buffers: Buffers) -> None:
        """Space that was allocated and never written is zeros, whether it counts as a hole or as data."""
        fd = os.open(each_fs.path("f"), os.O_RDWR | os.O_CREAT)
        os.posix_fallocate(fd, 0, 3 * BUFFER_BYTES)
        os.pwrite(fd, b"x" * 5000, BUFFER_BYTES)
        os.close(fd)

        expected = bytes(BUFFER_BYTES) + b"x" * 5000 + bytes(2 * BUFFER_BYTES - 5000)
        assert expected == read(each_fs, buffers, ReadMode.DISK)[0]


class TestResidency:
    def test_both_ways_of_counting_agree(self, ext4: LoopFS) -> None:
        """Cachestat and mincore see the same pages."""
        write(ext4, 1_000_000)
        drop_cache(ext4.path("f"))
        with open(ext4.path("f"), "rb", buffering=0) as file:
            fd = file.fileno()
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
            os.pread(fd, 10_000, 40_000)

            for start, size in ((0, 1_000_000), (40_000, 1), (49_152, 950_848), (36_864, 16_384)):
                by_mincore = resident_bytes_by_mincore(fd, size, start)
                assert by_mincore == resident_bytes(fd, size, start)
            drop_clean_pages(fd)
            assert resident_bytes_by_mincore(fd, 1_000_000) == 0

    def test_nothing_is_told_of_others_files(self, ext4: LoopFS) -> None:
        """Mincore answers "all" for files of somebody else: that is no answer."""
        write(ext4, 4096)
        with open(ext4.path("f"), "rb") as file:
            os.seteuid(65534)
            try:
                assert resident_bytes_by_mincore(file.fileno(), 4096) is None
            finally:
                os.seteuid(0)

    def test_an_empty_file_has_no_pages(self, ext4: LoopFS) -> None:
        """Nothing of nothing is resident."""
        write(ext4, 0)
        with open(ext4.path("f"), "rb") as file:
            assert resident_bytes(file.fileno(), 0) == 0
            assert page_bytes(0) == 0
