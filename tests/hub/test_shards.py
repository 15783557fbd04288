"""What the hub does for workers of shared trees: leases, compare and swap, cuts, findings, the promise."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import sqlalchemy as sa

from integrity.catalog.outbox import Message
from integrity.config import Alerts
from integrity.errors import CallRefused, ConfigError, HubDatabaseError, ProtocolError
from integrity.files.excludes import TreeScope
from integrity.hub.alerts import send_alerts
from integrity.hub.api import BoxCall
from integrity.hub.audit import find_entries
from integrity.hub.box_checks import BoxLimits, check_all_boxes
from integrity.hub.boxes import add_box, load_tokens, revoke_box
from integrity.hub.database import HubDatabase
from integrity.hub.findings import UNRESOLVED, find_findings
from integrity.hub.ingest import CallingBox
from integrity.hub.members import Grants, add_grants, remove_grants
from integrity.hub.quota import BoxQuota
from integrity.hub.schema import box, shard, shard_folder, shard_worker, shared_tree
from integrity.hub.shards import workers
from integrity.hub.shards.promise import find_promises
from integrity.hub.shards.service import ShardHub
from integrity.hub.shards.store import ShardStore
from integrity.hub.shards.tree_disks import forget_tree, release_folder, rename_tree
from integrity.hub.shards.visits import read_survey
from integrity.hub.shards.workers import ShardLimits, WorkerRow, find_most_packed
from integrity.jobs.shards.messages import (
    MOST_PACKED_BYTES,
    FolderSize,
    ShardTask,
    Size,
    TreeOffer,
    VisitResult,
    digest_file,
    pack_lines,
    write_message,
    write_survey,
)
from integrity.reporting.forms import read_form
from integrity.reporting.protocol import JsonObject, encode_lines
from support.clock import Clock
from support.hubserver import ANYWHERE
from support.postgres import PostgresServer
from support.shard_scopes import find_left_out

LIMITS = ShardLimits(Size(10, 10_000), lease_s=60, visit_s=600)
OFFER = TreeOffer("archive", 2, 30 * 86_400, {"policy": "archive"})
SURVEY = [FolderSize(name, Size(8, 800)) for name in (b"", b"a", b"b", b"c")]


class Hub:
    """A hub with two boxes, and what tests ask of it."""

    def __init__(self, database: HubDatabase, folder: Path) -> None:
        self.database = database
        self.clock = Clock(time.time())
        self.folder = folder
        store = ShardStore(str(folder / "store").encode(), 1 << 20, clock=self.clock)
        store.prepare()
        with database.transaction() as c:
            for name in ("nas1", "nas2"):
                add_box(c, name, int(self.clock()), ANYWHERE)
            self.boxes = list(c.execute(sa.select(box.c.id).order_by(box.c.id)).scalars())
        self.files = store
        self.shards = self.start()
        self.job = 0
        self.advance(LIMITS.lease_s)  # from now on it believes that silent workers are gone

    def start(self) -> ShardHub:
        """Return a hub that starts now."""
        return ShardHub(self.database, self.files, LIMITS, BoxQuota(self.database, 1 << 40), monotonic=self.clock)

    def call(self, name: str, who: tuple[int, int], *lines: object, **values: object) -> JsonObject:
        """Let a worker of a box make a call."""
        body = encode_lines([{"protocol": 1, "worker": who[1], **values}, *lines])
        call = BoxCall(CallingBox(who[0], "nas", ""), 0, body, int(self.clock()))
        answer: JsonObject = getattr(self.shards, name)(call)
        return answer

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.clock.now += seconds

    def silence(self, who: tuple[int, int], seconds: float) -> None:
        """Let a worker not be heard of for so long."""
        with self.database.transaction() as c:
            seen_at = int(self.clock() - seconds)
            c.execute(sa.update(shard_worker).where(shard_worker.c.id == who[1]).values(seen_at=seen_at))

    def join(self, number: int = 0, offer: TreeOffer = OFFER) -> tuple[int, int]:
        """Let a worker of a box come; return the box and the worker."""
        worker = self.call("join", (self.boxes[number], 0), **write_message(offer))["worker"]
        assert isinstance(worker, int)
        return self.boxes[number], worker

    def take(self, who: tuple[int, int]) -> ShardTask | None:
        """Let a worker ask for work."""
        answer = self.call("take", who)["task"]
        task = read_form(ShardTask, answer) if isinstance(answer, dict) else None
        self.job = self.job if task is None else task.job
        return task

    def store(self, data: bytes, job: int | None = None) -> str:
        """Send a file for a job, by default the last one that was given out; return its digest."""
        path = self.folder / "sent"
        path.write_bytes(data)
        with path.open("rb") as file:
            digest = digest_file(file)
        self.files.receive(job or self.job, digest, 0, len(data), data, most_bytes=1 << 20)
        return digest

    def store_survey(self, folders: list[FolderSize]) -> str:
        """Send a survey; return its digest."""
        path = pack_lines(write_survey(folders), str(self.folder / "survey").encode())
        return self.store(Path(path.decode()).read_bytes())

    def survey(self, who: tuple[int, int]) -> None:
        """Let a worker do the survey."""
        task = self.take(who)
        assert task is not None
        assert task.shard is None
        self.call("survey", who, job=task.job, digest=self.store_survey(SURVEY))

    def begin(self) -> tuple[tuple[int, int], ShardTask]:
        """Let a worker do the survey, and take the first shard."""
        who = self.join()
        self.survey(who)
        task = self.take(who)
        assert task is not None
        return who, task

    def result(self, task: ShardTask, data: bytes = b"catalog", **values: object) -> VisitResult:
        """Return what a worker says after a visit whose catalog has arrived."""
        at = int(self.clock())
        done = VisitResult(task.version, self.store(data, task.job), True, 8, 800, at, 0, 800, 1000, 0)
        return replace(done, **values)  # type: ignore[arg-type]

    def finish(self, who: tuple[int, int], task: ShardTask, result: VisitResult, *findings: dict[str, object]) -> None:
        """Let a worker bring a shard back."""
        self.call("finish", who, *findings, job=task.job, **write_message(result))

    def take_until(self, who: tuple[int, int], shard_id: int | None) -> ShardTask:
        """Let a worker do all that it is given until it gets one shard."""
        while (task := self.take(who)) is not None and task.shard != shard_id:
            self.finish(who, task, self.result(task))
        assert task is not None
        return task

    def take_and_finish(self, who: tuple[int, int]) -> ShardTask | None:
        """Let a worker do one job, if there is one."""
        task = self.take(who)
        if task is not None:
            self.finish(who, task, self.result(task))
        return task

    def stored(self) -> list[str]:
        """Return the names of all files in the store."""
        return [path.name for path in (self.folder / "store").iterdir()]

    def ask(self, who: tuple[int, int], folder: str) -> JsonObject:
        """Let a command ask for the shard of a folder."""
        return self.call("take", who, folder=folder)

    def find_shard(self, folder: bytes) -> int:
        """Return the shard that begins with a folder."""
        with self.database.read() as c:
            return int(c.execute(sa.select(shard_folder.c.shard_id).where(shard_folder.c.path == folder)).scalar_one())

    def rows(self) -> list[sa.Row[tuple[object, ...]]]:
        """Return the shards."""
        with self.database.read() as c:
            return list(c.execute(sa.select(shard).order_by(shard.c.id)))


@pytest.fixture
def hub(postgres: PostgresServer, tmp_path: Path) -> Iterator[Hub]:
    """Run a hub on PostgreSQL."""
    url = postgres.create_database(template="hub_template")
    database = HubDatabase.open(url)
    yield Hub(database, tmp_path)
    database.close()
    postgres.drop_database(url)


class KeepingChannel:
    """A channel that keeps what it is sent."""

    name = "memory"

    def __init__(self) -> None:
        self.got: list[Message] = []

    def send(self, message: Message) -> None:
        """Keep a message."""
        self.got.append(message)


def _finding(path: str, kind: str = "rot", number: int = 1) -> dict[str, object]:
    body = {"message": "changed on the disk", "certainty": "proven", "blocks": [0], "block_size_bytes": 1 << 20}
    return {"number": number, "path": path, "kind": kind, "opened_at": 5, "body": body}


def test_sqlite_is_refused_with_the_remedy(tmp_path: Path) -> None:
    """Shared trees need PostgreSQL, and the message says how to get there."""
    database = HubDatabase.open(str(tmp_path / "hub.db"), any_revision=True)

    with pytest.raises(HubDatabaseError, match="need PostgreSQL"):
        ShardHub(database, ShardStore(b"/nowhere", 1), LIMITS, BoxQuota(database, 1))
    database.close()


def test_first_job_is_the_survey_and_then_every_shard_is_given_out_once(hub: Hub) -> None:
    """A tree is surveyed first; then each worker gets another shard, and together they cover every folder."""
    one, two = hub.join(0), hub.join(1)
    hub.survey(one)
    tasks = [hub.take(hub.join(number % 2)) for number in range(5)]

    given = [task for task in tasks if task is not None]
    assert 4 == len(given)
    assert hub.take(two) is None
    for folder in (b"", b"a", b"b", b"c", b"new", b"a/new"):
        assert 1 == sum(task.scope.covers(folder) for task in given)


def test_box_works_on_no_tree_that_it_was_not_granted(hub: Hub) -> None:
    """Neither takes its name, nor reads its catalogs; a grant that was taken back ends what it has begun."""
    who = hub.join()
    with hub.database.transaction() as c:
        name = next(one.name for one in load_tokens(c).values() if one.id == who[0])
        remove_grants(c, name, ANYWHERE)
    for act in (hub.join, lambda: hub.take(who), lambda: hub.call("fetch", who, digest="0" * 64, offset=0)):
        with pytest.raises(CallRefused, match=f"hub allow {name} --tree") as refused:
            act()
        assert "not_allowed" == refused.value.code


def test_forgotten_tree_is_gone_with_all_that_hangs_on_it(hub: Hub) -> None:
    """Its shards, workers and open findings."""
    who, task = hub.begin()
    hub.finish(who, task, hub.result(task), _finding("a/photo.jpg"))
    assert 1 == len(open_findings(hub))
    with hub.database.transaction() as c:
        forget_tree(c, "archive", 1)

    assert ([], []) == (hub.rows(), open_findings(hub))
    with pytest.raises(CallRefused, match="does not know this worker"):
        hub.take(who)


def let_in(hub: Hub) -> None:
    """Let the first box work on the tree "archive" only."""
    with hub.database.transaction() as c:
        name = next(one.name for one in load_tokens(c).values() if one.id == hub.boxes[0])
        remove_grants(c, name, ANYWHERE)
        add_grants(c, name, Grants(trees=frozenset({"archive"})))


def test_forgotten_name_is_taken_from_the_boxes(hub: Hub) -> None:
    """Those that work with it would make a new tree at once; one that is let in again begins with a survey."""
    let_in(hub)
    hub.join()
    with hub.database.transaction() as c:
        forget_tree(c, "archive", 1)
        with pytest.raises(ConfigError, match="hub tree list"):
            forget_tree(c, "archive", 1)
    with pytest.raises(CallRefused, match="hub allow"):
        hub.join()
    let_in(hub)
    hub.survey(hub.join())


def test_renamed_tree_goes_on_under_its_new_name_only(hub: Hub) -> None:
    """With its records, and for the boxes that might work on it."""
    let_in(hub)
    who, task = hub.begin()
    with hub.database.transaction() as c:
        rename_tree(c, "archive", "films")
    hub.finish(who, task, hub.result(task))

    assert [0, 0, 0, 1] == sorted(row.version for row in hub.rows())
    with pytest.raises(CallRefused, match="archive: this box"):
        hub.join()
    assert hub.take(hub.join(offer=replace(OFFER, tree="films"))) is not None
    with hub.database.transaction() as c, pytest.raises(ConfigError, match="there is a shared tree"):
        rename_tree(c, "films", "films")


def test_moved_tree_is_the_folder_that_the_next_worker_names(hub: Hub) -> None:
    """Its records stay; who sees the former folder still is refused from then on, with the way out."""
    who, task = hub.begin()
    hub.finish(who, task, hub.result(task))
    elsewhere = replace(OFFER, inode=77)
    with pytest.raises(CallRefused, match="hub tree rebind archive --moved"):
        hub.join(1, elsewhere)
    with hub.database.transaction() as c:
        release_folder(c, "archive", int(hub.clock()))
    moved = hub.join(1, elsewhere)

    assert hub.take(moved) is not None
    assert [0, 0, 0, 1] == sorted(row.version for row in hub.rows())
    with pytest.raises(CallRefused, match="theirs 77"):
        hub.join()


def open_findings(hub: Hub) -> list[bytes]:
    with hub.database.read() as c:
        return [one.path for one in find_findings(c, UNRESOLVED)]


def test_worker_that_gets_nothing_learns_why(hub: Hub) -> None:
    """Another one lists the folders; or others have parts, and the next one is due at some time."""
    one, two = hub.join(0), hub.join(1)
    task = hub.take(one)
    assert task is not None
    waiting = hub.call("take", two)
    assert (None, 2) == (waiting["task"], waiting["wait_s"])
    assert {"is_surveyed": False, "parts": 0, "taken": 0, "next_due_at": None} == waiting["rest"]

    hub.call("survey", one, job=task.job, digest=hub.store_survey(SURVEY))
    given = [hub.take(hub.join(0)) for _ in range(4)]
    assert None not in given
    nothing = hub.call("take", two)
    assert {"is_surveyed": True, "parts": 4, "taken": 4, "next_due_at": None} == nothing["rest"]
    with hub.database.read() as c:
        worked_at = c.execute(sa.select(box.c.worked_at).where(box.c.id.in_(hub.boxes[:2]))).scalars()
        assert {int(hub.clock.now)} == set(worked_at)


def test_survey_is_cut_once_though_it_is_sent_twice(hub: Hub) -> None:
    """A worker that did not hear the answer sends its survey again, and nothing is doubled."""
    who = hub.join()
    task = hub.take(who)
    assert task is not None
    for _ in range(2):
        hub.call("survey", who, job=task.job, digest=hub.store_survey(SURVEY))

    assert 4 == len(hub.rows())


def test_worker_that_asks_again_gets_the_job_that_it_has(hub: Hub) -> None:
    """A worker that did not hear which job it got is given the same one again."""
    who = hub.join()
    hub.survey(who)

    assert hub.take(who) == hub.take(who)


def test_stored_version_is_what_the_next_worker_begins_with(hub: Hub) -> None:
    """The catalog that a worker brings back is the one that the next worker gets, a round later."""
    who, task = hub.begin()
    result = hub.result(task)
    hub.finish(who, task, result)
    for other in iter(lambda: hub.take(who), None):
        hub.finish(who, other, hub.result(other))
    hub.advance(task.every_s)
    again = [other for other in (hub.take(hub.join()) for _ in range(4)) if other is not None]

    assert [(task.version + 1, result.digest)] == [
        (one.version, one.digest) for one in again if one.shard == task.shard
    ]


def test_shard_that_is_due_first_is_given_out_first(hub: Hub) -> None:
    """Shards are given out in the order in which they are due, however little earlier."""
    who = hub.join()
    hub.survey(who)
    order = [task.shard for task in reversed([hub.take(hub.join()) for _ in range(4)]) if task is not None]
    with hub.database.transaction() as c:
        c.execute(sa.update(shard).values(worker_id=who[1]))
    for shard_id in order:
        assert shard_id is not None
        hub.call("release", who, job=shard_id, trouble="in turn")
        hub.advance(1)
    hub.advance(400)

    assert order == [task.shard for task in iter(lambda: hub.take(hub.join()), None)]


def test_late_result_of_a_worker_that_lost_its_lease_is_refused(hub: Hub) -> None:
    """A silent worker's shard goes to another one; what the first brings back later changes nothing."""
    slow, fast = hub.join(0), hub.join(1)
    hub.survey(slow)
    task = hub.take(slow)
    assert task is not None
    hub.silence(slow, LIMITS.lease_s + 1)
    while (mine := hub.take(fast)) is not None and mine.shard != task.shard:
        hub.finish(fast, mine, hub.result(mine, f"{mine.shard}".encode()))
    assert mine is not None

    with pytest.raises(CallRefused, match="lease"):
        hub.finish(slow, task, hub.result(task, b"late"))
    hub.finish(fast, mine, hub.result(mine, b"in time"))
    with pytest.raises(CallRefused, match="lease"):
        hub.finish(slow, task, hub.result(task, b"later"))
    assert [hub.result(mine, b"in time").digest] == [row.digest for row in hub.rows() if row.id == task.shard]


