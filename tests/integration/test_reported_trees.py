"""Digest trees of a real catalog, and what of them goes to a hub: only what differs, and never a mixed state."""

from __future__ import annotations

from contextlib import closing

import pytest

from integrity.catalog import baselines
from integrity.catalog.baselines import Verified
from integrity.catalog.db import Connection
from integrity.errors import HubError
from integrity.model import BaselineReason, ReadHow
from integrity.reporting.digest_tree import FROZEN, SUSPECT
from support.catalogs import NOW, CatalogBox, make_reading
from support.reporting import ReportingBox
from support.servers import NOTHING, Answer, Request
from support.smallhub import SmallHub, refusal

NASTY = (
    *(b"a", b"a-b/x", b"a/b/c/deep", b"a/b-/x", b"a/b/x", b"a!/x", b"\xff\xfe/\xff", b"\n/ ", b"d.1/d/d/d", b"d/d"),
    *(b"'\"/\\", b"\xf0\x9f\x93\xb7/\xf0\x9f\x93\xb7.jpg", b"a/\x01/x", b"a\x01/x"),
)


def stored(hub: SmallHub) -> dict[bytes, list[object]]:
    """Return the values of each file that the hub has, by its path."""
    return {
        f"{path}/{row[0]}".lstrip("/").encode("utf-8", "surrogateescape"): row[1:]
        for path, folder in hub.trees.get(1, {}).items()
        for row in folder.files
    }


def is_settled(hub: SmallHub) -> bool:
    """Return whether the hub has the tree that was announced last. It checks each digest itself."""
    return bool(hub.settled.get(1)) and hub.settled[1] == hub.heartbeats[-1]["roots"][0]["tree"]


def since(hub: SmallHub, reporting: ReportingBox) -> list[str]:
    """Report, and return what was called."""
    before = len(hub.calls)
    reporting.report()
    return [call.removeprefix("trees/1/") for call in hub.calls[before:]]


def test_all_names_arrive_and_the_tree_is_settled(reporting: ReportingBox, hub: SmallHub) -> None:
    """Whatever bytes they have, and whatever lies beside a folder whose name begins like another's."""
    reporting.box.record_all({path: make_reading(path) for path in NASTY})

    reporting.report()

    assert {*NASTY} == {*stored(hub)}
    assert is_settled(hub)


def test_values_are_those_of_the_record(reporting: ReportingBox, hub: SmallHub) -> None:
    """Digests, when it was recorded and verified, and how it was read."""
    reading = make_reading("a", size_bytes=7)
    file_id = reporting.box.record(b"d/a", reading)
    reporting.box.record(b"d/b", make_reading("b"))
    with reporting.box.catalog.transaction() as c:
        verified = [Verified(reporting.box.get(file_id), None, ReadHow.DIRECT)]
        baselines.mark_verified(c, verified, now=NOW + 5, boot_id=None)

    reporting.report()

    size, mtime_ns, md5, xxh3, recorded_at, verified_at, how, flags = stored(hub)[b"d/a"]
    digests = reading.digests
    assert digests.md5 is not None
    assert digests.xxh3_128 is not None
    assert (7, reading.witness.mtime_ns, digests.md5.hex(), digests.xxh3_128.hex()) == (size, mtime_ns, md5, xxh3)
    assert (NOW, NOW + 5, 1, 0) == (recorded_at, verified_at, how, flags)
    assert [None, 3, 0] == stored(hub)[b"d/b"][5:]


def test_flags_follow_findings_and_touched_inodes(reporting: ReportingBox, hub: SmallHub) -> None:
    """A frozen baseline, and a suspect; both end with their cause."""
    frozen, suspect = reporting.box.record(b"frozen"), reporting.box.record(b"suspect")
    number = reporting.open_finding(b"frozen", frozen)
    with reporting.box.catalog.transaction() as c:
        c.run("UPDATE file SET is_suspect = 1 WHERE id = ?", suspect)
    reporting.report()
    assert (FROZEN, SUSPECT) == (stored(hub)[b"frozen"][-1], stored(hub)[b"suspect"][-1])

    reporting.resolve(number)
    reporting.report()

    assert (0, SUSPECT) == (stored(hub)[b"frozen"][-1], stored(hub)[b"suspect"][-1])
    assert is_settled(hub)


