"""
The calls of workers of shared trees: ``/hub/v1/shards/...``. What every call of a box passes first is in ``hub.api``.

Catalogs arrive in parts of the size of other bodies, so neither memory nor the time of a call grows with them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from starlette.routing import Route

from integrity.errors import ProtocolError, printable
from integrity.hub.admission import Refused
from integrity.hub.api import Answer, BoxCall, BoxGuard
from integrity.hub.quota import WORKER_BYTES, BoxQuota
from integrity.hub.reported import PlainHeader, read_call
from integrity.hub.shards.service import HeldJob, ShardHub, is_digest, read_number
from integrity.hub.shards.store import StoreFull, UploadRefused
from integrity.hub.shards.workers import ShardRefused
from integrity.jobs.shards.messages import VisitResult
from integrity.reporting.forms import read_form
from integrity.reporting.protocol import JsonObject, decode, decode_lines

_log = logging.getLogger(__name__)

ShardAnswer = Callable[[ShardHub, BoxCall], JsonObject | bytes]

_LONGEST_TROUBLE = 2000
_FULL_S = 60
_NO_SHARDS = (
    "this hub has no shared trees, which need PostgreSQL: set [hub_server] database to its URL there, then run:"
    " integrity hub migrate"
)


class ShardApi:
    """
    The calls of workers.

    Args:
        hub: does what they ask; None: this hub has no shared trees.
        guard: what each call passes first.
    """

    def __init__(self, hub: ShardHub | None, guard: BoxGuard, quota: BoxQuota) -> None:
        self._hub = hub
        self._guard = guard
        self._quota = quota

    def routes(self) -> list[Route]:
        calls: dict[str, ShardAnswer] = {
            "join": self._join,
            "take": lambda hub, call: hub.take(call.reporter.box_id, _read(call)),
            "look": lambda hub, call: hub.look(call.reporter.box_id, _read(call)),
            "beat": _beat,
            "fetch": _fetch,
            "survey": _survey,
            "release": _release,
            "store": _store,
            "finish": _finish,
        }
        return [self._guard.route(f"/shards/{name}", self._refusing(call)) for name, call in calls.items()]

    def _refusing(self, act: ShardAnswer) -> Answer:
        def answer(call: BoxCall) -> JsonObject | bytes:
            try:
                return act(self._require_hub(), call)
            except ShardRefused as error:
                raise Refused(409, error.code, str(error)) from error
            except UploadRefused as error:
                raise Refused(409, "bad_upload", str(error)) from error
            except StoreFull as error:
                _log.error("store_full: %s", error)
                raise Refused(503, "store_full", "the hub has no room for catalogs now", _FULL_S) from error

        return answer

    def _join(self, hub: ShardHub, call: BoxCall) -> JsonObject:
        body = _read(call)
        self._quota.charge(call.reporter.box_id, WORKER_BYTES)
        return hub.join(call.reporter.box_id, body)

    def _require_hub(self) -> ShardHub:
        if self._hub is None:
            raise Refused(409, "no_shards", _NO_SHARDS)
        return self._hub


def _read(call: BoxCall) -> JsonObject:
    value = decode(call.body)
    read_call(PlainHeader, value)
    return value


def _beat(hub: ShardHub, call: BoxCall) -> JsonObject:
    body = _read(call)
    return hub.beat(HeldJob.read(call.reporter.box_id, body), read_number(body, "done_bytes"))


def _fetch(hub: ShardHub, call: BoxCall) -> bytes:
    """Send a part of a stored catalog; an empty one is behind its end."""
    body = _read(call)
    worker, offset = read_number(body, "worker"), read_number(body, "offset")
    return hub.read_catalog(call.reporter.box_id, worker, _read_digest(body), offset)


def _survey(hub: ShardHub, call: BoxCall) -> JsonObject:
    body = _read(call)
    return hub.accept_survey(HeldJob.read(call.reporter.box_id, body), _read_digest(body))


def _release(hub: ShardHub, call: BoxCall) -> JsonObject:
    body = _read(call)
    texts = (body.get(name) for name in ("trouble", "other_disk"))
    trouble, other_disk = (printable(one[:_LONGEST_TROUBLE]) if isinstance(one, str) else None for one in texts)
    return hub.release(HeldJob.read(call.reporter.box_id, body), trouble, other_disk)


def _store(hub: ShardHub, call: BoxCall) -> JsonObject:
    """Receive a part of a file: a line with its place, then the data."""
    line, _, data = call.body.partition(b"\n")
    header = decode(line)
    read_call(PlainHeader, header)
    job = HeldJob.read(call.reporter.box_id, header)
    offset, size = read_number(header, "offset"), read_number(header, "size")
    return hub.receive(job, _read_digest(header), offset, size, data)


def _finish(hub: ShardHub, call: BoxCall) -> JsonObject:
    header, *findings = [*decode_lines(call.body)] or [{}]
    read_call(PlainHeader, header)
    job, result = HeldJob.read(call.reporter.box_id, header), read_form(VisitResult, header)
    return hub.finish(job, result, findings)


def _read_digest(body: JsonObject) -> str:
    value = body.get("digest")
    if not isinstance(value, str) or not is_digest(value):
        raise ProtocolError("digest is none: 64 hexadecimal digits")
    return value
