"""
Encode and decode the messages of the control socket: one JSON object per line, in both directions.

    line     {"v":5,"type":TYPE,FIELD:VALUE,...} LF     ASCII; TYPE is the name of a record below
    bytes    base64 (RFC 4648 section 4, padded): paths are not text (R10)
    words    of an enumeration: as stored
    tuples   arrays

A record arrives equal to the one that was sent, so a client prints exactly what the job's own process would print.
Decoding is strict: every field, no others, each of its type, and only the types of record that this side expects.

I1  For any input, decoding returns a record or raises WireError.
"""

from __future__ import annotations

import base64
import json
import math
import os
import types
from collections.abc import Iterable
from dataclasses import dataclass, is_dataclass
from enum import StrEnum
from functools import cache
from typing import get_args, get_origin, get_type_hints
from unicodedata import category

from integrity import errors
from integrity.errors import AppError
from integrity.jobs.picture_type import Picture
from integrity.jobs.report import Note, Progress, Summary
from integrity.model import Finding, Job
from integrity.service.control.requests import Act, ActDone, ActVerb, AskPicture, JobRequest, RepairPlanned


@dataclass(frozen=True, slots=True)
class BusyRoot:
    """A root with a running job. ``copy``: the copy it is compared with."""

    root: bytes
    job: str
    phase: str
    files_done: int
    bytes_done: int
    bytes_total: int | None
    rate_bytes_per_s: float | None
    copy: str = ""


@dataclass(frozen=True, slots=True)
class QueuedJob:
    """A queued job. ``reason``: who or what requested it, for people; ``copy``: the copy to compare with."""

    root: bytes
    job: str
    reason: str
    copy: str = ""


@dataclass(frozen=True, slots=True)
class JobAhead:
    """
    A job that runs before a request.

    Args:
        root: empty if the job covers several roots.
        began_at: seconds UTC; None if it is queued too.
    """

    root: bytes
    job: str
    began_at: int | None
    copy: str = ""


@dataclass(frozen=True, slots=True)
class NextRun:
    """The next time of a schedule, in seconds UTC."""

    name: str
    at: int


@dataclass(frozen=True, slots=True)
class WatchState:
    """How completely a root is watched. ``blind``: what is not watched and why, for people."""

    root: bytes
    folders: int
    blind: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CopyWait:
    """A copy whose comparison is due, and why it has not started, for people."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class DaemonState:
    """
    What the daemon is doing and will do next.

    Args:
        trouble: why its last job could not be recorded.
        reported_at: when the hub last had everything, seconds UTC; None: not since the daemon started.
    """

    pid: int
    started_at: int
    version: str
    busy: tuple[BusyRoot, ...] = ()
    queued: tuple[QueuedJob, ...] = ()
    next_runs: tuple[NextRun, ...] = ()
    watch: tuple[WatchState, ...] = ()
    copies: tuple[CopyWait, ...] = ()
    trouble: str = ""
    reported_at: int | None = None


VERSION = 5
REQUEST_LIMIT = 1 << 20
"""Largest line to the server, in bytes: more than the paths of any command line need."""
ANSWER_LIMIT = 64 << 20
"""Largest line to a client, in bytes. A finding lists each damaged block: 7 MiB for a 1 TiB file all wrong."""
BUFFER_LIMIT = ANSWER_LIMIT
"""Limit in bytes for one user's buffers: input not yet answered, and answers not yet read."""

