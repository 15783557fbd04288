"""Servers that hold a copy and can be made to lie: what ``campaigns.servers`` has the program meet."""

from __future__ import annotations

import random
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple, Protocol, Self

from support.faultfs import FaultFS, Rule
from support.proxies import LIES, HttpProxy, Lie, LineProxy, LineRules
from support.s3box import ACCESS, CLIENT_ENV, SECRET, S3Box
from support.servers import make_certificate
from support.sshbox import SFTP_ONLY, SshBox, replace_programs

_SILENT = frozenset(
    {
        "cut",
        "stall",
        "stall before all",
        "ended early",
        "head ended early",
        "garbage head",
        "endless head",
        "429",
        "500",
        "503",
    }
)
PART_BYTES = 6 << 20


class Fault(NamedTuple):
    """
    What a server does wrong.

    Attributes:
        what: one of the liar's ``faults``.
        share: when: after this share of what an honest run has the server do.
        lasts: for the rest of the run, instead of once.
        seed: of what is random about it.
    """

    what: str
    share: float
    lasts: bool
    seed: int


class Liar(Protocol):
    """
    A server with a copy.

    Attributes:
        name: of its kind.
        faults: that it can have.
        silent: those of them in which it says nothing that is wrong: it says too little.
        env: of the program, on top of its own.
    """

    name: str
    faults: list[str]
    silent: frozenset[str]
    env: dict[str, str]

    def __enter__(self) -> Self: ...
    def __exit__(self, *_: object) -> None: ...
    def find_url(self, fault: Fault | None) -> list[str]:
        """Return the copy's URL, and options that belong to it."""

    def begin(self, fault: Fault | None = None, asked: Mapping[str, int] = {}) -> None:
        """Have the fault, or be honest, from now on; ``asked`` is what is asked of an honest server."""

    def measure(self) -> dict[str, int]:
        """Count what was asked since ``begin``."""

    @property
    def told(self) -> str:
        """Say what of it came to pass since ``begin``."""


class S3Liar:
    """
    A real S3 server behind a proxy that lies, spoken to by the program itself or by rclone.

    Args:
        copy: the folder that it is to hold.
        box: the server.
        by_rclone: the program asks rclone.
        folder: for the certificate that nobody trusts.
    """

    def __init__(self, copy: Path, box: S3Box, folder: Path, *, by_rclone: bool = False) -> None:
        self.name = "rclone" if by_rclone else "s3"
        self.silent = _SILENT
        self.faults = [*LIES] if by_rclone else [*LIES, "certificate"]
        self._by_rclone, self._box, self._copy, self._folder = by_rclone, box, copy, folder

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self.bucket = self._box.make_bucket()
            for path in self._copy.rglob("*"):
                if path.is_file():
                    self._upload(f"backup/{path.relative_to(self._copy)}", path.read_bytes())
            self._proxy = stack.enter_context(HttpProxy(self._box.endpoint))
            self._tls = stack.enter_context(HttpProxy(self._box.endpoint, certificate=make_certificate(self._folder)))
            self.env = dict(CLIENT_ENV)
            if self._by_rclone:
                options = {
                    "TYPE": "s3",
                    "PROVIDER": "Other",
                    "ENDPOINT": self._proxy.url,
                    "ACCESS_KEY_ID": ACCESS,
                    "SECRET_ACCESS_KEY": SECRET,
                    "LIST_VERSION": "2",
                }
                self.env |= {f"RCLONE_CONFIG_BOX_{key}": value for key, value in options.items()}
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _upload(self, key: str, data: bytes) -> None:
        if len(data) > PART_BYTES:
            self._box.put_parts(self.bucket, key, [data[:PART_BYTES], data[PART_BYTES:]])
        else:
            self._box.put(self.bucket, key, data)

    def find_url(self, fault: Fault | None) -> list[str]:
        """Return the copy's URL, and its endpoint."""
        if self._by_rclone:
            return [f"rclone:box:{self.bucket}/backup"]
        is_tls = fault is not None and fault.what == "certificate"
        # The endpoint is no part of what a copy is known by.
        return [f"s3://{self.bucket}/backup", "--endpoint", (self._tls if is_tls else self._proxy).url]

    def begin(self, fault: Fault | None = None, asked: Mapping[str, int] = {}) -> None:
        """Lie from the n-th answer on that the lie can be about."""
        self._proxy.be_honest()
        if fault is not None and fault.what in LIES:
            total = sum(asked.get(kind, 0) for kind in LIES[fault.what][0])
            self._proxy.tell(Lie(fault.what, 1 + int(fault.share * total), fault.lasts, fault.seed))

    def measure(self) -> dict[str, int]:
        """Count the answers."""
        return dict(self._proxy.asked)

    @property
    def told(self) -> str:
        """Say how many lies were told, of how many answers."""
        return f"{self._proxy.told} of {self._proxy.asked.total()} answers"


