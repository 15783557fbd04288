"""The decision table of votes, over its full cross product, and the pure judging of one file."""

from __future__ import annotations

from itertools import product

import pytest

from integrity.hub.kinds import HubFindingKind
from integrity.hub.replica_verdict import (
    BAD,
    HOLDING_OF_KIND,
    Holding,
    ReplicaAdvice,
    ReplicaView,
    Source,
    Standing,
    Version,
    find_holding,
    judge_replicas,
    rule,
)
from integrity.kinds import COVERAGE_PROBLEMS, DOUBTS, REPAIRABLE
from integrity.model import FindingKind

ROWS = list(product(Holding, Standing, Source))
OLD, NEW, THIRD = (Version(7, bytes([n]) * 16, bytes([n]) * 16) for n in (1, 2, 3))
NOW, DAY = 1_800_000_000, 86400
SECOND_NS = 10**9


def view(
    version: Version | None = OLD,
    holding: Holding = Holding.GOOD,
    *,
    mtime: int = 1000,
    ahead: int = 0,
    recorded_at: int = NOW - 20 * DAY,
    verified_at: int | None = NOW - DAY,
    reported_at: int = NOW,
    former: tuple[Version, ...] = (),
) -> ReplicaView:
    return ReplicaView(
        holding,
        reported_at,
        version,
        mtime * SECOND_NS,
        ahead,
        recorded_at,
        verified_at,
        frozenset(former),
    )


ABSENT = view(None, Holding.ABSENT)


def kinds(*views: ReplicaView) -> list[HubFindingKind | None]:
    return [vote.ruling.kind for vote in judge_replicas(views)]


def advice(*views: ReplicaView) -> list[ReplicaAdvice]:
    return [vote.ruling.advice for vote in judge_replicas(views)]


KIND_OF = dict.fromkeys(BAD, HubFindingKind.REPLICA_DAMAGED) | {Holding.LOST: HubFindingKind.REPLICA_LOST}

EXPECTED = {
    # holding, standing, source: kind, advice; None stands for any
    (Holding.EXCLUDED, None, None): (None, ReplicaAdvice.NOTHING),
    **{
        (holding, None, Source.VERIFIED): (
            KIND_OF[holding],
            ReplicaAdvice.PUT_BACK if holding is Holding.CONTESTED else ReplicaAdvice.REPAIR,
        )
        for holding in BAD
    },
    **{(holding, None, Source.RECORDED): (KIND_OF[holding], ReplicaAdvice.VERIFY_SOURCE) for holding in BAD},
    **{
        (holding, Standing.BEHIND, source): (KIND_OF[holding], ReplicaAdvice.TAKE_NEWER)
        for holding, source in product(BAD, (Source.DAMAGED, Source.NONE))
    },
    **{
        (holding, standing, source): (KIND_OF[holding], ReplicaAdvice.FIND_BACKUP)
        for holding, standing, source in product(BAD, set(Standing) - {Standing.BEHIND}, (Source.DAMAGED, Source.NONE))
    },
    (Holding.ABSENT, None, Source.VERIFIED): (HubFindingKind.REPLICA_MISSING, ReplicaAdvice.REPLICATE),
    (Holding.ABSENT, None, Source.RECORDED): (HubFindingKind.REPLICA_MISSING, ReplicaAdvice.REPLICATE),
    (Holding.ABSENT, None, Source.DAMAGED): (HubFindingKind.REPLICA_MISSING, ReplicaAdvice.DO_NOT_REPLICATE),
    (Holding.ABSENT, None, Source.NONE): (None, ReplicaAdvice.NOTHING),
    **{
        (holding, standing, None): (None, ReplicaAdvice.NOTHING)
        for holding, standing in product((Holding.GOOD, Holding.DOUBTFUL), (Standing.AGREES, Standing.NEWEST))
    },
    **{
        (holding, Standing.BEHIND, source): (
            (HubFindingKind.REPLICA_STALE, step) if step is not ReplicaAdvice.NOTHING else (None, step)
        )
        for holding in (Holding.GOOD, Holding.DOUBTFUL)
        for source, step in (
            (Source.VERIFIED, ReplicaAdvice.REPLICATE),
            (Source.RECORDED, ReplicaAdvice.REPLICATE),
            (Source.DAMAGED, ReplicaAdvice.DO_NOT_REPLICATE),
            (Source.NONE, ReplicaAdvice.NOTHING),
        )
    },
    **{
        (holding, standing, source): (kind, step)
        for holding in (Holding.GOOD, Holding.DOUBTFUL)
        for standing, kind in (
            (Standing.CONFLICT, HubFindingKind.REPLICA_CONFLICT),
            (Standing.UNDECIDED, HubFindingKind.REPLICA_DIFFERS),
        )
        for source, step in (
            (Source.VERIFIED, ReplicaAdvice.COMPARE),
            (Source.NONE, ReplicaAdvice.COMPARE),
            (Source.RECORDED, ReplicaAdvice.VERIFY_HERE),
            (Source.DAMAGED, ReplicaAdvice.VERIFY_HERE),
        )
    },
}


@pytest.mark.parametrize(("holding", "standing", "source"), ROWS)
def test_each_combination_has_one_row(holding: Holding, standing: Standing, source: Source) -> None:
    """The table is total, and the documented rows do not overlap."""
    matching = [
        result
        for (of_holding, of_standing, of_source), result in EXPECTED.items()
        if of_holding is holding and of_standing in (None, standing) and of_source in (None, source)
    ]

    assert [rule(holding, standing, source)] == matching


def test_every_kind_of_damage_has_a_meaning() -> None:
    """Each kind that a repair mends, and each that leaves doubt, is held against the other boxes."""
    assert REPAIRABLE | DOUBTS == HOLDING_OF_KIND.keys()
    assert {HOLDING_OF_KIND[kind] for kind in REPAIRABLE} <= BAD
    assert Holding.LOST is HOLDING_OF_KIND[FindingKind.UNREADABLE]


def test_gravest_finding_decides() -> None:
    """A file that is damaged and was read wrongly once is damaged."""
    assert Holding.DAMAGED is find_holding([FindingKind.TRANSIENT, FindingKind.ROT])
    assert Holding.GOOD is find_holding(COVERAGE_PROBLEMS - REPAIRABLE - DOUBTS)


def test_same_mtime_is_undecided() -> None:
    """I5: different content under one mtime is what a bad copy looks like; who did not verify it does so first."""
    assert [HubFindingKind.REPLICA_DIFFERS] * 2 == kinds(view(), view(NEW, mtime=1002))
    assert [ReplicaAdvice.COMPARE, ReplicaAdvice.VERIFY_HERE] == advice(view(), view(NEW, verified_at=None))


def test_circle_is_undecided() -> None:
    """Orders that contradict each other accuse nobody."""
    views = view(OLD, mtime=1000), view(NEW, mtime=2000, former=()), view(THIRD, mtime=3000)
    circle = (views[0], views[1], view(THIRD, mtime=3000))
    contradicting = (
        view(OLD, mtime=1000, former=(THIRD,)),
        view(NEW, mtime=1003),
        view(THIRD, mtime=1001, former=(NEW,)),
    )

    assert [HubFindingKind.REPLICA_STALE, HubFindingKind.REPLICA_STALE, None] == kinds(*circle)
    assert [HubFindingKind.REPLICA_DIFFERS] * 3 == kinds(*contradicting)
