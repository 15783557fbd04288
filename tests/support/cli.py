"""The program under test, run as a user runs it: in a process and an environment of its own."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import integrity
from integrity import program
from integrity.cli import main
from integrity.paths import shell_word
from support import AnyPath
from support.warmstart import WarmProcess, get_warm_start

JsonObject = dict[str, object]
"""One line of ``--json`` output."""

_TIMEOUT_S = 60.0
_MAIN = str(Path(integrity.__file__).with_name("__main__.py"))
# Of the test's own environment only what Python and the C library need, and the pauses: nothing of XDG_*, HOME, LC_*.
_INHERITED = ("PATH", "TMPDIR", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "INTEGRITY_PAUSES")
# What the loader, the interpreter and modules that are imported once read when a process starts.
_READ_AT_START = ("LD_", "PYTHON", "TMPDIR", "SQLITE_TMPDIR", "INTEGRITY_NATIVE", "_INTEGRITY_COMPLETE")
REAL_PAUSES = {"INTEGRITY_PAUSES": ""}
"""For ``env``, where something must happen between the reads that confirm damage: they are seconds apart, as usual."""


@dataclass(frozen=True, slots=True)
class Completed:
    """
    What one run of the program left.

    Attributes:
        code: exit code; negative if a signal ended it.
        stdout: undecodable bytes as surrogates.
        stderr: undecodable bytes as surrogates.
        objects: the JSON lines of stdout, if ``--json`` was among the arguments.
    """

    code: int
    stdout: str
    stderr: str
    objects: tuple[JsonObject, ...] = ()

    def of_type(self, name: str) -> list[JsonObject]:
        """Return the objects whose ``type`` is ``name``, in order."""
        return [each for each in self.objects if each["type"] == name]

    @property
    def findings(self) -> list[JsonObject]:
        """The objects of type ``finding``."""
        return self.of_type("finding")

    @property
    def summary(self) -> JsonObject:
        """The last summary."""
        summaries = self.of_type("summary")
        assert summaries, f"no summary; exit {self.code}: {self.stdout}{self.stderr}"
        return summaries[-1]


def make_environment(home: Path) -> dict[str, str]:
    """
    Make an environment in which the program meets nothing of this machine's: its own folders below ``home``, no config.

    The config is an empty file rather than none: for root the default is one fixed path, and the machine may have it.
    """
    home.mkdir(parents=True, exist_ok=True)
    config = home / "integrity.toml"
    if not config.exists():
        config.touch()
    runtime = home / "run"
    runtime.mkdir(mode=0o700, exist_ok=True)
    modules = [os.path.abspath(folder) for folder in os.environ.get("PYTHONPATH", "").split(os.pathsep) if folder]
    return {
        **{name: os.environ[name] for name in _INHERITED if name in os.environ},
        **({"PYTHONPATH": os.pathsep.join(modules)} if modules else {}),
        "PATH": os.pathsep.join([os.path.dirname(sys.executable), *os.environ.get("PATH", "").split(os.pathsep)]),
        "LANG": "C.UTF-8",
        "HOME": str(home),
        "XDG_CONFIG_HOME": str(home / ".config"),
        "XDG_STATE_HOME": str(home / ".local/state"),
        "XDG_DATA_HOME": str(home / ".local/share"),
        "XDG_CACHE_HOME": str(home / ".cache"),
        "XDG_RUNTIME_DIR": str(runtime),
        "INTEGRITY_CONFIG": str(config),
        "INTEGRITY_CATALOG": str(home / "catalog.db"),
        "PYTHONFAULTHANDLER": "1",
    }


def make_command(*args: AnyPath) -> list[AnyPath]:
    """Return the argv that runs the program with ``args``."""
    # -P: the folder it is started in is not searched for modules, as with the installed command
    return [sys.executable, "-P", "-m", "integrity", *args]


def run_integrity(
    *args: AnyPath,
    home: Path,
    catalog: AnyPath | None = None,
    env: Mapping[str, str] | None = None,
    cwd: AnyPath | None = None,
    timeout: float = _TIMEOUT_S,
    is_apart: bool = False,
) -> Completed:
    """
    Run ``integrity`` to its end, without a terminal and with nothing on standard input.

    Args:
        args: its arguments; paths may be any bytes.
        home: the folder of its isolated environment.
        catalog: another than ``home/catalog.db``.
        env: on top of the isolated environment; an interpreter of its own is started for what is read at its start.
        cwd: its working folder.
        timeout: in seconds; then it is killed and the test fails with what it printed.
        is_apart: in a process of its own, as where a thread of this one logs meanwhile.
    """
    environment = make_environment(home) | dict(env or {})
    if catalog is not None:
        environment["INTEGRITY_CATALOG"] = os.fsdecode(catalog)
    if can_share_start(env or ()):
        if threading.current_thread() is threading.main_thread() and not (env or is_apart):
            return run_here(args, environment, cwd=cwd)
        try:
            code, out, err = get_warm_start(has_services=bool(env)).run(args, environment, cwd, timeout)
        except TimeoutError as error:
            raise AssertionError(f"{args!r} took more than {timeout} s; it printed: {error}") from None
        return complete_in(environment, code, out, err, is_json="--json" in args)
    process = subprocess.Popen(
        make_command(*args),
        env=environment,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with process:
        try:
            out, err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            raise AssertionError(f"{args!r} took more than {timeout} s; it printed: {out!r} {err!r}") from None
    return complete_in(environment, process.returncode, out, err, is_json="--json" in args)


def can_share_start(env: Iterable[str]) -> bool:
    """Say whether a run with these further variables may begin in a process that was started with others."""
    return os.geteuid() == os.getuid() and not any(name.startswith(_READ_AT_START) for name in env)


Process = subprocess.Popen[bytes] | WarmProcess
"""The program while it runs."""


def start_integrity(
    args: Sequence[AnyPath],
    environment: Mapping[str, str],
    stdout: int,
    stderr: int,
    *,
    is_shared: bool,
    is_leader: bool = False,
) -> Process:
    """
    Start ``integrity`` with nothing on standard input; it goes on beside the test.

    Args:
        args: its arguments.
        environment: all of it.
        stdout: the descriptor for its output.
        stderr: the one for its errors.
        is_shared: the start may be that of others: see ``can_share_start``.
        is_leader: of a session of its own.
    """
    if is_shared and can_share_start(()):
        return get_warm_start(has_services=True).start(args, environment, stdout, stderr, is_leader=is_leader)
    return subprocess.Popen(
        make_command(*args),
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=stderr,
        start_new_session=is_leader,
    )


def run_here(args: Sequence[AnyPath], environment: Mapping[str, str], *, cwd: AnyPath | None = None) -> Completed:
    """
    Run one command in this process, which takes a third of the time: what a process has is put back afterwards.

    Args:
        args: of the program.
        environment: all of it.
        cwd: its working folder.
    """
    out = io.TextIOWrapper(io.BytesIO(), "utf-8", "surrogateescape")
    err = io.TextIOWrapper(io.BytesIO(), "utf-8", "surrogateescape")
    with ExitStack() as stack:
        stack.enter_context(_own_process_state(environment))
        stack.enter_context(contextlib.chdir(cwd or os.curdir))
        stack.enter_context(contextlib.redirect_stdout(out))
        stack.enter_context(contextlib.redirect_stderr(err))
        code = main([os.fsdecode(arg) for arg in args])
    texts = []
    for stream in (out, err):
        stream.flush()
        texts.append(stream.buffer.getvalue())
    return complete_in(environment, code, *texts, is_json="--json" in args)


@contextmanager
def _own_process_state(environment: Mapping[str, str]) -> Iterator[None]:
    """Give the program what it sets, and finds set, in a process of its own: the environment, logging, its own name."""
    before, argv, stdin, log = dict(os.environ), sys.argv, sys.stdin, logging.getLogger()
    handlers, level = log.handlers[:], log.level
    with open(os.devnull, encoding="utf-8") as nothing:
        os.environ.clear()
        os.environ.update(environment)
        log.handlers.clear()
        sys.argv, sys.stdin = [_MAIN], nothing
        program.find_program.cache_clear()
        try:
            yield
        finally:
            program.repeat_options(tuple)
            program.find_program.cache_clear()
            sys.argv, sys.stdin = argv, stdin
            log.handlers[:] = handlers
            log.setLevel(level)
            os.environ.clear()
            os.environ.update(before)


def complete_in(environment: Mapping[str, str], code: int, out: bytes, err: bytes, *, is_json: bool) -> Completed:
    """Return what a user would read whose own folders the box's are: no printed command has its options."""
    for option in name_own_options(environment):
        out, err = (text.replace(os.fsencode(option), b"") for text in (out, err))
    return complete(code, out, err, is_json=is_json)