_MOST_THREADS = 256
_MOST_IDS = 1000
_MOST_PATH_BYTES = 4096
_MOST_NAME_CHARS = 200
_MOST_REASON_CHARS = 2000
_LATEST = 253_402_300_799  # 9999-12-31: later times can't be shown
_ARGUMENTS = ("ids", "path", "until", "reason", "changes", "deletions", "seen")
_NONE = frozenset[str]()
_ARGUMENTS_OF: dict[ActVerb, tuple[frozenset[str], frozenset[str]]] = {
    ActVerb.ACK: (frozenset({"ids"}), _NONE),
    ActVerb.MUTE: (frozenset({"ids", "until"}), _NONE),
    ActVerb.PAUSE: (frozenset({"path"}), _NONE),
    ActVerb.RESUME: (frozenset({"path"}), _NONE),
    ActVerb.ACCEPT: (frozenset({"path", "reason"}), frozenset({"changes", "deletions", "seen"})),
    ActVerb.PLAN_REPAIR: (frozenset({"path"}), _NONE),
    ActVerb.REPAIR: (frozenset({"path"}), frozenset({"seen"})),
    ActVerb.TEST_ALERT: (_NONE, _NONE),
}
"""The arguments that each verb needs, and those that it may have."""

_LARGEST = 1 << 62  # limit for numbers in a request: the sum of two fits into SQLite and the C core


class WireError(AppError):
    """A line that this side does not understand."""


@dataclass(frozen=True, slots=True)
class Hello:
    """The server's first line: its version, its process, and the catalog it serves."""

    version: str
    pid: int
    catalog: bytes


@dataclass(frozen=True, slots=True)
class Submit:
    """Request a job. ``waits``: send its reports, up to the summary."""

    request: JobRequest
    waits: bool


@dataclass(frozen=True, slots=True)
class LendRoots:
    """
    Ask that the service leaves the roots of these paths to the client, which works there by itself.

    All of a command's paths are asked for together: a command that asked for one after another would wait for itself.
    Answered with JobAccepted, RootsLent when its turn has come, and RootsReturned at the end. The service works on
    nothing else there until the client sends StopJob, or the connection ends.
    """

    paths: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class StopJob:
    """Ask that the job of this connection ends; what was lent to it is returned."""


@dataclass(frozen=True, slots=True)
class AskState:
    """Request the daemon's state; answered with DaemonState."""


@dataclass(frozen=True, slots=True)
class AskCovered:
    """Request which of these real paths are in roots; answered with Covered. No other roots are revealed."""

    paths: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Covered:
    """The paths that are in roots."""

    paths: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class JobAccepted:
    """The job is queued behind these."""

    ahead: tuple[JobAhead, ...]


@dataclass(frozen=True, slots=True)
class RootsLent:
    """The roots are the client's from now on."""


@dataclass(frozen=True, slots=True)
class RootsReturned:
    """The roots are the service's again; before RootsLent: they were not lent, as the service ends. The last answer."""


@dataclass(frozen=True, slots=True)
class AskAhead:
    """Ask what goes before the job of this connection; answered with JobsAhead."""


@dataclass(frozen=True, slots=True)
class JobsAhead:
    """The jobs before this connection's job; empty once it has started."""

    jobs: tuple[JobAhead, ...]


@dataclass(frozen=True, slots=True)
class Failure:
    """The request is impossible, or ended in an error. ``kind``: the error's class."""

    kind: str
    message: str


Question = Submit | LendRoots | StopJob | AskState | AskCovered | AskAhead | Act | AskPicture
Answer = (
    Hello
    | Covered
    | JobAccepted
    | JobsAhead
    | RootsLent
    | RootsReturned
    | Progress
    | Finding
    | Note
    | Summary
    | ActDone
    | RepairPlanned
    | Picture
    | Failure
    | DaemonState
)

_QUESTIONS = {kind.__name__: kind for kind in get_args(Question)}
_ANSWERS = {kind.__name__: kind for kind in get_args(Answer)}

# Errors whose constructor takes only the message. Others are sent as their nearest base class here.
_ERRORS: dict[str, type[AppError]] = {
    kind.__name__: kind
    for kind in (
        errors.AppError,
        errors.ConfigError,
        errors.CatalogError,
        errors.CatalogMissing,
        errors.CatalogLocked,
        errors.CatalogCorrupt,
        errors.SchemaMismatch,
        errors.ReadError,
        errors.RootSuspended,
        errors.NativeError,
    )
}


