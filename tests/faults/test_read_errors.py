"""A sick disk costs the bytes that it lost and no others, says which, and is left alone in time (R4)."""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from integrity.errors import ReadInterrupted, Unreadable, Unstable, Vanished
from integrity.files.buffers import Buffers
from integrity.files.read import OpenFile, Reader
from integrity.files.read_errors import ErrorBudget
from integrity.files.span import Pace, ReadMode
from integrity.model import ByteRange
from support.faultfs import FaultFS, Rule
from support.flakydisk import FlakyDisk
from support.reading import make_capability, read_all, reading

pytestmark = pytest.mark.root

BUFFER_BYTES = 1 << 20
SIZE_BYTES = 2 * BUFFER_BYTES + 5000


def write(path: bytes, size: int = SIZE_BYTES) -> bytes:
    content = random.Random(size).randbytes(size)
    with open(path, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    return content


def read_around(file: OpenFile, buffers: Buffers, size: int) -> bytes:
    """Return the file with zeros where nothing could be read."""
    whole = bytearray(size)
    for one in file.segments(buffers):
        assert one.data is not None
        whole[one.offset : one.offset + one.length] = one.data
    return bytes(whole)


def torn(content: bytes, ranges: list[ByteRange]) -> bytes:
    whole = bytearray(content)
    for offset, length in ranges:
        whole[offset : offset + length] = bytes(length)
    return bytes(whole)


class StopAfter(Pace):
    """A pace that ends the reading after so many reads."""

    def __init__(self, reads: int) -> None:
        self.reads = reads

    def take(self, size_bytes: int) -> None:
        self.reads -= 1
        if self.reads < 0:
            raise ReadInterrupted("stop")


class TestBadSectors:
    def test_a_lost_sector_is_found_with_few_failing_reads(self, flaky_ext4: FlakyDisk, buffers: Buffers) -> None:
        """Each failing read wears a sick disk and takes seconds: a sector of 4 KiB costs a handful, not a dozen."""
        write(flaky_ext4.path("f"))
        flaky_ext4.bad_sector(flaky_ext4.path("f"), 40960)
        budget = ErrorBudget()
        capability = make_capability(has_direct_io=False)
        with (
            reading(flaky_ext4.mnt, ReadMode.DISK, capability=capability, budget=budget) as reader,
            reader.open(b"f") as file,
        ):
            read_around(file, buffers, SIZE_BYTES)

        assert 1 <= budget.errors <= 4

    def test_a_known_bad_range_costs_one_failing_read(self, flaky_ext4: FlakyDisk, buffers: Buffers) -> None:
        """What is known is not looked for again; what is bad besides is found as always."""
        write(flaky_ext4.path("f"))
        flaky_ext4.bad_sector(flaky_ext4.path("f"), 40_960)
        budget, known = ErrorBudget(), ((40_960, 4096),)
        with reading(flaky_ext4.mnt, ReadMode.DISK, budget=budget) as reader:
            with reader.open(b"f", known) as file, pytest.raises(Unreadable) as caught:
                list(file.segments(buffers))
            assert (known, 1) == (caught.value.ranges, budget.errors)
            flaky_ext4.clear()
            flaky_ext4.bad_sector(flaky_ext4.path("f"), BUFFER_BYTES)
            with reader.open(b"f", known) as file:
                list(file.segments(buffers))
                with pytest.raises(Unreadable) as caught:
                    file.finish()
        assert ((BUFFER_BYTES, 4096),) == caught.value.ranges


class TestBudget:
    def lose(self, disk: FlakyDisk, budget: ErrorBudget, buffers: Buffers) -> Unreadable:
        """Read a file whose second half is lost and return the error that ends it."""
        write(disk.path("f"))
        disk.bad_sector(disk.path("f"), BUFFER_BYTES, sectors=256)
        with (
            reading(disk.mnt, ReadMode.DISK, budget=budget) as reader,
            reader.open(b"f") as file,
            pytest.raises(Unreadable) as caught,
        ):
            read_around(file, buffers, SIZE_BYTES)
        return caught.value

    def test_a_device_with_too_many_errors_is_left_alone(self, flaky_ext4: FlakyDisk, buffers: Buffers) -> None:
        """Once the errors of the budget are spent the reading ends, says why, and names what it knows to be bad."""
        budget = ErrorBudget(max_errors=20)
        error = self.lose(flaky_ext4, budget, buffers)

        assert budget.is_spent
        assert budget.errors == 20
        assert errno.EIO == error.errno
        assert "the device is failing: 20 errors" in str(error)
        assert BUFFER_BYTES == error.ranges[0][0]

    def test_a_device_that_takes_too_long_to_fail_is_left_alone(self, flaky_ext4: FlakyDisk, buffers: Buffers) -> None:
        """One failing read is enough if it takes all the time there is."""
        budget = ErrorBudget(max_error_s=1e-9)
        error = self.lose(flaky_ext4, budget, buffers)

        assert budget.errors == 1
        assert ((BUFFER_BYTES, BUFFER_BYTES),) == error.ranges

    def test_a_reader_without_a_budget_has_its_own(self, flaky_ext4: FlakyDisk, buffers: Buffers) -> None:
        """No sick disk is read for ever: a reader that got no budget stops after the usual 100 errors."""
        write(flaky_ext4.path("f"))
        flaky_ext4.bad_sector(flaky_ext4.path("f"), 0, sectors=512)
        with (
            reading(flaky_ext4.mnt, ReadMode.DISK) as reader,
            reader.open(b"f") as file,
            pytest.raises(Unreadable, match="100 errors"),
        ):
            read_around(file, buffers, SIZE_BYTES)

    def test_a_stop_request_is_heard_between_failing_reads(self, flaky_ext4: FlakyDisk, buffers: Buffers) -> None:
        """Closing in on bad sectors may take minutes: the pace is asked before each try."""
        write(flaky_ext4.path("f"))
        flaky_ext4.bad_sector(flaky_ext4.path("f"), 0, sectors=64)
        budget = ErrorBudget()
        with (
            reading(flaky_ext4.mnt, ReadMode.DISK, budget=budget, pace=StopAfter(3)) as reader,
            reader.open(b"f") as file,
            pytest.raises(ReadInterrupted),
        ):
            read_around(file, buffers, SIZE_BYTES)

        assert budget.errors == 3


class TestOtherFaults:
    """What network file systems and dying disks do, played by FUSE."""

    @pytest.fixture
    def content(self, faulty: FaultFS, tmp_path: Path) -> bytes:
        """A file of some segments behind the faulty mount."""
        return write(os.fsencode(tmp_path / "source" / "f"))

    @pytest.fixture(params=[True, False], ids=["direct", "buffered"])
    def reader(self, request: pytest.FixtureRequest, faulty: FaultFS) -> Iterator[Reader]:
        """A scrub of the faulty mount, with and without O_DIRECT."""
        capability = make_capability("fuse.faulty", has_direct_io=request.param)
        with reading(faulty.mnt, ReadMode.DISK, capability=capability) as one:
            yield one

    def test_a_range_that_fails_as_a_whole_is_narrowed_down(
        self, faulty: FaultFS, content: bytes, reader: Reader, buffers: Buffers
    ) -> None:
        """A driver that fails any read that touches a bad place is asked for ever smaller parts."""
        faulty.add(Rule("read", errno=errno.EIO, offset=123_000, length=1))
        with reader.open(b"f") as file:
            assert torn(content, [(122_880, 4096)]) == read_around(file, buffers, SIZE_BYTES)
            assert [(122_880, 4096)] == file.bad_ranges

    @pytest.mark.parametrize("code", [errno.ENODATA, errno.EREMOTEIO, errno.EBADMSG, errno.EILSEQ])
    def test_other_errors_of_a_medium_are_narrowed_down(
        self, faulty: FaultFS, content: bytes, reader: Reader, buffers: Buffers, code: int
    ) -> None:
        """Disks have more than one way to say that a place is bad."""
        faulty.add(Rule("read", errno=code, offset=4096, length=4096))
        with reader.open(b"f") as file:
            assert torn(content, [(4096, 4096)]) == read_around(file, buffers, SIZE_BYTES)

    @pytest.mark.parametrize("code", [errno.EBADMSG, errno.EUCLEAN])
    def test_damaged_metadata_is_no_dying_device(
        self, faulty: FaultFS, content: bytes, buffers: Buffers, code: int
    ) -> None:
        """ext4 and xfs say so of their own records: the file is unreadable, and the disk is read on."""
        faulty.add(Rule("read", errno=code))
        budget, capability = ErrorBudget(), make_capability("fuse.faulty")
        with (
            reading(faulty.mnt, ReadMode.DISK, capability=capability, budget=budget) as reader,
            reader.open(b"f") as file,
        ):
            list(file.segments(buffers))
            with pytest.raises(Unreadable) as caught:
                file.finish()

        assert (((0, SIZE_BYTES),), 0) == (caught.value.ranges, budget.errors)

    @pytest.mark.parametrize("code", [errno.ESTALE, errno.EACCES, errno.EOVERFLOW, errno.ETIMEDOUT, errno.ENOMEM])
    def test_errors_that_are_none_of_a_place_end_the_reading(
        self, faulty: FaultFS, content: bytes, reader: Reader, buffers: Buffers, code: int
    ) -> None:
        """A share that went stale is not searched for bad sectors: the file is unreadable, with the system's reason."""
        faulty.add(Rule("read", errno=code, skip=1))
        with reader.open(b"f") as file, pytest.raises(Unreadable) as caught:
            read_around(file, buffers, SIZE_BYTES)

        assert code == caught.value.errno
        assert os.strerror(code) in str(caught.value)

    @pytest.mark.parametrize(("is_replaced", "expected"), [(False, Vanished), (True, Unstable)])
    def test_file_that_went_from_its_server_is_not_unreadable(
        self, faulty: FaultFS, content: bytes, reader: Reader, buffers: Buffers, is_replaced: bool, expected: type
    ) -> None:
        """ESTALE of an open file that another client of the server removed, or saved by a rename."""
        faulty.add(Rule("read", errno=errno.ESTALE, skip=1))
        path = Path(faulty.folder) / "f"
        with reader.open(b"f") as file:
            path.unlink()
            if is_replaced:
                path.write_bytes(content)
            with pytest.raises(expected):
                read_around(file, buffers, SIZE_BYTES)

    def test_a_disk_that_fails_at_open_is_unreadable(self, faulty: FaultFS, content: bytes, reader: Reader) -> None:
        """EIO while opening has no ranges: not even that worked."""
        faulty.add(Rule("open", errno=errno.EIO))
        with pytest.raises(Unreadable) as caught:
            reader.open(b"f")

        assert (errno.EIO, ()) == (caught.value.errno, caught.value.ranges)

    @pytest.mark.parametrize("code", [errno.ENXIO, errno.ENODEV])
    def test_a_disk_that_is_gone_makes_no_file_vanish(
        self, faulty: FaultFS, content: bytes, reader: Reader, code: int
    ) -> None:
        """A regular file that can't be opened because its device is lost is unreadable: absence would be a deletion."""
        faulty.add(Rule("open", errno=code))
        with pytest.raises(Unreadable):
            reader.open(b"f")

    def test_a_dead_file_system_makes_no_file_vanish(
        self, faulty: FaultFS, content: bytes, reader: Reader, buffers: Buffers
    ) -> None:
        """A server that dies in mid-read leaves files unreadable, before and after."""
        with reader.open(b"f") as file:
            faulty.kill()
            with pytest.raises(Unreadable):
                read_around(file, buffers, SIZE_BYTES)
            with pytest.raises(Unreadable):
                file.finish()
        with pytest.raises(Unreadable):
            reader.open(b"f")

    @pytest.mark.parametrize("short", [1, 1000, 4096, 70_000])
    def test_short_reads_are_gone_on_with(
        self, faulty: FaultFS, content: bytes, reader: Reader, buffers: Buffers, short: int
    ) -> None:
        """A read that returns less than it could is no end of the file, wherever it stops."""
        faulty.add(Rule("read", short=short, count=20))
        with reader.open(b"f") as file:
            assert content == read_all(file, buffers)
            file.finish()

    @pytest.mark.parametrize("end", [0, 4096, 100_000, BUFFER_BYTES, BUFFER_BYTES + 1])
    def test_an_end_before_the_size_is_unstable(
        self, faulty: FaultFS, content: bytes, reader: Reader, buffers: Buffers, end: int
    ) -> None:
        """A file that ends where its stat says it goes on is never taken for read, though no stat moved."""
        faulty.add(Rule("read", eof=end))
        with reader.open(b"f") as file:
            assert content[:end] == read_all(file, buffers)
            with pytest.raises(Unstable, match="ended before its size"):
                file.finish()
