"""Digest trees and files of members: what is stored equals what the box has, or is not settled."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from integrity.errors import CallRefused, ProtocolError
from integrity.hub import boxes, trees
from integrity.hub.database import HubDatabase
from integrity.hub.ingest import CallingBox, store_heartbeat
from integrity.hub.migrate import migrate
from integrity.hub.reported import BoxHeartbeat, ComparedFolder, read_call, read_folders
from integrity.hub.schema import file, file_part, folder, member, member_folder
from integrity.reporting.digest_tree import BucketDigests, ReportedFile, count_bits, file_values, find_bucket
from integrity.reporting.forms import read_form
from integrity.reporting.protocol import JsonObject
from support.hub_reports import NOW, Tree, make_file, make_heartbeat, make_root
from support.hubserver import ANYWHERE

FILES: dict[bytes, list[ReportedFile]] = {
    b"": [make_file(b"README")],
    b"2019": [make_file(b"a.jpg"), make_file(b"b.jpg", b"bb"), make_file(b"\xff\n<b>", b"")],
    b"2019/summer": [make_file(b"c.jpg", verified_at=NOW + 5)],
    b"2020/deep/er": [make_file(b"d.jpg")._replace(md5=None, verified_at=None)],
}


class TreeBox:
    """A box with one root in a set."""

    def __init__(self, database: HubDatabase, name: str = "nas") -> None:
        self.database = database
        with database.transaction() as c:
            token = boxes.add_box(c, name, NOW, ANYWHERE)
            self.id = boxes.load_tokens(c)[boxes.hash_token(token)].id
            beat = read_call(BoxHeartbeat, make_heartbeat(bytes(16), make_root(1)))
            store_heartbeat(c, CallingBox(self.id, name, "192.0.2.1"), beat, NOW)

    def member(self, c: sa.Connection) -> trees.TreeMember:
        return trees.get_tree_member(c, self.id, 1)

    def store(self, *lines: JsonObject) -> int:
        return trees.store_folders(self.database, self.id, 1, read_folders(lines), NOW)

    def compare(self, *lines: JsonObject) -> tuple[list[int], list[int]]:
        with self.database.read() as c:
            found = trees.compare(c, self.member(c), read_form(list[ComparedFolder], [*lines]))
            return (found.own, found.below)

    def settle(self, tree: bytes) -> bool:
        with self.database.transaction() as c:
            while trees.digest_subtrees(c, self.member(c)):
                pass
            return trees.settle(c, self.member(c), tree, NOW + 50)

    def files(self) -> dict[bytes, list[ReportedFile]]:
        columns = [file.c[name] for name in ReportedFile._fields]
        with self.database.read() as c:
            mine = member_folder.c.member_id == self.member(c).id
            paths = c.execute(sa.select(folder.c.path).join_from(folder, member_folder).where(mine)).scalars()
            found: dict[bytes, list[ReportedFile]] = {path: [] for path in paths}
            query = sa.select(folder.c.path, *columns).join_from(file, folder, file.c.folder_id == folder.c.id)
            for path, *values in c.execute(query.where(file.c.member_id == self.member(c).id).order_by(file.c.name)):
                found[path].append(ReportedFile(*values))
        return found

    def count(self, table: sa.Table) -> int:
        with self.database.read() as c:
            return c.execute(sa.select(sa.func.count()).select_from(table)).scalar_one()

    def count_logged(self) -> int:
        """Return how many bytes PostgreSQL has written to its log."""
        with self.database.read() as c:
            return int(c.execute(sa.text("SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn")).scalar_one())

    def get_settled(self) -> Any:
        with self.database.read() as c:
            return c.execute(sa.select(member.c.settled_tree).where(member.c.box_id == self.id)).scalar_one()


@pytest.fixture
def nas(hub_database: HubDatabase) -> TreeBox:
    return TreeBox(hub_database)


def test_stored_files_are_those_of_the_box(nas: TreeBox) -> None:
    """All values of all files are stored, and the tree is settled."""
    tree = Tree(FILES)

    assert 6 == nas.store(*tree.parts())
    assert tree.files == nas.files()
    assert nas.settle(tree.top)
    assert tree.top == nas.get_settled()


@pytest.mark.parametrize("seed", range(4))
def test_order_of_folders_does_not_matter(nas: TreeBox, seed: int) -> None:
    """Folders may come in any order and in any number of calls."""
    tree = Tree(FILES)
    parts = tree.parts()
    random.Random(seed).shuffle(parts)
    for part in parts:
        nas.store(part)

    assert nas.settle(tree.top)
    assert tree.files == nas.files()


def test_compare_finds_what_differs(nas: TreeBox) -> None:
    """Of an unknown folder everything differs; of a stored one what changed on the box, and all above it."""
    tree = Tree(FILES)
    nas.store(*tree.parts())
    nas.settle(tree.top)
    changed = Tree(FILES | {b"2019/summer": [make_file(b"c.jpg", b"other")], b"new": [make_file(b"e")]})
    lines = [changed.compare_line(path) for path in (b"", b"2019", b"2019/summer", b"2020", b"new")]

    assert ([2, 4], [0, 1, 2, 4]) == nas.compare(*lines)
    assert ([], []) == nas.compare(*(tree.compare_line(path) for path in tree.files))


def test_changed_folder_is_replaced(nas: TreeBox) -> None:
    """Files that are gone on the box are gone on the hub; folders above may come without their files."""
    nas.store(*Tree(FILES).parts())
    nas.settle(Tree(FILES).top)
    changed = Tree(FILES | {b"2019": [make_file(b"a.jpg", b"new"), make_file(b"z.jpg")]})
    nas.store(changed.part(b"2019"), changed.part(b"", has_files=False))
    unsettled = nas.get_settled()

    assert None is unsettled
    assert nas.settle(changed.top)
    assert changed.files == nas.files()


def test_digests_above_a_change_are_computed(nas: TreeBox) -> None:
    """It is enough to send the folder whose files changed."""
    nas.store(*Tree(FILES).parts())
    nas.settle(Tree(FILES).top)
    changed = Tree(FILES | {b"2020/deep/er": [make_file(b"new")]})
    nas.store(changed.part(b"2020/deep/er"))

    assert nas.settle(changed.top)
    assert ([], []) == nas.compare(*(changed.compare_line(path) for path in changed.files))


def test_removed_folder_takes_all_below_it(nas: TreeBox) -> None:
    """A folder that its parent does not name any more is removed with all below it."""
    nas.store(*Tree(FILES).parts())
    left = Tree({path: files for path, files in FILES.items() if not path.startswith(b"2020")})
    nas.store(left.part(b"", has_files=False))

    assert left.files == nas.files()
    assert nas.settle(left.top)


def test_large_folder_comes_in_several_calls(nas: TreeBox) -> None:
    """A folder appears as a whole with its last part; nothing of it is left in the table of parts."""
    tree = Tree({b"": [make_file(b"%03d" % number) for number in range(10)]})
    stored = [nas.store(tree.part(b"", first, last)) for first, last in ((0, 3), (3, 6), (6, 9))]
    before = nas.files()

    assert [0, 0, 0] == stored
    assert {} == before
    assert 1 == nas.store(tree.part(b"", 9))
    assert tree.files == nas.files()
    assert nas.settle(tree.top)
    assert 0 == nas.count(file_part)


def test_parts_of_one_call_are_joined(nas: TreeBox) -> None:
    """Several parts of a folder in one call are one folder."""
    tree = Tree({b"": [make_file(b"%03d" % number) for number in range(10)], b"x": [make_file(b"y")]})

    assert 2 == nas.store(tree.part(b"x"), tree.part(b"", 0, 4), tree.part(b"", 4, 7), tree.part(b"", 7))
    assert tree.files == nas.files()


def test_abandoned_parts_are_dropped(nas: TreeBox) -> None:
    """A folder that begins again forgets its former parts; one that never ends is dropped by the next settling."""
    tree = Tree({b"": [make_file(b"%03d" % number) for number in range(10)]})
    nas.store(tree.part(b"", 0, 5))
    nas.store(tree.part(b"", 0, 2))
    nas.store(tree.part(b"", 2))
    nas.store(tree.part(b"", 0, 5))

    assert tree.files == nas.files()
    assert nas.settle(tree.top)
    assert 0 == nas.count(file_part)


def test_part_that_does_not_continue_is_refused(nas: TreeBox) -> None:
    """A part without those before it, or that repeats names, is refused and stores nothing."""
    tree = Tree({b"": [make_file(b"%03d" % number) for number in range(10)]})
    with pytest.raises(ProtocolError):
        nas.store(tree.part(b"", 5))
    nas.store(tree.part(b"", 0, 5))
    with pytest.raises(ProtocolError):
        nas.store(tree.part(b"", 4))

    assert {} == nas.files()
    assert 1 == nas.store(tree.part(b"", 5))


@pytest.mark.parametrize("digest", ["own", "content"])
def test_wrong_digest_is_refused(nas: TreeBox, digest: str) -> None:
    """Rows that are not those of the digests are never stored, in one call or in several."""
    tree = Tree({b"": [make_file(b"%03d" % number) for number in range(10)]})
    wrong = {digest: bytes(16).hex()}
    with pytest.raises(CallRefused, match="compare again"):
        nas.store(tree.part(b"") | wrong)
    nas.store(tree.part(b"", 0, 5) | wrong)
    with pytest.raises(CallRefused, match="compare again"):
        nas.store(tree.part(b"", 5) | wrong)
    with pytest.raises(CallRefused, match="compare again"):
        nas.store(tree.part(b"", has_files=False))

    assert {} == nas.files()
    assert not nas.settle(tree.top)


def test_tree_with_a_missing_folder_is_not_settled(nas: TreeBox) -> None:
    """The top's digest is computed from what is stored, whatever the box says of it; then comparing finds the hole."""
    tree = Tree(FILES)
    nas.store(*(part for part in tree.parts() if part["path"] != "2019/summer"))

    assert not nas.settle(tree.top)
    lines = [tree.compare_line(path) for path in (b"", b"2019", b"2019/summer", b"2020")]
    assert ([2], [0, 1, 2]) == nas.compare(*lines)


