"""The lines of the control socket: what is sent arrives, and whatever else comes is refused."""

from __future__ import annotations

import base64
import contextlib
import json
from dataclasses import is_dataclass, replace
from enum import StrEnum
from typing import TypeVar, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from integrity.errors import AppError, CatalogLocked, ConfigError, Unreadable
from integrity.jobs.byte_pattern import Side
from integrity.jobs.options import ScanOptions, ScrubOptions
from integrity.jobs.report import Note, Progress, Summary
from integrity.model import Actor, Finding, Job
from integrity.service.control import wire
from integrity.service.control.requests import Act, ActDone, ActVerb, AskPicture, JobRequest, RepairPlanned
from integrity.service.control.wire import (
    AskAhead,
    AskCovered,
    AskState,
    BusyRoot,
    Covered,
    DaemonState,
    Failure,
    Hello,
    JobAccepted,
    JobsAhead,
    LendRoots,
    RootsLent,
    RootsReturned,
    StopJob,
    Submit,
    WireError,
    decode_answer,
    decode_question,
    encode,
    to_error,
    to_failure,
)

T = TypeVar("T")
FINITE = st.floats(allow_nan=False, allow_infinity=False)
BUSY = st.builds(BusyRoot, rate_bytes_per_s=st.none() | FINITE)
ANSWERS = st.one_of(
    *map(
        st.from_type,
        (
            *(Hello, Covered, JobAccepted, JobsAhead, RootsLent, RootsReturned, Progress, Finding, Note, Failure),
            *(ActDone, RepairPlanned),
        ),
    ),
    st.builds(Summary, duration_s=FINITE),
    st.builds(DaemonState, busy=st.lists(BUSY).map(tuple)),
)
PATHS = st.lists(st.binary(min_size=1, max_size=20).filter(lambda name: not {0, 47} & set(name) and name.strip(b".")))
NUMBERS = st.none() | st.integers(1, 1 << 62)


def some(
    kind: type[T], *values: st.SearchStrategy[object], **others: st.SearchStrategy[object]
) -> st.SearchStrategy[T]:
    """Make records of which all other fields have their defaults; ``builds`` fills every field of a named tuple."""
    return st.builds(lambda *args, **fields: kind(*args, **fields), *values, **others)


