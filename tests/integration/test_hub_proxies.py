"""The recipes of docs/hub.md for a hub behind a proxy, with the programs of Debian: boxes report through them."""

from __future__ import annotations

import http.client
import re
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import closing
from http import HTTPStatus
from pathlib import Path

import pytest

from integrity.hub.audit import find_entries
from integrity.hub.database import HubDatabase
from integrity.reporting.client import HubClient
from integrity.reporting.protocol import encode
from support.cli import Box
from support.generated import ROOT
from support.hub_reports import Stream, make_heartbeat
from support.hubserver import HubServerProcess
from support.machine import need_programs
from support.programs import SEARCH_PATH
from support.servers import free_port, make_certificate
from support.waiting import wait_until

PAGE = (ROOT / "docs" / "hub.md").read_text(encoding="utf-8")
OTHER_ADDRESS = "127.0.0.5"


class Proxy:
    """A proxy as its recipe says, but for the places and names of a test."""

    def __init__(self, kind: str, folder: Path, port: int, hub_port: int) -> None:
        self.port, self.certificate = port, make_certificate(folder)
        (text,) = re.findall(rf"```{kind}\n(.*?)```", PAGE, re.DOTALL)
        text = text.replace("127.0.0.1:8433", f"127.0.0.1:{hub_port}")
        key, file = self.certificate.with_suffix(".key"), folder / kind
        if kind == "caddy":
            text = text.replace("{\n", "{\n\tadmin off\n\tauto_https off\n", 1)
            text = text.replace(
                "integrity.example.org {", f"https://127.0.0.1:{self.port} {{\n\ttls {self.certificate} {key}"
            )
            command = ["caddy", "run", "--config", str(file), "--adapter", "caddyfile"]
        else:
            text = text.replace("listen 443", f"listen {self.port}").replace("integrity.example.org", "127.0.0.1")
            text = text.replace("/etc/ssl/integrity.pem", str(self.certificate)).replace(
                "/etc/ssl/integrity.key", str(key)
            )
            paths = "".join(f"{name}_temp_path {folder}/{name};\n" for name in ("client_body", "proxy", "fastcgi"))
            more = "".join(f"{name}_temp_path {folder}/{name};\n" for name in ("uwsgi", "scgi"))
            head = f"daemon off;\nmaster_process off;\npid {folder}/pid;\nerror_log stderr;\nevents {{}}\n"
            text = f"{head}http {{\naccess_log off;\n{paths}{more}{text}}}\n"
            command = ["nginx", "-e", "stderr", "-c", str(file)]
        file.write_text(text)
        with open(folder / "proxy.log", "wb") as log:
            self.process = subprocess.Popen(
                command, stdout=log, stderr=log, env={"HOME": str(folder), "PATH": SEARCH_PATH}
            )

    def ask(self, method: str, path: str, body: bytes = b"", **headers: str) -> int:
        """Ask from another address than that of the proxy; return the status, 413 also if it ends the connection."""
        context = ssl.create_default_context(cafile=str(self.certificate))
        place = "127.0.0.1", self.port
        connection = http.client.HTTPSConnection(*place, context=context, source_address=(OTHER_ADDRESS, 0), timeout=60)
        with closing(connection):
            connection.connect()
            try:
                connection.request(method, path, body, headers)
                answer = connection.getresponse()
                answer.read()
            except (ConnectionError, ssl.SSLError):
                if not body:
                    raise
                return HTTPStatus.REQUEST_ENTITY_TOO_LARGE
            return answer.status

    def is_there(self) -> bool:
        """Return whether it answers."""
        try:
            return self.ask("GET", "/healthz") == HTTPStatus.OK
        except OSError:
            return False


@pytest.fixture(params=["caddy", "nginx"])
def proxy(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Proxy, HubServerProcess]]:
    """Run a hub behind a proxy."""
    need_programs(request.param)
    port = free_port()
    settings = f'trusted_proxy = "127.0.0.1"\npublic_url = "https://127.0.0.1:{port}"\n'
    with HubServerProcess(Box(tmp_path / "hub"), str(tmp_path / "hub.db"), settings) as hub:
        made = Proxy(request.param, tmp_path, port, hub.port)
        try:
            wait_until(made.is_there, "the proxy")
            yield made, hub
        finally:
            made.process.terminate()
            made.process.wait(30)


def test_boxes_report_through_a_proxy(proxy: tuple[Proxy, HubServerProcess]) -> None:
    """The hub knows the address of each; its page is where it should be, and what is too large never gets there."""
    made, hub = proxy
    token = hub.command("-q", "hub", "add", "nas").strip()
    client = HubClient(f"https://127.0.0.1:{made.port}", token, certificate=bytes(made.certificate))
    answer = client.call("heartbeat", encode(make_heartbeat(Stream().id)))
    client.close()
    other = hub.command("-q", "hub", "add", "garage").strip()
    body, by_token = encode(make_heartbeat(Stream().id, hostname="garage")), {"Authorization": f"Bearer {other}"}
    accepted = made.ask("POST", "/hub/v1/heartbeat", body, **by_token)
    large = made.ask("POST", "/hub/v1/heartbeat", bytes(9 << 20), **by_token)

    assert answer["trees"] == []
    assert accepted == 200
    assert large in (413, 502)  # 502: Caddy was sending it already when its limit was reached
    assert made.ask("GET", "/") in (200, 303)
    database = HubDatabase.open(hub.database)
    with database.read() as c:
        joined = {one.who: one.address for one in find_entries(c) if one.verb == "join"}
    database.close()
    assert {"box:nas": "127.0.0.1", "box:garage": OTHER_ADDRESS} == joined
