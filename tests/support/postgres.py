"""A real PostgreSQL in a temporary folder: nothing of the machine's own is touched, and nothing stays."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TypedDict

import psycopg

from support.machine import need_programs
from support.waiting import wait_until


class _Somebody(TypedDict, total=False):
    user: str
    group: str
    cwd: str


_NAME = "postgres"
_FAST = "fsync = off\nsynchronous_commit = off\nfull_page_writes = off\n"


_FAILING = """
CREATE FUNCTION disk_is_full() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = 'disk_full'; END $$
"""


class PostgresServer:
    """
    ``with PostgresServer() as server: ...`` runs a server that never outlives the block.

    Args:
        is_durable: it survives kills and power cuts; else it lies in memory and is faster.
        port: TCP port on loopback; 0: only the socket in its folder.
    """

    def __init__(self, *, is_durable: bool = False, port: int = 0) -> None:
        self._bin = find_programs()
        self._is_durable = is_durable
        self._port = port
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> PostgresServer:
        memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) and not self._is_durable else None
        self.folder = Path(tempfile.mkdtemp(prefix="integrity-pg-", dir=memory))
        try:
            self._initialize()
            self.start()
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._remove()

    @property
    def log(self) -> str:
        """All that it printed."""
        return (self.folder / "log").read_text("utf-8", "replace")

    @property
    def pid(self) -> int:
        """Process id of the postmaster."""
        assert self._process is not None
        return self._process.pid

    def url(self, name: str = _NAME) -> str:
        """Return the URL of a database, through the socket."""
        return f"postgresql://{_NAME}@/{name}?host={self.folder}"

    def create_database(self, *, template: str = "template1") -> str:
        """Create a database with a new name and return its URL."""
        name = f"hub_{secrets.token_hex(6)}"
        self.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}"')
        return self.url(name)

    def drop_database(self, url: str) -> None:
        """Drop a database, whoever is connected to it."""
        name = url.rpartition("/")[0].rpartition("/")[2] if "?" not in url else url.partition("?")[0].rpartition("/")[2]
        self.execute(f'DROP DATABASE "{name}" WITH (FORCE)')

    def execute(self, statement: str) -> None:
        """Run a statement outside of any transaction."""
        with psycopg.connect(self.url(), autocommit=True) as db:
            db.execute(statement.encode())

    @staticmethod
    def fill_disk(url: str, *tables: str) -> None:
        """Have every write to some tables of a database, or to all, fail as on a full disk; those of COPY as well."""
        with psycopg.connect(url, autocommit=True) as db:
            db.execute(_FAILING)
            ours = "relkind = 'r' AND relnamespace = 'public'::regnamespace"
            for (name,) in db.execute(f"SELECT relname FROM pg_class WHERE {ours}".encode()).fetchall():
                if not tables or name in tables:
                    db.execute(
                        f'CREATE TRIGGER disk_is_full BEFORE INSERT OR UPDATE OR DELETE ON "{name}"'
                        " EXECUTE FUNCTION disk_is_full()".encode()
                    )

    @staticmethod
    def free_disk(url: str) -> None:
        """Have writes work again."""
        with psycopg.connect(url, autocommit=True) as db:
            db.execute("DROP FUNCTION disk_is_full CASCADE")

    def dump_schema(self, url: str) -> list[str]:
        """Return the statements that make the tables of the hub, sorted, without those of its libraries."""
        done = subprocess.run(
            [f"{self._bin}/pg_dump", "--schema-only", "--no-comments", "--no-owner", url],
            capture_output=True,
            check=True,
            text=True,
        )
        lines = (line for line in done.stdout.splitlines() if line and not line.startswith(("--", "\\")))
        statements = "\n".join(lines).rstrip(";").split(";\n")
        kinds = ("CREATE TABLE", "ALTER TABLE", "CREATE INDEX", "CREATE UNIQUE INDEX")
        return sorted(s for s in statements if s.startswith(kinds) and "alembic" not in s)

    def start(self) -> None:
        """Start it and wait until it answers."""
        self._spawn()
        wait_until(self._answers, "PostgreSQL to start")

    def _spawn(self) -> None:
        with open(self.folder / "log", "ab") as log:
            self._process = subprocess.Popen(
                [f"{self._bin}/postgres", "-D", self.folder / "data"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                **_as_somebody(),
            )

    def stop(self, number: int = signal.SIGINT) -> None:
        """Stop it: SIGINT ends its clients, SIGKILL is a crash."""
        process, self._process = self._process, None
        if process is None:
            return
        if number == signal.SIGKILL:  # its children end when they notice
            for child in _children(process.pid):
                with suppress(ProcessLookupError):  # it served one query, and has ended
                    os.kill(child, number)
        process.send_signal(number)
        process.wait(30)
        (self.folder / "data" / "postmaster.pid").unlink(missing_ok=True)

    def _answers(self) -> bool:
        assert self._process is not None
        if self._process.poll() is not None:  # processes of one that was killed have not all noticed yet
            assert "still in use" in self.log, self.log
            self._spawn()
            return False
        try:
            psycopg.connect(self.url(), connect_timeout=5).close()
        except psycopg.OperationalError:
            return False
        return True

    def _initialize(self) -> None:
        if os.geteuid() == 0:
            shutil.chown(self.folder, "nobody")
        subprocess.run(
            [
                f"{self._bin}/initdb",
                "-D",
                self.folder / "data",
                "-U",
                _NAME,
                "-A",
                "trust",
                "-E",
                "UTF8",
                "--locale=C",
                "-N",
            ],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=True,
            **_as_somebody(),
        )
        listen = f"listen_addresses = '127.0.0.1'\nport = {self._port}\n" if self._port else "listen_addresses = ''\n"
        with open(self.folder / "data" / "postgresql.conf", "a", encoding="utf-8") as file:
            file.write(f"{listen}unix_socket_directories = '{self.folder}'\nmax_connections = 100\n")
            file.write("shared_buffers = 64MB\n" + ("" if self._is_durable else _FAST))

    def _remove(self) -> None:
        self.stop(signal.SIGQUIT)
        shutil.rmtree(self.folder, ignore_errors=True)


def find_programs() -> str:
    """Return the folder of the newest PostgreSQL; its programs for servers are not in PATH on Debian."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: int(path.parts[-3]))
    if found:
        return str(found[-1].parent)
    need_programs("postgres", "initdb")
    return str(Path(shutil.which("postgres") or "").parent)


def _as_somebody() -> _Somebody:
    """Return the options that start a process as an unprivileged user: PostgreSQL refuses root."""
    return {"user": "nobody", "group": "nogroup", "cwd": "/"} if os.geteuid() == 0 else {"cwd": "/"}


def _children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
