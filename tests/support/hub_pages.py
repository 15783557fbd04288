"""
The real pages of a hub in a process of their own, without the jobs of a hub: rows stay as a test wrote them.

``python -m support.hub_pages DATABASE STATE PORT`` serves them until SIGTERM.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from integrity.config import Config, HubServer
from integrity.hub.database import HubDatabase
from integrity.hub.pages.app import make_pages
from integrity.web.endpoint import find_hub_endpoint
from integrity.web.passwords import PasswordStore
from integrity.web.server import serve
from support.cli import Process
from support.servers import free_port
from support.warmstart import get_warm_start
from support.webpage import PASSWORD, Pages

TOKEN = "0123456789abcdef0123"
_READY = "ready"


class HubPages(Pages):
    """
    ``with HubPages(url, folder) as pages: ...`` serves them on a free port; the process never outlives the block.

    Args:
        url: of the database.
        folder: for the password and the log.
    """

    def __init__(self, url: str, folder: Path) -> None:
        self.port = free_port()
        state = folder / "integrity-hub"
        PasswordStore(os.fsencode(state)).set_password(PASSWORD)
        super().__init__([url, str(state), str(self.port)], os.environ, folder / "pages.log", _READY)

    def _spawn(self, log: int) -> Process:
        warm = get_warm_start(has_services=True)
        return warm.start(self._command, self._environment, log, log, module="support.hub_pages")


def _serve(url: str, state: str, port: str) -> None:
    config = Config(hub_server=HubServer(listen=f"127.0.0.1:{port}"))
    app = make_pages(config, HubDatabase.open(url), PasswordStore(os.fsencode(state)), TOKEN, list)
    serve(app, find_hub_endpoint(config.hub_server), ready=lambda: print(_READY, flush=True))


if __name__ == "__main__":
    _serve(*sys.argv[1:])