def test_result_that_began_with_another_version_is_refused(hub: Hub) -> None:
    """Compare and swap: work on a version that is not the stored one is not stored."""
    who, task = hub.begin()

    with pytest.raises(CallRefused, match="version 0 now; this work began with 3"):
        hub.finish(who, task, hub.result(task, version=3))


def test_result_that_is_sent_twice_counts_once(hub: Hub) -> None:
    """A worker that did not hear the answer sends its result again; the version grows once."""
    who, task = hub.begin()
    result = hub.result(task)
    for _ in range(2):
        hub.finish(who, task, result)

    assert [1] == [row.version for row in hub.rows() if row.id == task.shard]


def test_nothing_is_retried_right_after_the_hub_was_away(hub: Hub) -> None:
    """After its own outage the hub waits for a lease before it takes shards from workers that look silent."""
    slow, fast = hub.join(0), hub.join(1)
    hub.survey(slow)
    task = hub.take(slow)
    assert task is not None
    hub.silence(slow, 10 * LIMITS.lease_s)
    restarted = hub.start()
    hub.shards = restarted
    taken = [one.shard for one in iter(lambda: hub.take_and_finish(fast), None)]

    assert task.shard not in taken
    hub.call("beat", slow, job=task.job, done_bytes=1)


def test_another_folder_under_the_name_of_the_tree_is_refused(hub: Hub) -> None:
    """A worker on which something else is mounted gets no work, and hears why."""
    hub.join(0)

    with pytest.raises(CallRefused, match="is not what was recorded: the folder there is not the one"):
        hub.join(1, replace(OFFER, inode=77))


