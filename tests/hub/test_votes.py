"""Votes on replica sets: what is found, where, and with which command, in both databases."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from integrity.hub import schema
from integrity.hub.database import HubDatabase
from integrity.hub.findings import HubFinding
from integrity.hub.kinds import HubFindingKind
from integrity.hub.reported import read_folders
from integrity.hub.trees import store_folders
from integrity.reporting.digest_tree import FROZEN
from support.hub_reports import Tree
from support.hub_rows import DAY_S, NOW, HubRows, reported

GOOD = {b"2019": [reported(b"a.jpg"), reported(b"b.jpg")]}


@pytest.fixture
def rows(hub_database: HubDatabase) -> Iterator[HubRows]:
    """Return the rows of an empty set."""
    with hub_database.transaction() as c:
        yield HubRows(c)


def add_three(rows: HubRows) -> None:
    """Add three members with the same files."""
    for name in ("a", "b", "c"):
        rows.add_member(name, GOOD, url="" if name == "a" else f"ssh://{name}.example/srv/{name}")


def only(found: list[HubFinding]) -> HubFinding:
    """Return the one finding."""
    (one,) = found
    return one


def test_folders_of_equal_digests_are_not_looked_into(rows: HubRows) -> None:
    """Rows that contradict their digest (which the hub checks when it stores them) show that they are not read."""
    add_three(rows)
    rows.c.execute(sa.update(schema.file).where(schema.file.c.member_id == rows.members["b"]).values(size_bytes=1))

    assert [] == rows.vote()


def test_equal_subtrees_are_not_looked_into(rows: HubRows) -> None:
    """A folder that contradicts the digest of the one above it (which the hub computes) shows that it is not read."""
    deep = {b"x/y/z": [reported(b"a.jpg")], b"other": [reported(b"b.jpg")]}
    for name in ("a", "b"):
        rows.add_member(name, deep)
    first = rows.vote()
    is_it = schema.member_folder.c.member_id == rows.members["b"], schema.member_folder.c.folder_id
    z, y = rows.folder_id(b"x/y/z"), rows.folder_id(b"x/y")
    rows.c.execute(sa.update(schema.file).where(schema.file.c.member_id == rows.members["b"]).values(size_bytes=1))
    rows.c.execute(sa.update(schema.member_folder).where(is_it[0], is_it[1] == z).values(content=bytes(16)))
    unseen = rows.vote()
    above = [rows.folder_id(path) for path in (b"", b"x")]
    rows.c.execute(sa.update(schema.member_folder).where(is_it[0], is_it[1].in_([*above, y])).values(is_checked=0))

    assert [] == first == unseen
    assert b"x/y/z/a.jpg" == only(vote_without_digesting(rows)).path


def vote_without_digesting(rows: HubRows) -> list[HubFinding]:
    """Vote while the digests of some folders are still to be computed."""
    rows.members, members = {}, rows.members
    found = rows.vote()
    rows.members = members
    return found


def test_vote_sees_what_came_before_digests_are_computed(hub_database: HubDatabase) -> None:
    """Of a change deep in a tree the folders above it know nothing until the box has sent all."""
    before = {b"x/y/z": [reported(b"a.jpg")]}
    with hub_database.transaction() as c:
        rows = HubRows(c)
        for name in ("a", "b"):
            rows.add_member(name, before)
        assert [] == rows.vote()
    changed = Tree({b"x/y/z": [reported(b"a.jpg", b"other")]})
    assert store_folders(hub_database, rows.boxes["b"], 1, read_folders([changed.part(b"x/y/z")]), NOW)

    with hub_database.transaction() as c:
        rows.c = c
        assert b"x/y/z/a.jpg" == only(vote_without_digesting(rows)).path


def test_flipped_bit_is_named_with_box_blocks_and_command(rows: HubRows) -> None:
    """The finding has the box, the file, the blocks, who has it right, and the repair; it ends with the box's own."""
    add_three(rows)
    rows.store_folder("b", b"2019", [reported(b"a.jpg", flags=FROZEN), reported(b"b.jpg")])
    body = {"blocks": [3], "block_size_bytes": 1 << 20, "ranges": [[3 << 20, 1 << 20]], "certainty": "proven"}
    rows.report_finding("b", 17, "rot", b"2019/a.jpg", **body)
    found = only(rows.vote())

    assert (HubFindingKind.REPLICA_DAMAGED, "b", b"2019/a.jpg") == (found.kind, found.box_name, found.path)
    assert "integrity repair /srv/b/2019/a.jpg --from ssh://a.lan/srv/a" == found.command
    assert "b" == found.command_box_name
    assert "DAMAGED (bit rot) on b: 2019/a.jpg" == found.headline
    assert "block 3 (counted from 0, 1 MiB each)" in found.explanation
    assert "a and c (verified from disk 2027-01-14" in found.explanation
    assert [[], [3], []] == [[*member["findings"], {"blocks": []}][0]["blocks"] for member in found.objects]

    rows.resolve_finding("b", 17)

    assert [] == rows.vote()