REQUESTS = some(
    JobRequest,
    st.sampled_from([Job.SCAN, Job.SCRUB]),
    PATHS.map(lambda names: tuple(b"/" + name for name in names)),
    some(ScanOptions, full=st.booleans(), touched_bytes=st.integers(0, 1 << 60)),
    some(
        ScrubOptions,
        due=st.booleans(),
        percent=st.none() | st.floats(0, 100, exclude_min=True),
        time_limit_s=st.none() | st.floats(0, 1e9),
        byte_limit=NUMBERS,
        rate=NUMBERS,
        deep=st.booleans(),
        scan_first=st.booleans(),
    ),
    jobs=st.none() | st.integers(1, 256),
    may_add_roots=st.booleans(),
)
NAMES = st.text(st.characters(exclude_categories=("C", "Z")), min_size=1, max_size=20)
ACTORS = st.builds(Actor, NAMES, NAMES)
IDS = st.lists(st.integers(1, 1 << 62), min_size=1, max_size=5).map(tuple)
PATH = st.just(b"/srv") | st.just(b"/odd\xff/x")
ACTS = st.one_of(
    some(Act, st.just(ActVerb.ACK), ACTORS, IDS),
    some(Act, st.just(ActVerb.MUTE), ACTORS, IDS, until=st.integers(0, 253_402_300_799)),
    some(Act, st.just(ActVerb.ACCEPT), ACTORS, path=PATH, reason=NAMES, changes=st.booleans(), deletions=st.booleans()),
    some(
        Act,
        st.sampled_from([ActVerb.PAUSE, ActVerb.RESUME, ActVerb.PLAN_REPAIR, ActVerb.REPAIR]),
        ACTORS,
        path=PATH,
    ),
    some(Act, st.just(ActVerb.TEST_ALERT), ACTORS),
)
QUESTIONS = st.one_of(
    st.builds(Submit, REQUESTS, st.booleans()),
    st.builds(AskCovered, PATHS.map(lambda names: tuple(b"/" + name for name in names))),
    st.builds(LendRoots, st.sampled_from([(b"/srv",), (b"/odd\xff/x", b"/srv")])),
    st.just(StopJob()),
    st.just(AskState()),
    st.just(AskAhead()),
    ACTS,
    st.builds(AskPicture, st.integers(1, 1 << 62), st.sampled_from(Side), st.booleans()),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def make_submit(**changes: object) -> bytes:
    """Write a request for a scrub in which fields are changed, as a hostile client would."""
    value = json.loads(encode(Submit(JobRequest(Job.SCRUB, (b"/srv",)), waits=True)))
    for place, change in changes.items():
        *folders, name = place.split("__")
        target = value
        for folder in folders:
            target = target[folder]
        target[name] = change
    return json.dumps(value).encode()


@given(ANSWERS)
def test_answer_arrives_as_it_was_sent(answer: wire.Answer) -> None:
    """Every record that a client prints is equal to the one that the job told, names and words of any kind included."""
    line = encode(answer)

    assert line.endswith(b"\n")
    assert 1 == line.count(b"\n")
    assert answer == decode_answer(line)
    assert type(answer) is type(decode_answer(line))


@given(st.text(st.characters(exclude_categories=())))
def test_any_text_arrives(text: str) -> None:
    """Names that are no UTF-8 can stand in a message as lone surrogates."""
    failure = Failure("AppError", text)

    assert failure == decode_answer(encode(failure))


@given(QUESTIONS)
def test_question_arrives_as_it_was_sent(question: wire.Question) -> None:
    """Paths of any bytes and all options reach the daemon as they were asked for."""
    assert question == decode_question(encode(question))


@given(st.binary())
def test_any_bytes_are_a_message_or_refused(line: bytes) -> None:
    """I1: bytes that nobody of ours wrote end in WireError and in nothing else."""
    for decode in (decode_question, decode_answer):
        with pytest.raises(WireError):
            decode(line)


@given(QUESTIONS, st.data())
def test_damaged_question_is_a_message_or_refused(question: wire.Question, data: st.DataObject) -> None:
    """I1: a line in which a byte changed, or that was cut, never ends in another error."""
    line = bytearray(encode(question))
    line[data.draw(st.integers(0, len(line) - 1))] = data.draw(st.integers(0, 255))
    for damaged in (bytes(line), bytes(line[: data.draw(st.integers(0, len(line)))])):
        with contextlib.suppress(WireError):
            decode_question(damaged)


@given(
    st.sampled_from(
        [
            "waits",
            "request",
            "request__job",
            "request__paths",
            "request__scrub",
            "request__jobs",
            "request__scan__full",
            "request__scrub__percent",
            "request__scrub__rate",
            "type",
            "v",
        ]
    ),
    JSON,
)
def test_field_of_another_type_is_a_message_or_refused(place: str, value: object) -> None:
    """I1: whatever JSON stands in the place of a field, the result is a question with its types, or WireError."""
    try:
        question = decode_question(make_submit(**{place: value}))
    except WireError:
        return

    assert_typed(question)


def assert_typed(record: object) -> None:
    """Check that the plain fields of a record are of the types that they are declared with."""
    for name, kind in get_type_hints(type(record)).items():
        value = getattr(record, name)
        if is_dataclass(value) or hasattr(value, "_fields"):
            assert_typed(value)
        elif kind in (bool, int, str, bytes) or (isinstance(kind, type) and issubclass(kind, StrEnum)):
            assert type(value) is kind


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"null",
        b"[]",
        b"{}",
        b'{"v":5}',
        b'{"v":1,"type":"AskState"}',
        b'{"v":true,"type":"AskState"}',
        b'{"v":5.0,"type":"AskState"}',
        b'{"v":5,"type":["AskState"]}',
        b'{"v":5,"type":"Hello"}',
        b'{"v":5,"type":"AskState","more":1}',
        b'{"v":5,"type":"AskState","type":"StopJob"}',
        b'{"v":5,"type":"LendRoots"}',
        b'{"v":5,"type":"LendRoots","paths":[]}',
        b'{"v":5,"type":"LendRoots","paths":["c3J2"]}',
        b'{"v":5,"type":"LendRoots","paths":["L3Nydi8uLi9ldGM="]}',
        b'{"v":5,"type":"LendRoots","paths":null}',
        b"[" * 100_000,
        b'{"v":' + b"1" * 10_000 + b"}",
        b'{"v":NaN}',
        b"\xff\xfe",
    ],
    ids=lambda line: line[:30].decode("latin-1"),
)
def test_what_is_no_question_is_refused(line: bytes) -> None:
    """Other JSON, other versions, unknown types and fields, fields that stand twice, and nesting without end."""
    with pytest.raises(WireError):
        decode_question(line)


