"""What a manifest claims of each file, and what may become of that."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from integrity.errors import show_path
from integrity.hashing.algorithms import CRC32, Algorithm
from integrity.hashing.manifests.entries import BadLine, Entry
from integrity.jobs.manifests.kept import KEPT
from integrity.jobs.manifests.places import Places

_AT_ONCE = 10_000
"""Names of one page: what of a manifest is in memory at a time."""


class Verdict(StrEnum):
    """The one thing that an import says of each entry (R8)."""

    VERIFIED = "verified"  # read, found equal, and recorded
    ALREADY = "already"  # it has a baseline; where that has a digest that the manifest has, too, they are equal
    DIFFERING = "differing"  # the file, or its record, is not what the manifest says
    MISSING = "missing"
    UNREADABLE = "unreadable"  # it could not be read as one stable version
    OUTSIDE = "outside"  # the name lies outside of the root
    LEFT_OUT = "left_out"  # the root leaves it out: excluded, no regular file, on another file system
    RECORD_DAMAGED = "record_damaged"  # its row in the catalog is damaged, so nothing can be said of it
    BAD = "bad"  # no entry that can be used


@dataclass(slots=True)
class ImportCounts:
    """
    What became of the entries, each in exactly one of the verdicts, and some "of which".

    Args:
        not_compared: of ``already``: the manifest has no digest that is recorded.
    """

    verified: int = 0
    already: int = 0
    differing: int = 0
    missing: int = 0
    unreadable: int = 0
    outside: int = 0
    left_out: int = 0
    record_damaged: int = 0
    bad: int = 0
    not_compared: int = 0

    @property
    def entries(self) -> int:
        """Sum up the verdicts."""
        return sum(getattr(self, verdict.value) for verdict in Verdict)

    def add(self, verdict: Verdict, count: int) -> None:
        """Count entries."""
        setattr(self, verdict.value, getattr(self, verdict.value) + count)


@dataclass(frozen=True, slots=True)
class Told:
    """
    What is told of an entry that was not simply recorded.

    Args:
        verdict: what became of it.
        path: absolute, or the name as it is written where that means no file; None for a bad line.
        line: its number in the manifest, from 1.
        message: why.
    """

    verdict: Verdict
    path: bytes | None
    line: int
    message: str


@dataclass(slots=True)
class Claim:
    """
    What all entries of one page say of one file.

    Args:
        path: relative to the root.
        line: of the first of them.
        count: of entries.
        digests: raw.
        size_bytes: None where no entry tells it.
        is_contradictory: two of them can't both be right.
        expected_bytes: size of the file when it was looked at.
        was_racy: it was read within a clock granule of a write, and so is read again.
        needs_all: a recording computes none of its digests, for it is very sparse.
    """

    path: bytes
    line: int
    count: int
    digests: dict[Algorithm, bytes]
    size_bytes: int | None
    is_contradictory: bool = False
    expected_bytes: int = 0
    was_racy: bool = False
    needs_all: bool = False

    @property
    def others(self) -> list[Algorithm]:
        """Name the digests that have to be computed beside those of a recording."""
        return [algorithm for algorithm in self.digests if self.needs_all or algorithm not in KEPT]

    def add(self, count: int, digests: Mapping[Algorithm, bytes], size_bytes: int | None) -> None:
        """Add what other entries say of the same file."""
        self.count += count
        for algorithm, digest in digests.items():
            self.is_contradictory |= self.digests.setdefault(algorithm, digest) != digest
        if self.size_bytes is None:
            self.size_bytes = size_bytes
        self.is_contradictory |= size_bytes not in (None, self.size_bytes)

    def find_difference(self, digests: Mapping[Algorithm, bytes], size_bytes: int) -> str | None:
        """Say how a content differs from what is claimed; None if it does not, as far as the digests go."""
        if self.is_contradictory:
            return "the manifest contradicts itself"
        if self.size_bytes not in (None, size_bytes):
            return f"has {size_bytes:,} bytes, the manifest says {self.size_bytes:,}"
        for algorithm, digest in self.digests.items():
            found = digests.get(algorithm, digest)
            if found != digest:
                return f"has {algorithm.name} {found.hex()}, the manifest says {digest.hex()}"
        return None


Refuse = Callable[[Verdict, bytes | None, int, str], None]
"""Is told verdict, name, line and reason of what is no claim."""


def gather(
    lines: Iterable[Entry | BadLine], places: Places, refuse: Refuse, is_stopped: Callable[[], bool]
) -> Iterator[list[Claim]]:
    """
    Gather the claims of a manifest, a page at a time.

    What entries of one page say of the same file becomes one claim: a file of several algorithms has a line for each.
    """
    claims: dict[bytes, Claim] = {}
    for line in lines:
        if is_stopped():
            return
        if isinstance(line, BadLine):
            refuse(Verdict.BAD, None, line.line, "can't be read as an entry")
            continue
        digests = {algorithm: digest for algorithm, digest in line.digests.items() if algorithm is not CRC32}
        path = places.find(line.path)
        if not digests:
            refuse(Verdict.BAD, line.path, line.line, "has no digest that could tell that the file is right")
        elif path is None:
            refuse(Verdict.OUTSIDE, line.path, line.line, f"{show_path(line.path)} leads out of what is imported")
        elif path in claims:
            claims[path].add(1, digests, line.size_bytes)
        else:
            if len(claims) == _AT_ONCE:
                yield list(claims.values())
                claims.clear()
            claims[path] = Claim(path, line.line, 1, digests, line.size_bytes)
    if claims:
        yield list(claims.values())