def test_only_what_changed_is_sent(reporting: ReportingBox, hub: SmallHub) -> None:
    """One folder with its files: the digests of those above it follow."""
    reporting.box.record_all({b"d%d/e/%d" % (number % 10, number): make_reading(number) for number in range(100)})
    reporting.report()
    reporting.box.record(b"d3/e/new")
    hub.lines.clear()

    assert ["heartbeat", "heartbeat", "compare", "compare", "compare", "folders", "settle"] == since(hub, reporting)
    assert [1, 10, 1, 1] == hub.lines  # compared: the top, the folders in it, the one in d3; sent: that one
    assert 101 == len(stored(hub))
    assert is_settled(hub)


def test_removed_folders_disappear(reporting: ReportingBox, hub: SmallHub) -> None:
    """With all below them, also where the folder above has no files of its own."""
    ids = reporting.box.record_all({b"a/b/c": make_reading(1), b"a/d/e": make_reading(2), b"f": make_reading(3)})
    reporting.report()
    with reporting.box.catalog.transaction() as c:
        baselines.remove_files(c, reporting.box.root, ids[:1], because=BaselineReason.DELETED, now=NOW)

    reporting.report()

    assert {b"a/d/e", b"f"} == {*stored(hub)}
    assert {"", "a", "a/d"} == {*hub.trees[1]}
    assert is_settled(hub)


def test_report_without_changes_compares_nothing(reporting: ReportingBox, hub: SmallHub) -> None:
    """Whatever the size of the root, a heartbeat is enough."""
    reporting.box.record_all({b"d/%d" % number: make_reading(number) for number in range(100)})
    reporting.report()

    assert ["heartbeat"] == since(hub, reporting)


def test_service_that_was_restarted_computes_no_digest_again(reporting: ReportingBox, hub: SmallHub) -> None:
    """The digests of folders are kept in the catalog."""
    reporting.box.record_all({b"d%d/x" % number: make_reading(number) for number in range(20)})
    reporting.report()
    with reporting.box.catalog.read() as c:
        before = c.value("SELECT count(*) FROM report_folder")
        reporting.box.record(b"d3/y")
        left = c.value("SELECT count(*) FROM report_folder")

    assert (20, 19) == (before, left)
    reporting.reporter.close()
    reporting.make()
    assert ["heartbeat", "heartbeat", "compare", "compare", "folders", "settle"] == since(hub, reporting)


def test_root_without_a_set_sends_no_rows(reporting: ReportingBox, hub: SmallHub) -> None:
    """Only heartbeat and messages."""
    reporting.replica_set = ""
    reporting.box.record(b"a")

    reporting.report()

    assert {"heartbeat", "messages"} == {*hub.calls}
    assert (None, None) == (hub.heartbeats[-1]["roots"][0]["set"], hub.heartbeats[-1]["roots"][0]["tree"])


def test_excluded_files_are_not_sent(reporting: ReportingBox, hub: SmallHub) -> None:
    """Nor those that were recorded before the pattern was added; without it they come back."""
    reporting.box.record_all({path: make_reading(path) for path in (b"a.tmp", b"a", b"skip/d/x", b"d/x.tmp", b"d/y")})
    reporting.patterns = ("*.tmp", "skip/")
    reporting.report()
    assert {b"a", b"d/y"} == {*stored(hub)}
    assert {"", "d"} == {*hub.trees[1]}

    reporting.patterns = ()
    reporting.report()

    assert 5 == len(stored(hub))
    assert is_settled(hub)


def test_transfer_that_breaks_off_is_continued(reporting: ReportingBox, hub: SmallHub) -> None:
    """Stored folders are not sent again; nothing counts as settled before all of it is there."""
    reporting.client.body_bytes = 8 << 10
    reporting.box.record_all({b"d%02d/%d" % (number % 20, number): make_reading(number) for number in range(1000)})
    before = []
    for _ in range(3):
        hub.answers = [("trees/1/folders", NOTHING)] * 2
        with pytest.raises(HubError):
            reporting.report()
        assert not is_settled(hub)
        before.append(len(stored(hub)))
    reporting.report()

    assert [*before, 1000] == sorted({*before, 1000})
    assert 1000 == len(stored(hub))
    assert is_settled(hub)


