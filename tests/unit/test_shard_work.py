"""What a worker of a shared tree decides by itself: how much it reads, and whether it reports to be alive."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from integrity.config import Config, parse_config
from integrity.errors import ConfigError, ProtocolError
from integrity.jobs.options import ScanOptions
from integrity.jobs.report import Stop
from integrity.jobs.runner import scan
from integrity.jobs.shards.messages import (
    PackedDamaged,
    ShardTask,
    VisitResult,
    digest_file,
    pack_file,
    to_path,
    unpack_file,
    write_message,
)
from integrity.jobs.shards.visit import plan_visit
from integrity.jobs.shards.worker import Lease
from integrity.reporting.client import HubClient
from integrity.reporting.forms import read_form
from support.jobs import open_context
from support.servers import Answer, HttpServer, Request
from support.waiting import wait_until

_DAY_S = 86_400


class BeatenHub(HttpServer):
    """A hub that counts heartbeats, and refuses them once it is told to."""

    def __init__(self) -> None:
        self.beats = 0
        self.refuses = False
        super().__init__(self._answer)

    def _answer(self, _: Request) -> Answer:
        self.beats += 1
        return Answer(409, b'{"error": "not_yours", "message": "lost"}') if self.refuses else Answer(body=b"{}")


def _config(text: str) -> Config:
    return parse_config(text.encode(), "test")


def _task(**values: object) -> ShardTask:
    numbers = {"job": 1, "shard": 1, "version": 0, "round_at": 0, "now": 0, "visit_s": 600, "every_s": _DAY_S}
    rest = {"digest": None, "folders": ("",), "left_out": (), "most_files": 10, "most_bytes": 10}
    return ShardTask(**(numbers | rest | values))  # type: ignore[arg-type]


def test_worker_without_progress_is_not_kept_alive() -> None:
    """A worker that hangs renews its lease no more; one that makes progress does."""
    with BeatenHub() as hub:
        now = 0.0
        lease = Lease(HubClient(hub.url, "token"), 1, 1, beat_s=0.01, quiet_s=60, monotonic=lambda: now)
        with lease.held(Stop()):
            now = 1.0
            wait_until(lambda: hub.beats == 1, "the first renewal")
            now = 61.0
            before = hub.beats
            threading.Event().wait(0.5)
            assert before == hub.beats
            lease.made_progress()
            now = 62.0
            wait_until(lambda: hub.beats > before, "a renewal after progress")


def test_refused_renewal_ends_the_work() -> None:
    """A worker that lost its shard stops reading it."""
    with BeatenHub() as hub:
        hub.refuses = True
        lease = Lease(HubClient(hub.url, "token"), 1, 1, beat_s=0.01, quiet_s=60)
        with lease.held(Stop()):
            wait_until(lease.is_over, "the end of the work")
        assert lease.is_lost


def test_round_reads_an_even_share_of_the_promise(tmp_path: Path) -> None:
    """With rounds of a day and a promise of 30, each reads a 28th, and first what may not wait for two more rounds."""
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "file").write_bytes(bytes(28_000))
    config = _config(f'[[root]]\npath = "{tree}"\nverify_every = "30d"\n')
    with open_context(tmp_path / "catalog.db", config) as context:
        scan(context, [str(tree).encode()], ScanOptions())
        options = plan_visit(context, str(tree).encode(), _task(), 600)

    assert (1000, 2 * _DAY_S, 600) == (options.at_least_bytes, options.due_within_s, options.time_limit_s)


def test_round_that_is_as_long_as_the_promise_allows_reads_everything(tmp_path: Path) -> None:
    """If rounds are not much shorter than the promise, each reads all that it has not read yet."""
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "file").write_bytes(b"content")
    config = _config(f'[[root]]\npath = "{tree}"\nverify_every = "40s"\n')
    with open_context(tmp_path / "catalog.db", config) as context:
        scan(context, [str(tree).encode()], ScanOptions())
        options = plan_visit(context, str(tree).encode(), _task(every_s=15, round_at=90, now=100), 600)

    assert (10, None) == (options.older_than_s, options.at_least_bytes)


def test_scan_of_a_shared_tree_is_refused_with_the_command_for_it(tmp_path: Path) -> None:
    """The records of a shared tree are not in the catalog of one machine."""
    tree = tmp_path / "tree"
    (tree / "folder").mkdir(parents=True)
    config = _config(f'[[root]]\npath = "{tree}"\nshared = "archive"\n')
    with (
        open_context(tmp_path / "catalog.db", config) as context,
        pytest.raises(ConfigError, match=r"lies in the shared tree archive.*hub work"),
    ):
        scan(context, [str(tree / "folder").encode()], ScanOptions())


def test_packed_file_that_was_damaged_is_refused(tmp_path: Path) -> None:
    """What arrives is compared with the digest that was announced."""
    path = tmp_path / "file"
    path.write_bytes(b"content" * 1000)
    packed = Path(pack_file(str(path).encode()).decode())
    with packed.open("r+b") as file:
        digest = digest_file(file)
        unpack_file(file, str(tmp_path / "same").encode(), digest)
        file.seek(10)
        file.write(b"X")
        file.flush()
        with pytest.raises(PackedDamaged, match="not what was stored"):
            unpack_file(file, str(tmp_path / "other").encode(), digest)

    assert path.read_bytes() == (tmp_path / "same").read_bytes()


def test_messages_come_back_as_they_were_sent() -> None:
    """Messages survive being written and read; names of any bytes, too."""
    task = _task(folders=("a/\udcff",), digest="ab")

    assert task == read_form(ShardTask, dict(write_message(task)))
    assert b"a/\xff" == to_path(task.folders[0])


@pytest.mark.parametrize(
    "change", [{"files": "1"}, {"files": True}, {"digest": None}, {"digest": "../ab"}, {"files": 1 << 63}]
)
def test_message_with_a_wrong_value_is_refused(change: dict[str, object]) -> None:
    """A value of another type, or out of range, is refused with its name."""
    result = write_message(VisitResult(0, "ab" * 32, True, 1, 1, None, 0, 1, 1, 0))

    with pytest.raises(ProtocolError, match=next(iter(change))):
        read_form(VisitResult, {**result, **change})
