"""A file is read as one stable version (R1), whole, without waiting, and without leaving traces."""

from __future__ import annotations

import ctypes
import itertools
import mmap
import os
import re
import socket
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from integrity.errors import ReadInterrupted, Unstable, Vanished
from integrity.files.buffers import Buffers
from integrity.files.read import Reader, Segment
from integrity.files.read_errors import cut
from integrity.files.span import Pace, ReadMode
from integrity.model import Witness
from support.privileges import as_nobody
from support.proc import count_descriptors
from support.reading import let_age, make_capability, opened_root, read_all, reading

BUFFER_BYTES = 64 << 10
MODES = pytest.mark.parametrize("mode", list(ReadMode))
GRANULE_NS = 20_000_000


class Recorder(Pace):
    """A pace that remembers what it was asked for, and ends the reading after so many times."""

    def __init__(self, limit: int = 1 << 30) -> None:
        self.taken: list[int] = []
        self.limit = limit

    def take(self, size_bytes: int) -> None:
        if len(self.taken) == self.limit:
            raise ReadInterrupted("stop")
        self.taken.append(size_bytes)


class TestContent:
    @MODES
    @pytest.mark.parametrize("has_direct_io", [True, False], ids=["direct", "buffered"])
    @pytest.mark.parametrize(
        "size",
        [
            *(0, 1, 511, 512, 4095, 4096, 4097),
            *(BUFFER_BYTES - 1, BUFFER_BYTES, BUFFER_BYTES + 1, 3 * BUFFER_BYTES + 4097, 4 * BUFFER_BYTES),
        ],
    )
    def test_files_of_any_size_are_read_whole(
        self, tmp_path: Path, buffers: Buffers, mode: ReadMode, size: int, has_direct_io: bool
    ) -> None:
        """The segments put together are the file, whatever its size and however it is read."""
        content = os.urandom(size)
        (tmp_path / "f").write_bytes(content)
        capability = make_capability(has_direct_io=has_direct_io)
        with reading(tmp_path, mode, capability=capability) as reader, reader.open(b"f") as file:
            assert content == read_all(file, buffers)
            assert (size, size, []) == (file.size_bytes, file.bytes_read, file.bad_ranges)
            assert size == file.finish().size_bytes

    def test_segments_do_not_straddle_buffers(self, tmp_path: Path, buffers: Buffers) -> None:
        """Segments are cut at the multiples of the buffer's size, in order and without a gap."""
        (tmp_path / "f").write_bytes(os.urandom(3 * BUFFER_BYTES + 5))
        with reading(tmp_path) as reader, reader.open(b"f") as file:
            spans = [(one.offset, one.length) for one in file.segments(buffers, 4096)]

        assert [
            (4096, BUFFER_BYTES - 4096),
            (BUFFER_BYTES, BUFFER_BYTES),
            (2 * BUFFER_BYTES, BUFFER_BYTES),
            (3 * BUFFER_BYTES, 5),
        ] == spans

    @MODES
    def test_a_segment_outlives_the_reading_of_the_next(self, tmp_path: Path, buffers: Buffers, mode: ReadMode) -> None:
        """With two buffers the data of one segment is whole while the next one is read."""
        content = os.urandom(6 * BUFFER_BYTES)
        (tmp_path / "f").write_bytes(content)
        previous: Segment | None = None
        with reading(tmp_path, mode) as reader, reader.open(b"f") as file:
            for one in file.segments(buffers):
                if previous is not None and previous.data is not None:
                    assert content[previous.offset : previous.offset + previous.length] == bytes(previous.data)
                previous = one

    def test_a_file_that_grows_is_read_to_its_first_size(self, tmp_path: Path, buffers: Buffers) -> None:
        """What is appended meanwhile is not read, and the version is not stable."""
        (tmp_path / "f").write_bytes(b"a" * 5000)
        with reading(tmp_path, ReadMode.DISK) as reader, reader.open(b"f") as file:
            with open(tmp_path / "f", "ab") as writer:
                writer.write(b"b" * 5000)

            assert b"a" * 5000 == read_all(file, buffers)
            with pytest.raises(Unstable):
                file.finish()


