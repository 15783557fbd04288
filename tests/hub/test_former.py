"""What a member had before is kept when its folders are replaced, in both databases."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import sqlalchemy as sa

from integrity.hub import schema
from integrity.hub.database import HubDatabase
from integrity.hub.reported import read_folders
from integrity.hub.trees import store_folders
from integrity.reporting.digest_tree import ReportedFile, digest_files, digest_subtree, file_values
from support.hub_rows import NOW, HubRows, reported

OLD = [
    reported(b"a", b"old"),
    reported(b"b", b"same"),
    reported(b"c", b"gone"),
    reported(b"d", b"known"),
    reported(b"f", b"gone"),
]
NEW = [
    reported(b"a", b"new"),
    reported(b"b", b"same", verified_at=None),
    reported(b"d", b"known")._replace(md5=None),
    reported(b"e", b"added"),
]


def send(database: HubDatabase, box_id: int, files: Sequence[ReportedFile], calls: int, now: int) -> None:
    """Send the top folder of a root in so many calls."""
    own, content = digest_files(files)
    digests = {"own": own.hex(), "content": content.hex(), "subtree": digest_subtree(own, []).hex()}
    each = (len(files) + calls - 1) // calls
    for call in range(calls):
        part = [file_values(one) for one in files[call * each : (call + 1) * each]]
        ends = {"first": call == 0, "last": call == calls - 1}
        line = {"path": "", **digests, "folders": [], **ends, "files": part}
        store_folders(database, box_id, 1, read_folders([line]), now)


@pytest.mark.parametrize("calls", [1, 2])
def test_replaced_content_is_kept(hub_database: HubDatabase, calls: int) -> None:
    """
    And what is gone, if others have it; not what only was verified again, or has no digest to compare.

    The same if a folder comes in several calls.
    """
    with hub_database.transaction() as c:
        rows = HubRows(c)
        rows.add_member("a", {})
        rows.add_member("b", {b"": [OLD[2]]})
    send(hub_database, rows.boxes["a"], OLD, calls, NOW)
    send(hub_database, rows.boxes["a"], NEW, calls, NOW + 60)
    table = schema.former_file.c
    with hub_database.read() as c:
        kept = c.execute(sa.select(table.name, table.md5, table.xxh3_128, table.replaced_at)).all()

    assert [(one.name, one.md5, one.xxh3_128, NOW + 60) for one in (OLD[0], OLD[2])] == sorted(map(tuple, kept))
