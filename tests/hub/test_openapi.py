"""The descriptions of a hub's interfaces say what is there: each path, each parameter, each value of a body."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
from starlette.exceptions import HTTPException
from starlette.requests import Request
from tests.hub.pages.conftest import fill

from integrity.config import HubServer
from integrity.errors import ProtocolError
from integrity.hub.api import CALLS, describe_calls
from integrity.hub.database import HubDatabase
from integrity.hub.migrate import migrate
from integrity.hub.pages.api import HubApi
from integrity.hub.pages.site import HubSite
from integrity.hub.reported import (
    BoxHeartbeat,
    ComparedFolder,
    MessageLine,
    MessagesHeader,
    ReportedFinding,
    read_call,
    read_folders,
)
from integrity.reporting.digest_tree import digest_files, file_values
from integrity.reporting.forms import read_form
from integrity.reporting.protocol import JsonObject
from integrity.web.json_pages import JsonPage
from support.asked import make_noting_request
from support.hub_pages import TOKEN, HubPages
from support.hub_reports import make_finding, make_heartbeat, make_root
from support.hub_rows import reported as make_file

DOCS = Path(__file__).parents[2] / "docs" / "hub-api.md"
EMPTY_DIGEST = bytes(16).hex()
NAMES = {"/boxes/{name}": "cellar", "/sets/{name:path}": "photos", "/trees/{name:path}": "archive"}


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubDatabase]:
    """Return the database of a hub that has something to say."""
    made = HubDatabase.open(str(tmp_path_factory.mktemp("hub") / "hub.db"), any_revision=True)
    migrate(made)
    fill(made)
    yield made
    made.close()


def find_pages(database: HubDatabase) -> dict[str, JsonPage]:
    return HubApi(HubSite(database, HubServer(), list)).find_pages()


def find_place(path: str) -> dict[str, object]:
    """Return the parameters of a path that lead to something."""
    if "finding_id" in path:
        return {"finding_id": 1}
    return next(({"name": name} for begin, name in NAMES.items() if path.startswith(begin)), {})


def test_pages_ask_for_what_is_described(database: HubDatabase) -> None:
    """No parameter is secret, and none is without effect; a list has the described names."""
    for path, page in find_pages(database).items():
        request, asked = make_noting_request(path, find_place(path))
        answer = page.answer(request)

        assert {one.name for one in page.parameters} == asked, path
        assert {page.entries, page.cursor} - {""} <= answer.keys(), path


def test_described_words_are_taken_and_others_refused(database: HubDatabase) -> None:
    """Values that are described lead to an answer; what has a type or words takes nothing else."""
    for path, page in find_pages(database).items():
        for one in page.parameters:
            allowed = cast("list[str]", one.schema.get("enum", ["1"] if one.schema["type"] == "integer" else []))
            for value in allowed:
                page.answer(make_request(path, **{one.name: value}))
            if one.schema["type"] == "integer" or "enum" in one.schema:
                with pytest.raises(HTTPException, match="must be"):
                    page.answer(make_request(path, **{one.name: "x y"}))


def make_request(path: str, **query: str) -> Request:
    text = "&".join(f"{name}={value}" for name, value in query.items()).replace(" ", "+").encode()
    scope = {"type": "http", "method": "GET", "path": path, "path_params": find_place(path), "query_string": text}
    return Request(scope)


def test_every_described_path_answers(database: HubDatabase, tmp_path: Path) -> None:
    """Both descriptions are served, and need the log-in or the token like all else."""
    path = database.engine.url.database
    assert path is not None
    with HubPages(path, tmp_path) as pages:
        program, token = pages.client(), {"Authorization": f"Bearer {TOKEN}"}
        described = program.get("/api/v1/openapi.json", **token).object
        for place in described["paths"]:
            full = place.replace("{finding_id}", "1").replace("{name}", "photos" if "sets" in place else "cellar")
            assert program.get(f"/api/v1{full}", **token).status in (200, 404), place
        calls = program.get("/api/v1/box-calls.json", **token).object

        assert 401 == program.get("/api/v1/openapi.json").status
    assert json.loads(json.dumps(describe_calls())) == calls
    assert {f"/{call.path}".replace(":number", "") for call in CALLS.values()} == set(calls["paths"])


def make_folder() -> JsonObject:
    files = [make_file(b"a.jpg")]
    digests = {name: digest.hex() for name, digest in digest_files(files)._asdict().items()}
    values = {"folders": [], "first": True, "last": True, "files": [file_values(file) for file in files]}
    buckets = {"bits": 1, "numbers": [0, 1]}
    return {"path": "2019", **digests, "subtree": EMPTY_DIGEST, **values, "buckets": buckets}


def make_header() -> JsonObject:
    return {"protocol": 1, "stream": EMPTY_DIGEST, "first": 1, "chain": EMPTY_DIGEST, "joining": EMPTY_DIGEST}


Schema = Mapping[str, Any]


def find_readers() -> dict[str, tuple[Schema, JsonObject, Callable[[JsonObject], object]]]:
    """Return each object that a box sends: its schema, an example, and what reads it."""
    calls: Any = CALLS
    heartbeat, message = calls["heartbeat"].head, calls["messages"].line
    member = heartbeat["properties"]["roots"]["items"]
    finding = message["properties"]["body"]["anyOf"][0]
    stream = bytes(16)
    runs = {"run": stream.hex(), "machine": stream.hex()}
    return {
        "heartbeat": (heartbeat, make_heartbeat(stream, **runs), partial(read_call, BoxHeartbeat)),
        "root": (member, make_root(tree=stream), lambda one: read_call(BoxHeartbeat, make_heartbeat(stream, one))),
        "header": (calls["messages"].head, make_header(), partial(read_call, MessagesHeader)),
        "message": (message, {"n": 1, "at": 1, "kind": "run", "body": {}}, partial(read_form, MessageLine)),
        "finding": (finding, make_finding(1), partial(read_form, ReportedFinding)),
        "compared": (
            calls["compare"].line,
            {"path": "", "own": EMPTY_DIGEST, "subtree": EMPTY_DIGEST},
            partial(read_form, ComparedFolder),
        ),
        "folder": (calls["folders"].line, make_folder(), lambda one: read_folders([one])),
    }


def test_described_values_are_those_that_are_read() -> None:
    """What is required is required, and what is not is not."""
    for what, (schema, example, read) in find_readers().items():
        assert schema["properties"].keys() == example.keys(), what
        read(example)
        for name in example:
            without = {key: value for key, value in example.items() if key != name}
            if name in schema["required"]:
                with pytest.raises(ProtocolError):
                    read(without)
            else:
                read(without)


def test_documentation_names_each_call_and_value() -> None:
    """docs/hub-api.md has all that the descriptions have of the bodies."""
    text = DOCS.read_text()
    calls: Any = CALLS
    for call in calls.values():
        assert f"`{call.path.replace('{root_id:number}', 'ROOT')}`" in text
        for schema in filter(None, (call.head, call.line, call.answer)):
            for name in schema["properties"]:
                assert f"`{name}`" in text, name
