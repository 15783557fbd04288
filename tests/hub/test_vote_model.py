"""Votes equal the model that looks at all files one by one, whatever boxes report, in both databases."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from integrity.hub.database import HubDatabase
from integrity.hub.findings import HubFinding
from integrity.hub.former import keep_former
from integrity.hub.kinds import HUB_KINDS, HubFindingKind
from integrity.hub.replica_patterns import MOST_MEMBERS
from integrity.reporting.digest_tree import FROZEN, ReportedFile
from support.hub_rows import NOW, HubRows
from support.votemodel import DAMAGE, DOUBT, ModelFinding, ModelMember, find_sources, vote_by_hand

PATHS = (b"a", b"b.tmp", b"x/a", b"x/b", b"x/y/a", b"z/a\xff")
KINDS = [*sorted(DAMAGE | DOUBT), "overdue", "kind_of_a_newer_version"]
DIGESTS = st.sampled_from([None, bytes(16), b"1" * 16])


@st.composite
def files(draw: st.DrawFn) -> ReportedFile:
    """Draw what a box reports of a file, from few values, so that equal ones meet."""
    return ReportedFile(
        name=b"",
        size_bytes=draw(st.sampled_from([7, 7, 7, 8])),
        mtime_ns=draw(st.sampled_from([0, 1, 3, 5000])) * 10**9,
        md5=draw(DIGESTS),
        xxh3_128=draw(DIGESTS),
        recorded_at=NOW - draw(st.sampled_from([50, 100, 200])),
        verified_at=draw(st.sampled_from([None, NOW - 10])),
        read_how=draw(st.integers(0, 3)),
        flags=draw(st.sampled_from([0, 0, FROZEN])),
    )


TREES = st.dictionaries(st.sampled_from(PATHS), files())


@st.composite
def members(draw: st.DrawFn) -> ModelMember:
    """Draw a member whose former content was reported before."""
    one = ModelMember(
        reported_at=NOW - draw(st.sampled_from([0, 75, 150])),
        ahead=draw(st.sampled_from([0, 0, 60, -4000])),
        files=draw(TREES),
        findings=draw(
            st.dictionaries(st.sampled_from(PATHS), st.frozensets(st.sampled_from(KINDS), min_size=1), max_size=3)
        ),
    )
    for path, former in draw(TREES).items():
        one.former[path] = [former]
    return one


@contextmanager
def stored(database: HubDatabase, model: dict[str, ModelMember]) -> Iterator[HubRows]:
    """Store the rows of a model, and forget them at the end."""
    with database.engine.connect() as c, c.begin() as transaction:
        rows = HubRows(c)
        for name, one in model.items():
            rows.add_member(name, {}, seen_at=one.reported_at, clock_ahead_s=one.ahead, excludes=["*.tmp"])
            changed = {path: former[0] for path, former in one.former.items() if path in one.files}
            for tree in (changed, one.files):
                by_folder: dict[bytes, list[ReportedFile]] = {}
                for path, file in tree.items():
                    folder, _, last = path.rpartition(b"/")
                    by_folder.setdefault(folder, []).append(file._replace(name=last))
                for folder, of_folder in by_folder.items():
                    keep_former(c, rows.members[name], {rows.folder_id(folder): of_folder}, NOW)
                    rows.store_folder(name, folder, of_folder)
            pairs = [(path, kind) for path, kinds in one.findings.items() for kind in sorted(kinds)]
            for number, (path, kind) in enumerate(pairs, 1):
                rows.report_finding(name, number, kind, path)
        yield rows
        transaction.rollback()


def to_model(found: list[HubFinding]) -> set[ModelFinding]:
    return {ModelFinding(one.kind.value, one.box_name, one.path) for one in found}


def find_named_sources(found: HubFinding) -> set[str]:
    """Return the boxes whose content a repair command may use."""
    is_repair = found.command is not None and found.command.startswith("integrity repair ")
    return {one["box"] for one in found.objects if one["is_source"]} if is_repair else set()


CHECKS = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large]


@settings(max_examples=80, deadline=None, suppress_health_check=CHECKS)
@given(model=st.dictionaries(st.sampled_from(["a", "b", "c", "d"]), members(), min_size=1))
def test_vote_equals_model(hub_database: HubDatabase, model: dict[str, ModelMember]) -> None:
    """Kinds, boxes, files, and the boxes to repair from are those of the model."""
    check_vote(hub_database, model)


@settings(max_examples=5, deadline=None, suppress_health_check=CHECKS)
@given(drawn=st.lists(members(), min_size=MOST_MEMBERS - 1, max_size=MOST_MEMBERS + 1))
def test_vote_of_many_members_equals_model(hub_database: HubDatabase, drawn: list[ModelMember]) -> None:
    """In sets that are too large for patterns, and in the largest that are not."""
    check_vote(hub_database, {f"box{number}": one for number, one in enumerate(drawn)})


def check_vote(hub_database: HubDatabase, model: dict[str, ModelMember]) -> None:
    """Compare a vote with the model."""
    for one in model.values():  # the hub learns of a former content only if it is another one
        one.former = {
            path: former
            for path, former in one.former.items()
            if path in one.files and differ(former[0], one.files[path])
        }
    limits = {kind.value: entry.listed_at_most for kind, entry in HUB_KINDS.items()}
    with stored(hub_database, model) as rows:
        found = rows.vote()
        again = rows.vote(NOW + 1)

    assert vote_by_hand(model, limits) == to_model(found)
    assert [one.id for one in found] == [one.id for one in again]
    assert all(NOW == one.updated_at for one in again)
    for one in found:
        if one.kind is HubFindingKind.REPLICA_DAMAGED and one.box_name is not None:
            assert find_sources(one.path, one.box_name, model) == find_named_sources(one)


def differ(former: ReportedFile, file: ReportedFile) -> bool:
    pairs = (former.md5, file.md5), (former.xxh3_128, file.xxh3_128)
    return former.size_bytes != file.size_bytes or any(a != b for a, b in pairs if a and b)


@pytest.mark.parametrize("count", [100, 101])
def test_limit_is_that_of_the_model(hub_database: HubDatabase, count: int) -> None:
    """Up to the limit each file is listed, beyond it one finding stands for all."""
    file = ReportedFile(b"", 7, 0, bytes(16), bytes(16), NOW - 100, None, 0, 0)
    model = {
        "a": ModelMember(NOW, 0, {b"d/%d" % n: file for n in range(count)}, {}),
        "b": ModelMember(NOW, 0, {}, {}),
    }
    with stored(hub_database, model) as rows:
        found = rows.vote()

    assert vote_by_hand(model, {"replica_missing": 100}) == to_model(found)
    assert (100 if count == 100 else 1) == len(found)
