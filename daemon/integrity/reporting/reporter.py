"""
Report to a hub: one heartbeat, the messages that wait, and the trees that differ. Who reports: a token in a file.

I1  A message is numbered and stored in one transaction, and repeated unchanged until the hub confirms it.
I2  If the hub says that the box went back (it was restored from an image) or is behind what it had confirmed (it was
    restored itself), the box begins a new stream, which repeats all open findings.
I3  A report without news changes nothing in the catalog, so it wakes no sleeping disk; once a day it notes that the hub
    has everything.
"""

from __future__ import annotations

import logging
import os
import re
import secrets
import stat
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Protocol

from integrity import __version__, program
from integrity.catalog import findings, report_queue, runs
from integrity.catalog.connection import Catalog, Connection
from integrity.catalog.report_queue import QueuedChange, QueuedMessage, ReportState, StoredTree
from integrity.catalog.roots import find_roots
from integrity.catalog.runs import ActionRecord, RunRecord
from integrity.errors import ConfigError, HubError, printable, show_path
from integrity.files.excludes import Excludes
from integrity.files.system_load import read_boot_uuid
from integrity.model import Finding, FindingId, FindingState, RootId, RunId
from integrity.reporting.protocol import (
    RUN_BYTES,
    STREAM_BYTES,
    VERSION,
    JsonObject,
    MessageKind,
    ReportMessage,
    cut,
    decode,
    encode,
    extend_chain,
    message_object,
    to_text,
)
from integrity.reporting.tree import ReportedRoot, TreeSync

if TYPE_CHECKING:
    from integrity.reporting.client import HubClient


_TOKEN = re.compile(r"integrity-box-[A-Za-z0-9_-]{20,200}")


def is_token(text: str) -> bool:
    return _TOKEN.fullmatch(text) is not None