def test_large_folder_goes_in_parts(reporting: ReportingBox, hub: SmallHub) -> None:
    """Over several calls; it is stored when the last part is there."""
    reporting.client.body_bytes = 16 << 10
    reporting.box.record_all({b"d/%05d" % number: make_reading(number) for number in range(1500)})

    reporting.report()

    assert hub.calls.count("trees/1/folders") > 5
    assert 1500 == len(stored(hub))
    assert is_settled(hub)


class _Meddling(SmallHub):
    """Has something done at the first call of a kind."""

    def __init__(self, call: str) -> None:
        super().__init__()
        self._call = call
        self.meddle = lambda: None

    def answer(self, request: Request) -> Answer:
        if request.path.endswith(self._call):
            meddle, self.meddle = self.meddle, lambda: None
            meddle()
        return super().answer(request)


def test_folder_that_changes_while_it_is_sent_is_left_for_the_next_report(box: CatalogBox) -> None:
    """The hub never gets rows that no digest covers."""
    with _Meddling("folders") as hub:
        reporting = ReportingBox(box, hub.url)
        reporting.client.body_bytes = 32 << 10
        box.record_all({b"d/%05d" % number: make_reading(number) for number in range(3000)})

        def meddle() -> None:
            with closing(Connection(box.path)) as c:
                c.run("UPDATE file SET verified_at = 9 WHERE name = x'3032393939'")

        hub.meddle = meddle
        reporting.report()
        assert not is_settled(hub)
        assert {} == stored(hub)

        reporting.report()
        assert 3000 == len(stored(hub))
        assert is_settled(hub)
        reporting.close()


def test_file_that_changes_while_its_folder_is_digested_is_digested_again(
    reporting: ReportingBox, hub: SmallHub
) -> None:
    """The digest of a mixed state is never kept."""
    reporting.box.record_all({b"d/%05d" % number: make_reading(number) for number in range(2500)})
    looks = 0

    def is_over() -> bool:
        nonlocal looks
        looks += 1
        if looks == 2:  # the first 1,000 files are digested
            with closing(Connection(reporting.box.path)) as c:
                c.run("UPDATE file SET verified_at = 9 WHERE name = x'3030303030'")
        return False

    reporting.is_over = is_over
    reporting.report()
    reporting.report()

    assert 9 == stored(hub)[b"d/00000"][5]
    assert is_settled(hub)


def test_one_changed_file_of_many_is_sent_alone(reporting: ReportingBox, hub: SmallHub) -> None:
    """With the files of its bucket; of the folders above it nothing is sent."""
    paths = [b"many/%05d.jpg" % number for number in range(5000)]
    ids = reporting.box.record_all({path: make_reading(path) for path in paths})
    reporting.report()
    before = hub.tree_bytes
    with reporting.box.catalog.transaction() as c:
        verified = [Verified(reporting.box.get(ids[7]), None, ReadHow.DIRECT)]
        baselines.mark_verified(c, verified, now=NOW + 5, boot_id=None)

    assert ["heartbeat", "heartbeat", "compare", "compare", "buckets", "folders", "settle"] == since(hub, reporting)
    assert NOW + 5 == stored(hub)[paths[7]][5]
    assert is_settled(hub)
    assert hub.tree_bytes - before < 4000


def test_older_hub_gets_the_folder_as_a_whole(reporting: ReportingBox, hub: SmallHub) -> None:
    """It does not know the call that tells which files differ."""
    paths = [b"many/%05d.jpg" % number for number in range(300)]
    hub.answers += [("trees/1/buckets", refusal(404, "not_found"))] * 2
    reporting.box.record_all({path: make_reading(path) for path in paths})
    reporting.report()
    reporting.box.record(b"many/new.jpg")
    reporting.report()

    assert [] == hub.answers
    assert {*paths, b"many/new.jpg"} == {*stored(hub)}
    assert is_settled(hub)