@pytest.mark.parametrize(
    "changes",
    [
        {"request__job": "import"},
        {"request__job": "compare"},
        {"request__scan__touched_bytes": -1},
        {"request__scan__touched_bytes": 1 << 63},
        {"request__paths": ["c3J2"]},  # "srv": relative
        {"request__paths": ["L3Nydi8uLi9ldGM="]},  # "/srv/../etc"
        {"request__paths": ["L3NydgA="]},  # "/srv\0"
        {"request__paths": ["L3Nydh=="]},  # "/srv", whose last bits are not 0
        {"request__paths": ["L3Nydg"]},
        {"request__paths": "L3Nydg=="},
        {"request__jobs": 0},
        {"request__jobs": 100_000},
        {"request__scrub__percent": 0},
        {"request__scrub__percent": 100.5},
        {"request__scrub__percent": 10**400},
        {"request__scrub__rate": 0},
        {"request__scrub__rate": -1},
        {"request__scrub__rate": 1 << 63},
        {"request__scrub__rate": True},
        {"request__scrub__byte_limit": -1},
        {"request__scrub__time_limit_s": -0.5},
        {"request__scrub__older_than_s": 5, "request__scrub__due": True},
        {"request__scrub__due": 1},
        {"request__scan__unknown": 1},
        {"waits": None},
    ],
    ids=str,
)
def test_request_that_no_command_makes_is_refused(changes: dict[str, object]) -> None:
    """A job is never given options that the command line would not have let through."""
    decode_question(make_submit())
    with pytest.raises(WireError):
        decode_question(make_submit(**changes))


ACCEPT = Act(ActVerb.ACCEPT, Actor("alice", "192.0.2.7"), path=b"/srv/a", reason="meant")


@pytest.mark.parametrize(
    "changes",
    [
        {"verb": "forget"},
        {"verb": "ack"},
        {"ids": [1]},
        {"until": 0},
        {"path": None},
        {"path": "c3J2"},  # "srv": relative
        {"path": "L3Nydi8uLi9ldGM="},  # "/srv/../etc"
        {"path": base64.b64encode(b"/" + b"a" * 4096).decode()},
        {"reason": ""},
        {"reason": " "},
        {"reason": "x" * 2001},
        {"reason": "two\nlines"},
        {"reason": "half a \ud800 pair"},
        {"reason": "a\0b"},
        {"changes": 1},
        {"actor": None},
        {"actor": {"who": "", "address": "x"}},
        {"actor": {"who": "x" * 201, "address": "x"}},
        {"actor": {"who": "x", "address": "\x1b[31m"}},
        {"actor": {"who": "x"}},
        {"more": 1},
        {"verb": "test_alert", "reason": ""},
        {"verb": "pause"},
        {"verb": "mute", "path": None, "reason": "", "ids": [3]},
        {"verb": "mute", "path": None, "reason": "", "ids": [3], "until": 1 << 60},
        {"verb": "mute", "path": None, "reason": "", "ids": [3], "until": -1},
        {"verb": "ack", "path": None, "reason": "", "ids": []},
        {"verb": "ack", "path": None, "reason": "", "ids": [0]},
        {"verb": "ack", "path": None, "reason": "", "ids": [True]},
        {"verb": "ack", "path": None, "reason": "", "ids": [1 << 63]},
        {"verb": "ack", "path": None, "reason": "", "ids": list(range(1, 1002))},
    ],
    ids=lambda changes: str(changes)[:60],
)
def test_act_with_other_arguments_than_its_verbs_is_refused(changes: dict[str, object]) -> None:
    """What is missing, too much, too large, or can't be stored and shown never reaches the daemon's functions."""
    value = json.loads(encode(ACCEPT))
    assert ACCEPT == decode_question(json.dumps(value).encode())
    with pytest.raises(WireError):
        decode_question(json.dumps(value | changes).encode())


def test_infinity_is_no_number() -> None:
    """Python's JSON would read it; a limit of infinity is none."""
    with pytest.raises(WireError, match="Infinity is no number"):
        decode_question(make_submit(request__scrub__time_limit_s=float("inf")))
    with pytest.raises(WireError, match="time_limit_s: not what is expected"):
        decode_question(make_submit().replace(b'"time_limit_s": null', b'"time_limit_s": 1e999'))


def test_question_is_no_answer() -> None:
    """A client can't be made to take a request for an answer, nor a server an answer for a request."""
    with pytest.raises(WireError, match="not expected"):
        decode_answer(encode(StopJob()))
    with pytest.raises(WireError, match="not expected"):
        decode_question(encode(JobAccepted(())))


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ConfigError("/srv: no"), ConfigError),
        (CatalogLocked("/srv: a scan of it is running"), CatalogLocked),
        (WireError("odd"), AppError),
    ],
)
def test_error_arrives_as_its_kind(error: AppError, kind: type[AppError]) -> None:
    """The client exits with the code that the job's own process would have exited with."""
    made = to_error(to_failure(error))

    assert (kind, str(error)) == (type(made), str(made))


def test_error_that_holds_more_than_words_arrives_as_the_kind_above() -> None:
    """What can't be made of its message alone is told as what it is one of."""
    assert "ReadError" == to_failure(Unreadable("/srv/a: EIO", errno=5)).kind
    assert type(to_error(replace(to_failure(AppError("odd")), kind="Unheard"))) is AppError