def test_damage_everywhere_has_no_command(rows: HubRows) -> None:
    """If nobody else has the content, the advice says what there is."""
    add_three(rows)
    for name in ("a", "b"):
        rows.report_finding(name, 1, "rot", b"2019/a.jpg")
    rows.store_folder("c", b"2019", [reported(b"b.jpg")])
    damaged = [one for one in rows.vote() if one.kind is HubFindingKind.REPLICA_DAMAGED]

    assert ["a", "b"] == [one.box_name for one in damaged]
    assert [None, None] == [one.command for one in damaged]
    assert "b: also damaged; c: does not have the file" in damaged[0].explanation


def test_reading_from_memory_is_no_proof(rows: HubRows) -> None:
    """A verification that the page cache may have answered does not make a source."""
    rows.add_member("a", GOOD)
    rows.add_member("b", {b"2019": [reported(b"a.jpg", read_how=3), reported(b"b.jpg")]})
    rows.report_finding("a", 1, "rot", b"2019/a.jpg")

    assert "integrity scrub /srv/b/2019/a.jpg" == only(rows.vote()).command


def test_single_member_has_no_vote(rows: HubRows) -> None:
    """Its own findings are on its own page."""
    rows.add_member("a", GOOD)
    rows.report_finding("a", 1, "rot", b"2019/a.jpg")

    assert [] == rows.vote()


def test_older_version_is_stale(rows: HubRows) -> None:
    """The box that is behind is named; the command copies the file to it."""
    add_three(rows)
    rows.store_folder("a", b"2019", [reported(b"a.jpg", b"old", mtime=NOW - 40 * DAY_S), reported(b"b.jpg")])
    found = only(rows.vote())

    assert (HubFindingKind.REPLICA_STALE, "a", b"2019/a.jpg") == (found.kind, found.box_name, found.path)
    assert "rsync -a -s --mkpath b.example:/srv/b/2019/a.jpg /srv/a/2019/a.jpg" == found.command
    assert "b and c have the later modification time" in found.explanation


def test_different_content_of_one_time_shows_the_majority(rows: HubRows) -> None:
    """With three members the majority is shown, and nobody is accused."""
    add_three(rows)
    rows.store_folder("b", b"2019", [reported(b"a.jpg", b"other"), reported(b"b.jpg")])
    found = only(rows.vote())

    assert (HubFindingKind.REPLICA_DIFFERS, None, None) == (found.kind, found.box_id, found.command)
    assert "2 of 3 boxes have the same content (a and c); that is no proof." in found.explanation


def test_missing_file_is_named_unless_excluded(rows: HubRows) -> None:
    """A pattern of the box explains what it does not have, and so does the built-in list."""
    rows.add_member("a", {b"": [reported(b"x.tmp"), reported(b".DS_Store")], **GOOD})
    rows.add_member("b", {b"2019": [reported(b"b.jpg")]}, excludes=["*.tmp"])
    found = only(rows.vote())

    assert (HubFindingKind.REPLICA_MISSING, "b", b"2019/a.jpg") == (found.kind, found.box_name, found.path)


