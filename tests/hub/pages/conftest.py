"""A hub with boxes of every kind, some of which are hostile, and its pages."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from integrity.hub import audit
from integrity.hub.boxes import revoke_box
from integrity.hub.database import HubDatabase
from integrity.hub.kinds import HubFindingKind
from support.hub_pages import HubPages
from support.hub_rows import DAY_S, DIGEST, OTHER_DIGEST, HubRows

EVIL = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>{{ 7*7 }}\x1b[31m\u202e"
"""A text that is a program if a page does not escape it, and that reverses and colors what follows it."""

EVIL_SET = f"set/../{EVIL}"
EVIL_PATH = b"/srv/\xff\xfe" + EVIL.encode()
BLOCK = 1 << 20


def member_evidence(box: str, holding: str, now: int, **values: object) -> dict[str, object]:
    """Return what a vote writes of one member of a set."""
    has_file = holding not in ("absent", "excluded")
    row = {
        "size_bytes": 200 * BLOCK + 17,
        "mtime_ns": 1_600_000_000_123_456_789,
        "md5": DIGEST.hex(),
        "xxh3_128": OTHER_DIGEST.hex(),
        "recorded_at": write_time(now - 400 * DAY_S),
        "verified_at": write_time(now - 2 * DAY_S),
        "read_how": "direct",
    }
    return {
        "box": box,
        "path": "/srv/photos/2019/img_0042.raw",
        "url": f"ssh://{box}/srv/photos",
        "holding": holding,
        "is_source": False,
        **(row if has_file else {}),
        "reported_at": write_time(now - 60),
        "findings": [],
        **values,
    }


def write_time(at: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))


def fill(database: HubDatabase) -> None:
    """Write a household of boxes: well, damaged, silent, overdue, new, revoked."""
    now = int(time.time())
    with database.transaction() as c:
        rows = HubRows(c, now)
        photos, music = rows.add_set("photos"), rows.add_set("music", voted_ago_s=None)
        attic = rows.add_box("attic")
        rows.add_root(attic, b"/srv/photos", set_id=photos, url="ssh://attic/srv/photos")
        rows.add_root(attic, b"/srv/music", set_id=music, root_id=2, files=812, size=9 << 30, oldest_ago_s=3600)
        cellar = rows.add_box(
            "cellar",
            state="problem",
            sentence="Found: 1 damaged file. 1 of 12,345 files is affected.",
            clock_ahead_s=7200,
        )
        rows.add_root(cellar, b"/srv/photos", set_id=photos)
        offsite = rows.add_box("offsite", seen_ago_s=3 * DAY_S)
        rows.add_root(offsite, b"/volume1/photos", set_id=photos, settled_ago_s=3 * DAY_S)
        studio = rows.add_box("studio")
        rows.add_root(studio, b"/mnt/music", set_id=music, oldest_ago_s=45 * DAY_S)
        rows.add_box("workshop", seen_ago_s=None)
        rows.add_box("former")
        revoke_box(c, "former", now - DAY_S)
        _add_findings(rows, photos, cellar, offsite, now)
        body = {"message": "Block 17 of 201 differs; two more reads gave the same wrong data.", "blocks": [17]}
        rows.add_box_finding(cellar, 12, b"2019/img_0042.raw", "rot", body=json.dumps(body), certainty="proven")
        rows.add_box_finding(cellar, 11, b"2018/a.raw", "rot", state="resolved", resolved_at=now - DAY_S)
        run = {"job": "scrub", "outcome": "findings", "files_verified": 12_344, "files_damaged": 1,
               "findings_opened": 1, "bytes_read": 5_798_205_850}  # fmt: skip
        rows.add_event(cellar, "run", run)
        rows.add_event(cellar, "action", {"verb": "ack", "who": "owner, on the page", "outcome": "acknowledged"})
        _add_tree(rows, attic, studio)
        audit.record(
            c,
            at=now - DAY_S,
            who="root",
            address="command line",
            verb="revoke_box",
            subject="former",
            outcome="revoked",
        )


def _add_findings(rows: HubRows, photos: int, cellar: int, offsite: int, now: int) -> None:
    report = {"id": 12, "kind": "rot", "certainty": "proven", "blocks": [17, 18], "block_size_bytes": BLOCK,
              "ranges": [[17 * BLOCK, 2 * BLOCK]], "message": "Two more reads gave the same wrong data."}  # fmt: skip
    rows.add_finding(
        HubFindingKind.REPLICA_DAMAGED,
        b"2019/img_0042.raw",
        headline="DAMAGED on cellar: 2019/img_0042.raw",
        set_id=photos,
        box_id=cellar,
        explanation="Found on cellar: DAMAGED (bit rot) [finding 12 there]. attic (verified from disk 2 days ago) has"
        " the recorded content.",
        command="integrity repair /srv/photos/2019/img_0042.raw --from ssh://attic/srv/photos",
        command_box_id=cellar,
        evidence=[
            member_evidence("attic", "good", now, is_source=True),
            member_evidence("cellar", "damaged", now, findings=[report]),
            member_evidence("offsite", "absent", now),
        ],
    )
    rows.add_finding(
        HubFindingKind.BOX_SILENT,
        b"",
        headline="offsite does not report",
        box_id=offsite,
        explanation="Its last report came 3 days ago.",
        evidence=[{"seen_at": write_time(now - 3 * DAY_S)}],
    )
    rows.add_finding(
        HubFindingKind.REPLICA_MISSING,
        b"",
        headline="240 files of photos are missing on offsite",
        set_id=photos,
        box_id=offsite,
        state="resolved",
        resolved_at=now - DAY_S,
        resolution="no longer the case",
        evidence=[{"files": 240, "folder": "2020", "examples": [{"path": "2020/a.raw"}, {"path": "2020/b.raw"}]}],
    )


def _add_tree(rows: HubRows, attic: int, studio: int) -> None:
    tree = rows.add_tree("archive")
    rows.add_tree("new", surveyed_ago_s=None)
    read = rows.add_shard(tree, [b"1998", b"1999"])
    years = [b"20%02d" % year for year in range(9)]
    rows.add_shard(tree, years, oldest_ago_s=40 * DAY_S, trouble="no space on /var/tmp")
    rows.add_shard(tree, [b""], oldest_ago_s=None)
    rows.add_worker(1, tree, attic, read)
    rows.add_worker(2, tree, studio, None, seen_ago_s=DAY_S)
    rows.add_finding(
        HubFindingKind.TREE_OVERDUE,
        b"",
        headline="Not verified in time: archive",
        tree_id=tree,
        explanation="1 of 3 shards were not verified within 30 days.",
        evidence=[{"shard": read, "finding": {"id": 3, "kind": "rot", "message": "Block 4 differs."}}],
    )


def fill_hostile(database: HubDatabase) -> None:
    """Write what a stolen box could report, in every column that is shown."""
    now = int(time.time())
    bottomless = "[" * 900 + "]" * 900
    with database.transaction() as c:
        rows = HubRows(c, now)
        bad_set = rows.add_set(EVIL_SET)
        box = rows.add_box(
            "stolen", state="problem", sentence=EVIL * 50, hostname=EVIL, version=EVIL, clock_ahead_s=-(1 << 61)
        )
        rows.add_root(box, EVIL_PATH, set_id=bad_set, url=EVIL, policy=EVIL, excludes=EVIL,
                      files=(1 << 63) - 1, size=(1 << 63) - 1, verify_every_s=1)  # fmt: skip
        rows.add_root(box, b"", set_id=bad_set, root_id=2, oldest_verified_at=(1 << 62), verify_every_s=(1 << 62))
        tree = rows.add_tree(EVIL_SET)
        rows.add_worker(9, tree, box, rows.add_shard(tree, [EVIL_PATH], trouble=EVIL, oldest_ago_s=-(1 << 60)))
        for number, body in enumerate((json.dumps({"message": EVIL, "blocks": EVIL}), '{"message": NaN, "x": 1e999}',
                                       '{"message": "\\udcff"}', f'{{"x": {bottomless}}}', "[]"), 1):  # fmt: skip
            rows.add_box_finding(box, number, EVIL_PATH, EVIL, body=body, state=EVIL, opened_at=1 << 62)
            rows.add_event(box, "run", body)
        rows.add_event(box, EVIL, {"verb": EVIL, "who": EVIL, "outcome": 7})
        rows.add_event(box, "run", {"job": EVIL, "outcome": EVIL, "bytes_read": 1 << 80, "files_new": True})
        huge = {"id": EVIL, "kind": "unreadable", "blocks": [1 << 70, -1, "x"], "block_size_bytes": 1 << 16,
                "ranges": [[0, 1 << 61], [-5, 3], EVIL, [1]], "message": EVIL}  # fmt: skip
        rows.add_finding(
            HubFindingKind.REPLICA_DAMAGED,
            EVIL_PATH,
            headline=f"DAMAGED on stolen: {EVIL}",
            set_id=bad_set,
            box_id=box,
            explanation=EVIL,
            command=f"integrity repair '{EVIL}'",
            command_box_id=box,
            evidence=[
                member_evidence(EVIL, EVIL, now, findings=[huge, EVIL], path=EVIL, mtime_ns=1 << 62, read_how=EVIL),
                member_evidence(
                    "stolen", "lost", now, findings=[huge], size_bytes=(1 << 62), verified_at=EVIL, md5=EVIL
                ),
            ],
        )
        audit.record(c, at=now, who="box:stolen", address=EVIL, verb="new_stream", subject=EVIL, outcome=EVIL)


@pytest.fixture
def filled(hub_database: HubDatabase) -> HubDatabase:
    """Return a database with a household of boxes, of each kind in turn."""
    fill(hub_database)
    return hub_database


@pytest.fixture
def pages(filled: HubDatabase, hub_url: str, tmp_path: Path) -> Iterator[HubPages]:
    """Serve the pages about it."""
    with HubPages(hub_url, tmp_path) as served:
        yield served