def test_other_settings_are_refused_while_others_work(hub: Hub) -> None:
    """Workers must agree on the settings; once the others are gone, the new ones count."""
    hub.join(0)
    other = replace(OFFER, settings={"policy": "mutable"})

    with pytest.raises(CallRefused, match="policy is configured differently"):
        hub.join(1, other)
    hub.advance(3 * LIMITS.lease_s)
    hub.join(1, other)


def test_a_box_cannot_act_for_the_worker_of_another(hub: Hub) -> None:
    """A token speaks for its own box only."""
    _, worker = hub.join(0)

    with pytest.raises(CallRefused, match="does not know this worker"):
        hub.call("take", (hub.boxes[1], worker))


def test_shard_that_grew_is_cut_again_with_its_findings(hub: Hub) -> None:
    """New folders that made a shard too large get shards of their own, which begin with its catalog and findings."""
    who, task = hub.begin()
    top = task.folders[0]
    grown = [FolderSize(f"{top}/{name}".strip("/").encode(), Size(9, 9)) for name in ("x", "y")]
    sizes = [FolderSize(top.encode(), Size(8, 8)), *grown]
    path = f"{top}/y/file".strip("/")
    hub.finish(who, task, hub.result(task, files=26, survey=hub.store_survey(sizes)), _finding(path))

    rows = [row for row in hub.rows() if row.digest is not None]
    assert 3 == len(rows)
    assert 1 == len({row.digest for row in rows})
    with hub.database.read() as c:
        assert [path.encode()] == [one.path for one in find_findings(c)]
    hub.advance(5)
    for other in iter(lambda: hub.take(who), None):
        mine = [_finding(path)] if other.scope.covers_name(path.encode()) else []
        hub.finish(who, other, hub.result(other), *mine)
    with hub.database.read() as c:
        (found,) = find_findings(c)
        assert found.resolved_at is None


