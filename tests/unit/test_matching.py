"""Which record belongs to which name: for names and records of one inode, and for moves that wait for each other."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from integrity.catalog.rows import FileRecord
from integrity.files.listing import Seen
from integrity.jobs.judge.inodes import TreePlace, WalkedName
from integrity.jobs.scan.matching import InodeRecord, Move, in_order, match_names
from integrity.model import BaselineReason, Digests, FileId, FolderId, ReadHow, RootId, Witness

SECOND_NS = 1_000_000_000
INODE, RECORDED_NS = 7, 100 * SECOND_NS + 1
TIMES_NS = (50 * SECOND_NS, 60 * SECOND_NS + 5)
PATHS = [b"%b/%b" % (folder, name) for folder in (b"a", b"b") for name in (b"1", b"2", b"2~", b"3")]


def make_record(number: int, path: bytes, mtime_ns: int, *, is_frozen: bool) -> FileRecord:
    return FileRecord(
        *(FileId(number), RootId(1), FolderId(1), path, Witness(10, mtime_ns, RECORDED_NS, INODE)),
        *(Digests(bytes(16), bytes(16), None, None), None, 1, number, BaselineReason.RECORDED, None),
        *(ReadHow.DIRECT, None, False, is_frozen),
    )


@st.composite
def situations(draw: st.DrawFn) -> tuple[list[WalkedName], list[InodeRecord], int | None]:
    """Distribute paths among names that were met, with and without a record, and records of the inode."""
    paths = draw(st.permutations(PATHS))
    count = draw(st.integers(0, 4))
    mtime_ns = draw(st.sampled_from(TIMES_NS))
    names = [
        WalkedName(TreePlace.of(path), Seen(b"", 10, mtime_ns, RECORDED_NS + 9, INODE, 1), draw(st.booleans()))
        for path in paths[:count]
    ]
    records = []
    for number, path in enumerate(paths[4 : 4 + draw(st.integers(0, 4))]):
        record = make_record(number, path, draw(st.sampled_from(TIMES_NS)), is_frozen=draw(st.booleans()))
        has_inode = draw(st.booleans())
        keeps_name = has_inode or draw(st.booleans())
        records.append(InodeRecord(record, record.witness, keeps_name, has_inode, keeps_name or draw(st.booleans())))
    return names, records, draw(st.sampled_from((None, RECORDED_NS - 1, RECORDED_NS + 1)))


@given(situations())
def test_each_record_and_each_name_is_matched_once(
    situation: tuple[list[WalkedName], list[InodeRecord], int | None],
) -> None:
    """Whatever is met: nothing is given away twice, or without a reason."""
    names, records, birth_ns = situation
    moved, linked = match_names(names, records, birth_ns)
    by_id, by_place = {one.record.id: one for one in records}, {name.place: name for name in names}
    pairs = [(by_id[move.file_id], by_place[move.place]) for move in moved]
    pairs_of_links = [(by_id[record.id], by_place[place]) for record, place in linked]

    movable = {one.record.id for one, _ in pairs}
    assert len(movable) == len(moved)
    assert len({name.place for _, name in pairs + pairs_of_links}) == len(moved) + len(linked)
    assert not any(one.keeps_name for one, _ in pairs)
    assert not any(name.is_recorded for _, name in pairs_of_links)
    assert all(one.keeps_name or one.record.id in movable for one, _ in pairs_of_links)
    for one, name in pairs + pairs_of_links:
        is_put_aside = name.place.path == one.record.path + b"~" and one.is_there
        assert name.is_recorded or not is_put_aside
        assert birth_ns is None or birth_ns < RECORDED_NS
    for move, (one, name) in zip(moved, pairs, strict=True):
        is_kept = one.last.mtime_ns == name.seen.mtime_ns
        assert is_kept or birth_ns is not None
        assert move.is_written == (not is_kept and not one.record.is_frozen)
        assert name.is_recorded or not move.is_written
    if birth_ns == RECORDED_NS + 1:
        assert not moved
        assert not linked


@given(st.data())
def test_file_that_was_renamed_is_found(data: st.DataObject) -> None:
    """A record whose name is gone gets a new name of its inode, the one with its own base name if there is one."""
    names, records, _ = data.draw(situations())
    left = [one for one in records if not one.keeps_name and not one.is_there]
    new = [name for name in names if not name.is_recorded]
    mtime_ns = names[0].seen.mtime_ns if names else 0
    fitting = [one.record for one in left if one.record.is_frozen or one.record.witness.mtime_ns == mtime_ns]

    moved, _ = match_names(new, left, RECORDED_NS - 1)

    assert len(moved) == min(len(new), len(fitting))
    if len(new) == 1 and fitting:
        bases = {TreePlace.of(record.path).name for record in fitting}
        assert TreePlace.of(moved[0].path).name == new[0].place.name or new[0].place.name not in bases


def make_moves(targets: Sequence[int], *, are_written: bool) -> list[Move]:
    """Make a move from the name of each number to that of another one."""
    seen = Seen(b"", 0, 0, 0, 0, 1)
    return [
        Move(FileId(number), 1, b"d/%d" % number, TreePlace(b"d", b"%d" % target), seen, b"", are_written)
        for number, target in enumerate(targets)
        if target != number
    ]


def find_circles(moves: Sequence[Move]) -> list[set[bytes]]:
    """Find the names that go round."""
    circles, left = list[set[bytes]](), {move.path: move.place.path for move in moves}
    while left:
        path, target = left.popitem()
        row = {path}
        while target in left:
            row.add(target)
            target = left.pop(target)
        if target == path:
            circles.append(row)
    return circles


@given(st.permutations(range(12)), st.integers(0, 12))
def test_names_are_left_before_another_record_gets_them(targets: list[int], count: int) -> None:
    """In rows of any length; in a circle, one record has to make room."""
    moves = make_moves(targets[:count], are_written=False)

    ordered = in_order(moves)

    assert sorted(ordered) == sorted(moves)
    at = {move.path: number for number, move in enumerate(ordered)}
    too_early = [move for number, move in enumerate(ordered) if at.get(move.place.path, -1) > number]
    assert len(too_early) == len(find_circles(moves))


@given(st.permutations(range(12)), st.integers(0, 12))
def test_files_that_were_written_to_move_in_circles_only(targets: list[int], count: int) -> None:
    """Under a name that is free they are new."""
    moves = make_moves(targets[:count], are_written=True)

    assert {move.path for move in in_order(moves)} == set().union(*find_circles(moves))
