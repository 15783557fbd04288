"""
What a worker of a shared tree, or a command on its machine, asks the hub: for a part, and its catalog.

A worker keeps its shard while the hub is away, so each call is tried again for as long as the caller wants; only a hub
that refuses ends it.
"""

from __future__ import annotations

import logging
import os
import random
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import IO, TYPE_CHECKING, TypeVar

from integrity import program
from integrity.catalog.connection import Catalog
from integrity.errors import ConfigError, HubAway, ProtocolError
from integrity.files.system_load import read_boot_uuid
from integrity.jobs.shards import local_copy
from integrity.jobs.shards.messages import (
    MOST_FINDINGS,
    MOST_PACKED_BYTES,
    DiskTrust,
    ShardTask,
    TreeOffer,
    VisitResult,
    digest_file,
    pack_file,
    pack_lines,
    unpack_file,
    write_message,
)
from integrity.reporting.client import HubClient
from integrity.reporting.forms import read_form
from integrity.reporting.protocol import MOST_BODY_BYTES, PACKED, VERSION, JsonObject, encode, encode_lines, to_text
from integrity.reporting.reporter import load_token

if TYPE_CHECKING:
    from integrity.config import Config, ConfiguredRoot
    from integrity.jobs.shards.visit import Visited
    from integrity.model import Finding

_log = logging.getLogger(__name__)

T = TypeVar("T")

FindingWriter = Callable[["Finding"], JsonObject]
"""Writes a finding as the object of ``findings --json``."""

_SHORTEST_S, _LONGEST_S = 0.1, 86_400.0
"""Of a time that the hub names."""

_AGREED = (
    *("digests", "block_size_bytes", "policy", "exclude", "builtin_excludes", "rewrites_in_place", "cross_mounts"),
    *("mass_change_files", "mass_change_percent"),
)
"""Settings of a root that all workers of a tree must have in common: they decide what a catalog contains."""

_PART_BYTES = 4 << 20
_PART_PATIENCE = 4
_FIRST_WAIT_S = 0.5
_LONGEST_WAIT_S = 60.0
_API = "shards/"


class ShardClient:
    """
    Calls the hub as a worker of one box. Used by one thread.

    Args:
        wait: waits this many seconds before a call is repeated; returns True if it should not be.
    """

    def __init__(self, hub: HubClient, wait: Callable[[float], bool]) -> None:
        self.hub = hub
        self._wait = wait

    def call(self, path: str, body: bytes, *, is_lines: bool = False) -> JsonObject:
        """
        Send a body and return the answer.

        Raises:
            HubAway: there was none until ``wait`` said to give up.
            HubError: the hub refuses.
        """
        return self._until_answered(lambda: self.hub.call(_API + path, body, is_lines=is_lines))

    def send_file(self, path: str, header: JsonObject, file: IO[bytes], progress: Callable[[], None]) -> None:
        """
        Send a file in parts, each after a line with ``header`` and its place; otherwise as ``call``.

        Args:
            progress: called after each part.
        """
        size, offset = file.seek(0, os.SEEK_END), 0
        file.seek(0)
        while data := file.read(_PART_BYTES):
            self._exchange(path, encode({**header, "offset": offset, "size": size}) + b"\n" + data)
            offset += len(data)
            progress()

    def receive_file(
        self, path: str, body: JsonObject, file: IO[bytes], progress: Callable[[], None], *, most_bytes: int
    ) -> None:
        """
        Write a file that the hub sends in parts, up to an empty one; otherwise as ``send_file``.

        Raises:
            ProtocolError: it is longer than ``most_bytes``.
        """
        while part := self._exchange(path, encode({**body, "offset": file.tell()})):
            if file.tell() + len(part) > most_bytes:
                raise ProtocolError("what the hub sends is longer than a catalog can be")
            file.write(part)
            progress()
        file.flush()

    def _exchange(self, path: str, body: bytes) -> bytes:
        return self._until_answered(partial(self.hub.exchange, _API + path, body, kind=PACKED, patience=_PART_PATIENCE))

    def _until_answered(self, exchange: Callable[[], T]) -> T:
        wait_s = _FIRST_WAIT_S
        while True:
            try:
                return exchange()
            except HubAway as error:
                # Many workers come back after the same outage: they must not do so in step.
                asked_s = min(max(wait_s, error.retry_after_s or 0), _LONGEST_WAIT_S)
                if self._wait(asked_s * (0.5 + random.random())):  # noqa: S311 - no secret
                    raise
                if wait_s == _FIRST_WAIT_S:
                    _log.warning("hub_away: %s; it is asked again until it answers", error)
            wait_s *= 2