def encode(message: Question | Answer) -> bytes:
    value = {"v": VERSION, "type": type(message).__name__, **_to_object(message)}
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode("ascii") + b"\n"


def decode_question(line: bytes) -> Question:
    """Decode and check a line from a client."""
    message = _decode_line(line, _QUESTIONS)
    assert isinstance(message, Question)
    if isinstance(message, Submit):
        check(message.request)
    if isinstance(message, LendRoots | AskCovered):
        _check_paths(message.paths)
    if isinstance(message, Act):
        check_act(message)
    if isinstance(message, LendRoots) and not message.paths:
        raise WireError("paths: none")
    if isinstance(message, AskPicture) and not 0 < message.finding <= _LARGEST:
        raise WireError("finding: not the number of one")
    return message


def decode_answer(line: bytes) -> Answer:
    message = _decode_line(line, _ANSWERS)
    assert isinstance(message, Answer)
    return message


def to_failure(error: AppError) -> Failure:
    kind = next(kind.__name__ for kind in type(error).__mro__ if _ERRORS.get(kind.__name__) is kind)
    return Failure(kind, str(error))


def to_error(failure: Failure) -> AppError:
    return _ERRORS.get(failure.kind, AppError)(failure.message)


def check(request: JobRequest) -> None:
    """Check the options of a request: the code that runs it relies on them."""
    scrub = request.scrub
    if request.job not in (Job.SCAN, Job.SCRUB):
        raise WireError(f"a {request.job} can't be handed over")
    _check_paths(request.paths)
    if sum((scrub.due, scrub.new, scrub.older_than_s is not None)) > 1:
        raise WireError("due, new and older_than_s exclude each other")
    if scrub.percent is not None and not 0 < scrub.percent <= 100:
        raise WireError("percent: not above 0 and up to 100")
    numbers = [*scrub, request.scan.touched_bytes]
    if any(isinstance(number, int | float) and not 0 <= number <= _LARGEST for number in numbers) or scrub.rate == 0:
        raise WireError("a number below 0, or far too large")
    if request.jobs is not None and not 1 <= request.jobs <= _MOST_THREADS:
        raise WireError(f"jobs: not from 1 to {_MOST_THREADS}")


def check_act(act: Act) -> None:
    """Check that an act has the arguments of its verb, no others, and none that is too large."""
    values = {name: getattr(act, name) for name in _ARGUMENTS}
    given = {name for name, value in values.items() if not (value is None or value is False or value in ((), ""))}
    needed, optional = _ARGUMENTS_OF[act.verb]
    if not needed <= given <= needed | optional:
        odd = sorted((given - optional) ^ needed)[0]
        raise WireError(f"{act.verb}: {odd} is missing, or does not belong to it")
    if len(act.ids) > _MOST_IDS or not all(0 < number <= _LARGEST for number in act.ids):
        raise WireError(f"ids: more than {_MOST_IDS}, or not the numbers of findings")
    if act.until is not None and not 0 <= act.until <= _LATEST:
        raise WireError("until: not a time before the year 10000")
    if act.path is not None:
        _check_paths((act.path,))
        if len(act.path) > _MOST_PATH_BYTES:
            raise WireError(f"path: longer than {_MOST_PATH_BYTES} bytes")
    _check_text("actor.who", act.actor.who, _MOST_NAME_CHARS)
    _check_text("actor.address", act.actor.address, _MOST_NAME_CHARS)
    if act.reason:
        _check_text("reason", act.reason, _MOST_REASON_CHARS)
    if act.seen:
        _check_text("seen", act.seen, _MOST_NAME_CHARS)


def _check_text(place: str, text: str, most: int) -> None:
    """Raise unless text can be stored and shown on one line: not blank, no control characters, no lone surrogates."""
    if not text.strip() or len(text) > most or any(category(char) in ("Cc", "Cs", "Zl", "Zp") for char in text):
        raise WireError(f"{place}: not one line of 1 to {most} characters")


