"""A real hub in a process of its own, and the calls of a box over HTTP."""

from __future__ import annotations

import http.client
import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import zstandard

from integrity.hub.database import HubDatabase
from integrity.hub.members import ANY, Grants
from integrity.hub.migrate import migrate
from integrity.reporting import protocol
from support.cli import Box, make_command
from support.running import Background
from support.servers import free_port
from support.warmstart import get_warm_start

_TIMEOUT_S = 60.0
ANYWHERE = Grants(frozenset({ANY}), frozenset({ANY}))
"""Of a box that may be in every set and on every tree."""

_WITH_BOUNDS = """
import json, sys
from integrity.cli import main
from integrity.hub.server import HubProtocol
for name, seconds in json.loads(sys.argv.pop(1)).items():
    assert 0 < seconds < getattr(HubProtocol, name)
    setattr(HubProtocol, name, seconds)
sys.exit(main())
"""


def make_tables(url: str) -> str:
    """Make the tables of a hub in an empty database, and return its URL."""
    database = HubDatabase.open(url, any_revision=True)
    migrate(database)
    database.close()
    return url


class HubAnswer(NamedTuple):
    """What a hub answered."""

    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def object(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)


class HubServerProcess(Background):
    """
    ``with HubServerProcess(home, url) as hub: ...`` runs ``integrity hub run``; it never outlives the block.

    Args:
        home: where its configuration and log are.
        database: URL, or the path of an SQLite file.
        toml: further configuration.
        certificate: of 127.0.0.1, with its key beside it; none: plain HTTP, which ``add`` and ``caller`` speak.
        bounds: deadlines of ``HubProtocol`` in seconds that are shorter than the real ones.
    """

    def __init__(
        self,
        home: Box,
        database: str,
        toml: str = "",
        *,
        certificate: Path | None = None,
        bounds: Mapping[str, float] | None = None,
    ) -> None:
        self.database = database
        self.port = free_port()
        self.url = f"{'http' if certificate is None else 'https'}://127.0.0.1:{self.port}"
        setting = f'database = "{database}"\n' if "://" in database else ""
        if certificate is not None:
            setting += f'certificate = "{certificate}"\nkey = "{certificate.with_suffix(".key")}"\n'
        home.configure(f'[hub_server]\nlisten = "127.0.0.1:{self.port}"\n{setting}{toml}')
        state = str(home.home / "state") if "://" in database else database.rpartition("/")[0]
        environment = {**home.environment, "STATE_DIRECTORY": state}
        command = make_command("hub", "run")
        if bounds is not None:
            command = [sys.executable, "-P", "-c", _WITH_BOUNDS, json.dumps(dict(bounds)), "hub", "run"]
        super().__init__(command, environment, home.home / "hub.log", "The hub is at")
        self._callers: list[HubCaller] = []

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        for caller in self._callers:
            caller.close()
        super().__exit__(kind, error, trace)

    def command(self, *arguments: str, expect: int = 0) -> str:
        """Run a command on the hub's machine, and return what it printed."""
        code, out, err = get_warm_start().run(arguments, self._environment, None, _TIMEOUT_S)
        assert expect == code, (out + err).decode()
        return out.decode()

    def add(self, name: str) -> HubCaller:
        """Let a box report, in whatever set it names."""
        return self.caller(self.command("-q", "hub", "add", name, "--set", "*", "--tree", "*").strip())

    def join(self, box: Box, token: str, roots: str, *, more: str = "", url: str = "") -> None:
        """Have a box report: ``more`` stands in its [hub], ``url`` is that of what lies between the two."""
        box.configure("")
        file = box.home / "hub-token"
        file.write_text(token)
        file.chmod(0o600)
        box.configure(f'{roots}\n[hub]\nurl = "{url or self.url}"\ntoken_file = "{file}"\n{more}')

    def caller(self, token: str) -> HubCaller:
        """Return one more connection of whoever has the token."""
        caller = HubCaller(self.port, token)
        self._callers.append(caller)
        return caller


class HubCaller:
    """A box that calls a hub; it keeps its connection."""

    def __init__(self, port: int, token: str) -> None:
        self.port, self.token = port, token
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_TIMEOUT_S)

    def post(self, path: str, body: bytes, **headers: str) -> HubAnswer:
        """Send a body as it is."""
        given = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        renamed = {name.replace("_", "-"): value for name, value in headers.items()}
        self._connection.request("POST", f"/hub/v1/{path}", body, given | renamed)
        answer = self._connection.getresponse()
        return HubAnswer(answer.status, answer.headers, answer.read())

    def call(self, path: str, *lines: object, expect: int = 200) -> Any:
        """Send one object, or lines, compressed; return the answer."""
        body = protocol.encode(lines[0]) if len(lines) == 1 else protocol.encode_lines(lines)
        answer = self.post(path, zstandard.compress(body), Content_Encoding="zstd")
        assert expect == answer.status, answer
        return answer.object

    def send_tree(self, parts: Iterable[object], root: int = 1) -> Any:
        """Send folders."""
        return self.call(f"trees/{root}/folders", {"protocol": 1}, *parts)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()