def test_findings_of_a_shard_are_findings_of_the_tree(hub: Hub) -> None:
    """Damage that a worker found is a finding of the hub with its words, and ends when the shard has it no more."""
    who, task = hub.begin()
    hub.finish(who, task, hub.result(task, is_complete=False), _finding("a/photo.jpg"))
    with hub.database.read() as c:
        (found,) = find_findings(c)
    again = hub.take_until(who, task.shard)
    hub.finish(who, again, hub.result(again))
    with hub.database.read() as c:
        (ended,) = find_findings(c)

    assert "DAMAGED (bit rot): archive: a/photo.jpg" == found.headline
    step = "Do this: restore the recorded content from a backup; the next reading of the shard checks it."
    assert f"changed on the disk {step}" == found.explanation
    assert found.resolved_at is None
    assert ended.resolved_at is not None


def test_damage_in_a_tree_is_sent_as_an_alert(hub: Hub) -> None:
    """The mail names tree and file, and says what to do."""
    who, task = hub.begin()
    hub.finish(who, task, hub.result(task), _finding("a/photo.jpg"))
    hub.advance(3600)
    channel = KeepingChannel()
    send_alerts(hub.database, int(hub.clock()), channels=[channel], settings=Alerts(), hostname="hub")

    (message,) = channel.got
    assert "[integrity] hub: 1 problem in a shared tree" == message.subject
    assert "DAMAGED (bit rot): archive: a/photo.jpg" in message.body
    assert "restore the recorded content from a backup" in message.body