def test_members_of_a_set_share_folders_but_no_files(hub_database: HubDatabase) -> None:
    """Two members with the same files have rows of their own, and what one removes stays at the other."""
    first, second = TreeBox(hub_database, "a"), TreeBox(hub_database, "b")
    tree = Tree(FILES)
    for each in (first, second):
        each.store(*tree.parts())
        assert each.settle(tree.top)
    empty = Tree({})
    second.store(empty.part(b""))

    assert tree.files == first.files()
    assert {b"": []} == second.files()
    assert 6 == first.count(folder)


def test_root_outside_of_sets_has_no_tree(hub_database: HubDatabase) -> None:
    """Files are stored of roots that the box reported, in a set; those of other boxes are out of reach."""
    nas = TreeBox(hub_database)

    for place in ((nas.id, 2), (nas.id + 1, 1)):
        with pytest.raises(CallRefused, match="not in a replica set"):
            trees.store_folders(hub_database, *place, read_folders(Tree(FILES).parts()), NOW)
    assert 0 == nas.count(folder)


def change(part: JsonObject, **changes: object) -> JsonObject:
    return part | changes


PART = Tree({b"": [make_file(b"a")]}).part(b"")


@pytest.mark.parametrize(
    "lines",
    [
        [change(PART, path="/etc")],
        [change(PART, path="a//b")],
        [change(PART, path="../b")],
        [change(PART, path="a\0")],
        [change(PART, path=5)],
        [change(PART, folders=["a/b"])],
        [change(PART, folders=[""])],
        [change(PART, folders=[".."])],
        [change(PART, folders=5)],
        [change(PART, files=5)],
        [change(PART, files=[5])],
        [change(PART, first=1)],
        [change(PART, own="00")],
        [change(PART, files=None, last=False)],
        [PART, PART],
        [change(PART, last=False), change(PART, path="b")],
        [PART, change(PART, path="b", first=False)],
        [Tree({b"": [make_file(b"a")]}).part(b"") | {"files": [["a", 1, 1, None, None, 1, 1, 1, 0]] * 2}],
    ],
)
def test_malformed_folders_are_refused(lines: Sequence[JsonObject]) -> None:
    """What is not a folder never reaches the database."""
    with pytest.raises(ProtocolError):
        read_folders(lines)