# What stands behind find or md5sum over there: %s is the machine's own.
_FILTERS = {
    "hides": '%s "$@" | sed -z "{n}d"',
    "repeats": '%s "$@" | sed -z p',
    "ends early": '%s "$@" | head -c {bytes}',
    "ends early and fails": '%s "$@" | head -c {bytes}; exit 1',
    "is killed": '%s "$@" | head -c {bytes}; kill -9 $$',
    "prints garbage": "head -c {bytes} /dev/urandom",
    "mixes in garbage": '%s "$@" | head -c {bytes}; head -c 300 /dev/urandom',
    "turns the order": '%s "$@" | sort -zr',
    "fails": "exit 3",
    "prints nothing": ":",
    "stops": '%s "$@" | head -c {bytes}; sleep 6',
    "complains for ever": "while echo complaint >&2; do :; done",
    "changes numbers": '%s "$@" | sed -z "s/^[0-8]/9/"',
    "goes up": '%s "$@" | sed -z "s:\\./a/:./../a/:"',
    "doubles names": '%s "$@" | sed -z "s:/[^/]*$:/keep1.bin:"',
}
_RULES = {
    "flipped": lambda source: [Rule("read", flip=source.randrange(6000)), Rule("read", flip=source.randrange(70_000))],
    "short": lambda source: [Rule("read", eof=source.randrange(6000))],
    "EIO": lambda source: [Rule("read", errno=5, skip=source.randrange(6))],
    "EIO once": lambda source: [Rule("read", errno=5, skip=source.randrange(6), count=1)],
    "hidden": lambda source: [Rule("readdir", path=f"/a/keep{source.randrange(6)}.bin", is_hidden=True)],
    "empty": lambda source: [Rule("readdir", path=source.choice(["*", "/a", "/b"]), is_empty=True)],
    "unlisted": lambda source: [Rule("opendir", path=source.choice(["*", "/a", "/b"]), errno=5)],
    "no stat": lambda source: [Rule("getattr", path=source.choice(["/a/*", "/b/*"]), errno=2)],
    "unopened": lambda source: [Rule("open", path=source.choice(["*", "/a/*"]), errno=13, skip=source.randrange(3))],
}


class SshLiar:
    """
    A real sshd whose line fails, whose programs lie, and whose disk does.

    Args:
        copy: the folder that it shows.
        home: the program's, who logs in.
        has_shell: else there is SFTP only.
    """

    def __init__(self, copy: Path, home: Path, *, has_shell: bool) -> None:
        self.name = "ssh" if has_shell else "sftp"
        self._copy, self._has_shell = copy, has_shell
        self.env: dict[str, str] = {}
        self.silent = frozenset({"cut", "stall", "garble", "host key", "login"})
        self.faults = ["cut", "stall", "garble", "host key", "login", *(f"disk: {name}" for name in _RULES)]
        if has_shell:
            self.faults += [f"{program} {what}" for program in ("find", "md5sum") for what in _FILTERS]
        self._box = SshBox(home, *self._options)

    @property
    def _options(self) -> list[str]:
        return [] if self._has_shell else [SFTP_ONLY]

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.enter_context(self._box)
            self._line = stack.enter_context(LineProxy(self._box.port))
            self._disk = stack.enter_context(FaultFS(self._copy))
            self._keys = {name: (self._box.folder / name).read_bytes() for name in ("host", "host.pub")}
            self._allowed = (self._box.folder / "authorized_keys").read_bytes()
            self._is_changed = False
            self._programs = 0
            self.env = {"HOME": str(self._box.home)}
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def find_url(self, fault: Fault | None) -> list[str]:
        """Return the URL through the line."""
        return [self._box.url(self._disk.folder, port=self._line.port)]

    def begin(self, fault: Fault | None = None, asked: Mapping[str, int] = {}) -> None:
        """Put everything right, then one thing wrong."""
        self._line.rules = LineRules()
        self._line.received = 0
        self._disk.clear()
        if self._is_changed:
            for name, data in self._keys.items():
                (self._box.folder / name).write_bytes(data)
            (self._box.folder / "authorized_keys").write_bytes(self._allowed)
            self._restart()
        self._is_changed = False
        if fault is not None:
            self._fail(fault, 1 + int(fault.share * asked.get("bytes", 0)), random.Random(fault.seed))

    def _fail(self, fault: Fault, place: int, source: random.Random) -> None:
        kind, _, what = fault.what.partition(" ")
        if kind in ("cut", "stall", "garble"):
            names = {"cut": "cut_after", "stall": "hang_after", "garble": "garble_after"}
            self._line.rules = LineRules(**{names[kind]: place})
        elif kind == "disk:":
            for rule in _RULES[what](source):
                self._disk.add(rule)
        elif kind == "host":
            self._box.make_host_key()
            self._restart()
        elif kind == "login":
            (self._box.folder / "authorized_keys").write_bytes(b"")
            self._is_changed = True
        else:
            self._programs += 1
            script = _FILTERS[what].replace("%s", f"/usr/bin/{kind}")
            script = script.replace("{n}", str(1 + source.randrange(12)))
            script = script.replace("{bytes}", str(int(fault.share * 900)))
            folder = self._box.folder / f"programs-{self._programs}"
            self._restart(replace_programs(folder, **{kind: f"PATH=/usr/bin:/bin; {script}"}))

    def _restart(self, *options: str) -> None:
        port = self._box.port
        self._box.restart(*self._options, *options)
        assert port == self._box.port, "somebody else has taken the port; run it again"
        self._is_changed = True

    def measure(self) -> dict[str, int]:
        """Count the bytes."""
        return {"bytes": self._line.received}

    @property
    def told(self) -> str:
        """Say how much was sent, and how often the disk failed."""
        return f"{self._line.received} bytes, {len(self._disk.get_fired())} failures of the disk"
