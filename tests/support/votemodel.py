"""
What a vote must find, computed the slow way: from all files of all members, one by one, without any digest of a folder.

Written from the rules (docs/hub.md, "Votes") and not from the code: it shares nothing with ``hub/replica_verdict.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from integrity.reporting.digest_tree import FROZEN, ReportedFile

DAMAGE = frozenset({"rot", "silent_rewrite", "unreadable", "missing", "shrunk", "changed", "rolled_back"})
DOUBT = frozenset({"transient", "unstable", "catalog_damaged"})


@dataclass
class ModelMember:
    """A member: all its files by path, the kinds of its unresolved findings by path, and its former contents."""

    reported_at: int
    ahead: int
    files: Mapping[bytes, ReportedFile]
    findings: Mapping[bytes, frozenset[str]]
    excluded_suffix: bytes = b".tmp"
    former: dict[bytes, list[ReportedFile]] = field(default_factory=dict)


class ModelFinding(NamedTuple):
    """What is wrong: at which member (None: nobody knows), with which file (empty: with many)."""

    kind: str
    member: str | None
    path: bytes


Limits = Mapping[str, int]


def vote_by_hand(members: Mapping[str, ModelMember], limits: Limits) -> set[ModelFinding]:
    """Return all that a vote must find. ``limits``: how many findings of a kind at one member are listed."""
    if len(members) < 2:
        return set()
    found: dict[tuple[str, str | None], set[bytes]] = {}
    for path in {path for one in members.values() for path in one.files}:
        for kind, name in _judge(path, members):
            found.setdefault((kind, name), set()).add(path)
    return {
        ModelFinding(kind, name, path)
        for (kind, name), paths in found.items()
        for path in (paths if len(paths) <= limits[kind] else {b""})
    }


def _judge(path: bytes, members: Mapping[str, ModelMember]) -> set[tuple[str, str | None]]:
    having = {name: one.files[path] for name, one in members.items() if path in one.files}
    bad = {name for name in having if members[name].findings.get(path, frozenset()) & DAMAGE}
    found: set[tuple[str, str | None]] = {("replica_damaged", name) for name in bad}
    newer_than = {
        name: {other for other in having if _compare(path, members[name], members[other]) == "older"} for name in having
    }
    is_circle = all(newer_than[name] for name in having)
    behind = set() if is_circle else {name for name in having if newer_than[name]}
    newest = having.keys() - behind
    for name, one in members.items():
        if name in bad:
            continue
        if name not in having:
            had = [other for other in newest if _recorded(members[other], having[other]) <= one.reported_at]
            if had and not path.endswith(one.excluded_suffix):
                found.add(("replica_missing", name))
        elif name in behind:
            found.add(("replica_stale", name))
    unsettled = {_compare(path, members[a], members[b]) for a in newest - bad for b in newest - bad if a != b} - {
        "same"
    }
    if unsettled:
        found.add(("replica_conflict" if unsettled == {"conflict"} else "replica_differs", None))
    return found


def _compare(path: bytes, one: ModelMember, other: ModelMember) -> str:
    """Return whether the content on ``one`` is the older one."""
    a, b = one.files[path], other.files[path]
    if not _differ(a, b):
        return "same"
    if max(_recorded(one, a), _recorded(other, b)) > min(one.reported_at, other.reported_at):
        return "same"
    former_a, former_b = one.former.get(path, []), other.former.get(path, [])
    a_was_there = any(_equal(a, was) for was in former_b)
    b_was_here = any(_equal(b, was) for was in former_a)
    by_time = _compare_times(one, a, other, b)
    if a_was_there and not b_was_here:
        return "undecided" if by_time == "newer" else "older"
    if b_was_here and not a_was_there:
        return "undecided" if by_time == "older" else "newer"
    if not a_was_there and any(_equal(was, before) for was in former_a for before in former_b):
        return "conflict"
    return by_time


def _compare_times(one: ModelMember, a: ReportedFile, other: ModelMember, b: ReportedFile) -> str:
    times_a = {a.mtime_ns, a.mtime_ns - one.ahead * 10**9}
    times_b = {b.mtime_ns, b.mtime_ns - other.ahead * 10**9}
    if all(y - x > 2 * 10**9 for x in times_a for y in times_b):
        return "older"
    return "newer" if all(x - y > 2 * 10**9 for x in times_a for y in times_b) else "undecided"


def _recorded(one: ModelMember, file: ReportedFile) -> int:
    return file.recorded_at - one.ahead


def _differ(a: ReportedFile, b: ReportedFile) -> bool:
    pairs = [(a.md5, b.md5), (a.xxh3_128, b.xxh3_128)]
    return a.size_bytes != b.size_bytes or any(x != y for x, y in pairs if x and y)


def _equal(a: ReportedFile, b: ReportedFile) -> bool:
    return not _differ(a, b) and bool((a.md5 and b.md5) or (a.xxh3_128 and b.xxh3_128))


def find_sources(path: bytes, name: str, members: Mapping[str, ModelMember]) -> set[str]:
    """Return the members that the file of a damaged one can be repaired from: right, undamaged, verified from disk."""
    one = members[name]
    return {
        other
        for other, member in members.items()
        if other != name
        and path in one.files
        and path in member.files
        and _equal(one.files[path], member.files[path])
        and not member.findings.get(path, frozenset()) & (DAMAGE | DOUBT)
        and not member.files[path].flags & FROZEN
        and member.files[path].verified_at is not None
        and member.files[path].read_how in (1, 2)
    }