def test_broken_promise_is_a_finding_that_says_what_would_help(hub: Hub) -> None:
    """A tree that was not read in time is a finding; it ends when everything was read."""
    who = hub.join()
    hub.survey(who)
    hub.advance(OFFER.verify_every_s + 1)
    hub.shards.check(hub.database, int(hub.clock()))
    with hub.database.read() as c:
        (broken,) = find_findings(c)
    for task in iter(lambda: hub.take(who), None):
        hub.finish(who, task, hub.result(task))
    with hub.database.read() as c:
        (kept,) = find_findings(c)

    assert "Not verified in time: archive" == broken.headline
    assert "4 of 4 shards were not verified within 30 days" in broken.explanation
    assert kept.resolved_at is not None


def test_too_few_workers_are_named_before_the_promise_is_broken(hub: Hub) -> None:
    """A tree that one box can't read in time, day and night, says how many more boxes are needed."""
    who, task = hub.begin()
    hub.finish(who, task, hub.result(task, bytes=10 << 40, read_bytes=1 << 20, read_ms=1000))
    with hub.database.read() as c:
        (promise,) = find_promises(c, LIMITS.lease_s, int(hub.clock()), shared_tree.c.name == "archive")

    assert not promise.is_kept
    assert "Will not be verified within 30 days. It needs 4.0 MiB/s; one box manages 1.0 MiB/s: add 4 more" in (
        promise.describe(int(hub.clock()))
    )


def test_verification_in_the_future_is_no_verification(hub: Hub) -> None:
    """A worker whose clock is wrong does not make the tree look verified."""
    who = hub.join()
    hub.survey(who)
    while (task := hub.take(who)) is not None:
        hub.finish(who, task, hub.result(task, oldest_at=int(hub.clock()) + 30 * 86_400))
    with hub.database.read() as c:
        (promise,) = find_promises(c, LIMITS.lease_s, int(hub.clock()))

    assert not promise.is_kept
    assert "4 of 4 shards were not verified within 30 days; the times of 4 lie in the future" in (
        promise.describe(int(hub.clock()))
    )


def test_file_arrives_in_parts_some_of_them_twice(hub: Hub) -> None:
    """A part whose answer got lost is sent again, and the file is whole."""
    store, digest = hub.files, hub.store(b"0123456789")
    for offset, data in ((0, b"0123"), (4, b"45"), (4, b"4567"), (0, b"0123"), (4, b"4567"), (8, b"89")):
        store.receive(1, digest, offset, 10, data, most_bytes=10)
    store.commit(1, digest)

    assert b"0123456789" == Path(store.path_of(digest).decode()).read_bytes()


def test_upload_that_is_damaged_on_the_way_is_refused(hub: Hub) -> None:
    """What arrives is checked by its digest; parts that are missing, or too many, are refused."""
    store, digest = hub.files, hub.store(b"data")
    receive = partial(store.receive, 1, digest, most_bytes=1 << 30)

    with pytest.raises(CallRefused, match="send it again"):
        receive(0, 4, b"dada")
    with pytest.raises(CallRefused, match="is missing"):
        receive(2, 4, b"ta")
    with pytest.raises(CallRefused, match="at most"):
        receive(0, (1 << 20) + 1, b"data")
    assert None is store.find(1, digest)


def test_worker_stores_no_more_than_its_shard_can_have(hub: Hub) -> None:
    """All that it sends for a job together; what it did not bring back is gone when the job is given out again."""
    who, task = hub.begin()
    sent = [hub.store(b"%d" % number * 300_000) for number in range(3)]
    with pytest.raises(CallRefused, match="at most"):
        hub.store(b"3" * 300_000)
    path = hub.files.find(task.job, sent[0])
    hub.call("release", who, job=task.job)

    assert path is not None
    assert [] == hub.stored()
    task = hub.take(who)
    assert task is not None
    hub.store(b"0" * 300_000)
    assert task == hub.take(who)
    assert [] == hub.stored()


def test_shard_that_was_read_bounds_what_is_sent_for_it(hub: Hub) -> None:
    """By its files and bytes, as the limits of shards and its last catalog say."""
    who, task = hub.begin()
    assert {MOST_PACKED_BYTES} == {find_most_packed(row, LIMITS) for row in hub.rows()}
    hub.finish(who, task, hub.result(task))

    (read,) = [row for row in hub.rows() if row.id == task.shard]
    assert (64 << 20) + 10 * (8 << 10) == find_most_packed(read, LIMITS)