def overwrite_and_put_mtime_back(path: Path) -> None:
    stat = path.stat()
    with open(path, "r+b") as file:
        file.write(b"x")
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def replace_with_same_times(path: Path) -> None:
    stat = path.stat()
    other = path.with_name("other")
    other.write_bytes(path.read_bytes())
    os.utime(other, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    other.rename(path)


def become_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def become_link(path: Path) -> None:
    path.rename(path.with_name("target"))
    path.symlink_to("target")


class TestStability:
    def test_witness_is_what_stat_says(self, tmp_path: Path, buffers: Buffers) -> None:
        """An undisturbed reading gives size, mtime, ctime and inode, and is not racy once the file has aged."""
        (tmp_path / "f").write_bytes(b"content")
        let_age(tmp_path / "f")
        stat = (tmp_path / "f").stat()
        with reading(tmp_path) as reader, reader.open(b"f") as file:
            read_all(file, buffers)

            assert Witness(7, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino, is_racy=False) == file.finish()

    @MODES
    @pytest.mark.parametrize(
        "disturb",
        [
            lambda path: os.truncate(path, 3 * BUFFER_BYTES + 1),
            lambda path: os.truncate(path, 4096),
            lambda path: path.chmod(0o640),
            overwrite_and_put_mtime_back,
            replace_with_same_times,
        ],
        ids=["grown", "truncated", "mode", "overwritten", "replaced"],
    )
    def test_a_change_during_the_reading_is_unstable(
        self, tmp_path: Path, buffers: Buffers, mode: ReadMode, disturb: Callable[[Path], None]
    ) -> None:
        """Whatever moves size, mtime, ctime or inode between open and finish makes the reading worthless."""
        (tmp_path / "f").write_bytes(os.urandom(3 * BUFFER_BYTES))
        let_age(tmp_path / "f")
        with reading(tmp_path, mode) as reader, reader.open(b"f") as file:
            segments = file.segments(buffers)
            next(segments)
            disturb(tmp_path / "f")
            for _ in segments:
                pass
            with pytest.raises(Unstable):
                file.finish()

    def test_another_file_of_the_same_times_at_the_path_is_unstable(self, tmp_path: Path, buffers: Buffers) -> None:
        """A folder on the way that was exchanged moves nothing of the open file: only the path's stat shows it."""
        for name in ("folder", "other"):
            (tmp_path / name).mkdir()
            (tmp_path / name / "f").write_bytes(b"content")
        with reading(tmp_path) as reader, reader.open(b"folder/f") as file:
            read_all(file, buffers)
            before = os.stat(tmp_path / "folder" / "f").st_ctime_ns
            (tmp_path / "folder").rename(tmp_path / "old")
            (tmp_path / "other").rename(tmp_path / "folder")
            assert before == os.stat(tmp_path / "old" / "f").st_ctime_ns
            with pytest.raises(Unstable):
                file.finish()

    @pytest.mark.parametrize("disturb", [Path.unlink, become_folder, become_link])
    def test_a_file_that_goes_away_during_the_reading_has_vanished(
        self, tmp_path: Path, buffers: Buffers, disturb: Callable[[Path], None]
    ) -> None:
        """A path that leads to no regular file at the end is no file to say anything about."""
        (tmp_path / "f").write_bytes(b"content")
        with reading(tmp_path) as reader, reader.open(b"f") as file:
            read_all(file, buffers)
            disturb(tmp_path / "f")
            with pytest.raises(Vanished):
                file.finish()

    @MODES
    def test_truncation_ends_the_segments(self, tmp_path: Path, buffers: Buffers, mode: ReadMode) -> None:
        """A file cut short under the reader ends its segments early, without an error before finish."""
        (tmp_path / "f").write_bytes(os.urandom(4 * BUFFER_BYTES))
        with reading(tmp_path, mode) as reader, reader.open(b"f") as file:
            segments = file.segments(buffers)
            next(segments)
            os.truncate(tmp_path / "f", BUFFER_BYTES + 100)

            assert BUFFER_BYTES + 100 >= max((one.offset + one.length for one in segments), default=0)
            with pytest.raises(Unstable):
                file.finish()

    @pytest.mark.parametrize(
        ("age_ns", "granularity_ns", "is_remote", "is_racy"),
        [
            (GRANULE_NS - 1, 1, False, True),
            (GRANULE_NS, 1, False, True),
            (GRANULE_NS + 1, 1, False, False),
            (-GRANULE_NS, 1, False, True),
            (-GRANULE_NS - 1, 1, False, False),
            (-3_600_000_000_000, 1, False, False),
            (999_000_000, 1_000_000_000, False, True),
            (1_000_000_001, 1_000_000_000, False, False),
            (-600_000_000_000, GRANULE_NS, True, True),  # a server's clock may be ahead of ours
            (-600_000_000_000, GRANULE_NS, False, False),
        ],
    )
    def test_witness_within_a_granule_is_racy(
        self, tmp_path: Path, buffers: Buffers, age_ns: int, granularity_ns: int, is_remote: bool, is_racy: bool
    ) -> None:
        """Hashed within a granule of its change, at least 20 ms, a file may change unseen; not ahead of it."""
        (tmp_path / "f").write_bytes(b"content")
        os.utime(tmp_path / "f", ns=(0, 0))  # an mtime that was put back does not hide that it was touched just now
        now_ns = (tmp_path / "f").stat().st_ctime_ns + age_ns
        capability = make_capability(granularity_ns=granularity_ns)._replace(is_remote=is_remote)
        with (
            reading(tmp_path, capability=capability, clock_ns=lambda: now_ns) as reader,
            reader.open(b"f") as file,
        ):
            read_all(file, buffers)

            assert is_racy == file.finish().is_racy

    @pytest.mark.parametrize(
        ("age_s", "how", "is_racy"),
        [(1, "open", True), (899, "open", True), (901, "open", False), (1, "mapped", True), (1, None, False)],
    )
    def test_recent_witness_of_a_file_that_is_open_for_writing_is_racy(
        self, tmp_path: Path, buffers: Buffers, age_s: int, how: str | None, is_racy: bool
    ) -> None:
        """A write stamps when it begins: while somebody may be at it, a recent stamp proves nothing."""
        path = tmp_path / "f"
        path.write_bytes(bytes(4096))
        clock_ns = path.stat().st_ctime_ns + age_s * 10**9
        with ExitStack() as stack:
            if how is not None:
                file = stack.enter_context(open(path, "r+b"))
            if how == "mapped":
                stack.enter_context(mmap.mmap(file.fileno(), 4096))
                file.close()
            reader = stack.enter_context(reading(tmp_path, clock_ns=lambda: clock_ns))
            opened = stack.enter_context(reader.open(b"f"))
            read_all(opened, buffers)

            assert (is_racy, is_racy) == (opened.finish().is_racy, reader.is_being_written(b"f"))

    @pytest.mark.root
    @pytest.mark.parametrize("is_remote", [False, True])
    def test_recent_witness_is_racy_where_no_lease_is_given(
        self, tmp_path: Path, buffers: Buffers, is_remote: bool
    ) -> None:
        """Only the owner learns who writes; others can't exclude it. A server stamps each piece that it is sent."""
        tmp_path.chmod(0o755)
        (tmp_path / "f").write_bytes(b"content")
        clock_ns = (tmp_path / "f").stat().st_ctime_ns + 10**9
        capability = make_capability()._replace(is_remote=is_remote)
        with (
            reading(tmp_path, capability=capability, clock_ns=lambda: clock_ns) as reader,
            as_nobody(),
            reader.open(b"f") as file,
        ):
            read_all(file, buffers)

            assert (not is_remote) == file.finish().is_racy

    def test_what_is_stored_behind_the_write_back_is_in_doubt(self, tmp_path: Path, buffers: Buffers) -> None:
        """The window begins before pages are written back: one that is dirty already moves no time."""
        path = tmp_path / "f"
        path.write_bytes(bytes(4096))
        with open(path, "r+b") as file, mmap.mmap(file.fileno(), 4096) as mapped:
            let_age(path)
            calls = itertools.count()

            def look() -> int:
                if not next(calls):
                    mapped[0] = 1  # before the write-back: the next store is stamped
                return time.time_ns() + 3600 * 10**9

            with reading(tmp_path, clock_ns=look) as reader, reader.open(b"f") as opened:
                read_all(opened, buffers)
                let_age(path)
                mapped[1] = 1
                with pytest.raises(Unstable):
                    opened.finish()

    def test_the_clock_is_read_before_the_file(self, tmp_path: Path, buffers: Buffers) -> None:
        """A long reading makes no fresh file old: its age counts from before the first read."""
        (tmp_path / "f").write_bytes(bytes(2 * BUFFER_BYTES))
        written_ns = (tmp_path / "f").stat().st_mtime_ns
        ticks = iter([written_ns, written_ns + 3_600_000_000_000])
        with reading(tmp_path, clock_ns=lambda: next(ticks)) as reader, reader.open(b"f") as file:
            read_all(file, buffers)

            assert file.finish().is_racy


class TestTraces:
    @MODES
    def test_atime_stays(self, tmp_path: Path, buffers: Buffers, mode: ReadMode) -> None:
        """Reading one's own files does not move their access time, in either mode."""
        (tmp_path / "f").write_bytes(os.urandom(2 * BUFFER_BYTES))
        os.utime(tmp_path / "f", ns=(1, time.time_ns()))
        with reading(tmp_path, mode) as reader, reader.open(b"f") as file:
            read_all(file, buffers)

        assert (tmp_path / "f").stat().st_atime_ns == 1

    def test_descriptors_are_closed_when_a_reading_is_interrupted(self, tmp_path: Path, buffers: Buffers) -> None:
        """A stop request from the pace passes through, between two reads, and leaves nothing open."""
        (tmp_path / "f").write_bytes(os.urandom(4 * BUFFER_BYTES))
        before = count_descriptors()
        pace = Recorder(limit=2)
        with reading(tmp_path, ReadMode.DISK, pace=pace) as reader:
            with pytest.raises(ReadInterrupted), reader.open(b"f") as file:
                read_all(file, buffers)

            assert before + 1 == count_descriptors()
            assert [BUFFER_BYTES, BUFFER_BYTES] == pace.taken

    def test_each_read_from_the_disk_is_paced(self, tmp_path: Path, buffers: Buffers) -> None:
        """The pace is asked for as many bytes as are read, before they are."""
        (tmp_path / "f").write_bytes(os.urandom(2 * BUFFER_BYTES + 10))
        pace = Recorder()
        with reading(tmp_path, ReadMode.DISK, pace=pace) as reader, reader.open(b"f") as file:
            read_all(file, buffers)

        assert [BUFFER_BYTES, BUFFER_BYTES, 10] == pace.taken

    def test_close_may_be_called_twice(self, tmp_path: Path) -> None:
        """A second close does not hit a descriptor that somebody else got meanwhile."""
        (tmp_path / "f").write_bytes(b"")
        with reading(tmp_path) as reader:
            file = reader.open(b"f")
            file.close()
            with open(tmp_path / "f", "rb") as other:
                file.close()
                assert other.read() == b""


class TestRefusals:
    @pytest.mark.parametrize("kind", ["missing", "fifo", "folder", "link", "socket", "below a file", "below a link"])
    def test_what_is_no_regular_file_has_vanished(self, tmp_path: Path, kind: str) -> None:
        """Anything but a regular file is refused at once: a FIFO without a writer does not hang."""
        (tmp_path / "file").write_bytes(b"")
        (tmp_path / "folder").mkdir()
        (tmp_path / "folder" / "f").write_bytes(b"")
        (tmp_path / "link").symlink_to("file")
        (tmp_path / "linked folder").symlink_to("folder")
        os.mkfifo(tmp_path / "fifo")
        names = {"below a file": b"file/f", "below a link": b"linked folder/f"}
        before = count_descriptors()
        with socket.socket(socket.AF_UNIX) as listener, reading(tmp_path) as reader:
            here = os.getcwd()
            os.chdir(tmp_path)  # a socket's name is limited to 107 bytes
            listener.bind("socket")
            os.chdir(here)
            with pytest.raises(Vanished):
                reader.open(names.get(kind, kind.encode()))

        assert before == count_descriptors()


def write_sparse(path: Path, size: int, data: list[tuple[int, bytes]]) -> None:
    with open(path, "wb") as file:
        file.truncate(size)
        for offset, content in data:
            file.seek(offset)
            file.write(content)


class TestHoles:
    def test_holes_are_single_segments(self, tmp_path: Path, buffers: Buffers) -> None:
        """A hole in front, in the middle and at the end is one segment each, however long."""
        mib = 1 << 20
        write_sparse(tmp_path / "f", 12 * mib + 1, [(4 * mib, b"x" * 65536), (8 * mib, b"y" * 131072)])
        with reading(tmp_path) as reader, reader.open(b"f") as file:
            assert [
                (4 * mib - 8192, 8192, True),  # what is left of the hole
                (4 * mib, 65536, False),
                (4 * mib + 65536, 4 * mib - 65536, True),
                (8 * mib, 65536, False),
                (8 * mib + 65536, 65536, False),
                (8 * mib + 131072, 4 * mib - 131072 + 1, True),
            ] == [(one.offset, one.length, one.data is None) for one in file.segments(buffers, 4 * mib - 8192)]

    def test_a_confirming_reading_reads_holes(self, tmp_path: Path, buffers: Buffers) -> None:
        """Without hole maps every byte is read."""
        write_sparse(tmp_path / "f", 5 * BUFFER_BYTES, [(BUFFER_BYTES, b"x" * 4096)])
        with reading(tmp_path, ReadMode.DISK, use_holes=False) as reader, reader.open(b"f") as file:
            assert all(one.data is not None for one in file.segments(buffers))
            assert 5 * BUFFER_BYTES == file.bytes_read

    @settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(
        size=st.integers(0, 600_000),
        data=st.lists(st.tuples(st.integers(0, 599_999), st.integers(1, 100_000)), max_size=5),
        mode=st.sampled_from(list(ReadMode)),
        use_holes=st.booleans(),
        start_block=st.integers(0, 8),
    )
    def test_segments_equal_the_bytes_of_any_sparse_file(
        self,
        tmp_path: Path,
        buffers: Buffers,
        size: int,
        data: list[tuple[int, int]],
        mode: ReadMode,
        use_holes: bool,
        start_block: int,
    ) -> None:
        """Whatever the holes, the segments put together are the bytes that a plain read gives."""
        pieces = [(offset, b"\xa5" * min(length, size - offset)) for offset, length in data if offset < size]
        write_sparse(tmp_path / "f", size, pieces)
        start = min(start_block * 4096, size // 4096 * 4096)
        with reading(tmp_path, mode, use_holes=use_holes) as reader, reader.open(b"f") as file:
            assert (tmp_path / "f").read_bytes()[start:] == read_all(file, buffers, start)
            file.finish()


def lies_in(address: int, begin: str, end: str) -> bool:
    """Say whether an address lies in a mapping, as /proc writes it."""
    return int(begin, 16) <= address < int(end, 16)


class TestBuffers:
    def test_buffers_are_aligned_and_taken_in_turn(self) -> None:
        """Each buffer begins at a page, and the ring gives them one after the other."""
        with Buffers(8192, 3) as some:
            addresses = [ctypes.addressof(ctypes.c_char.from_buffer(some.acquire())) for _ in range(4)]

        assert [0, 0, 0, 0] == [address % 4096 for address in addresses]
        assert addresses[0] == addresses[3]
        assert len(set(addresses)) == 3

    def test_large_buffers_are_of_huge_pages_and_no_childs(self) -> None:
        """They begin where huge pages do, ask for them, and are left out of forks, which would make them untouched."""
        size = 4 << 20
        with Buffers(size, 1) as some:
            address = ctypes.addressof(ctypes.c_char.from_buffer(some.acquire()))
            mappings = Path("/proc/self/smaps").read_text().split("VmFlags:")
            places = [re.findall(r"^([0-9a-f]+)-([0-9a-f]+) ", mapping, re.MULTILINE) for mapping in mappings]
            (index,) = [i for i, found in enumerate(places) if found and lies_in(address, *found[-1])]
            flags = mappings[index + 1].splitlines()[0].split()

        assert address % (2 << 20) == 0
        assert "dc" in flags
        assert "hg" in flags or not Path("/sys/kernel/mm/transparent_hugepage").exists()

    def test_a_released_buffer_is_next(self) -> None:
        """Giving the last buffer back makes it the next one."""
        with Buffers(4096) as some:
            first = some.acquire()
            some.release()
            again = some.acquire()
            first[0] = 77

            assert again[0] == 77

    def test_every_page_is_touched(self) -> None:
        """No page is left for the first read to fault in: btrfs would then read through the cache."""
        with Buffers(16384, 1) as some:
            assert [1, 1, 1, 1] == list(some.acquire()[::4096])

    @pytest.mark.parametrize(("size", "count"), [(0, 2), (4095, 2), (4096, 0)])
    def test_odd_buffers_are_refused(self, size: int, count: int) -> None:
        """Buffers are whole pages, and there is at least one."""
        with pytest.raises(ValueError, match="whole pages"):
            Buffers(size, count)

    def test_a_slice_outlives_its_buffers(self) -> None:
        """Closing does not pull memory away from under somebody."""
        some = Buffers(4096, 1)
        view = some.acquire()[:10]
        some.close()
        some.close()

        assert len(bytes(view)) == 10


class TestNarrowing:
    @given(start=st.integers(0, 1 << 24), length=st.integers(1, 8 << 20), unit=st.sampled_from([512, 4096, 65536]))
    def test_parts_cover_what_failed(self, start: int, length: int, unit: int) -> None:
        """The parts follow each other, the last one first, are shorter than the whole, and end at the unit."""
        parts = cut(start, start + length, unit)[::-1]
        if length <= unit:
            assert parts == []
            return
        assert (start, start + length) == (parts[0][0], parts[-1][1])
        assert all(before[1] == after[0] for before, after in itertools.pairwise(parts))
        assert all(first < last and last - first < length for first, last in parts)
        assert all(border % unit == 0 for _, border in parts[:-1])


def test_only_a_recording_reader_is_content_with_memory(tmp_path: Path) -> None:
    """What has just been written lies in memory: good enough to record it, never to scrub it; what is gone does not."""
    (tmp_path / "file").write_bytes(os.urandom(100_000))
    with opened_root(tmp_path) as root_fd:
        answers = [
            Reader(root_fd, make_capability(), mode=mode).can_read_beside(path)
            for mode in ReadMode
            for path in (b"file", b"gone")
        ]

    assert [True, False, False, False] == answers
