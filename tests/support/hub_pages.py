"""
The real pages of a hub in a process of their own, without the jobs of a hub: rows stay as a test wrote them.

``python -m support.hub_pages DATABASE STATE PORT`` serves them until SIGTERM.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType

from integrity.config import Config, HubServer
from integrity.hub.database import HubDatabase
from integrity.hub.pages.app import make_pages
from integrity.web.endpoint import find_hub_endpoint
from integrity.web.passwords import PasswordStore
from integrity.web.server import serve
from support.waiting import wait_until
from support.webpage import PASSWORD, WebClient, find_port

TOKEN = "0123456789abcdef0123"
_TIMEOUT_S = 30.0
_READY = b"ready"


class HubPages:
    """
    ``with HubPages(url, folder) as pages: ...`` serves them on a free port; the process never outlives the block.

    Args:
        url: of the database.
        folder: for the password and the log.
    """

    def __init__(self, url: str, folder: Path) -> None:
        self._database = url
        self._state = folder / "integrity-hub"
        self._log = folder / "pages.log"
        self.port = find_port()

    def __enter__(self) -> HubPages:
        PasswordStore(os.fsencode(self._state)).set_password(PASSWORD)
        with open(self._log, "wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "support.hub_pages", self._database, self._state, str(self.port)],
                env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        wait_until(lambda: _READY in self._log.read_bytes() or self._process.poll() is not None, "the pages to start")
        assert self._process.poll() is None, self.log
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            print(f"--- the log of the pages\n{self.log}")
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            raise

    @property
    def url(self) -> str:
        """Where they are."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def log(self) -> str:
        """All that the process printed."""
        return self._log.read_text()

    def client(self) -> WebClient:
        """Return a client that is not logged in."""
        return WebClient(self.port)

    def visitor(self) -> WebClient:
        """Return a client that is logged in."""
        client = self.client()
        assert 303 == client.log_in().status
        return client


def _serve(url: str, state: str, port: str) -> None:
    config = Config(hub_server=HubServer(listen=f"127.0.0.1:{port}"))
    app = make_pages(config, HubDatabase.open(url), PasswordStore(os.fsencode(state)), TOKEN)
    serve(app, find_hub_endpoint(config.hub_server), ready=lambda: print(_READY.decode(), flush=True))


if __name__ == "__main__":
    _serve(*sys.argv[1:])
