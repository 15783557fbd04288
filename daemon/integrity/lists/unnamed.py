"""
Find out which algorithm the digests of a list are of, where the list does not name it.

Many algorithms have digests of equal length. What narrows them down, for each length: the option, else the name of the
list's file, and then content: some of the files are read once for all candidates, and the first match decides.

I1  A length is settled by a statement or by a match, and never changes afterwards.
I2  If no file matches, the usual algorithm is meant and the files are wrong; but of many files, the algorithm is more
    likely to be another one: then nothing is said of any file.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TypeVar

from integrity.hashing.algorithms import (
    ALGORITHMS,
    SHA1,
    SHA224,
    SHA256,
    SHA384,
    SHA512,
    SHORT,
    UNNAMED,
    XXH64,
    find_by_word,
)
from integrity.hashing.stored_digests import MD5, Algorithm
from integrity.lists.entries import Digests

T = TypeVar("T")

_USUAL = frozenset({MD5, XXH64, SHA1, SHA224, SHA256, SHA384, SHA512})
_SAMPLED = 200
"""Files read at most per length: if one file in twenty is right, all of 200 are wrong once in 28,000 lists."""

_ENOUGH = 20
"""Files after which it is more likely that the algorithm is unknown than that all of them changed."""

_LENGTHS = {one: length for length, one in UNNAMED.items()}
_split_words = re.compile(r"[. ]").split
_split_parts = re.compile(r"[-_]").split
_drop_sum = re.compile(r"sums?").sub


def find_by_filename(name: bytes) -> frozenset[Algorithm]:
    """Return the algorithms that a file name states, often none: ``B2SUMS``, ``a.sha256``, ``sha3-512sums.txt``."""
    base = os.path.basename(name).decode("ascii", "replace").lower()
    found: set[Algorithm] = set()
    for number, word in enumerate(_split_words(base)):
        parts = _split_parts(word)
        for first in range(len(parts)):
            texts = ("".join(parts[first:end]) for end in range(len(parts), first, -1))
            found.update(next(filter(None, (_read_word(text, is_suffix=number > 0) for text in texts)), ()))
    return frozenset(found)


def _read_word(text: str, *, is_suffix: bool) -> tuple[Algorithm, ...]:
    key = _drop_sum("", text)
    # Short words may mean anything, B2 is also a store: only "b2sum" and ".b2" are clear.
    return find_by_word(key) if len(key) > 2 or key != text or is_suffix else ()


class ListAlgorithms:
    """
    The algorithms of one list's digests, by their length.

    Args:
        name: of the list's file; empty if there is none.
        wanted: the only algorithms to read; empty for all.

    Attributes:
        unknown: candidates, by what stands in ``UNNAMED``, of digests that no file matches.
    """

    def __init__(self, name: bytes = b"", wanted: Sequence[Algorithm] = ()) -> None:
        self._candidates: dict[int, tuple[Algorithm, ...]] = {}
        self._tried: Counter[int] = Counter()
        self._matched: dict[int, Algorithm] = {}
        self.unknown: dict[Algorithm, tuple[Algorithm, ...]] = {}
        self.wanted = tuple(wanted)
        stated = frozenset(wanted) or find_by_filename(name)
        for length in {one.digest_bytes for one in ALGORITHMS}:
            known = [one for one in ALGORITHMS if one.digest_bytes == length]
            some = [one for one in known if one in stated]
            if not some and not wanted:
                some = [one for one in known if one not in SHORT]
            self._candidates[length] = tuple(sorted(some, key=lambda one: one not in _USUAL))

    def find(self, length: int) -> Algorithm | None:
        """Return the algorithm of digests of this length: one of ``UNNAMED`` if not known, None if unwanted."""
        candidates = self._candidates.get(length, ())
        is_named = len(candidates) == 1 and UNNAMED[length] not in self.unknown
        return candidates[0] if is_named else UNNAMED[length] if candidates else None

    def find_usual(self, length: int) -> Algorithm | None:
        """Return the first candidate for digests of this length; None if there is none."""
        return next(iter(self._candidates.get(length, ())), None)

    def is_open(self, digests: Iterable[Algorithm]) -> bool:
        """Return whether the algorithm of any of these is still to be found."""
        return any(one in _LENGTHS and len(self._candidates[_LENGTHS[one]]) > 1 for one in digests)

    def expand(self, digests: Iterable[Algorithm]) -> tuple[Algorithm, ...]:
        """Return the algorithms to compute, in the order of ``ALGORITHMS``: for those still open all candidates."""
        return _sort(frozenset(some for one in digests for some in self._expand(one)))

    def _expand(self, one: Algorithm) -> tuple[Algorithm, ...]:
        return self._candidates[_LENGTHS[one]] if one in _LENGTHS else (one,)

    def sample(self, items: Iterable[T], find_digests: Callable[[T], Iterable[Algorithm]]) -> list[T]:
        """Pick items, spread over all of them, whose files can show the algorithms that are open."""
        picked: dict[int, list[T]] = {}
        steps: Counter[int] = Counter()
        seen: Counter[int] = Counter()
        for item in items:
            for length in {_LENGTHS[one] for one in find_digests(item) if self.is_open((one,))}:
                if seen[length] % (1 << steps[length]) == 0:
                    picked.setdefault(length, []).append(item)
                    if len(picked[length]) == 2 * _SAMPLED:
                        del picked[length][1::2]
                        steps[length] += 1
                seen[length] += 1
        return [item for some in picked.values() for item in some[:: -(-len(some) // _SAMPLED)]]

    def take(self, digests: Digests, found: Mapping[Algorithm, bytes]) -> None:
        """Learn from what the list states of a file and what its content has; it may lack some candidates."""
        for one in digests:
            if not self.is_open((one,)):
                continue
            length = _LENGTHS[one]
            candidates = self._candidates[length]
            self._tried[length] += found.keys() >= set(candidates)
            match = next((some for some in candidates if found.get(some) == digests[one]), None)
            if match is not None:
                self._candidates[length] = (match,)
                self._matched[length] = match

    def conclude(self) -> None:
        """End the search: what is still open is the usual algorithm, or unknown if many files were read in vain."""
        for length, candidates in self._candidates.items():
            if len(candidates) < 2:
                continue
            if self._tried[length] >= _ENOUGH:
                self.unknown[UNNAMED[length]] = candidates
            self._candidates[length] = candidates[:1]

    def name_all(self, digests: Digests) -> Digests:
        """Return digests under the names of their algorithms; those of unknown ones are left out."""
        if not (digests.keys() & _LENGTHS.keys()):
            return digests
        return {
            self._candidates[_LENGTHS[one]][0] if one in _LENGTHS else one: digest
            for one, digest in digests.items()
            if one not in self.unknown
        }

    def describe(self) -> Iterator[str]:
        """Yield a sentence for each length whose algorithm was recognized as an unusual one."""
        for length, match in sorted(self._matched.items()):
            if match not in _USUAL:
                yield f"its digests of {2 * length} digits are {_title(match)}"

    def describe_unknown(self) -> Iterator[str]:
        """Yield a sentence for each length whose algorithm is unknown."""
        for one, candidates in self.unknown.items():
            length = _LENGTHS[one]
            names = ", ".join(map(_title, candidates))
            yield (
                f"none of the {self._tried[length]:,} files that were read matches its digests of {2 * length} digits:"
                f" perhaps they are of another algorithm than {names}, so nothing was compared with them; if they are"
                " of one of these, name it by --algorithm, and each difference is reported"
            )


@lru_cache(maxsize=1024)
def _sort(wanted: frozenset[Algorithm]) -> tuple[Algorithm, ...]:
    return tuple(one for one in ALGORITHMS if one in wanted)


def _title(algorithm: Algorithm) -> str:
    return algorithm.tag.decode("ascii")