def _check_paths(paths: Iterable[bytes]) -> None:
    for path in paths:
        if not path.startswith(b"/") or b"\0" in path or os.path.normpath(path) != path:
            raise WireError("a path that is not absolute and normal")


def _decode_line(line: bytes, table: dict[str, type]) -> object:
    try:
        # Too deep nesting raises RecursionError, a number with too many digits ValueError.
        value = json.loads(line, object_pairs_hook=_unique, parse_constant=_refuse_constant)
        if not isinstance(value, dict):
            raise WireError("not an object")
        version, name = value.pop("v", None), value.pop("type", None)
        if type(version) is not int or version != VERSION:
            raise WireError(f"version {VERSION} of the protocol is spoken here; restart the service after an upgrade")
        if not isinstance(name, str) or name not in table:
            raise WireError("a type of message that is not expected here")
        return _decode(table[name], value, name)
    except (ValueError, OverflowError, RecursionError) as error:
        raise WireError(f"no line that is understood here: {error}") from error


def _unique(pairs: Iterable[tuple[str, object]]) -> dict[str, object]:
    found: dict[str, object] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError("a field stands twice")
        found[name] = value
    return found


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is no number")


def _is_record(kind: object) -> bool:
    return is_dataclass(kind) or hasattr(kind, "_fields")  # a named tuple


@cache
def _fields(kind: type) -> dict[str, object]:
    return get_type_hints(kind)


def _to_object(record: object) -> dict[str, object]:
    kind: type = type(record)
    return {name: _encode(getattr(record, name)) for name in _fields(kind)}


def _encode(value: object) -> object:
    """Convert a value to JSON types; ``json`` writes an enumeration as its word."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if _is_record(type(value)):
        return _to_object(value)
    return list(map(_encode, value)) if isinstance(value, tuple) else value


def _decode(kind: object, value: object, place: str) -> object:
    """
    Convert a JSON value to a value of a type.

    Raises:
        ValueError: it is none of this type. OverflowError: a number is too large.
    """
    if type(value) is kind and kind is not float:  # exact: isinstance(True, int) holds in Python
        return value
    kind, kinds = getattr(kind, "__supertype__", kind), get_args(kind)
    if types.NoneType in kinds:
        return None if value is None else _decode(kinds[0], value, place)
    if get_origin(kind) is tuple:
        if isinstance(value, list) and (kinds[-1] is Ellipsis or len(kinds) == len(value)):
            each = kinds[:1] * len(value) if kinds[-1] is Ellipsis else kinds
            return tuple(_decode(one, part, place) for one, part in zip(each, value, strict=True))
        raise ValueError(f"{place}: not an array of its length")
    assert isinstance(kind, type), kind
    return (_decode_record if _is_record(kind) else _decode_plain)(kind, value, place)


def _decode_record(kind: type, value: object, place: str) -> object:
    fields = _fields(kind)
    if not isinstance(value, dict) or value.keys() != fields.keys():
        odd = sorted(fields.keys() ^ value.keys())[0] if isinstance(value, dict) else "an object"
        raise ValueError(f"{place}: {ascii(odd)[:60]} is missing, or not known here")
    return kind(**{name: _decode(one, value[name], f"{place}.{name}") for name, one in fields.items()})


def _decode_plain(kind: type, value: object, place: str) -> object:
    if kind is bytes and isinstance(value, str):
        data = base64.b64decode(value, validate=True)
        if base64.b64encode(data).decode("ascii") == value:  # the only way to write these bytes
            return data
    elif issubclass(kind, StrEnum) and isinstance(value, str):
        return kind(value)
    elif kind is float and isinstance(value, int | float) and not isinstance(value, bool):
        if math.isfinite(float(value)):
            return float(value)
    elif type(value) is kind:  # of a type with another name
        return value
    raise ValueError(f"{place}: not what is expected there")
