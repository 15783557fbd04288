"""
The API that boxes report to: which calls there are, within which limits, and what each does.

``docs/hub-api.md`` describes it. Bodies are described by the classes that read them (``hub.reported``). The calls for
shared trees are in ``hub.shards.service``, see docs/shared-trees.md.

A1  A call without the token of a box that may report reaches nothing but the table of tokens, and takes no slot and no
    thread of a box. Its body is not read. What strangers at an address do never keeps a box there from reporting.
A2  Memory is bounded: so many calls at once, so many large bodies at once, each of limited size before and after
    decompression. One box has a part of them, and of the threads, however slowly it sends or however long its calls
    take.
A3  A call changes the database as a whole or not at all.
"""

from __future__ import annotations

import logging
import time
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from typing import NamedTuple, TypeVar

import anyio
import zstandard
from anyio.to_thread import run_sync
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

import integrity.web.query  # noqa: F401 - registers {name:number}
from integrity.errors import AppError, CallRefused, HubDatabaseAway, ProtocolError, printable
from integrity.hub import audit, boxes, trees
from integrity.hub.admission import Rates, Slots, TokenTable
from integrity.hub.database import HubDatabase
from integrity.hub.ingest import CallingBox, store_heartbeat, store_messages
from integrity.hub.quota import BoxQuota, size_of_folders, size_of_messages, size_of_roots
from integrity.hub.reported import (
    BoxHeartbeat,
    ComparedFolder,
    FolderLine,
    FolderQuestion,
    MessageLine,
    MessagesHeader,
    PlainHeader,
    ReportedFinding,
    TreeQuestion,
    read_call,
    read_folders,
)
from integrity.hub.token_use import note_use, require_free, require_sole
from integrity.hub.work import HubWork
from integrity.reporting import protocol
from integrity.reporting.forms import Number, describe_form, read_form
from integrity.reporting.protocol import JSON_LINES, MOST_BODY_BYTES, ZSTD, JsonObject, ReportMessage
from integrity.web.endpoint import find_address_group
from integrity.web.json_pages import JsonInterface, describe_answer

PREFIX = "/hub/v1"

_ROOT = {"root_id": "number of the root on the box"}


class BoxCallForm(NamedTuple):
    """
    A call. It is answered by the method of ``BoxApi`` that has its name.

    Attributes:
        path: below the prefix.
        head: JSON schema of its body, or of the first line of it.
        line: JSON schema of the further lines; None: the body is one object.
    """

    path: str
    summary: str
    head: JsonObject
    answer: JsonObject
    line: JsonObject | None = None

    @property
    def body(self) -> JsonObject:
        if self.line is None:
            return {"application/json": {"schema": self.head}}
        return {JSON_LINES: {"schema": {"type": "array", "prefixItems": [self.head], "items": self.line}}}


def _answer(**values: JsonObject) -> JsonObject:
    return {"type": "object", "properties": values, "required": [*values]}


_NUMBER = describe_form(Number)
_NUMBERS: JsonObject = {"type": "array", "items": _NUMBER}
_TEXT: JsonObject = {"type": "string"}
_MESSAGE = describe_form(MessageLine)
_BODIES: JsonObject = {"anyOf": [describe_form(ReportedFinding), {"type": "object"}]}

