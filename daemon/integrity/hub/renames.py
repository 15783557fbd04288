"""
Find files that members have under different names: what is missing at one name stands under another one.

Pure: the caller reads the rows. Files count as one if they have the same size and digest, and each member has only one
of the names, or none. Empty files prove nothing by that: they need the same name in another folder as well.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

from integrity.hub.replica_rows import DisputedFile, FileKey, join_key
from integrity.hub.replica_verdict import Version

Members = frozenset[int]
"""Members of a set, by their indexes."""

HadBefore = Mapping[FileKey, Collection[tuple[int, Version]]]
"""What members had under some names before, and have no more."""


class FileName(NamedTuple):
    """A name of a file: which members have it, and which lack it though they do not exclude it."""

    key: FileKey
    having: Members
    lacking: Members


class TwoNames(NamedTuple):
    """A file with two names. More members have it under the first one, or as many."""

    one: FileName
    other: FileName
    version: Version

    @property
    def reversed(self) -> TwoNames:
        return TwoNames(self.other, self.one, self.version)


@dataclass(frozen=True, slots=True)
class Rename:
    """
    A file or folder with two names.

    Attributes:
        old, new: the names; if nothing tells which of them is older, the first is the one that more members have.
        having_old, having_new: the members that have it under this name.
        renamed_on: those of the latter that had the old name before; empty: nothing is known.
        files: all files that have two names because of it.
        are_all_from_old: all of them were in the folder ``old``, or are that file.
    """

    old: bytes
    new: bytes
    having_old: Members
    having_new: Members
    renamed_on: Members
    files: tuple[TwoNames, ...]
    are_all_from_old: bool

    @property
    def renamed_on_one(self) -> int | None:
        """The member that renamed it; None: nobody knows, or several did."""
        return next(iter(self.renamed_on)) if len(self.renamed_on) == 1 else None


def pair_names(files: Iterable[DisputedFile], lacking: Mapping[FileKey, Collection[int]]) -> Iterator[TwoNames]:
    """
    Yield the files that have two names, and that some member lacks under one name because it has the other one.

    Args:
        files: which some members lack.
        lacking: the indexes of these members.
    """
    by_content: defaultdict[Version, list[FileName]] = defaultdict(list)
    for file in files:
        having = frozenset(at for at, row in enumerate(file.rows) if row is not None)
        contents = {_content_of(view.version) for view in file.views if view.version is not None}
        if len(contents) == 1 and (content := contents.pop()) is not None:
            by_content[content].append(FileName(file.key, having, frozenset(lacking[file.key])))
    for version, names in by_content.items():
        yield from _pair(version, names)


def _content_of(version: Version) -> Version | None:
    """Return what makes two files one; None: they have no digest."""
    size, md5, xxh3 = version
    if md5 is None and xxh3 is None:
        return None
    return Version(size, md5, xxh3 if md5 is None else None)


def _pair(version: Version, names: Iterable[FileName]) -> Iterator[TwoNames]:
    """Yield pairs of the names of equal files: one of those that most members have, and one of others."""
    groups: dict[tuple[Members, Members], list[FileName]] = {}
    for name in sorted(names):
        groups.setdefault((name.having, name.lacking), []).append(name)
    most = max(groups, key=lambda group: (len(group[0]), [-at for at in sorted(group[0])]))
    for group, others in groups.items():
        is_explained = group[0] & most[1] or most[0] & group[1]
        if is_explained and not group[0] & most[0]:
            yield from (TwoNames(*pair, version) for pair in _match(groups[most], others, not version.size_bytes))


def _match(
    ones: Sequence[FileName], others: Sequence[FileName], must_be_called_alike: bool
) -> Iterator[tuple[FileName, FileName]]:
    """Match names: those that differ only in the folder first, then all in their order."""
    called = {name: list(some)[::-1] for name, some in groupby(sorted(others, key=_last), _last)}
    remaining = []
    for one in ones:
        if alike := called.get(_last(one)):
            yield one, alike.pop()
        else:
            remaining.append(one)
    if not must_be_called_alike:
        yield from zip(remaining, sorted(name for some in called.values() for name in some), strict=False)


def _last(name: FileName) -> bytes:
    return name.key[1]


def group_renames(pairs: Iterable[TwoNames], had: HadBefore) -> list[Rename]:
    """Return the renames behind files that have two names: several files that moved together are one folder."""
    groups: defaultdict[tuple[bytes, Members, Members, Members], list[TwoNames]] = defaultdict(list)
    for found in pairs:
        pair, renamed_on = _order(found, had)
        new = _find_moved(pair)[1]
        groups[new, pair.one.having, pair.other.having, renamed_on].append(pair)
    return [_to_rename(*key, pairs) for key, pairs in sorted(groups.items(), key=lambda item: item[0][0])]


def _order(pair: TwoNames, had: HadBefore) -> tuple[TwoNames, Members]:
    """Return a pair with the old name first, and the members that gave it up; none if that is not known."""
    gave_up_one, gave_up_other = _find_former(pair, had), _find_former(pair.reversed, had)
    if gave_up_one and not gave_up_other:
        return pair, gave_up_one
    return (pair.reversed, gave_up_other) if gave_up_other and not gave_up_one else (pair, frozenset())


def _find_former(pair: TwoNames, had: HadBefore) -> Members:
    """Return the members that have the second name and had the first one before, with the same content."""
    before = had.get(pair.one.key, ())
    return frozenset(at for at, version in before if at in pair.other.having and _content_of(version) == pair.version)


def _find_moved(pair: TwoNames) -> tuple[bytes, bytes]:
    """Return the highest folders in which both names of a file are alike, or the names if it has another one."""
    old, new = join_key(pair.one.key), join_key(pair.other.key)
    while old.rpartition(b"/")[2] == new.rpartition(b"/")[2] and b"/" in old and b"/" in new:
        old, new = old.rpartition(b"/")[0], new.rpartition(b"/")[0]
    return old, new


def _to_rename(
    new: bytes, having_old: Members, having_new: Members, renamed_on: Members, pairs: Sequence[TwoNames]
) -> Rename:
    old, *more = dict.fromkeys(_find_moved(pair)[0] for pair in pairs)
    if len(pairs) == 1:
        old, new = join_key(pairs[0].one.key), join_key(pairs[0].other.key)
    return Rename(old, new, having_old, having_new, renamed_on, tuple(pairs), are_all_from_old=not more)