def name_own_options(environment: Mapping[str, str]) -> list[str]:
    """Return the options by which printed commands name the configuration and the catalog of an environment."""
    names = {name: f"INTEGRITY_{name.upper()}" for name in ("config", "catalog")}
    return [f" --{name} {shell_word(environment[own])}" for name, own in names.items() if own in environment]


def complete(code: int, out: bytes, err: bytes, *, is_json: bool) -> Completed:
    """Decode what a run printed; with ``--json`` each line must be an object with type and schema, and nothing else."""
    stdout, stderr = (text.decode("utf-8", "surrogateescape") for text in (out, err))
    return Completed(
        code, stdout, stderr, tuple(_parse(line) for line in stdout.split("\n") if line) if is_json else ()
    )


def _parse(line: str) -> JsonObject:
    """Parse one line of ``--json`` output."""
    try:
        value = json.loads(line)
    except ValueError as error:
        raise AssertionError(f"not JSON on stdout: {line!r}") from error
    assert isinstance(value, dict), line
    assert "type" in value, line
    assert value.get("schema") == 1, line
    return value


class Box:
    """
    A place where the program runs by itself: its own home, its own catalog.

    Attributes:
        home: the folder of its environment.
        catalog: its catalog's path, handed over by INTEGRITY_CATALOG.
        is_apart: see ``run_integrity``.
    """

    def __init__(self, home: Path) -> None:
        self.home, self.catalog = home, home / "catalog.db"
        self.is_apart = False

    @property
    def environment(self) -> dict[str, str]:
        """The environment, for programs that are started in another way."""
        return make_environment(self.home)

    @property
    def program(self) -> str:
        """How commands begin that a service, a page or a mail of this box advises."""
        return "".join(["integrity", *name_own_options(self.environment)])

    def configure(self, toml: str) -> Path:
        """Make ``toml`` the config of later runs and return its path."""
        make_environment(self.home)
        config = self.home / "integrity.toml"
        config.write_text(toml, encoding="utf-8")
        return config

    def run(
        self,
        *args: AnyPath,
        expect: int | None = None,
        env: Mapping[str, str] | None = None,
        cwd: AnyPath | None = None,
        timeout: float = _TIMEOUT_S,
    ) -> Completed:
        """Run ``integrity`` with ``args``; ``expect`` is an exit code that the test insists on."""
        done = run_integrity(
            *args, home=self.home, catalog=self.catalog, env=env, cwd=cwd, timeout=timeout, is_apart=self.is_apart
        )
        assert expect is None or done.code == expect, (
            f"{args!r}: exit {done.code}, not {expect}\n{done.stdout}{done.stderr}"
        )
        return done

    def json(self, *args: AnyPath, expect: int | None = None) -> list[JsonObject]:
        """Run with ``--json`` and return the objects."""
        return list(self.run("--json", *args, expect=expect).objects)

    def get_object(self, name: str, *args: AnyPath, env: Mapping[str, str] | None = None) -> JsonObject:
        """Run with ``--json`` and return the only object whose ``type`` is ``name``."""
        (found,) = self.run("--json", *args, env=env).of_type(name)
        return found

    def copy_to(self, home: Path) -> Box:
        """Copy the home with its catalog, and return the box that uses the copy."""
        shutil.copytree(self.home, home)
        return Box(home)

    def findings(self, *args: AnyPath, expect: int | None = None) -> list[JsonObject]:
        """Run with ``--json`` and return the objects of type ``finding``."""
        return self.run("--json", *args, expect=expect).findings

    def summary(self, *args: AnyPath, expect: int | None = None) -> JsonObject:
        """Run with ``--json`` and return the last summary."""
        return self.run("--json", *args, expect=expect).summary

    def redirect(
        self, command: Sequence[AnyPath], redirection: str, cwd: AnyPath
    ) -> subprocess.CompletedProcess[bytes]:
        """Run any command as a shell does with ``redirection`` behind it: ``>&-`` closes its stdout."""
        return subprocess.run(
            ["sh", "-c", f'exec "$@" {redirection}', "sh", *command],
            env=self.environment,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TIMEOUT_S,
        )