CALLS = {
    "heartbeat": BoxCallForm(
        path="heartbeat",
        summary="How the box is, and all its roots",
        head=describe_form(BoxHeartbeat),
        answer=_answer(
            now=_NUMBER,
            last={"anyOf": [_NUMBER, {"type": "null"}]},
            trees=_NUMBERS,
            refused={"type": "array", "items": _TEXT},
        ),
    ),
    "messages": BoxCallForm(
        path="messages",
        summary="Messages of a stream, numbered without gaps",
        head=describe_form(MessagesHeader),
        line={**_MESSAGE, "properties": {**_MESSAGE["properties"], "body": _BODIES}},  # type: ignore[dict-item]
        answer=_answer(last=_NUMBER),
    ),
    "compare": BoxCallForm(
        path="trees/{root_id:number}/compare",
        summary="Which folders of a tree the hub does not have as the box has them",
        head=describe_form(PlainHeader),
        line=describe_form(ComparedFolder),
        answer=_answer(own=_NUMBERS, below=_NUMBERS),
    ),
    "buckets": BoxCallForm(
        path="trees/{root_id:number}/buckets",
        summary="Digests of the files of a folder, by which a box finds those that the hub does not have as they are",
        head=describe_form(FolderQuestion),
        answer=_answer(buckets=_TEXT),
    ),
    "folders": BoxCallForm(
        path="trees/{root_id:number}/folders",
        summary="Folders with their files, or parts of them",
        head=describe_form(PlainHeader),
        line=describe_form(FolderLine),
        answer=_answer(stored=_NUMBER),
    ),
    "settle": BoxCallForm(
        path="trees/{root_id:number}/settle",
        summary="Whether the hub has a whole tree",
        head=describe_form(TreeQuestion),
        answer=_answer(settled={"type": "boolean"}),
    ),
}

_INTERFACE = JsonInterface(
    title="integrity hub: calls of boxes",
    description=(
        "The report protocol. Each box has a token of its own, `Authorization: Bearer TOKEN`. A body has a"
        f" Content-Length, at most {MOST_BODY_BYTES:,} bytes, and may be compressed (`Content-Encoding: zstd`). JSON"
        " lines are described as an array whose first item is the first line. Texts hold bytes that are not UTF-8 as"
        " lone surrogates. More, and what each error means to a box: docs/hub-api.md"
    ),
    server=PREFIX,
    error=_answer(error=_TEXT, message=_TEXT),
    errors=(400, 404, 409, 411, 413, 415, 429, 503, 507),
    unauthorized="the token is unknown or was revoked",
)


def describe_calls() -> JsonObject:
    paths: dict[str, JsonObject] = {}
    for call in CALLS.values():
        path, answer = f"/{call.path}", describe_answer(call.summary, call.answer)
        described = _INTERFACE.describe_operation(path, call.summary, answer, (), _ROOT)
        paths[path] = {"post": {**described, "requestBody": {"required": True, "content": call.body}}}
    return _INTERFACE.describe(paths)


_log = logging.getLogger(__name__)
T = TypeVar("T")

_SMALL_BODY_BYTES = 64 << 10
_MOST_CALLS = 64
_MOST_OF_BOX = 16
_MOST_LARGE = 6
_MOST_LARGE_OF_BOX = 3
_THREADS = 4
"""Calls that are worked on at the same time; the others wait with their bodies in memory (A2)."""

_THREADS_OF_BOX = 2
_SEND_S = 120.0
"""A box that does not read its answer for so long is cut off."""


_PER_BOX_PER_S = 10.0
_BURST_OF_BOX = 200
_REFUSED_PER_S = 0.2
_BURST_OF_REFUSED = 20
_AWAY_S = 15
_NOTE_S = 3600
_WINDOW_BYTES = 8 << 20
"""The largest window of a zstd frame, which the decompressor allocates: level 19 needs so much."""


class BoxCall(NamedTuple):
    """A call of a box. ``root_id``: from the path; 0: the path names none. ``body``: decompressed."""

    reporter: CallingBox
    root_id: int
    body: bytes
    now: int


Answer = Callable[[BoxCall], JsonObject | bytes]