@pytest.mark.parametrize(
    "values",
    [
        ["a", 1, 1, None, None, 1, 1, 1],
        ["", 1, 1, None, None, 1, 1, 1, 0],
        ["a/b", 1, 1, None, None, 1, 1, 1, 0],
        ["a", -1, 1, None, None, 1, 1, 1, 0],
        ["a", 1 << 63, 1, None, None, 1, 1, 1, 0],
        ["a", 1, 1 << 63, None, None, 1, 1, 1, 0],
        ["a", 1, 1, "00", None, 1, 1, 1, 0],
        ["a", 1, 1, "zz", None, 1, 1, 1, 0],
        ["a", 1, 1, None, None, 1, 1, 4, 0],
        ["a", 1, 1, None, None, 1, 1, -1, 0],
        ["a", 1, 1, None, None, 1, 1, 1, 256],
        ["a", 1.5, 1, None, None, 1, 1, 1, 0],
        ["a\ud800", 1, 1, None, None, 1, 1, 1, 0],
        "abcdefghi",
    ],
)
def test_malformed_file_is_refused(values: object) -> None:
    """A value out of its range refuses the folder."""
    with pytest.raises(ProtocolError):
        read_folders([change(PART, files=[values])])


def test_large_tree_is_digested_in_several_transactions(nas: TreeBox) -> None:
    """Others may write in between."""
    path = b"/".join([b"a"] * 30)
    tree = Tree({path: [make_file(b"x")]})
    nas.store(*tree.parts())
    rounds, is_more = 0, True
    while is_more:
        with nas.database.transaction() as c:
            is_more = trees.digest_subtrees(c, nas.member(c), at_once=2)
        rounds += 1

    assert 16 == rounds
    assert nas.settle(tree.top)


