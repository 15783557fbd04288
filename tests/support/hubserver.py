"""A real hub in a process of its own, and the calls of a box over HTTP."""

from __future__ import annotations

import http.client
import json
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import zstandard

from integrity.reporting import protocol
from support.cli import Box, make_command
from support.waiting import wait_until
from support.webpage import find_port

_TIMEOUT_S = 60.0
_WITH_BOUNDS = """
import json, sys
from integrity.cli import main
from integrity.hub.server import HubProtocol
for name, seconds in json.loads(sys.argv.pop(1)).items():
    assert 0 < seconds < getattr(HubProtocol, name)
    setattr(HubProtocol, name, seconds)
sys.exit(main())
"""


class HubAnswer(NamedTuple):
    """What a hub answered."""

    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def object(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)


class HubServerProcess:
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
        self._home, self._bounds = home, bounds
        self.database = database
        self.port = find_port()
        self.url = f"{'http' if certificate is None else 'https'}://127.0.0.1:{self.port}"
        setting = f'database = "{database}"\n' if "://" in database else ""
        if certificate is not None:
            setting += f'certificate = "{certificate}"\nkey = "{certificate.with_suffix(".key")}"\n'
        home.configure(f'[hub_server]\nlisten = "127.0.0.1:{self.port}"\n{setting}{toml}')
        state = str(home.home / "state") if "://" in database else database.rpartition("/")[0]
        self._environment = {**home.environment, "STATE_DIRECTORY": state}
        self._log = home.home / "hub.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._callers: list[HubCaller] = []

    def __enter__(self) -> HubServerProcess:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            print(f"--- the hub's log\n{self.log}")
        for caller in self._callers:
            caller.close()
        self.stop()

    @property
    def log(self) -> str:
        """All that it printed."""
        return self._log.read_text("utf-8", "replace")

    @property
    def pid(self) -> int:
        """Its process id."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start it and wait until boxes can report."""
        with open(self._log, "ab") as log:
            before = log.tell()
            command = make_command("hub", "run")
            if self._bounds is not None:
                command = [sys.executable, "-P", "-c", _WITH_BOUNDS, json.dumps(dict(self._bounds)), "hub", "run"]
            self._process = subprocess.Popen(
                command, env=self._environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        try:
            wait_until(lambda: "The hub is at" in self.log[before:] or self.has_ended, "the hub to start")
            assert not self.has_ended, self.log
        except BaseException:
            self._process.kill()
            raise

    def stop(self, number: int = signal.SIGTERM) -> None:
        """End it; SIGKILL is a crash."""
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(number)
        try:
            process.wait(_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            raise

    @property
    def has_ended(self) -> bool:
        """Whether it has ended."""
        return self._process is not None and self._process.poll() is not None

    def command(self, *arguments: str, expect: int = 0) -> str:
        """Run a command on the hub's machine, and return what it printed."""
        done = subprocess.run(
            make_command(*arguments), env=self._environment, stdin=subprocess.DEVNULL, capture_output=True, check=False
        )
        assert expect == done.returncode, (done.stdout + done.stderr).decode()
        return done.stdout.decode()

    def add(self, name: str) -> HubCaller:
        """Let a box report."""
        return self.caller(self.command("-q", "hub", "add", name).strip())

    def caller(self, token: str) -> HubCaller:
        """Return one more connection of whoever has the token."""
        caller = HubCaller(self.port, token)
        self._callers.append(caller)
        return caller


class HubCaller:
    """A box that calls a hub; it keeps its connection."""

    def __init__(self, port: int, token: str) -> None:
        self.token = token
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