class BoxApi:
    """The calls of boxes."""

    def __init__(
        self, database: HubDatabase, work: HubWork, quota: BoxQuota, clock: Callable[[], float] = time.time
    ) -> None:
        self._database = database
        self._work = work
        self._quota = quota
        self._clock = clock
        self.guard = BoxGuard(database, clock)

    def make_app(self, more: Sequence[Route] = ()) -> ASGIApp:
        """Return the application. ``more``: routes of other modules, which ask ``guard`` themselves."""
        routes = [self.guard.route(f"/{call.path}", getattr(self, name)) for name, call in CALLS.items()]
        handlers = {HTTPException: show_error, ClientDisconnect: show_error, Exception: show_error}
        return Starlette(routes=[*routes, *more], exception_handlers=handlers)

    def heartbeat(self, call: BoxCall) -> JsonObject:
        """Store a heartbeat; return what the hub has, and lacks."""
        beat = read_call(BoxHeartbeat, protocol.decode(call.body))
        with self._database.read() as c:
            size = size_of_roots(c, call.reporter.box_id, beat.roots)
        self._quota.charge(call.reporter.box_id, size)
        with self._database.transaction() as c:
            refused = note_use(c, call.reporter, beat, call.now)
            if refused is None:
                stored = store_heartbeat(c, call.reporter, beat, call.now)
                self._work.queue_votes(c, sorted(stored.sets))
        if refused is not None:
            raise refused
        return {"now": call.now, "last": stored.last, "trees": stored.trees, "refused": stored.refused}

    def messages(self, call: BoxCall) -> JsonObject:
        """Store messages; return up to which one they are stored."""
        lines = protocol.decode_lines(call.body)
        header = read_call(MessagesHeader, _next(lines))
        messages = [ReportMessage(one.n, one.at, one.kind, one.body) for one in read_form(list[MessageLine], [*lines])]
        self._quota.charge(call.reporter.box_id, size_of_messages(header.first, len(messages), len(call.body)))
        with self._database.transaction() as c:
            if header.joining is not None:
                require_free(c, call.reporter, header.joining, call.now)
            require_sole(c, call.reporter)
            stored = store_messages(c, call.reporter, header, messages, call.now)
            self._work.queue_votes(c, sorted(stored.sets))
        return {"last": stored.last}

    def compare(self, call: BoxCall) -> JsonObject:
        """Return which folders of a tree the hub does not have as the box has them."""
        asked = read_form(list[ComparedFolder], [*_lines_after_version(call.body)])
        with self._database.read() as c:
            found = trees.compare(c, trees.get_tree_member(c, *_root(call)), asked)
        return {"own": found.own, "below": found.below}

    def buckets(self, call: BoxCall) -> JsonObject:
        """Return digests of the files of a folder, by which the box finds those that differ."""
        path = read_call(FolderQuestion, protocol.decode(call.body)).path
        with self._database.read() as c:
            packed = trees.digest_buckets(c, trees.get_tree_member(c, *_root(call)), path)
        return {"buckets": b64encode(packed).decode("ascii")}

    def folders(self, call: BoxCall) -> JsonObject:
        sent = read_folders(_lines_after_version(call.body))
        self._quota.charge(call.reporter.box_id, size_of_folders(sent))
        return {"stored": trees.store_folders(self._database, *_root(call), sent, call.now)}

    def settle(self, call: BoxCall) -> JsonObject:
        """Record that the hub has all of a tree, if it has; the set is voted on."""
        announced = read_call(TreeQuestion, protocol.decode(call.body)).tree
        while True:
            with self._database.transaction() as c:
                tree = trees.get_tree_member(c, *_root(call), locks=True)
                if trees.digest_subtrees(c, tree):
                    continue
                is_settled = trees.settle(c, tree, announced, call.now)
                if is_settled:
                    self._work.queue_votes(c, [tree.set_id])
                return {"settled": is_settled}