def load_token(path: bytes) -> str:
    """Return the token in a file. ConfigError: there is none that can be read, or everybody can read it."""
    if not path:
        raise ConfigError(f"[hub] has a `url` and no `token_file`; run: {program.command('hub join URL')}")
    try:
        with open(path, "rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            text = file.read(1000).decode("ascii", "replace").strip()
    except OSError as error:
        raise ConfigError(f"can't read the token_file of [hub], {show_path(path)}: {error.strerror}") from error
    if mode & (stat.S_IROTH | stat.S_IWOTH):
        raise ConfigError(f"{show_path(path)}: others can read the token of this box: chmod 600 {show_path(path)}")
    if not is_token(text):
        raise ConfigError(
            f"{show_path(path)}: holds no token of a hub; get one there with `integrity hub add BOX`, then run:"
            f" {program.command('hub join URL')}"
        )
    return text


def read_machine(hostname: str) -> bytes:
    """
    Return the number of this machine: 16 bytes, others after it was started again.

    It is made of the id of the running boot, for clones of a disk have the same ``/etc/machine-id``, and of the name,
    for containers of one machine have the same boot.
    """
    text = f"{read_boot_uuid()} {hostname}".encode("utf-8", "surrogateescape")
    return blake2b(text, digest_size=RUN_BYTES, person=b"integrity-hub").digest()


MESSAGES_AT_ONCE = 500
_MOST_IN_LIST = 1000
"""A damaged file of a terabyte may have a million damaged blocks."""

_GONE = "the folder that it was about was forgotten"


class ReportWords(Protocol):
    """Writes values as ``--json`` does."""

    def write_finding(self, finding: Finding) -> JsonObject:
        """Write a finding."""

    def write_run(self, run: RunRecord, root: bytes) -> JsonObject:
        """Write a run. ``root``: path of its root."""

    def write_action(self, action: ActionRecord) -> JsonObject:
        """Write an action."""


def write_messages(
    c: Connection, changes: Sequence[QueuedChange], first: int, words: ReportWords, now: int
) -> list[QueuedMessage]:
    """
    Write what changed as messages. A run or an action that is gone has none.

    Args:
        first: number of the first message.
    """
    written = _Writing(c, changes, words, now)
    found = ((change, written.write(change)) for change in changes)
    kept = [(change, *message) for change, message in found if message is not None]
    return [
        QueuedMessage(number, at, change.kind, change.item_id, encode(_shorten(body)).decode("ascii"))
        for number, (change, at, body) in enumerate(kept, first)
    ]


def to_message(queued: QueuedMessage) -> ReportMessage:
    return ReportMessage(queued.number, queued.at, MessageKind(queued.kind), decode(queued.body.encode("ascii")))


class _Writing:
    """Writes messages, of values that are read at once."""

    def __init__(self, c: Connection, changes: Sequence[QueuedChange], words: ReportWords, now: int) -> None:
        self._c = c
        self._words = words
        self._now = now
        self._roots = {root.path: root.id for root in find_roots(c)}
        self._paths = {root_id: path for path, root_id in self._roots.items()}
        numbers = (FindingId(number) for number in _find_items(changes, MessageKind.FINDING))
        self._findings = {one.id: one for one in findings.get_findings(c, numbers)}
        self._actions = {one.id: one for one in runs.get_actions(c, _find_items(changes, MessageKind.ACTION))}

    def write(self, change: QueuedChange) -> tuple[int, JsonObject] | None:
        """Return when it happened, and the body."""
        match change.kind:
            case MessageKind.FINDING:
                return self._write_finding(FindingId(change.item_id))
            case MessageKind.RUN:
                return self._write_run(RunId(change.item_id))
            case MessageKind.ACTION:
                return self._write_action(change.item_id)
        return self._now, {"findings": report_queue.count_queued(self._c, MessageKind.FINDING)}

    def _write_finding(self, number: FindingId) -> tuple[int, JsonObject]:
        found = self._findings.get(number)
        if found is None:
            resolved = {"state": FindingState.RESOLVED.value, "resolved_at": None, "resolution": _GONE}
            return self._now, {"id": number, **resolved}
        place = {"root_id": self._roots[found.root], "relative_path": _text(found.path)}
        return found.updated_at, {**self._words.write_finding(found), **place}

    def _write_run(self, number: RunId) -> tuple[int, JsonObject] | None:
        run = runs.get_run(self._c, number)
        if run is None or run.finished_at is None:
            return None
        return run.finished_at, {**self._words.write_run(run, self._paths[run.root_id]), "root_id": run.root_id}

    def _write_action(self, number: int) -> tuple[int, JsonObject] | None:
        done = self._actions.get(number)
        if done is None:
            return None
        place = {"root_id": self._roots.get(done.action.root or b""), "relative_path": _text(done.action.path)}
        return done.at, {**self._words.write_action(done), **place}


def _find_items(changes: Iterable[QueuedChange], kind: MessageKind) -> list[int]:
    return [change.item_id for change in changes if change.kind == kind]


def _text(path: bytes | None) -> str | None:
    return None if path is None else to_text(path)


def _shorten(body: JsonObject) -> JsonObject:
    """Cut long lists, and say how long they were."""
    cut = {name: value for name, value in body.items() if isinstance(value, list) and len(value) > _MOST_IN_LIST}
    totals = {f"{name}_total": len(value) for name, value in cut.items()}
    return {**body, **{name: value[:_MOST_IN_LIST] for name, value in cut.items()}, **totals}


_log = logging.getLogger(__name__)

_NOTE_S = 86_400
_WENT_BACK = "went_back"
_TREE_PAUSE = 20
"""Trees are not renewed before so many times the duration of the last renewal: during a scrub they always change."""


@dataclass(frozen=True, slots=True)
class RootFacts:
    """
    What a heartbeat says of a root.

    Attributes:
        replica_set: empty: no files are reported.
        patterns: what is left out, as gitignore patterns.
        excludes: the same, to decide.
        oldest_verified_at: when the file was verified that waits longest; None: no file, or unknown.
    """

    id: RootId
    path: bytes
    replica_set: str
    replica_url: str
    patterns: tuple[str, ...]
    excludes: Excludes
    policy: str
    verify_every_s: int
    files: int
    bytes: int
    oldest_verified_at: int | None


@dataclass(frozen=True, slots=True)
class BoxFacts:
    """What a heartbeat says of the box. ``state``: ok, problem or gap: how bad the sentence is."""

    hostname: str
    sentence: str
    state: str
    roots: tuple[RootFacts, ...]


class Reporter:
    """
    Reports to one hub. Belongs to one thread.

    Args:
        url: names the hub: another one gets a stream of its own.
        describe: returns what the heartbeat says; may be some minutes old.
        words: writes values as JSON objects.
        monotonic: seconds, for pauses.
        is_over: called often; true ends a report with ReadInterrupted.

    Attributes:
        complete_at: when the hub last had everything, seconds UTC; None: not since this was made.
    """

    def __init__(
        self,
        catalog: Catalog,
        client: HubClient,
        url: str,
        describe: Callable[[], BoxFacts],
        words: ReportWords,
        *,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        is_over: Callable[[], bool] = lambda: False,
    ) -> None:
        self.complete_at: int | None = None
        self._run = secrets.token_bytes(RUN_BYTES).hex()
        self._catalog = catalog
        self._client = client
        self._url = url
        self._refused: list[str] = []
        self._describe = describe
        self._words = words
        self._clock = clock
        self._trees = _Trees(catalog, monotonic, is_over)

    def report(self) -> bool:
        """
        Send everything that the hub does not have; return whether messages were among it.

        What the heartbeat said of the box is from before the messages.

        Raises:
            HubError: the hub was not reached, or refused; the rest waits in the catalog.
            CatalogError: the catalog can't be used now.
            ReadInterrupted: the service ends.
        """
        self._require_stream()
        box = self._describe()
        unsettled = self._send_heartbeat(box)
        has_news = self._send_messages()
        if self._trees.renew(box.roots):
            unsettled = self._send_heartbeat(box)
        is_settled = [self._trees.send(self._client, root_id) for root_id in unsettled]
        if all(is_settled):
            self._note_complete(has_news=has_news or bool(unsettled))
        return has_news

    def close(self) -> None:
        """Close the connection, and give temporary files back."""
        self._client.close()
        self._trees.close()

    def _now(self) -> int:
        return int(self._clock())

    def _load_state(self) -> ReportState:
        with self._catalog.read() as c:
            state = report_queue.load_state(c)
        assert state is not None  # made by _require_stream, removed by this thread alone
        return state

    def _require_stream(self) -> None:
        with self._catalog.read() as c:
            state = report_queue.load_state(c)
        if state is None or state.url != self._url:
            self._start_stream("it begins to report to this hub")

    def _start_stream(self, reason: str) -> None:
        with self._catalog.transaction() as c:
            report_queue.start_stream(c, self._url, secrets.token_bytes(STREAM_BYTES), self._now())
        _log.info("report_stream started: %s", reason)

    def _send_heartbeat(self, box: BoxFacts) -> list[RootId]:
        """Send a heartbeat, and return the roots whose tree the hub does not have."""
        state = self._load_state()
        with self._catalog.read() as c:
            newest = report_queue.get_newest(c)
        answer = self._client.call("heartbeat", encode(self._write_heartbeat(box, state, newest)))
        last = answer.get("last")
        if (last is None and state.confirmed) or (isinstance(last, int) and not state.confirmed <= last <= newest):
            self._start_stream("the hub has other messages than this box sent")
        self._note_refused(answer.get("refused"))
        trees = answer.get("trees")
        wanted = trees if isinstance(trees, list) else []
        return list(dict.fromkeys(RootId(one) for one in wanted if type(one) is int))

    def _note_refused(self, refused: object) -> None:
        """Log which replica sets the hub does not let this box be in, when they change."""
        names = [printable(name) for name in refused if isinstance(name, str)] if isinstance(refused, list) else []
        if names and names != self._refused:
            _log.warning(
                "replica_set_refused sets=%s: this box may not be in them; if it shall, run on the hub: integrity hub"
                " allow BOX --set NAME",
                ", ".join(names),
            )
        self._refused = names

    def _write_heartbeat(self, box: BoxFacts, state: ReportState, newest: int) -> JsonObject:
        return {
            "protocol": VERSION,
            "version": __version__,
            "hostname": box.hostname,
            "sent_at": self._now(),
            "stream": state.stream.hex(),
            "newest": newest,
            "sentence": box.sentence,
            "state": box.state,
            "roots": [self._write_root(root) for root in box.roots],
            "run": self._run,
            "machine": read_machine(box.hostname).hex(),
        }

    def _write_root(self, root: RootFacts) -> JsonObject:
        top = self._trees.get_top(root.id)
        return {
            "root": root.id,
            "path": to_text(root.path),
            "set": root.replica_set or None,
            "url": root.replica_url,
            "excludes": list(root.patterns),
            "policy": root.policy,
            "verify_every_s": root.verify_every_s,
            "files": root.files,
            "bytes": root.bytes,
            "oldest_verified_at": root.oldest_verified_at,
            "tree": None if top is None else top.hex(),
        }

    def _send_messages(self) -> bool:
        """Send all messages that wait; return whether there were any. A second stream in one report is an error."""
        has_news, may_restart = False, True
        while messages := self._load_batch():
            has_news = True
            try:
                self._post(messages)
            except HubError as error:
                if error.code != _WENT_BACK or not may_restart:
                    raise
                may_restart = False
                self._start_stream("the hub has other messages than this box sent")
        return has_news

    def _load_batch(self) -> list[QueuedMessage]:
        """Return the messages that are not confirmed; if there are none, write those that wait."""
        with self._catalog.read() as c:
            messages = report_queue.find_messages(c)
            waiting = messages or report_queue.find_changes(c, 1)
        while waiting and not messages:
            with self._catalog.transaction() as c:
                changes = report_queue.find_changes(c, MESSAGES_AT_ONCE)
                first = report_queue.get_newest(c) + 1
                messages = write_messages(c, changes, first, self._words, self._now())
                report_queue.add_messages(c, messages, changes)
            waiting = messages or changes
        return messages

    def _post(self, messages: Sequence[QueuedMessage]) -> None:
        """Send messages, and record which of them the hub confirmed."""
        state = self._load_state()
        chain = state.chain
        for group in cut(map(to_message, messages), message_object, self._client.body_bytes):
            first = group[0].number
            header = {"protocol": VERSION, "stream": state.stream.hex(), "first": first, "chain": chain.hex()}
            lines = b"".join(encode(one) + b"\n" for one in (header, *map(message_object, group)))
            answer = self._client.call("messages", lines, is_lines=True)
            last = group[-1].number
            if answer.get("last") != last:
                raise HubError(f"the hub confirmed message {answer.get('last')!r} instead of {last}", code=_WENT_BACK)
            for message in group:
                chain = extend_chain(chain, message)
            with self._catalog.transaction() as c:
                report_queue.confirm(c, last, chain)

    def _note_complete(self, *, has_news: bool) -> None:
        self.complete_at = self._now()
        state = self._load_state()
        is_old = state.complete_at is None or not 0 <= self.complete_at - state.complete_at < _NOTE_S
        if has_news or is_old or state.failing_since is not None:
            with self._catalog.transaction() as c:
                report_queue.note_complete(c, self.complete_at)


class _Trees:
    """The trees of the roots that are in a replica set, as they were last built."""

    def __init__(self, catalog: Catalog, monotonic: Callable[[], float], is_over: Callable[[], bool]) -> None:
        self._catalog = catalog
        self._monotonic = monotonic
        self._is_over = is_over
        self._trees: dict[RootId, StoredTree] = {}
        self._rows: dict[RootId, ReportedRoot] = {}
        self._rules: dict[RootId, str] = {}
        self._version: int | None = None
        self._next_at = 0.0

    def get_top(self, root_id: RootId) -> bytes | None:
        """Return the digest of a root's tree; None: it has none, or it is not built yet."""
        tree = self._trees.get(root_id)
        return None if tree is None else tree.get(b"").subtree

    def renew(self, roots: Sequence[RootFacts]) -> bool:
        """Build the trees that may have changed; return whether one did."""
        rules = {root.id: "\n".join(root.patterns) for root in roots if root.replica_set}
        version, started_at = self._catalog.version(), self._monotonic()
        if rules == self._rules and (version == self._version or started_at < self._next_at):
            return False
        before = {root_id: self.get_top(root_id) for root_id in self._trees}
        for root_id in self._trees.keys() - rules.keys():
            self._drop(root_id)
        for root in roots:
            if root.replica_set:
                self._renew(root, rules[root.id])
        self._rules, self._version = rules, version
        self._next_at = self._monotonic() + _TREE_PAUSE * (self._monotonic() - started_at)
        return before != {root_id: self.get_top(root_id) for root_id in self._trees}

    def send(self, client: HubClient, root_id: RootId) -> bool:
        """Send what the hub lacks of a tree; return whether it has all of it now."""
        tree = self._trees.get(root_id)
        if tree is None:
            return False
        is_settled = TreeSync(client, self._rows[root_id], tree).run()
        if not is_settled:
            self._version = None  # build it anew
        return is_settled

    def close(self) -> None:
        for root_id in list(self._trees):
            self._drop(root_id)

    def _renew(self, root: RootFacts, rules: str) -> None:
        rows = ReportedRoot(self._catalog, root.id, root.excludes, rules, self._is_over)
        rows.renew_digests()
        tree = rows.build_tree()
        if tree is None:
            return  # files change all the time: the former tree has to do
        self._drop(root.id)
        self._trees[root.id], self._rows[root.id] = tree, rows

    def _drop(self, root_id: RootId) -> None:
        tree = self._trees.pop(root_id, None)
        self._rows.pop(root_id, None)
        if tree is not None:
            tree.close()
