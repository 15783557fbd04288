"""
The decision table of votes: from what the members of a replica set report of one file, to what is wrong and where.

Pure: no I/O, no clock. What it leaves to others: finding the files to judge (``replica_rows``), and the words
(``replica_words``). Two members suffice for a vote; a majority decides nothing. Invariants, each tested over all rows:

I1  A repair is proposed only from another member that has the recorded content and verified it from its disk.
I2  A member whose file has a damage finding is never a source, and neither is one whose finding leaves doubt.
I3  A member is said to lack a file, or to be behind, only by a report that is newer than the record of what it lacks.
I4  Times that a wrong clock may have caused decide nothing: an order of mtimes counts only with and without correction.
I5  What differs and can't be ordered is never called stale; neither is what history and mtimes order differently.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from integrity.arbitration import FileState, find_stand
from integrity.hub.kinds import FOUND_BY_BOX, HubCertainty, HubFindingKind
from integrity.kinds import DOUBTS
from integrity.model import FindingKind
from integrity.verdict import VERDICTS, Judgement

MTIME_SLACK_NS = 2_000_000_000
"""Mtimes that are as close as this say nothing about the order: FAT keeps them in steps of two seconds."""


class Holding(StrEnum):
    """What a member has of a file."""

    GOOD = "good"  # recorded, and no finding about its content is open
    DOUBTFUL = "doubtful"  # recorded, but a finding leaves open whether the content is right
    DAMAGED = "damaged"  # other content than recorded, that no write explains
    CONTESTED = "contested"  # other content than recorded, that somebody wrote though nobody should have
    LOST = "lost"  # unreadable, or gone from an archive
    ABSENT = "absent"  # not recorded, and not excluded
    EXCLUDED = "excluded"  # not recorded, on purpose


class Standing(StrEnum):
    """How the recorded content of a member compares with that of the others."""

    AGREES = "agrees"  # nobody has other content; or nothing is recorded here
    NEWEST = "newest"
    BEHIND = "behind"
    CONFLICT = "conflict"  # both changed what they had in common
    UNDECIDED = "undecided"


class Source(StrEnum):
    """The best that another member has of what this one needs; for what is undecided: how sure its own content is."""

    VERIFIED = "verified"  # read from its disk since it was recorded
    RECORDED = "recorded"
    DAMAGED = "damaged"  # only where a finding is open
    NONE = "none"


class ReplicaAdvice(StrEnum):
    """What to do next."""

    NOTHING = "nothing"
    REPAIR = "repair"
    PUT_BACK = "put_back"  # repair, if the change was not meant
    VERIFY_SOURCE = "verify_source"  # then a repair can be proposed
    TAKE_NEWER = "take_newer"  # only a newer version exists elsewhere
    FIND_BACKUP = "find_backup"  # no member has it right
    REPLICATE = "replicate"
    DO_NOT_REPLICATE = "do_not_replicate"  # what the other members have is damaged
    VERIFY_HERE = "verify_here"
    COMPARE = "compare"  # by a person


class Ruling(NamedTuple):
    """A row of the table: what is wrong at a member, if anything, and what to do."""

    kind: HubFindingKind | None
    advice: ReplicaAdvice


class Version(NamedTuple):
    """The content of a file. Digests are None where a member has none."""

    size_bytes: int
    md5: bytes | None
    xxh3_128: bytes | None


class ReplicaView(NamedTuple):
    """
    What one member reports of a file. Times are seconds UTC by the clock of the hub.

    Attributes:
        reported_at: when the box last reported all that it has recorded.
        version: as recorded; None if nothing is, so what the member has is absent or excluded.
        mtime_ns: as recorded, by whatever clock set it.
        clock_ahead_s: the clock of the box minus that of the hub.
        recorded_at: when the version was recorded.
        verified_at: when it was last read from the disk, for certain, and right; None: not since it was recorded.
        former: older versions of the file that this member had.
    """

    holding: Holding
    reported_at: int
    version: Version | None = None
    mtime_ns: int = 0
    clock_ahead_s: int = 0
    recorded_at: int = 0
    verified_at: int | None = None
    former: frozenset[Version] = frozenset()


@dataclass(frozen=True, slots=True)
class MemberVote:
    """What the vote says of one member; ``sources``: the members that have what it needs, as ``source`` says."""

    ruling: Ruling
    certainty: HubCertainty
    standing: Standing
    source: Source
    sources: tuple[int, ...]


class ContentOrder(StrEnum):
    """How the content of one member is older or newer than that of another."""

    SAME = "same"  # or nothing to compare
    OLDER = "older"
    NEWER = "newer"
    CONFLICT = "conflict"
    UNDECIDED = "undecided"


class _Pair(NamedTuple):
    order: ContentOrder
    is_proven: bool = False


class ContentDifference(NamedTuple):
    """
    What is known of two members with different content.

    Attributes:
        by_mtime: how the first one's is, as far as that holds whichever clock set either of the times (I4).
        was_mine, was_theirs, had_common: one had the content of the other before, the reverse, both the same.
    """

    by_mtime: ContentOrder
    was_mine: bool = False
    was_theirs: bool = False
    had_common: bool = False


ContentDifferences = Mapping[tuple[int, int], ContentDifference]
"""Of the pairs of members that differ, by their indexes, the higher one first."""

_SAME = _Pair(ContentOrder.SAME)
_MIRRORED = {ContentOrder.OLDER: ContentOrder.NEWER, ContentOrder.NEWER: ContentOrder.OLDER}

BAD = frozenset({Holding.DAMAGED, Holding.CONTESTED, Holding.LOST})
_PRESENT = frozenset({Holding.GOOD, Holding.DOUBTFUL})

_HOLDINGS = {
    FileState.DAMAGED: Holding.DAMAGED,
    FileState.CONTESTED: Holding.CONTESTED,
    FileState.LOST: Holding.LOST,
}
HOLDING_OF_KIND: dict[FindingKind, Holding] = dict.fromkeys(DOUBTS, Holding.DOUBTFUL) | {
    kind: _HOLDINGS[find_stand(Judgement(verdict))] for kind, verdict in VERDICTS.items()
}
"""What an unresolved finding of a box means for a vote; kinds that are not here mean nothing for it."""

_GRAVEST_FIRST = (Holding.DAMAGED, Holding.LOST, Holding.CONTESTED, Holding.DOUBTFUL)

_OF_DAMAGED = {
    Source.VERIFIED: ReplicaAdvice.REPAIR,
    Source.RECORDED: ReplicaAdvice.VERIFY_SOURCE,
    Source.DAMAGED: ReplicaAdvice.FIND_BACKUP,
    Source.NONE: ReplicaAdvice.FIND_BACKUP,
}
_OF_COPY = {
    Source.VERIFIED: ReplicaAdvice.REPLICATE,
    Source.RECORDED: ReplicaAdvice.REPLICATE,
    Source.DAMAGED: ReplicaAdvice.DO_NOT_REPLICATE,
    Source.NONE: ReplicaAdvice.NOTHING,
}
_OF_UNDECIDED = {
    Source.VERIFIED: ReplicaAdvice.COMPARE,
    Source.RECORDED: ReplicaAdvice.VERIFY_HERE,
    Source.DAMAGED: ReplicaAdvice.VERIFY_HERE,  # a finding leaves doubt about its own content
    Source.NONE: ReplicaAdvice.COMPARE,
}
_NOTHING = Ruling(None, ReplicaAdvice.NOTHING)
_NOBODY: tuple[int, ...] = ()


def rule(holding: Holding, standing: Standing, source: Source) -> Ruling:
    """
    Decide what is wrong at one member, and what to do. Every combination has a row.

    | holding            | standing             | source           | finding          | advice           |
    |--------------------|----------------------|------------------|------------------|------------------|
    | excluded           | any                  | any              | -                | -                |
    | damaged, lost      | any                  | verified         | as said below    | repair           |
    | contested          | any                  | verified         | replica_damaged  | put_back         |
    | damaged, contested, lost | any            | recorded         | as said below    | verify_source    |
    | the same           | behind               | damaged, none    | as said below    | take_newer       |
    | the same           | any other            | damaged, none    | as said below    | find_backup      |
    | absent             | any                  | verified, recorded | replica_missing | replicate       |
    | absent             | any                  | damaged          | replica_missing  | do_not_replicate |
    | absent             | any                  | none             | -                | -                |
    | good, doubtful     | agrees, newest       | any              | -                | -                |
    | good, doubtful     | behind               | as of absent     | replica_stale    | as of absent     |
    | good, doubtful     | conflict             | verified, none   | replica_conflict | compare          |
    | good, doubtful     | conflict             | recorded, damaged | replica_conflict | verify_here     |
    | good, doubtful     | undecided            | as of conflict   | replica_differs  | as of conflict   |
    """
    if holding is Holding.EXCLUDED:
        return _NOTHING
    if holding in BAD:
        kind = HubFindingKind.REPLICA_LOST if holding is Holding.LOST else HubFindingKind.REPLICA_DAMAGED
        return Ruling(kind, _advise_damaged(holding, standing, source))
    if holding is Holding.ABSENT:
        return _NOTHING if source is Source.NONE else Ruling(HubFindingKind.REPLICA_MISSING, _OF_COPY[source])
    if standing is Standing.BEHIND:
        return _NOTHING if source is Source.NONE else Ruling(HubFindingKind.REPLICA_STALE, _OF_COPY[source])
    if standing is Standing.CONFLICT:
        return Ruling(HubFindingKind.REPLICA_CONFLICT, _OF_UNDECIDED[source])
    if standing is Standing.UNDECIDED:
        return Ruling(HubFindingKind.REPLICA_DIFFERS, _OF_UNDECIDED[source])
    return _NOTHING


def _advise_damaged(holding: Holding, standing: Standing, source: Source) -> ReplicaAdvice:
    advice = _OF_DAMAGED[source]
    if advice is ReplicaAdvice.FIND_BACKUP and standing is Standing.BEHIND:
        return ReplicaAdvice.TAKE_NEWER
    return ReplicaAdvice.PUT_BACK if advice is ReplicaAdvice.REPAIR and holding is Holding.CONTESTED else advice


def find_holding(kinds: Iterable[FindingKind]) -> Holding:
    """Return what the unresolved findings of a box about a recorded file mean: the gravest decides."""
    found = {HOLDING_OF_KIND[kind] for kind in kinds if kind in HOLDING_OF_KIND}
    return next((one for one in _GRAVEST_FIRST if one in found), Holding.GOOD)


def judge_replicas(
    views: Sequence[ReplicaView], differences: ContentDifferences | None = None
) -> tuple[MemberVote, ...]:
    """Judge one file over all members of its set. ``differences``: None: those that the versions have."""
    pairs = _order_all(views, find_differences(views) if differences is None else differences)
    behind = [any(pair.order is ContentOrder.OLDER for pair in row) for row in pairs]
    if all(behind[index] for index, view in enumerate(views) if view.version is not None):
        behind = [False] * len(views)  # in a circle: nobody is newest
    standings = [_find_standing(index, views, pairs[index], behind) for index in range(len(views))]
    return tuple(_vote(index, views, pairs[index], standings) for index in range(len(views)))


def are_reported(views: Sequence[ReplicaView]) -> bool:
    """Return whether everybody reported after all that is recorded of a file was recorded: only then nothing waits."""
    recorded = max(view.recorded_at for view in views)  # 0 where nothing is
    return recorded <= min(view.reported_at for view in views)


def find_differences(views: Sequence[ReplicaView]) -> dict[tuple[int, int], ContentDifference]:
    return {
        (index, at): found
        for index, one in enumerate(views)
        for at in range(index)
        if (found := _find_difference(one, views[at])) is not None
    }


def _find_difference(one: ReplicaView, other: ReplicaView) -> ContentDifference | None:
    if one.version is None or other.version is None or not do_differ(one.version, other.version):
        return None
    return ContentDifference(
        _order_by_mtime(one, other),
        any(do_agree(other.version, former) for former in one.former),
        any(do_agree(one.version, former) for former in other.former),
        any(do_agree(a, b) for a in one.former for b in other.former),
    )


def _order_all(views: Sequence[ReplicaView], differences: ContentDifferences) -> list[list[_Pair]]:
    """Order each member with each; that is symmetric."""
    pairs = [[_SAME] * len(views) for _ in views]
    for (index, at), difference in differences.items():
        one, other = views[index], views[at]
        if min(one.reported_at, other.reported_at) < max(one.recorded_at, other.recorded_at):
            continue  # the next report of one of them may well be what the other has (I3)
        pair = pairs[index][at] = _order(difference)
        pairs[at][index] = _Pair(_MIRRORED.get(pair.order, pair.order), pair.is_proven)
    return pairs


def do_agree(one: Version, other: Version) -> bool:
    """Return whether two contents are the same, for certain: without a common digest they are not."""
    return not do_differ(one, other) and any(
        a is not None and b is not None for a, b in ((one.md5, other.md5), (one.xxh3_128, other.xxh3_128))
    )


def do_differ(one: Version, other: Version) -> bool:
    """Return whether two contents are different, for certain."""
    size, md5, xxh3 = one
    other_size, other_md5, other_xxh3 = other
    if size != other_size or (md5 != other_md5 and md5 is not None and other_md5 is not None):
        return True
    return xxh3 != other_xxh3 and xxh3 is not None and other_xxh3 is not None


def _order(difference: ContentDifference) -> _Pair:
    """Decide which of two contents is the older one."""
    by_mtime, was_mine, was_theirs, had_common = difference
    if was_mine != was_theirs:
        order = ContentOrder.NEWER if was_mine else ContentOrder.OLDER
        # An older version that was put back, or an edit that was lost: a person has to say which one is meant.
        return _Pair(ContentOrder.UNDECIDED) if by_mtime is _MIRRORED[order] else _Pair(order, is_proven=True)
    return _Pair(ContentOrder.CONFLICT if had_common and not was_mine else by_mtime)


def _order_by_mtime(one: ReplicaView, other: ReplicaView) -> ContentOrder:
    """Order by mtime, where that holds whichever clock set either of them (I4)."""
    (low, high), (other_low, other_high) = _find_mtime_range(one), _find_mtime_range(other)
    if high + MTIME_SLACK_NS < other_low:
        return ContentOrder.OLDER
    return ContentOrder.NEWER if other_high + MTIME_SLACK_NS < low else ContentOrder.UNDECIDED


def _find_mtime_range(view: ReplicaView) -> tuple[int, int]:
    corrected = view.mtime_ns - view.clock_ahead_s * 10**9
    return min(view.mtime_ns, corrected), max(view.mtime_ns, corrected)


def _find_standing(
    index: int, views: Sequence[ReplicaView], pairs: Sequence[_Pair], behind: Sequence[bool]
) -> Standing:
    if behind[index]:
        return Standing.BEHIND
    others = [
        pair.order
        for pair, view, is_behind in zip(pairs, views, behind, strict=True)
        if view.holding in _PRESENT and not is_behind
    ]
    if any(order not in (ContentOrder.SAME, ContentOrder.CONFLICT) for order in others):
        return Standing.UNDECIDED  # also in a circle
    if ContentOrder.CONFLICT in others:
        return Standing.CONFLICT
    return Standing.NEWEST if any(pair.order is ContentOrder.NEWER for pair in pairs) else Standing.AGREES


def _vote(
    index: int, views: Sequence[ReplicaView], pairs: Sequence[_Pair], standings: Sequence[Standing]
) -> MemberVote:
    view, standing = views[index], standings[index]
    if standing in (Standing.CONFLICT, Standing.UNDECIDED) and view.holding in _PRESENT:
        source, sources = _find_proof(view), _NOBODY
    else:
        source, sources = _find_source(_find_candidates(index, views, pairs, standings), views)
    ruling = rule(view.holding, standing, source)
    if ruling.advice is ReplicaAdvice.TAKE_NEWER:
        sources = tuple(one for one, pair in enumerate(pairs) if pair.order is ContentOrder.OLDER)
    proven = any(pair.is_proven and pair.order is ContentOrder.OLDER for pair in pairs)
    return MemberVote(ruling, _find_certainty(ruling, view.holding, is_proven=proven), standing, source, sources)


def _find_candidates(
    index: int, views: Sequence[ReplicaView], pairs: Sequence[_Pair], standings: Sequence[Standing]
) -> list[int]:
    view = views[index]
    others = [one for one, other in enumerate(views) if one != index and other.version is not None]
    newest = [one for one in others if standings[one] is not Standing.BEHIND]
    if view.version is None:
        # I3: what was recorded after the last report from here is not missing yet.
        return [one for one in newest if view.reported_at >= views[one].recorded_at]
    if view.holding in _PRESENT:
        newer = [one for one in others if pairs[one].order is ContentOrder.OLDER]
        return [one for one in newer if one in newest] or newer
    version = view.version
    return [one for one in others if (found := views[one].version) is not None and do_agree(version, found)]


def _find_source(candidates: Sequence[int], views: Sequence[ReplicaView]) -> tuple[Source, tuple[int, ...]]:
    for source in (Source.VERIFIED, Source.RECORDED, Source.DAMAGED):
        if found := tuple(one for one in candidates if _find_proof(views[one]) is source):
            return source, found
    return Source.NONE, _NOBODY


def _find_proof(view: ReplicaView) -> Source:
    """Return how sure it is that a member has what it recorded."""
    if view.holding is not Holding.GOOD:
        return Source.DAMAGED
    return Source.RECORDED if view.verified_at is None else Source.VERIFIED


def _find_certainty(ruling: Ruling, holding: Holding, *, is_proven: bool) -> HubCertainty:
    if ruling.kind in (HubFindingKind.REPLICA_CONFLICT, HubFindingKind.REPLICA_DIFFERS):
        return HubCertainty.UNDECIDED
    if ruling.kind in FOUND_BY_BOX:
        is_proven = ruling.advice is ReplicaAdvice.REPAIR and holding is not Holding.CONTESTED
    return HubCertainty.PROVEN if is_proven or ruling.kind is HubFindingKind.REPLICA_MISSING else HubCertainty.LIKELY
