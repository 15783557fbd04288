"""``integrity compare --blocks``: both sides of the bytes that differ."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from integrity.errors import printable, show_path
from integrity.jobs.byte_pattern import SIDE_NAMES, Side, describe_difference
from integrity.paths import path_fields
from integrity.views.objects import JsonObject, iso_time
from integrity.views.text import exact_time

if TYPE_CHECKING:
    from integrity.jobs.byte_pattern import DifferingRange
    from integrity.jobs.compare.file_difference import FileDifference

_ROW_BYTES = 8
_HEX_WIDTH = _ROW_BYTES * 3 - 1
_SIDE_WIDTH = _HEX_WIDTH + 2 + _ROW_BYTES


def describe_file_difference(found: FileDifference) -> Iterator[str]:
    """Write sizes and times of a file and its copy, what shows in the bytes, and a dump of what differs."""
    difference = found.difference
    yield show_path(found.path)
    yield f"  your file   {_describe_side(difference.file_bytes, found.file_mtime_ns)}"
    yield f"  the backup  {_describe_side(difference.copy_bytes, found.copy_mtime_ns)}: {_show_place(found)}"
    yield f"  result      {describe_difference(difference) or 'The two are equal.'}"
    if not difference.ranges:
        return
    yield ""
    names = [SIDE_NAMES[side] for side in Side]
    yield f"  {'offset':<14}  {names[0]:<{_SIDE_WIDTH}} | {names[1]}"
    for one in difference.ranges:
        yield from _dump(one)
    more = difference.range_count - len(difference.ranges)
    if more:
        yield f"  {more:,} more range{'' if more == 1 else 's'} not shown"


def _show_place(found: FileDifference) -> str:
    return f"{show_path(found.place)} in {printable(found.copy)}"


def _describe_side(size_bytes: int, mtime_ns: int | None) -> str:
    time = "time not known" if mtime_ns is None else f"modified {exact_time(mtime_ns)}"
    return f"{size_bytes:,} bytes, {time}"


def _dump(one: DifferingRange) -> Iterator[str]:
    """Write the rows of a range: both sides in hex, and what of them is printable ASCII."""
    for at in range(0, len(one.file), _ROW_BYTES):
        sides = (_show_row(data[at : at + _ROW_BYTES]) for data in (one.file, one.copy))
        yield f"  {one.offset + at:>14,}  {' | '.join(sides)}".rstrip()
    more = one.length - len(one.file)
    if more:
        yield f"  {'':>14}  {more:,} more bytes not shown"


def _show_row(data: bytes) -> str:
    text = "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in data)
    return f"{data.hex(' '):<{_HEX_WIDTH}}  {text:<{_ROW_BYTES}}"


def difference_object(found: FileDifference) -> JsonObject:
    """Write a difference."""
    difference = found.difference
    return {
        **path_fields("path", found.path),
        "copy": found.copy,
        "url": found.url,
        **path_fields("copy_path", found.place),
        "are_equal": difference.are_equal,
        "is_complete": difference.is_complete,
        "file_bytes": difference.file_bytes,
        "copy_bytes": difference.copy_bytes,
        "file_modified_at": iso_time(found.file_mtime_ns // 10**9),
        "copy_modified_at": None if found.copy_mtime_ns is None else iso_time(found.copy_mtime_ns // 10**9),
        "differing_bytes": difference.differing_bytes,
        "differing_bits": difference.differing_bits,
        "shape": difference.shape,
        "side": difference.side,
        "runs": [{"offset": run.offset, "length": run.length, "value": run.value} for run in difference.runs],
        "range_count": difference.range_count,
        "ranges": [
            {"offset": one.offset, "length": one.length, "file": one.file.hex(), "copy": one.copy.hex()}
            for one in difference.ranges
        ],
        "message": describe_difference(difference),
    }
