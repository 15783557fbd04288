"""The real page in a process of its own, and a client that keeps its cookie as a browser does."""

from __future__ import annotations

import http.client
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

from support.cli import Box, make_command
from support.running import Background
from support.servers import free_port
from support.warmstart import get_warm_start

PASSWORD = "correct horse battery"
_TIMEOUT_S = 120.0


class Reply(NamedTuple):
    """What the page answered."""

    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def text(self) -> str:
        """The body as text, without the marks where a line may break and where not."""
        return re.sub(r"<wbr>|</?bdi>", "", self.body.decode())

    @property
    def object(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)


class Pages(Background):
    """Pages that a process serves on a port of the loopback."""

    port: int

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self.port}"

    def client(self) -> WebClient:
        """Return a client that is not logged in."""
        return WebClient(self.port)

    def visitor(self) -> WebClient:
        """Return a client that is logged in."""
        client = self.client()
        assert 303 == client.log_in().status
        return client


class WebPage(Pages):
    """
    ``with WebPage(box, toml) as page: ...`` runs ``integrity web`` on a free port; it never outlives the block.

    Args:
        box: whose catalog is shown.
        toml: its configuration; ``[web]`` is added.
        web: further lines of ``[web]``.
        has_password: a password was set before it starts.
        port: to listen on.
    """

    def __init__(
        self, box: Box, toml: str = "", *, web: str = "", has_password: bool = True, port: int | None = None
    ) -> None:
        self.port = port or free_port()
        self.config = box.configure(f'{toml}\n[web]\nlisten = "127.0.0.1:{self.port}"\n{web}\n')
        self.state = box.home / "state"
        environment = {**box.environment, "XDG_STATE_HOME": str(self.state)}
        log = box.home / "web.log"
        log.unlink(missing_ok=True)
        super().__init__(make_command("web"), environment, log, "The page is at")
        self._has_password = has_password

    def start(self) -> None:
        """Start it, with the password, and wait until it serves."""
        if self._has_password:
            self.set_password(PASSWORD)
        super().start()

    @property
    def link(self) -> str:
        """The path of the one-time link that it printed."""
        found = re.search(r"(/welcome\?token=\S+)", self.log)
        assert found is not None, self.log
        return found[1]

    def set_password(self, password: str) -> None:
        """Set a password as its owner does."""
        words, typed = ["web", "--set-password"], f"{password}\n".encode()
        code, _, err = get_warm_start().run(words, self._environment, None, _TIMEOUT_S, stdin=typed)
        assert code == 0, err.decode()


class WebClient:
    """A client with one cookie. Each request is a connection of its own."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.cookie = ""

    def get(self, path: str, **headers: str) -> Reply:
        """Ask for a page."""
        return self.ask("GET", path, headers={name.replace("_", "-"): text for name, text in headers.items()})

    def post(self, path: str, fields: Mapping[str, str], **headers: str) -> Reply:
        """Send a form."""
        form = {"Content-Type": "application/x-www-form-urlencoded"}
        given = {name.replace("_", "-"): text for name, text in headers.items()}
        return self.ask("POST", path, urlencode(fields).encode(), form | given)

    def log_in(self, password: str = PASSWORD) -> Reply:
        """Log in."""
        return self.post("/login", {"password": password})

    def find_token(self) -> str:
        """Return the token that forms of this session carry."""
        found = re.search(r'name="csrf" value="(\w+)"', self.get("/settings").text)
        assert found is not None
        return found[1]

    def ask(self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None) -> Reply:
        """Send a request, and keep the cookie that comes back."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=_TIMEOUT_S)
        try:
            cookie = {"Cookie": self.cookie} if self.cookie else {}
            connection.request(method, path, body, {**cookie, **(headers or {})})
            response = connection.getresponse()
            reply = Reply(response.status, response.headers, response.read())
        finally:
            connection.close()
        if new := reply.headers.get("Set-Cookie"):
            self.cookie = new.partition(";")[0]
        return reply


def read_memory(pid: int) -> int:
    """Return how much memory a process holds, in bytes."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) * 1024