def test_catalog_that_was_replaced_twice_is_removed_at_once(hub: Hub) -> None:
    """However often a worker brings a shard back, its two last catalogs are there."""
    who = hub.join()
    hub.survey(who)
    for number in range(5):
        task = hub.take_until(who, hub.rows()[0].id)
        hub.finish(who, task, hub.result(task, b"catalog %d" % number, is_complete=False))
    named = {digest for row in hub.rows() for digest in (row.digest, row.former_digest)} - {None}

    assert named == {*hub.stored()}
    assert 3 == len(named)


def test_refused_visit_leaves_no_catalog(hub: Hub) -> None:
    """What began with another version is not stored under its name."""
    who, task = hub.begin()
    with pytest.raises(CallRefused):
        hub.finish(who, task, hub.result(task, version=7))
    hub.take(who)

    assert [] == hub.stored()


@pytest.mark.parametrize("survey", [[b"x" * 200] * 30, [b"y" * 2000] * 2])
def test_survey_that_is_too_large_is_refused(tmp_path: Path, survey: list[bytes]) -> None:
    """Before it fills the memory of the hub."""
    lines = write_survey(FolderSize(path, Size(1, 1)) for path in survey)
    path = pack_lines(lines, str(tmp_path / "survey").encode())

    with pytest.raises(ProtocolError, match="a survey of"):
        list(read_survey(path, most_lines=20, most_bytes=3000))


def test_files_that_no_shard_names_are_removed_after_a_day(hub: Hub) -> None:
    """The store keeps the present and the former catalog of each shard."""
    who, task = hub.begin()
    result = hub.result(task)
    hub.finish(who, task, result)
    hub.store(b"nobody's")
    hub.clock.now += 10 * 86_400
    hub.shards.check(hub.database, int(hub.clock()))

    assert [result.digest] == hub.stored()


def test_new_folders_belong_to_the_shard_around_them(hub: Hub) -> None:
    """A folder that is made after the survey is covered by the shard of the folder that it was made in."""
    who = hub.join()
    hub.survey(who)
    scopes: list[TreeScope] = []
    for task in iter(lambda: hub.take(who), None):
        scopes.append(task.scope)
        hub.finish(who, task, hub.result(task))

    assert [1, 1] == [sum(scope.covers(path) for scope in scopes) for path in (b"b/made/later", b"made later")]


def test_shard_that_a_command_wants_waits_for_it(hub: Hub) -> None:
    """A worker that has the shard hears of it; when it brings the shard back, no other worker gets it first."""
    one, two, command = hub.join(0), hub.join(1), hub.join(1)
    hub.survey(one)
    task = hub.take_until(one, hub.find_shard(b"b"))
    assert {"is_wanted": False} == hub.call("beat", one, job=task.job, done_bytes=0)
    assert "nas1" == hub.ask(command, "b/made later")["held_by"]
    assert {"is_wanted": True} == hub.call("beat", one, job=task.job, done_bytes=0)
    hub.finish(one, task, hub.result(task, is_complete=False))
    others = [hub.take_and_finish(two) for _ in range(3)]

    assert task.shard not in [other.shard for other in others if other is not None]
    given = hub.ask(command, "b/made later")["task"]
    assert isinstance(given, dict)
    assert task.shard == given["shard"]
    assert task.version + 1 == given["version"]


def test_command_changes_no_round(hub: Hub) -> None:
    """What a command stores is the next version; the shard is due when it was, and nothing counts as read."""
    who = hub.join()
    hub.survey(who)
    while hub.take_and_finish(who) is not None:
        pass
    before = {row.id: row for row in hub.rows()}[hub.find_shard(b"b")]
    hub.clock.now += 100
    command = hub.join(1)
    given = hub.ask(command, "b")["task"]
    assert isinstance(given, dict)
    task = read_form(ShardTask, given)
    hub.finish(command, task, hub.result(task, is_reading=False, is_complete=False, read_bytes=0))

    after = {row.id: row for row in hub.rows()}[before.id]
    same = "round_at", "is_complete", "due_at", "visited_at", "read_bytes", "read_ms"
    assert [getattr(before, name) for name in same] == [getattr(after, name) for name in same]
    assert before.version + 1 == after.version


def test_lost_lease_is_in_the_audit_log_with_the_box(hub: Hub) -> None:
    """Who lost which shard can be looked up later."""
    one, two = hub.join(0), hub.join(1)
    hub.survey(one)
    task = hub.take(one)
    assert task is not None
    hub.silence(one, LIMITS.lease_s + 1)
    hub.take(two)
    with hub.database.read() as c:
        lost = [entry for entry in find_entries(c) if entry.verb == "shard_lost"]

    assert [("box:nas1", f"archive: shard {task.shard}")] == [(entry.who, entry.subject) for entry in lost]


DISK = ("uuid:0b0c3ba1-5f2c-4f26-9d1f-0f2b1c7d1e01", "ext4:/dev/sdb1")
OTHER_DISK = ("uuid:77777777-5f2c-4f26-9d1f-0f2b1c7d1e01", "ext4:/dev/sdc1")


def _find_open(hub: Hub) -> list[tuple[str, str | None, str]]:
    with hub.database.read() as c:
        return [(one.kind.value, one.box_name, one.explanation) for one in find_findings(c, UNRESOLVED)]


