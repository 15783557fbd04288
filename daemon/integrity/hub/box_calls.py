"""
The calls of boxes, version 1: which there are, what each takes and returns, and their description in OpenAPI.

``hub.api`` serves these calls and no others. The readers of bodies are in ``hub.reported`` and ``hub.folder_parts``; a
test holds them against the schemas here. Calls for shared trees are not among them, see docs/shared-trees.md.
"""

from __future__ import annotations

from dataclasses import dataclass

from integrity.hub.reported import DIGEST_BYTES
from integrity.model import FindingState
from integrity.reporting.digest_tree import READ_HOWS
from integrity.reporting.protocol import (
    CHAIN_BYTES,
    JSON_LINES,
    LARGEST,
    MOST_BODY_BYTES,
    RUN_BYTES,
    STREAM_BYTES,
    VERSION,
    JsonObject,
    MessageKind,
)
from integrity.web.openapi import JsonInterface, describe_answer

PREFIX = "/hub/v1"

_ROOT = {"root_id": "number of the root on the box"}


@dataclass(frozen=True, slots=True, kw_only=True)
class BoxCallForm:
    """
    A call.

    Attributes:
        path: below the prefix.
        summary: what it is for.
        head: JSON schema of its body, or of the first line of it.
        line: JSON schema of the further lines; None: the body is one object.
        answer: JSON schema of what is returned.
    """

    path: str
    summary: str
    head: JsonObject
    line: JsonObject | None = None
    answer: JsonObject

    @property
    def body(self) -> JsonObject:
        """The content of its request."""
        if self.line is None:
            return {"application/json": {"schema": self.head}}
        return {JSON_LINES: {"schema": {"type": "array", "prefixItems": [self.head], "items": self.line}}}


def _object(_optional: tuple[str, ...] = (), /, **properties: JsonObject) -> JsonObject:
    required = [name for name in properties if name not in _optional]
    return {"type": "object", "properties": properties, "required": required}


def _list(items: JsonObject) -> JsonObject:
    return {"type": "array", "items": items}


def _hex(length: int) -> JsonObject:
    return {"type": "string", "pattern": f"^[0-9a-f]{{{2 * length}}}$"}


def _or_null(schema: JsonObject) -> JsonObject:
    return {"anyOf": [schema, {"type": "null"}]}


_TEXT: JsonObject = {"type": "string"}
_FLAG: JsonObject = {"type": "boolean"}
_NUMBER: JsonObject = {"type": "integer", "minimum": 0, "maximum": LARGEST}
_SIGNED: JsonObject = {"type": "integer"}
_TIME: JsonObject = {"type": "string", "format": "date-time"}
_DIGEST = _hex(DIGEST_BYTES)
_VERSION: JsonObject = {"const": VERSION}

_MEMBER = _object(
    ("set", "oldest_verified_at", "tree"),
    root=_NUMBER,
    path=_TEXT,
    set=_or_null(_TEXT),
    url=_TEXT,
    excludes=_list(_TEXT),
    policy=_TEXT,
    verify_every_s=_NUMBER,
    files=_NUMBER,
    bytes=_NUMBER,
    oldest_verified_at=_or_null(_NUMBER),
    tree=_or_null(_DIGEST),
)
_FILE: JsonObject = {
    "type": "array",
    "prefixItems": [
        _TEXT,
        _NUMBER,
        _SIGNED,
        *[_or_null(_DIGEST)] * 2,
        _SIGNED,
        _or_null(_SIGNED),
        {"type": "integer", "minimum": 0, "maximum": len(READ_HOWS) - 1},
        _NUMBER,
    ],
    "minItems": 9,
    "maxItems": 9,
}
_FINDING = _object(
    ("root_id", "relative_path", "certainty", "resolved_at"),
    id=_NUMBER,
    root_id=_or_null(_NUMBER),
    relative_path=_or_null(_TEXT),
    kind=_TEXT,
    state={"type": "string", "examples": [state.value for state in FindingState]},
    certainty=_or_null(_TEXT),
    opened_at=_TIME,
    resolved_at=_or_null(_TIME),
)
"""The body of a message about a finding."""

CALLS = {
    "heartbeat": BoxCallForm(
        path="heartbeat",
        summary="How the box is, and all its roots",
        head=_object(
            ("run", "machine"),
            protocol=_VERSION,
            version=_TEXT,
            hostname=_TEXT,
            sent_at=_NUMBER,
            stream=_hex(STREAM_BYTES),
            newest=_NUMBER,
            sentence=_TEXT,
            state={"enum": ["ok", "problem", "gap"]},
            roots=_list(_MEMBER),
            run=_or_null(_hex(RUN_BYTES)),
            machine=_or_null(_hex(RUN_BYTES)),
        ),
        answer=_object(now=_NUMBER, last=_or_null(_NUMBER), trees=_list(_NUMBER), refused=_list(_TEXT)),
    ),
    "messages": BoxCallForm(
        path="messages",
        summary="Messages of a stream, numbered without gaps",
        head=_object(
            ("joining",),
            protocol=_VERSION,
            stream=_hex(STREAM_BYTES),
            first=_NUMBER,
            chain=_hex(CHAIN_BYTES),
            joining=_or_null(_hex(RUN_BYTES)),
        ),
        line=_object(
            n=_NUMBER,
            at=_NUMBER,
            kind={"enum": [kind.value for kind in MessageKind]},
            body={"anyOf": [_FINDING, {"type": "object"}]},
        ),
        answer=_object(last=_NUMBER),
    ),
    "compare": BoxCallForm(
        path="trees/{root_id:number}/compare",
        summary="Which folders of a tree the hub does not have as the box has them",
        head=_object(protocol=_VERSION),
        line=_object(path=_TEXT, own=_DIGEST, subtree=_DIGEST),
        answer=_object(own=_list(_NUMBER), below=_list(_NUMBER)),
    ),
    "buckets": BoxCallForm(
        path="trees/{root_id:number}/buckets",
        summary="Digests of the files of a folder, by which a box finds those that the hub does not have as they are",
        head=_object(protocol=_VERSION, path=_TEXT),
        answer=_object(buckets=_TEXT),
    ),
    "folders": BoxCallForm(
        path="trees/{root_id:number}/folders",
        summary="Folders with their files, or parts of them",
        head=_object(protocol=_VERSION),
        line=_object(
            ("files", "buckets"),
            path=_TEXT,
            own=_DIGEST,
            content=_DIGEST,
            subtree=_DIGEST,
            folders=_list(_TEXT),
            first=_FLAG,
            last=_FLAG,
            files=_or_null(_list(_FILE)),
            buckets=_or_null(_object(bits=_NUMBER, numbers=_list(_NUMBER))),
        ),
        answer=_object(stored=_NUMBER),
    ),
    "settle": BoxCallForm(
        path="trees/{root_id:number}/settle",
        summary="Whether the hub has a whole tree",
        head=_object(protocol=_VERSION, tree=_DIGEST),
        answer=_object(settled=_FLAG),
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
    error=_object(error=_TEXT, message=_TEXT),
    errors=(400, 404, 409, 411, 413, 415, 429, 503, 507),
    unauthorized="the token is unknown or was revoked",
)


def describe_calls() -> JsonObject:
    """Return the description of the calls of boxes."""
    paths: dict[str, JsonObject] = {}
    for call in CALLS.values():
        path, answer = f"/{call.path}", describe_answer(call.summary, call.answer)
        described = _INTERFACE.describe_operation(path, call.summary, answer, (), _ROOT)
        paths[path] = {"post": {**described, "requestBody": {"required": True, "content": call.body}}}
    return _INTERFACE.describe(paths)