def test_folders_in_a_folder_are_found_without_reading_all(tmp_path: Path) -> None:
    """SQLite has no numbers of its own to go by before a large tree comes, and would read all folders of the member."""
    database = HubDatabase.open(str(tmp_path / "hub.db"), any_revision=True)
    migrate(database)
    below = "SELECT * FROM member_folder WHERE member_id = 1 AND parent_id IN (1, 2)"
    with database.read() as c:
        plan = c.exec_driver_sql(f"EXPLAIN QUERY PLAN {below}").all()
    database.close()

    assert "USING INDEX member_folder_parent (member_id=? AND parent_id=?)" in str(plan)


def test_changed_file_rewrites_no_other_row(nas: TreeBox) -> None:
    """Of a folder that comes as a whole only what changed is written: PostgreSQL logs few bytes."""
    if not nas.database.is_postgres:
        pytest.skip("SQLite has no count of what it wrote")
    files = [make_file(b"%05d.jpg" % number) for number in range(5000)]
    nas.store(*Tree({b"": files}).parts())
    changed = Tree({b"": [*files[1:], make_file(b"00000.jpg", b"new")]})
    before = nas.count_logged()
    nas.store(*changed.parts())

    assert nas.count_logged() - before < 200_000
    assert changed.files == nas.files()


MANY = [make_file(b"%05d.jpg" % number) for number in range(3000)]


def send_buckets(nas: TreeBox, tree: Tree, *names: bytes) -> int | None:
    """Send the buckets of some files of the top folder."""
    with nas.database.read() as c:
        packed = trees.digest_buckets(c, nas.member(c), b"")
    bits = count_bits(packed)
    assert bits is not None
    digests = BucketDigests(bits)
    for one in tree.files[b""]:
        digests.add(one)
    numbers = digests.find_differing(packed)
    assert {find_bucket(name, bits) for name in names} == {*numbers}
    inside = [file_values(one) for one in tree.files[b""] if find_bucket(one.name, bits) in numbers]
    return nas.store(tree.part(b"") | {"files": inside, "buckets": {"bits": bits, "numbers": numbers}})


def test_buckets_of_changed_files_are_replaced(nas: TreeBox) -> None:
    """Files that changed, are new or are gone; all others stay as they are."""
    nas.store(*Tree({b"": MANY}).parts())
    changed = Tree({b"": [*MANY[2:], make_file(b"00000.jpg", b"new"), make_file(b"added.jpg")]})

    assert 1 == send_buckets(nas, changed, b"00000.jpg", b"00001.jpg", b"added.jpg")
    assert changed.files == nas.files()
    assert nas.settle(changed.top)


def test_buckets_that_do_not_lead_to_the_digest_are_refused(nas: TreeBox) -> None:
    """If the hub had other files than the box believed, all have to be sent."""
    nas.store(*Tree({b"": MANY}).parts())
    wrong = Tree({b"": [*MANY[1:], make_file(b"00000.jpg", b"new")]})
    line = wrong.part(b"") | {"files": [], "buckets": {"bits": 4, "numbers": [0]}}
    with pytest.raises(CallRefused, match="compare again"):
        nas.store(line)
    for broken in ((0, [0]), (15, [0]), (4, [16]), (4, 3), (True, [0]), (4, [True])):
        with pytest.raises(ProtocolError):
            nas.store(line | {"buckets": dict(zip(("bits", "numbers"), broken, strict=True))})
    with pytest.raises(ProtocolError):
        nas.store(line | {"last": False})
    with pytest.raises(ProtocolError, match="another bucket"):
        nas.store(line | {"files": [file_values(MANY[0])], "buckets": {"bits": 4, "numbers": []}})

    assert {b"": MANY} == nas.files()


def test_folder_without_files_has_no_buckets(nas: TreeBox) -> None:
    """The box sends it as a whole."""
    with nas.database.read() as c:
        assert b"" == trees.digest_buckets(c, nas.member(c), b"unknown")