def _trust(hub: Hub, names: tuple[str, ...], number: int = 0) -> object:
    return hub.call("join", (hub.boxes[number], 0), **write_message(replace(OFFER, names=names)))["trust"]


def _read_tree_from(hub: Hub, names: tuple[str, ...]) -> None:
    """Let a worker of the first box read all shards, and prove its disk by the names on it."""
    who = hub.join(0, replace(OFFER, names=names))
    hub.survey(who)
    while (task := hub.take(who)) is not None:
        hub.finish(who, task, hub.result(task, disk=names[0]))


def test_machine_that_read_a_tree_gets_no_work_with_another_disk(hub: Hub) -> None:
    """Top folders of all ext4 have one inode: the UUID tells them apart, and the finding names both."""
    _read_tree_from(hub, DISK)

    with pytest.raises(CallRefused, match="is not what was recorded") as refused:
        hub.join(0, replace(OFFER, names=OTHER_DISK))
    ((kind, name, words),) = _find_open(hub)

    assert "other_tree" == refused.value.code
    assert ("tree_other_disk", "nas1") == (kind, name)
    assert f"a different one is ({OTHER_DISK[0]} instead of {DISK[0]})" in words
    assert "integrity hub tree rebind archive --moved" in words
    assert "disk" == _trust(hub, DISK)
    assert [] == _find_open(hub)


def test_each_machine_knows_the_file_system_by_a_name_of_its_own(hub: Hub) -> None:
    """One has the disk, another one mounts it by NFS: neither name says anything about the other."""
    _read_tree_from(hub, DISK)
    nfs = ("nfs4:nas1:/srv/archive",)

    assert "none" == _trust(hub, nfs, 1)
    hub.advance(8 * 86_400)
    who = hub.join(1, replace(OFFER, names=nfs))
    task = hub.take(who)
    assert task is not None
    hub.finish(who, task, hub.result(task, disk=nfs[0]))

    assert "name" == _trust(hub, nfs, 1)
    assert "none" == _trust(hub, ("nfs4:192.0.2.7:/srv/archive",), 1)
    assert "disk" == _trust(hub, DISK)
    assert [] == _find_open(hub)


def test_machine_that_finds_no_recorded_names_is_one_finding_and_keeps_nobody_waiting(hub: Hub) -> None:
    """The shard is given to the next machine at once, nothing of it is replaced; the finding ends with its cause."""
    _read_tree_from(hub, DISK)
    hub.advance(8 * 86_400)
    wrong = hub.join(1)
    for _ in range(3):
        task = hub.take(wrong)
        assert task is not None
        hub.call("release", wrong, job=task.job, other_disk="it sees ext4:/dev/sdd1, and of 200 files 3 are there")
    again = hub.take(hub.join(0, replace(OFFER, names=DISK)))

    ((kind, name, words),) = _find_open(hub)
    assert again is not None
    assert ("tree_other_disk", "nas2") == (kind, name)
    assert f"nas1 read it last from {DISK[0]}" in words
    task = hub.take(wrong)
    assert task is not None
    hub.finish(wrong, task, hub.result(task, disk="nfs4:nas1:/srv/archive"))
    assert [] == _find_open(hub)


def test_moved_tree_is_read_wherever_it_is_once(hub: Hub) -> None:
    """After the owner said so the names are not asked for, until each shard was read there."""
    _read_tree_from(hub, DISK)
    hub.advance(8 * 86_400)
    with pytest.raises(CallRefused):
        hub.join(0, replace(OFFER, names=OTHER_DISK))
    with hub.database.transaction() as c:
        release_folder(c, "archive", int(hub.clock()))
    assert [] == _find_open(hub)

    who = hub.join(0, replace(OFFER, names=OTHER_DISK))
    task = hub.take(who)
    assert task is not None
    assert not task.requires_names
    hub.advance(1)
    hub.finish(who, task, hub.result(task, disk=OTHER_DISK[0]))
    hub.advance(8 * 86_400)

    assert "disk" == _trust(hub, OTHER_DISK)
    assert hub.take_until(hub.join(0, replace(OFFER, names=OTHER_DISK)), task.shard).requires_names


def test_machine_that_takes_the_name_of_another_is_a_new_one(hub: Hub) -> None:
    """What the former machine saw as the tree says nothing about what the new one sees."""
    _read_tree_from(hub, DISK)
    with hub.database.transaction() as c:
        revoke_box(c, "nas1", int(hub.clock()))
        add_box(c, "nas1", int(hub.clock()), ANYWHERE)

    assert "none" == _trust(hub, OTHER_DISK)


def test_finding_about_the_disk_of_a_machine_ends_with_its_token(hub: Hub) -> None:
    """Nobody could end it otherwise: the machine gets no work any more."""
    who, task = hub.begin()
    hub.call("release", who, job=task.job, other_disk="it sees another disk")
    before, now = open_findings(hub), int(hub.clock())
    with hub.database.transaction() as c:
        revoke_box(c, "nas1", now)
    check_all_boxes(hub.database, now, limits=BoxLimits(1 << 30, 1 << 40))

    assert 1 == len(before)
    assert [] == open_findings(hub)


