"""A vote in which very many files differ: boxes report meanwhile, also where only one can write at a time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import sqlalchemy as sa

from integrity.hub import schema
from integrity.hub.database import HubDatabase, load_files
from integrity.hub.members import mark_changed
from integrity.hub.migrate import migrate
from support.cli import Box
from support.hub_reports import Stream, make_heartbeat
from support.hub_rows import NOW, HubRows
from support.hubserver import HubCaller, HubServerProcess
from support.waiting import wait_until

FOLDERS, IN_FOLDER = 1000, 100


def find_files(member_id: int) -> Iterator[tuple[object, ...]]:
    """Return the files of a member, which no other member has like this."""
    digest = bytes([member_id]) * 16
    times = NOW - 1000, NOW - 100
    for folder_id in range(1, FOLDERS + 1):
        for number in range(IN_FOLDER):
            yield member_id, folder_id, b"%04d" % number, 7, member_id * 10**12, digest, digest, *times, 1, 0


def fill(path: str) -> None:
    """Store a set of two members, of which all files differ."""
    database = HubDatabase.open(path, any_revision=True)
    migrate(database)
    with database.transaction() as c:
        rows = HubRows(c)
        folders = [{"set_id": rows.set_id, "path": b"%04d" % number} for number in range(1, FOLDERS + 1)]
        c.execute(sa.insert(schema.folder), folders)
        for name in ("a", "b"):
            member_id = rows.add_member(name, {})
            digests = {"own": bytes(16), "content": bytes([member_id]) * 16, "subtree": bytes(16)}
            ids = range(1, FOLDERS + 1)
            c.execute(
                sa.insert(schema.member_folder), [{"member_id": member_id, "folder_id": n, **digests} for n in ids]
            )
            load_files(c, schema.file, find_files(member_id))
        mark_changed(c, [rows.set_id], NOW)
    database.close()


def is_voted(path: str) -> bool:
    """Return whether the vote is over."""
    database = HubDatabase.open(path)
    with database.read() as c:
        voted_at = c.execute(sa.select(schema.replica_set.c.voted_at)).scalar_one()
    database.close()
    return voted_at is not None


def test_report_is_answered_while_a_vote_runs(integrity: Box, tmp_path: Path) -> None:
    """Of 100,000 files that differ: no heartbeat waits for the end of the vote."""
    path = str(tmp_path / "hub.db")
    fill(path)
    stream, took_s = Stream(), list[float]()

    def report(box: HubCaller) -> bool:
        began_at = time.monotonic()
        box.call("heartbeat", make_heartbeat(stream.id))
        took_s.append(time.monotonic() - began_at)
        return is_voted(path)

    with HubServerProcess(integrity, path) as hub:
        box = hub.add("c")
        hub.stop()
        hub.start()  # where missing votes are queued
        began_at = time.monotonic()
        wait_until(lambda: report(box), "the vote", every_s=0.2)
        vote_s = time.monotonic() - began_at

    assert len(took_s) > 2
    assert max(took_s) < vote_s / 2