class TreeCalls:
    """
    The calls of one worker of a tree, which comes with the first of them.

    Args:
        client: calls the hub.
        root: the shared tree, as mounted here.

    Attributes:
        worker: its number; 0: the hub has to be asked for one.
        disk: name of the file system, if the names in it prove that it is the tree; None: they do not, or not yet.
    """

    def __init__(self, client: ShardClient, config: Config, root: ConfiguredRoot, write_finding: FindingWriter) -> None:
        self.client = client
        self.config = config
        self.root = root
        self.worker = 0
        self.disk: str | None = None
        self._joined: local_copy.SeenTree | None = None
        self._trust = DiskTrust.NONE
        self._write_finding = write_finding

    def notice_other_disk(self) -> None:
        """Let the hub decide again, with the next call, if something else was mounted since it last did."""
        if self._joined is not None and not local_copy.is_same_tree(self._joined, local_copy.see_tree(self.root.path)):
            self.worker = 0

    def call(self, path: str, body: JsonObject) -> JsonObject:
        """Make a call that names the worker; see ``ShardClient.call``."""
        if not self.worker:
            self._join()
        return self.client.call(path, encode({"protocol": VERSION, "worker": self.worker, **body}))

    def ask(self, path: str, body: JsonObject) -> tuple[ShardTask | None, JsonObject]:
        answer = self.call(path, body)
        task = answer.get("task")
        return (read_form(ShardTask, task) if isinstance(task, dict) else None), answer

    def _join(self) -> None:
        seen = local_copy.see_tree(self.root.path)
        settings = {name: _spell(getattr(self.root, name)) for name in _AGREED}
        names = seen.identity.names
        offer = TreeOffer(self.root.shared, seen.inode, self.root.verify_every_s, settings, names)
        answer = self.client.call("join", encode({"protocol": VERSION, **write_message(offer)}))
        worker = answer.get("worker")
        self.worker = worker if isinstance(worker, int) else 0
        trust = answer.get("trust")
        is_said = isinstance(trust, str) and trust in set(DiskTrust)
        self._trust = DiskTrust(str(trust)) if is_said else DiskTrust.NAME  # an older hub says nothing
        self._joined, self.disk = seen, None

    @contextmanager
    def open_copy(self, path: bytes, task: ShardTask, progress: Callable[[], None]) -> Iterator[Catalog]:
        """
        Open a local copy of the catalog that a job begins with, for writing: bound to the tree here, and narrowed.

        Args:
            path: of the copy, which is made; to be removed by ``local_copy.remove``.
            progress: called as it arrives.
        """
        if task.digest is None:
            self._make_empty(path)
        else:
            self._fetch(task.digest, path, progress)
        with local_copy.open_copy(path) as catalog:
            catalog.stop_syncing()
            assert self._joined is not None  # whoever has a job has come
            local_copy.bind(catalog, self.root.path, self._joined)
            local_copy.narrow(catalog, task.scope)
            if not task.requires_names or local_copy.check_names(catalog, self.root, task, self._trust):
                self.disk = self._joined.identity.fs_id
            yield catalog

    def _make_empty(self, path: bytes) -> None:
        """Make an empty catalog, by copying the one that was made first: that takes a tenth of the time."""
        empty = os.path.join(os.path.dirname(path), b"empty.db")
        if not os.path.exists(empty):
            Catalog.create(empty).close()
        shutil.copyfile(empty, path)

    def _fetch(self, digest: str, path: bytes, progress: Callable[[], None]) -> None:
        body: JsonObject = {"protocol": VERSION, "worker": self.worker, "digest": digest}
        with open(path + b".in", "w+b") as file:
            self.client.receive_file("fetch", body, file, progress, most_bytes=MOST_PACKED_BYTES)
            unpack_file(file, path, digest)

    def make_config(self, catalog: Catalog) -> Config:
        """Return the configuration for a job on a local copy: the tree is the only root, and one as any other."""
        return replace(self.config, catalog=catalog.path, roots=(replace(self.root, shared=""),))

    def store_catalog(self, catalog: Catalog, task: ShardTask, progress: Callable[[], None]) -> str:
        """Send a local copy to the hub's store; return its digest."""
        path = catalog.path + b".out"
        local_copy.export(catalog, path, read_boot_uuid(), int(time.time()))
        progress()
        return self._store(pack_file(path), task, progress)

    def _store(self, packed: bytes, task: ShardTask, progress: Callable[[], None]) -> str:
        with open(packed, "rb") as file:
            digest = digest_file(file)
            header = {"protocol": VERSION, "worker": self.worker, "job": task.job, "digest": digest}
            self.client.send_file("store", header, file, progress)
        return digest

    def store_lines(self, lines: Iterator[bytes], task: ShardTask, progress: Callable[[], None], folder: bytes) -> str:
        """Send lines as one packed file to the hub's store; return its digest. ``folder``: for that file."""
        path = pack_lines(lines, os.path.join(folder, b"survey"))
        try:
            return self._store(path, task, progress)
        finally:
            os.unlink(path)

    def finish(self, task: ShardTask, done: Visited, digest: str, survey: str | None = None) -> None:
        """
        End a job with a new version of the catalog.

        Args:
            digest: of the stored catalog.
            survey: digest of the stored survey.
        """
        known = done.coverage
        result = VisitResult(
            version=task.version,
            digest=digest,
            is_complete=done.is_complete,
            files=known.files,
            bytes=known.bytes,
            oldest_at=known.oldest_at,
            apart_bytes=known.uncovered_bytes,
            read_bytes=done.read_bytes,
            read_ms=int(done.duration_s * 1000),
            findings_total=len(done.findings),
            survey=survey,
            is_reading=done.is_reading,
            disk=self.disk,
        )
        header = {"protocol": VERSION, "worker": self.worker, "job": task.job, **write_message(result)}
        lines = encode_lines([header, *map(self._describe, done.findings[:MOST_FINDINGS])])
        self.client.call("finish", lines[: lines.rindex(b"\n", 0, MOST_BODY_BYTES) + 1], is_lines=True)

    def _describe(self, finding: Finding) -> JsonObject:
        return {
            "number": finding.id,
            "path": to_text(finding.path or b""),
            "kind": finding.kind.value,
            "opened_at": finding.opened_at,
            "body": self._write_finding(finding),
        }


def make_calls(
    config: Config, root: ConfiguredRoot, write_finding: FindingWriter, wait: Callable[[float], bool]
) -> TreeCalls:
    """Return the calls for a shared root. ``wait``: see ``ShardClient``. ConfigError: no hub is configured."""
    if not config.hub.url:
        raise ConfigError(f"no hub is configured, which shares the work; run: {program.command('hub join URL')}")
    token = load_token(config.hub.token_file)
    client = ShardClient(HubClient(config.hub.url, token, certificate=config.hub.certificate), wait)
    return TreeCalls(client, config, root, write_finding)


def read_seconds(answer: JsonObject, name: str, default: float) -> float:
    """Return a time of an answer; what is none, too short or too long is the default."""
    value = answer.get(name)
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not _SHORTEST_S <= value <= _LONGEST_S:
        return default
    return float(value)


def _spell(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value