def test_shard_comes_with_folders_of_the_others(hub: Hub) -> None:
    """A machine that sees them sees the tree, whatever became of the files of the shard."""
    _, task = hub.begin()

    assert {"a", "b", "c"} - set(task.folders) == set(task.landmarks)
    assert task.requires_names


def test_many_missing_files_are_one_finding_and_one_mail(hub: Hub) -> None:
    """Beyond a hundred of one kind; the count is that of the files, and fewer are listed again."""
    who, task = hub.begin()
    lost = [_finding(f"a/{number}.jpg", "missing", number) for number in range(1, 3001)]
    hub.finish(who, task, hub.result(task, findings_total=3001), *lost, _finding("a/rot.jpg", number=4000))
    channel = KeepingChannel()
    send_alerts(
        hub.database, int(hub.clock()) + 3600, channels=[channel], settings=Alerts(), hostname="hub", page_url=""
    )

    with hub.database.read() as c:
        found = sorted((one.path, one.subjects, one.headline) for one in find_findings(c, UNRESOLVED))
    assert [(b"", 3000), (b"a/rot.jpg", 1)] == [one[:2] for one in found]
    assert "3,000 files missing: archive" == found[0][2]
    assert 1 == len(channel.got)

    hub.advance(8 * 86_400)
    task = hub.take_until(who, task.shard)
    hub.finish(who, task, hub.result(task, findings_total=2), *lost[:2])
    with hub.database.read() as c:
        assert [b"a/1.jpg", b"a/2.jpg"] == sorted(one.path for one in find_findings(c, UNRESOLVED))


def _add_huge_tree(c: sa.Connection, tree_id: int) -> None:
    """Give a tree the shards of 10^9 files: 10,000 with 100 folders each, in a folder of the shard that has the top."""
    shards = (
        "INSERT INTO shard (tree_id, version, created_at, is_complete, due_at, file_count, byte_count,"
        " apart_bytes, read_bytes, read_ms) SELECT :tree, 1, 0, 1, 2000000000 + n, 100000, 0, 0, 0, 0"
        " FROM generate_series(1, 10000) n"
    )
    folders = (
        "INSERT INTO shard_folder (tree_id, path, shard_id, above_id)"
        " SELECT :tree, convert_to('a/' || s.id || '/' || n, 'UTF8'), s.id, top.shard_id"
        " FROM shard s, generate_series(1, 100) n, shard_folder top WHERE s.due_at > 2000000000 AND top.path = ''"
    )
    for query in (shards, folders, "ANALYZE shard", "ANALYZE shard_folder"):
        c.execute(sa.text(query), {"tree": tree_id} if ":tree" in query else {})


def test_shard_of_a_huge_tree_is_given_out_without_reading_the_others(hub: Hub) -> None:
    """Of a million folders only those of the shard are read, and one for each of its landmarks' shards."""
    who, task = hub.begin()
    hub.finish(who, task, hub.result(task))
    with hub.database.transaction() as c:
        _add_huge_tree(c, c.execute(sa.select(shared_tree.c.id)).scalar_one())
    with hub.database.transaction() as c:
        given = workers.take(c, WorkerRow(who[1], 1, who[0]), limits=LIMITS, may_retry=True, now=int(hub.clock()))
        read = c.execute(
            sa.text(
                "SELECT coalesce(sum(seq_tup_read + idx_tup_fetch), 0) FROM pg_stat_xact_user_tables"
                " WHERE relname IN ('shard', 'shard_folder')"
            )
        ).scalar_one()

    assert given is not None
    assert [] == list(given.left_out)
    assert 50 == len(given.landmarks)
    assert read < 20_000


_CUT_NAMES = [b"a", b"b", b"b-old", b"c"]


def _draw_survey(chance: random.Random, tops: list[bytes]) -> list[FolderSize]:
    """Return folders of random sizes below some folders, and these."""
    found = {top: Size(chance.randrange(12), 0) for top in tops}
    for top in tops:
        for _ in range(chance.randrange(12)):
            path = top
            for _ in range(chance.randrange(1, 4)):
                path = (path + b"/" if path else b"") + chance.choice(_CUT_NAMES)
                found.setdefault(path, Size(chance.randrange(12), 0))
    return [FolderSize(path, size) for path, size in sorted(found.items())]


@pytest.mark.parametrize("seed", range(3))
def test_folders_around_shards_stay_right_however_they_are_cut(hub: Hub, seed: int) -> None:
    """What is noted with each folder is what a look at all folders of the tree finds."""
    chance = random.Random(seed)
    who = hub.join()
    task = hub.take(who)
    assert task is not None
    hub.call("survey", who, job=task.job, digest=hub.store_survey(_draw_survey(chance, [b""])))
    for _ in range(12):
        task = hub.take(who)
        assert task is not None
        own = [name.encode() for name in task.folders]
        survey = [one for one in _draw_survey(chance, own) if task.scope.covers(one.path)]
        hub.finish(who, task, hub.result(task, files=26, survey=hub.store_survey(survey)))
        with hub.database.read() as c:
            rows = c.execute(sa.select(shard_folder.c.shard_id, shard_folder.c.path)).all()
            for number in {row.shard_id for row in rows}:
                mine = sorted(row.path for row in rows if row.shard_id == number)
                others = [row.path for row in rows if row.shard_id != number]
                assert (mine, sorted(find_left_out(mine, others))) == workers.find_folders(c, number)
