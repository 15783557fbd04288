"""
Report to a hub: one heartbeat, the messages that wait, and the trees that differ.

I1  A message is numbered and stored in one transaction, and repeated unchanged until the hub confirms it.
I2  If the hub says that the box went back (it was restored from an image) or is behind what it had confirmed (it was
    restored itself), the box begins a new stream, which repeats all open findings.
I3  A report without news changes nothing in the catalog, so it wakes no sleeping disk; once a day it notes that the hub
    has everything.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from integrity import __version__
from integrity.catalog import report_queue
from integrity.catalog.connection import Catalog
from integrity.catalog.report_queue import QueuedMessage, ReportState, StoredTree
from integrity.errors import HubError, printable
from integrity.files.excludes import Excludes
from integrity.model import RootId
from integrity.reporting.messages import MESSAGES_AT_ONCE, ReportWords, to_message, write_messages
from integrity.reporting.protocol import (
    RUN_BYTES,
    STREAM_BYTES,
    VERSION,
    JsonObject,
    cut,
    encode,
    extend_chain,
    message_object,
)
from integrity.reporting.token import read_machine
from integrity.reporting.tree import ReportedRoot
from integrity.reporting.tree_sync import TreeSync

if TYPE_CHECKING:
    from integrity.reporting.client import HubClient

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
            "path": root.path.decode("utf-8", "surrogateescape"),
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
        """Give the temporary files back."""
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
