"""
Decide which files share a parity set, and how it is cut into slices.

A file takes at least one slice, and part of its last one is wasted, so files of similar sizes share a set. Neighbours
in the tree share one, so that a set is used up by one accident and not many. The limits bound what healing one file
must read, what one change makes stale, and the length of a command line.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from integrity.catalog.parity import Candidate

MOST_FILES = 400
MOST_BYTES = 4 << 30
_MOST_PATH_BYTES = 1 << 19  # Linux refuses more than some MiB of arguments
_SLICES = 2000  # what par2 chooses; its time rises with their number
_LEAST_SLICE_BYTES = 1024  # the checksums of a slice take 20 bytes
_SMALLEST, _STEP = 9, 3  # sizes up to 4 KiB are one class, each other one reaches to eight times its smallest file
_FILE_PACKETS_BYTES = 216  # what a set says of a file, beside its name and the checksums of its slices
_SLICE_PACKET_BYTES = 68
_TWICE_SHARE = 100
"""What a set says of its files stands in it twice, unless that takes more than this part of their size."""


class SetPlan(NamedTuple):
    """A set to be made."""

    files: tuple[Candidate, ...]
    slice_bytes: int
    source_slices: int
    recovery_slices: int

    @property
    def bytes(self) -> int:
        """Return the size of its files."""
        return sum(one.size_bytes for one in self.files)

    @property
    def most_twice_bytes(self) -> int:
        """Return up to which size what it says of its files stands in it twice."""
        return self.bytes // _TWICE_SHARE

    @property
    def parity_bytes(self) -> int:
        """Return about how large its file will be."""
        names = sum(len(one.path) + _FILE_PACKETS_BYTES for one in self.files)
        shared = names + 20 * self.source_slices
        recovery = self.recovery_slices * (self.slice_bytes + _SLICE_PACKET_BYTES)
        return recovery + shared * (2 if shared <= self.most_twice_bytes else 1)


def find_class(size_bytes: int) -> int:
    """Return the number of the class of a file's size."""
    return max(0, (size_bytes.bit_length() - 1 - _SMALLEST) // _STEP)


def plan_set(files: Sequence[Candidate], percent: float) -> SetPlan:
    """Cut the files of a set into slices."""
    total = sum(one.size_bytes for one in files)
    slice_bytes = max(_LEAST_SLICE_BYTES, -(-total // (_SLICES - len(files))))
    slice_bytes = -(-slice_bytes // 64) * 64
    slices = sum(-(-one.size_bytes // slice_bytes) for one in files)
    return SetPlan(tuple(files), slice_bytes, slices, max(1, round(slices * percent / 100 + 0.5)))


def group_files(candidates: Iterable[Candidate]) -> Iterator[list[Candidate]]:
    """Yield the files of each set, as soon as it is full; at the end those that are not."""
    groups = defaultdict[int, list["Candidate"]](list)
    sizes, names = defaultdict[int, int](int), defaultdict[int, int](int)
    for one in candidates:
        of = find_class(one.size_bytes)
        is_full = len(groups[of]) == MOST_FILES or sizes[of] + one.size_bytes > MOST_BYTES
        if groups[of] and (is_full or names[of] + len(one.path) > _MOST_PATH_BYTES):
            yield groups.pop(of)
            sizes[of] = names[of] = 0
        groups[of].append(one)
        sizes[of] += one.size_bytes
        names[of] += len(one.path)
    yield from groups.values()