class _GuardedCall:
    """A call as an application: its slots are held until the answer is sent, within a time (A2)."""

    def __init__(self, guard: BoxGuard, answer: Answer) -> None:
        self._guard = guard
        self._answer = answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a call: who it is, then its body, then the work in a thread."""
        request = Request(scope, receive)
        async with AsyncExitStack() as stack:
            try:
                reporter = await self._guard.hold(stack, request)
                response = await self._guard.work(self._answer, request, reporter)
            except (AppError, RecursionError) as error:
                response = show_error(request, error)
            with anyio.move_on_after(_SEND_S):
                await response(scope, receive, send)


class BoxGuard:
    """What each call of a box passes first (A1, A2)."""

    def __init__(self, database: HubDatabase, clock: Callable[[], float] = time.time) -> None:
        self._database = database
        self._clock = clock
        self._calls = Slots(_MOST_CALLS)
        self._of_boxes = Slots(_MOST_CALLS, _MOST_OF_BOX)
        self._large = Slots(_MOST_LARGE, _MOST_LARGE_OF_BOX)
        self._turns: dict[int, anyio.CapacityLimiter] = {}
        self._rates = Rates(_PER_BOX_PER_S, _BURST_OF_BOX)
        self._refusals = Rates(_REFUSED_PER_S, _BURST_OF_REFUSED)
        self._noted: dict[int, int] = {}
        self._threads = anyio.CapacityLimiter(_THREADS)
        self._readers = anyio.CapacityLimiter(1)  # of tokens: strangers wait for each other, and no box for them
        self._tokens = TokenTable(self._load_tokens)

    def route(self, path: str, answer: Answer) -> Route:
        return Route(PREFIX + path, _GuardedCall(self, answer), methods=["POST"])

    async def hold(self, stack: AsyncExitStack, request: Request) -> CallingBox:
        """
        Hold the slots of a call until the end of the stack; return who calls.

        Raises:
            CallRefused: no token of a box that may report (A1), or too many requests.
            HubDatabaseAway: nobody knows now.
        """
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        token = token.strip() if scheme.lower() == "bearer" else ""
        reporter = await self._identify(request, token)
        self._rates.take(reporter.box_id)
        stack.enter_context(self._calls.hold())
        stack.enter_context(self._of_boxes.hold(reporter.box_id))
        if not await self.in_thread(self._may_report, reporter, token):  # revoked since the table was read
            self._tokens.forget(token)
            await self._identify(request, token)
        if find_length(request) > _SMALL_BODY_BYTES:
            stack.enter_context(self._large.hold(reporter.box_id))
        return reporter

    async def _identify(self, request: Request, token: str) -> CallingBox:
        """Return the box whose token this is; refuse all others, and after some refusals of an address tell no more."""
        address = request.client.host if request.client else ""
        found = await self._tokens.find(token)
        if found is not None and found.revoked_at is None:
            return CallingBox(found.id, found.name, address)
        self._refusals.take(find_address_group(address))
        if found is not None:
            await self.in_thread(self._note_revoked, found, address)
        raise CallRefused(
            401, "unknown_token", "the token is unknown or was revoked; integrity hub add makes a new one"
        )

    async def _load_tokens(self) -> dict[bytes, boxes.Box]:
        def load() -> dict[bytes, boxes.Box]:
            with self._database.read() as c:
                return boxes.load_tokens(c)

        return await run_sync(load, limiter=self._readers)

    def _may_report(self, reporter: CallingBox, token: str) -> bool:
        with self._database.read() as c:
            return boxes.has_token(c, reporter.box_id, token)

    async def in_thread(self, work: Callable[..., T], *args: object) -> T:
        """Run what waits for the database in one of the threads for boxes."""
        return await run_sync(work, *args, limiter=self._threads)

    async def work(self, answer: Answer, request: Request, reporter: CallingBox) -> Response:
        body = await request.body()  # as long as its Content-Length; the server bounds how long it may take
        is_zstd = _is_zstd(request)
        root_id = int(request.path_params.get("root_id", 0))

        def work() -> JsonObject | bytes:
            data = decompress(body) if is_zstd else body
            return answer(BoxCall(reporter, root_id, data, int(self._clock())))

        # One box never has all threads (A2).
        async with self._turns.setdefault(reporter.box_id, anyio.CapacityLimiter(_THREADS_OF_BOX)):
            answered = await self.in_thread(work)
        if isinstance(answered, bytes):
            return Response(answered, media_type=protocol.PACKED)
        return Response(protocol.encode(answered), media_type=protocol.JSON)  # names need not be UTF-8

    def _note_revoked(self, box: boxes.Box, address: str) -> None:
        """Note, once per hour, that somebody still uses a token that was revoked."""
        now = int(self._clock())
        if now - self._noted.get(box.id, 0) < _NOTE_S:
            return
        self._noted[box.id] = now
        with self._database.transaction() as c:
            audit.record_box(c, box.name, address, now, "refused", box.name, "the token was revoked")


def find_length(request: Request) -> int:
    """Return how many bytes the body has by its header, or raise CallRefused if it says nothing or too many."""
    text = request.headers.get("content-length", "")
    if not (text.isascii() and text.isdecimal()):
        raise CallRefused(411, "length_required", "the request needs a Content-Length")
    if int(text) > MOST_BODY_BYTES:
        raise CallRefused(413, "too_large", f"the body has {int(text):,} bytes; at most {MOST_BODY_BYTES:,}")
    return int(text)


def decompress(body: bytes) -> bytes:
    """
    Decompress a body.

    Raises:
        ProtocolError: it is damaged.
        CallRefused: it is larger than a body may be.
    """
    try:
        reader = zstandard.ZstdDecompressor(max_window_size=_WINDOW_BYTES).stream_reader(body)
        data = reader.read(MOST_BODY_BYTES + 1)
    except zstandard.ZstdError as error:
        raise ProtocolError(f"the body can't be decompressed: {error}") from error
    if len(data) > MOST_BODY_BYTES:
        raise CallRefused(413, "too_large", f"the body has more than {MOST_BODY_BYTES:,} bytes when decompressed")
    return data


def show_error(request: Request, error: Exception) -> Response:
    """Write what went wrong, as JSON, and never a detail of a bug."""
    match error:
        case HTTPException():
            return _make_error(error.status_code, "not_found", error.detail, closes=True)
        case ClientDisconnect():  # it has gone, or was cut off, before its request was complete
            return Response(status_code=400)
        case CallRefused():
            # Before a 409 all of the body was read; else some of it may still come.
            is_early = error.status < 500 and error.status != 409
            return _make_error(error.status, error.code, str(error), error.retry_after_s, closes=is_early)
        case HubDatabaseAway():
            _log.warning("database_away path=%s: %s", printable(request.url.path), printable(str(error)))
            return _make_error(503, "database_away", "the database of the hub does not answer now", _AWAY_S)
        case ProtocolError():
            return _make_error(400, "malformed", str(error))
        case RecursionError():
            return _make_error(400, "malformed", "objects within objects, too deep")
    _log.error("a bug in %s", printable(request.url.path), exc_info=error)
    return _make_error(500, "bug", "a bug of the hub; its log has the details")


def _make_error(
    status: int, code: str, message: str, retry_after_s: int | None = None, *, closes: bool = False
) -> Response:
    headers = {} if retry_after_s is None else {"Retry-After": str(retry_after_s)}
    if closes:
        headers["Connection"] = "close"
    return JSONResponse({"error": code, "message": printable(message)}, status, headers)


def _is_zstd(request: Request) -> bool:
    encoding = request.headers.get("content-encoding", "identity").lower()
    if encoding not in ("identity", ZSTD):
        raise CallRefused(415, "encoding", "Content-Encoding: only zstd, or none")
    return encoding == ZSTD


def _next(lines: Iterator[JsonObject]) -> JsonObject:
    header = next(lines, None)
    if header is None:
        raise ProtocolError("an empty body")
    return header


def _lines_after_version(body: bytes) -> Iterator[JsonObject]:
    lines = protocol.decode_lines(body)
    read_call(PlainHeader, _next(lines))
    return lines


def _root(call: BoxCall) -> tuple[int, int]:
    return call.reporter.box_id, call.root_id