def test_costly_pattern_of_a_box_stops_no_vote(rows: HubRows) -> None:
    """A pattern and a name that are made for each other would take longer than anybody lives."""
    name = b"a" * 250
    rows.add_member("a", {b"": [reported(name), reported(b"x.tmp")]})
    rows.add_member("b", {}, excludes=["*a" * 60 + "b", "[", "*.tmp"])

    assert name == only(rows.vote()).path


def test_impossible_times_stop_no_vote(rows: HubRows) -> None:
    """Times at the ends of what a number holds are compared like all others."""
    first, last = -(1 << 63), (1 << 63) - 1
    late = reported(b"x", b"late", recorded_at=last)._replace(mtime_ns=last)
    rows.add_member("a", {b"": [reported(b"x")._replace(mtime_ns=first)]}, clock_ahead_s=last - NOW)
    rows.add_member("b", {b"": [late]}, clock_ahead_s=-NOW, seen_at=last)
    rows.add_member("c", {b"": [late._replace(recorded_at=first)]}, seen_at=last)

    assert {HubFindingKind.REPLICA_DIFFERS, HubFindingKind.REPLICA_STALE} >= {one.kind for one in rows.vote()}


def test_emptied_member_is_one_finding(rows: HubRows) -> None:
    """So many files at once have one cause; the finding ends as a whole, too."""
    many = {b"d%d" % folder: [reported(b"f%d" % n) for n in range(30)] for folder in range(5)}
    rows.add_member("a", many)
    rows.add_member("b", {})
    found = only(rows.vote())

    assert (HubFindingKind.REPLICA_MISSING, "b", b"") == (found.kind, found.box_name, found.path)
    assert "150 files of photos are missing on b" == found.headline
    assert "d0/f0, d0/f1, d0/f10" in found.explanation

    for folder, files in many.items():
        rows.store_folder("b", folder, files)

    assert [] == rows.vote()


def test_many_in_one_folder_name_it(rows: HubRows) -> None:
    """The deepest folder above all of them is part of the explanation."""
    deep = {b"x/y/%d" % n: [reported(b"f%d" % n) for n in range(60)] for n in range(2)}
    rows.add_member("a", GOOD | deep)
    rows.add_member("b", GOOD)

    assert "All of them are in x/y." in only(rows.vote()).explanation


def test_hostile_names_and_urls_stay_text(rows: HubRows) -> None:
    """A box can't put an option, a command or a line break into what is run on another one."""
    name = b"-rf $(touch x)\n'\xff"
    urls = {"a": "", "b": "rclone::sftp,ssh='touch /x':y", "c": "ssh://-oProxyCommand=x/y", "d": "/mnt/d"}
    urls["e"] = "ssh://-exec@host/y"
    for box, url in urls.items():
        rows.add_member(box, {b"": [reported(name)]}, url=url, path=b"/srv/it's")
    rows.report_finding("a", 1, "rot", name, message="\x1b[2J", certainty="sure")
    rows.report_finding("d", 1, "rot", name, blocks="all", ranges=[["x"]])
    without = rows.vote()
    rows.resolve_finding("d", 1)
    repaired = only(rows.vote())

    assert [None, None] == [one.command for one in without]
    assert ["integrity", "repair", "/srv/it's/" + name.decode("utf-8", "surrogateescape"), "--from", "/mnt/d"] == [
        *shell_words(repaired.command)
    ]
    assert all(text.isprintable() for one in without for text in (one.headline, one.explanation))


def shell_words(command: str | None) -> list[str]:
    """Return what a POSIX shell makes of a command."""
    printed = subprocess.run(["sh", "-c", f"printf '%s\\0' {command}"], capture_output=True, check=True).stdout
    return [word.decode("utf-8", "surrogateescape") for word in printed.split(b"\0")[:-1]]
