"""
Say what differing or damaged bytes look like: one flipped bit, lost blocks, a cut-off end. Told, never used to decide.

``DifferenceFinder`` compares two versions of a file; ``FillFinder`` looks at damaged data whose right content is not at
hand. Both take bytes in the order of the file and keep only a summary. They read nothing.

I1  A shape is claimed of all differences together: one flipped bit means that nothing else differs.
I2  Aligned runs begin at a multiple of 512, and end at one or with the file: disks, file systems and flash memory lose
    and misplace whole blocks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import NamedTuple

CHUNK_BYTES = 64 << 10
"""Pieces that are compared begin at multiples of this; no run is widened beyond it."""

MOST_RANGES = 16
SHOWN_BYTES = 64
"""So many differing ranges are kept, with so many bytes of each side."""

_SECTOR_BYTES = 512
_WIDER_GRAINS = (CHUNK_BYTES, 4096)
_EDGE_BYTES = 8
"""So many bytes beside an edge may have the value of a run, or be equal on both sides, by chance."""

_LEAST_RUN_BYTES = 64
"""A shorter run, of the last bytes of a file, has one value by chance."""

_FEW_BITS = 8
_MOST_FILLS = 8
"""More runs of one byte in damaged data are how that kind of file looks."""

_MOST_RUNS = 10_000
_ROW_BYTES = 16
_DIFFERING = re.compile(rb"[^\0]+(?:\0{1,15}[^\0]+)*")
"""Bytes that differ; fewer equal ones than a row of a dump has separate nothing."""


class Shape(StrEnum):
    """What differing bytes look like."""

    ONE_BIT = "one_bit"
    FEW_BITS = "few_bits"
    FILL = "fill"  # one side has aligned runs of one repeated byte there
    OTHER_DATA = "other_data"  # aligned runs of other data
    CUT_OFF = "cut_off"  # the shorter side is a beginning of the longer one
    FROM_OFFSET = "from_offset"  # everything from one offset on
    SCATTERED = "scattered"


class Side(StrEnum):
    """One of the two versions."""

    FILE = "file"
    COPY = "copy"


SIDE_NAMES = {Side.FILE: "your file", Side.COPY: "the backup"}


class ByteRun(NamedTuple):
    """Adjacent blocks; ``value``: the byte that fills them, None for other data."""

    offset: int
    length: int
    value: int | None = None

    @property
    def end(self) -> int:
        """Return the offset behind it."""
        return self.offset + self.length


class DifferingRange(NamedTuple):
    """Differing bytes, with the first ``SHOWN_BYTES`` of each side."""

    offset: int
    length: int
    file: bytes
    copy: bytes


class ByteDifference(NamedTuple):
    """
    How the bytes of a file and its copy differ.

    Args:
        file_bytes: size of the file here; ``copy_bytes``: that of the copy.
        differing_bits: in the part that both have; ``differing_bytes`` likewise.
        ranges: the first ``MOST_RANGES`` of ``range_count``.
        shape: None if no difference was found.
        side: which version has the runs, or is cut off.
        runs: of ``Shape.FILL`` and ``Shape.OTHER_DATA``.
        is_complete: everything that may differ was compared.
    """

    file_bytes: int
    copy_bytes: int
    differing_bits: int
    differing_bytes: int
    ranges: tuple[DifferingRange, ...]
    range_count: int
    shape: Shape | None
    side: Side | None = None
    runs: tuple[ByteRun, ...] = ()
    is_complete: bool = True

    @property
    def are_equal(self) -> bool:
        """Return whether everything was compared and nothing differs."""
        return self.shape is None and self.is_complete


class DifferenceFinder:
    """Compare two versions of a file, piece by piece."""

    def __init__(self) -> None:
        self._bits = self._bytes = 0
        self._ranges: list[DifferingRange] = []
        self._range_count = 0
        self._first: int | None = None
        self._last_end = self._compared_end = 0
        self._clusters: list[_Cluster] = []  # adjacent differing sectors
        self._fills = {side: _Fills() for side in Side}

    @property
    def differing_bytes(self) -> int:
        """Return how many bytes differ so far."""
        return self._bytes

    def add(self, offset: int, file: bytes, copy: bytes) -> None:
        """Compare a piece of both versions; ``offset`` is a multiple of ``CHUNK_BYTES``, and higher than before."""
        length = min(len(file), len(copy))
        self._compared_end = max(self._compared_end, offset + length)
        for at in range(0, length, CHUNK_BYTES):
            end = min(at + CHUNK_BYTES, length)
            if file[at:end] != copy[at:end]:
                self._add_chunk(offset + at, file[at:end], copy[at:end])

    def finish(self, file_bytes: int, copy_bytes: int, *, is_complete: bool = True) -> ByteDifference:
        """
        Return the difference.

        Args:
            file_bytes: size of the file; ``copy_bytes``: that of the copy.
            is_complete: whether everything that may differ was added.
        """
        shape, side, runs = self._find_shape(file_bytes, copy_bytes, is_complete=is_complete)
        ranges = tuple(self._ranges[:MOST_RANGES])
        numbers = (file_bytes, copy_bytes, self._bits, self._bytes)
        return ByteDifference(*numbers, ranges, self._range_count, shape, side, runs, is_complete)

    def _add_chunk(self, offset: int, file: bytes, copy: bytes) -> None:
        changes = int.from_bytes(file) ^ int.from_bytes(copy)
        mask = changes.to_bytes(len(file))
        self._bits += changes.bit_count()
        self._bytes += len(mask) - mask.count(0)
        for found in _DIFFERING.finditer(mask):
            self._add_range(
                offset + found.start(), file[found.start() : found.end()], copy[found.start() : found.end()]
            )
        self._first = offset + len(mask) - len(mask.lstrip(b"\0")) if self._first is None else self._first
        self._last_end = offset + len(mask.rstrip(b"\0"))
        sectors = [at for at in range(0, len(mask), _SECTOR_BYTES) if mask[at : at + _SECTOR_BYTES].strip(b"\0")]
        for at in sectors:
            self._add_sector(offset + at, mask[at : at + _SECTOR_BYTES])
        for side, data in zip(Side, (file, copy), strict=True):
            self._fills[side].add(offset, data, sectors)

    def _add_range(self, offset: int, file: bytes, copy: bytes) -> None:
        last = self._ranges[-1] if self._ranges else None
        if last is not None and self._goes_on(last, offset):
            shown = (last.file + file)[:SHOWN_BYTES], (last.copy + copy)[:SHOWN_BYTES]
            self._ranges[-1] = DifferingRange(last.offset, offset + len(file) - last.offset, *shown)
            return
        self._range_count += 1
        one = DifferingRange(offset, len(file), file[:SHOWN_BYTES], copy[:SHOWN_BYTES])
        if len(self._ranges) > MOST_RANGES:
            self._ranges[-1] = one  # the one behind those that are kept may still grow
        else:
            self._ranges.append(one)

    @staticmethod
    def _goes_on(last: DifferingRange, offset: int) -> bool:
        """Return whether the last range, of a former chunk, goes on at an offset; a gap is in no bytes to be shown."""
        gap = offset - last.offset - last.length
        has_all = gap == 0 or len(last.file) == SHOWN_BYTES
        return gap < _ROW_BYTES and has_all

    def _add_sector(self, offset: int, mask: bytes) -> None:
        first = offset + len(mask) - len(mask.lstrip(b"\0"))
        last_end = offset + len(mask.rstrip(b"\0"))
        end = offset + len(mask)
        if self._clusters and self._clusters[-1].end == offset:
            before = self._clusters[-1]
            self._clusters[-1] = _Cluster(before.offset, end, before.first, last_end)
        elif len(self._clusters) <= _MOST_RUNS:
            self._clusters.append(_Cluster(offset, end, first, last_end))

    def _find_shape(
        self, file_bytes: int, copy_bytes: int, *, is_complete: bool
    ) -> tuple[Shape | None, Side | None, tuple[ByteRun, ...]]:
        has_one_size = file_bytes == copy_bytes
        shorter = Side.FILE if file_bytes < copy_bytes else Side.COPY
        if self._first is None:
            return (None, None, ()) if has_one_size else (Shape.CUT_OFF, shorter, ())
        if has_one_size and is_complete and self._bits <= _FEW_BITS:
            return (Shape.ONE_BIT if self._bits == 1 else Shape.FEW_BITS), None, ()
        for side in sorted(Side, key=lambda one: self._fills[one].is_of_zeros, reverse=True):
            runs = self._fills[side].find(self._bytes)
            if runs:
                return Shape.FILL, side, runs
        end = min(file_bytes, copy_bytes) if is_complete else self._compared_end
        length = end - self._first
        if end - self._last_end <= _EDGE_BYTES and length >= _SECTOR_BYTES and self._bytes * 2 >= length:
            return Shape.FROM_OFFSET, None, ()
        if self._fills_blocks():
            return Shape.OTHER_DATA, None, tuple(ByteRun(one.offset, one.end - one.offset) for one in self._clusters)
        return Shape.SCATTERED, None, ()

    def _fills_blocks(self) -> bool:
        """Return whether all differences are runs that fill whole sectors."""
        covered = sum(one.end - one.offset for one in self._clusters)
        return (
            len(self._clusters) <= _MOST_RUNS
            and all(one.last_end - one.first >= _SECTOR_BYTES - 2 * _EDGE_BYTES for one in self._clusters)
            and self._bytes * 2 >= covered
            and all(
                one.first - one.offset <= _EDGE_BYTES and one.end - one.last_end <= _EDGE_BYTES
                for one in self._clusters
            )
        )


class _Cluster(NamedTuple):
    """Adjacent differing sectors, from the first differing byte to behind the last one."""

    offset: int
    end: int
    first: int
    last_end: int


class _Fills:
    """The runs of one repeated byte in one side, as long as everything that differs lies in such runs."""

    def __init__(self) -> None:
        self._runs: list[ByteRun] | None = []
        self._covered_bytes = 0

    @property
    def is_of_zeros(self) -> bool:
        """Return whether the runs are zeros."""
        return bool(self._runs) and self._runs is not None and self._runs[0].value == 0

    def add(self, offset: int, data: bytes, differing: Sequence[int]) -> None:
        """Add a chunk; ``differing``: the positions in it of the sectors that differ."""
        if self._runs is None:
            return
        left = list(differing)
        for run in _find_filled_sectors(data):
            inside = [at for at in left if run.offset <= at < run.end]
            if not inside:
                continue
            left = left[len(inside) :] if left[0] == inside[0] else left
            self._covered_bytes += min(inside[-1] + _SECTOR_BYTES, len(data)) - inside[0]
            begin, end = _widen(run, inside[0], inside[-1] + _SECTOR_BYTES, len(data))
            self._join(ByteRun(offset + begin, end - begin, run.value))
        if left or len({run.value for run in self._runs}) > 1 or len(self._runs) > _MOST_RUNS:
            self._runs = None

    def find(self, differing_bytes: int) -> tuple[ByteRun, ...]:
        """Return the runs; none if they do not cover all, or hardly differ: then the other side changed."""
        if not self._runs or differing_bytes * 8 < self._covered_bytes:
            return ()
        return tuple(self._runs) if all(run.length >= _LEAST_RUN_BYTES for run in self._runs) else ()

    def _join(self, run: ByteRun) -> None:
        assert self._runs is not None
        if self._runs and self._runs[-1].end == run.offset and self._runs[-1].value == run.value:
            before = self._runs.pop()
            run = ByteRun(before.offset, before.length + run.length, run.value)
        self._runs.append(run)


def _find_filled_sectors(data: bytes) -> Iterator[ByteRun]:
    """Yield the maximal runs of whole sectors of one repeated byte."""
    begin, value = 0, -1
    for at in range(0, len(data), _SECTOR_BYTES):
        found = _find_fill(data[at : at + _SECTOR_BYTES])
        if found != value:
            if value >= 0:
                yield ByteRun(begin, at - begin, value)
            begin, value = at, found
    if value >= 0:
        yield ByteRun(begin, len(data) - begin, value)


def _find_fill(sector: bytes) -> int:
    """Return the byte that a sector consists of; -1 if there are several."""
    return sector[0] if sector.count(sector[0]) == len(sector) else -1


def _widen(run: ByteRun, begin: int, end: int, limit: int) -> tuple[int, int]:
    """Widen what differs to whole larger blocks, if all of them is in the run: the rest had this value before."""
    for grain in _WIDER_GRAINS:
        first, last = begin // grain * grain, min(-(-end // grain) * grain, limit)
        if run.offset <= first and last <= run.end:
            return first, last
    return begin, min(end, limit)


class FillFinder:
    """Find aligned runs of one repeated byte in damaged data, whose right content is not at hand."""

    def __init__(self) -> None:
        self._runs: list[ByteRun] = []
        self._begin, self._value, self._is_exact = 0, -1, False
        self._next = -1
        self._tail = b""

    def add(self, offset: int, data: bytes | memoryview) -> None:
        """Add a piece, in the order of the file."""
        if offset != self._next:
            self._close(self._next, b"")
            self._tail = b""
        skipped = -offset % _SECTOR_BYTES
        view = memoryview(data)
        for at in range(skipped, len(view), _SECTOR_BYTES):
            self._add_sector(offset + at, bytes(view[at : at + _SECTOR_BYTES]))
        self._next = offset + len(view)

    def find(self) -> tuple[ByteRun, ...]:
        """Return the runs; none if there are so many that the file may always have looked like this."""
        self._close(self._next, b"")
        return tuple(self._runs) if len(self._runs) <= _MOST_FILLS else ()

    def _add_sector(self, offset: int, sector: bytes) -> None:
        value = _find_fill(sector)
        if value != self._value:
            self._close(offset, sector)
            if value >= 0:
                self._begin, self._value = offset, value
                self._is_exact = self._tail != bytes([value]) * _EDGE_BYTES
        self._tail = sector[-_EDGE_BYTES:]

    def _close(self, end: int, following: bytes) -> None:
        """End the current run; it counts if the bytes before and behind it have other values."""
        if self._value < 0:
            return
        is_exact = self._is_exact and following[:_EDGE_BYTES] != bytes([self._value]) * _EDGE_BYTES
        if is_exact and end - self._begin >= _LEAST_RUN_BYTES and len(self._runs) <= _MOST_FILLS:
            self._runs.append(ByteRun(self._begin, end - self._begin, self._value))
        self._value = -1


def describe_fills(runs: Sequence[ByteRun]) -> str:
    """Describe runs that were found in damaged data; empty if there are none."""
    if not runs:
        return ""
    return f"The damaged part has {_name_runs(runs)}{_explain_fill(runs, 'perhaps ')}."


def describe_end(size_bytes: int, recorded_bytes: int) -> str:
    """Describe a file that became shorter; empty if it did not."""
    return f"The file ends after {size_bytes:,} of {recorded_bytes:,} bytes." if size_bytes < recorded_bytes else ""


def describe_difference(difference: ByteDifference) -> str:
    """Describe how a file and its copy differ; empty if no difference was found."""
    if difference.shape is None:
        return ""
    sentence = _SENTENCES[difference.shape](difference)
    sizes = difference.file_bytes, difference.copy_bytes
    if difference.shape is not Shape.CUT_OFF and sizes[0] != sizes[1]:
        sentence += f" Your file has {sizes[0]:,} bytes, the backup {sizes[1]:,}."
    if not difference.is_complete:
        sentence += " Only the first part of what differs was looked at."
    return sentence


def _describe_bit(difference: ByteDifference) -> str:
    where, _, file, copy = difference.ranges[0]
    bit = (file[0] ^ copy[0]).bit_length() - 1
    return (
        f"One bit differs: bit {bit} of byte {where:,} (0x{file[0]:02x} in your file, 0x{copy[0]:02x} in the backup)."
    )


def _describe_bits(difference: ByteDifference) -> str:
    count = difference.differing_bytes
    places = f"byte {difference.ranges[0].offset:,}" if count == 1 else f"{count} bytes"
    first = "" if count == 1 else f"; the first is byte {difference.ranges[0].offset:,}"
    return f"{difference.differing_bits} bits differ, in {places}{first}."


def _describe_fill(difference: ByteDifference) -> str:
    assert difference.side is not None
    name, runs = SIDE_NAMES[difference.side], difference.runs
    size = difference.file_bytes if difference.side is Side.FILE else difference.copy_bytes
    if len(runs) == 1 and runs[0].end == size:
        what = f"Everything from byte {runs[0].offset:,} to the end of {name} is {_name_value(runs[0].value)}"
    else:
        what = f"{name[0].upper()}{name[1:]} has {_name_runs(runs)}"
    return f"{what}{_explain_fill(runs, '')}."


def _describe_other_data(difference: ByteDifference) -> str:
    runs = difference.runs
    total, first = _spell_length(sum(run.length for run in runs)), runs[0].offset
    what = (
        f"Other data, {total} long, begins at byte {first:,} and fills whole blocks"
        if len(runs) == 1
        else f"{len(runs):,} runs of other data, {total} in all, fill whole blocks, the first from byte {first:,} on"
    )
    return f"{what}: perhaps data that was written to the wrong place."


def _describe_cut_off(difference: ByteDifference) -> str:
    assert difference.side is not None
    name, sizes = SIDE_NAMES[difference.side], sorted((difference.file_bytes, difference.copy_bytes))
    return f"{name[0].upper()}{name[1:]} ends after {sizes[0]:,} of {sizes[1]:,} bytes."


def _describe_from_offset(difference: ByteDifference) -> str:
    first = difference.ranges[0].offset
    return f"Everything from byte {first:,} on differs." if first else "Everything differs, from the first byte on."


def _describe_scattered(difference: ByteDifference) -> str:
    count, places = difference.differing_bytes, difference.range_count
    bytes_ = f"{count:,} byte{' differs' if count == 1 else 's differ'}"
    if places == 1:
        return f"{bytes_}, from byte {difference.ranges[0].offset:,} on."
    return f"{bytes_}, in {places:,} places; the first is byte {difference.ranges[0].offset:,}."


_SENTENCES = {
    Shape.ONE_BIT: _describe_bit,
    Shape.FEW_BITS: _describe_bits,
    Shape.FILL: _describe_fill,
    Shape.OTHER_DATA: _describe_other_data,
    Shape.CUT_OFF: _describe_cut_off,
    Shape.FROM_OFFSET: _describe_from_offset,
    Shape.SCATTERED: _describe_scattered,
}


def _name_runs(runs: Sequence[ByteRun]) -> str:
    """Name runs of one repeated byte: "a run of zeros, 4 KiB long, from byte 8,192 on"."""
    values = {run.value for run in runs}
    what = _name_value(runs[0].value) if len(values) == 1 else "repeated bytes"
    total = _spell_length(sum(run.length for run in runs))
    if len(runs) == 1:
        return f"a run of {what}, {total} long, from byte {runs[0].offset:,} on"
    return f"{len(runs):,} runs of {what}, {total} in all, the first from byte {runs[0].offset:,} on"


def _name_value(value: int | None) -> str:
    return "zeros" if value == 0 else f"the byte 0x{value:02x}"


def _explain_fill(runs: Sequence[ByteRun], how_sure: str) -> str:
    if any(run.value != 0 for run in runs):
        return ""
    if len(runs) == 1:
        return f": {how_sure}a block that was never written, or was lost"
    return f": {how_sure}blocks that were never written, or were lost"


def _spell_length(length: int) -> str:
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if length % unit == 0:
            return f"{length // unit:,} {name}"
    return f"{length:,} bytes"
