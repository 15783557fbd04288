"""
Versions of the program that stay: a process imports one, and runs one command after the other.

A run costs what the command itself does: nothing is started, and nothing forked. Other versions than this tree's are
installed from the history of the repository, without a download: they use the libraries of this interpreter.
"""

from __future__ import annotations

import json
import os
import selectors
import shutil
import site
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from support import AnyPath
from support.cli import Box, Completed, complete_in, make_environment
from support.preload import Shims
from support.programs import sh

_SERVER = Path(__file__).with_name("residentserver.py")
_TOP = Path(__file__).parents[2]
_PROGRAMS = Path(sys.executable).parent  # the environment of the tests brings CMake and Ninja


class MissingCommitError(Exception):
    """The repository has not the commit that is to be installed."""


def install_commit(commit: str, folder: Path, *, is_native: bool) -> Path:
    """
    Install the program as it was in a commit, as its wheel lays it out, unless that was done before.

    Args:
        commit: of this repository.
        folder: for installations of all commits.
        is_native: with the C core, which takes a compiler and some seconds; else it runs in pure Python.

    Returns:
        The folder from which its package is imported.

    Raises:
        MissingCommitError: the history has no such commit.
    """
    target = folder / f"{commit}{'' if is_native else '-pure'}"
    if target.exists():
        return target
    found = subprocess.run(["git", "archive", commit], cwd=_TOP, capture_output=True, check=False)
    if found.returncode:
        reason = found.stderr.decode(errors="replace").strip()
        raise MissingCommitError(f"no commit {commit} here; of a shallow clone: git fetch --unshallow ({reason})")
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as work:
        source, made = Path(work, "source"), Path(work, "made")
        source.mkdir()
        subprocess.run(["tar", "-x", "-C", source], input=found.stdout, check=True)
        project = tomllib.loads((source / "pyproject.toml").read_text(encoding="utf-8"))
        for name, place in project["tool"]["scikit-build"]["wheel"]["packages"].items():
            shutil.copytree(source / place, made / name)
        if is_native:
            _build_native(source / "native", made)
        try:
            made.rename(target)
        except OSError:
            if not target.exists():  # else another run was faster
                raise
    return target


def _build_native(source: Path, target: Path) -> None:
    build = source.with_name("build")
    settings = {
        "CMAKE_BUILD_TYPE": "Release",
        "CMAKE_INSTALL_PREFIX": target,
        "CMAKE_MAKE_PROGRAM": _PROGRAMS / "ninja",
        "Python_EXECUTABLE": sys.executable,
        "SKBUILD_SABI_COMPONENT": "Development.SABIModule",
        "SKBUILD_SABI_VERSION": "3.11",
    }
    cmake = _PROGRAMS / "cmake"
    sh(cmake, "-S", source, "-B", build, "-G", "Ninja", *(f"-D{name}={value}" for name, value in settings.items()))
    sh(cmake, "--build", build)
    sh(cmake, "--install", build)


class Resident:
    """
    The process of a version.

    Args:
        shims: for its clock.
        modules: the folder from which its package is imported; None: this tree.

    Attributes:
        title: of the version.
    """

    def __init__(self, title: str, shims: Shims, modules: Path | None = None) -> None:
        self.title, self._shims, self._modules = title, shims, modules

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            clock = stack.enter_context(tempfile.NamedTemporaryFile(prefix="clock-"))
            env = {**os.environ, **self._shims.clock(Path(clock.name)), "PYTHONFAULTHANDLER": "1"}
            options = ["-P"]
            if self._modules is not None:
                # Without the module site nothing leads to this tree, however it is installed.
                options.append("-S")
                env["PYTHONPATH"] = os.pathsep.join([str(self._modules), *site.getsitepackages()])
            command = [sys.executable, *options, str(_SERVER)]
            pipe = subprocess.PIPE
            self._process = stack.enter_context(subprocess.Popen(command, env=env, stdin=pipe, stdout=pipe))
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def run(
        self, args: tuple[AnyPath, ...], env: Mapping[str, str], *, clock_s: int, timeout_s: float
    ) -> tuple[int, bytes, bytes]:
        """Run a command; return its exit code, and what it printed on stdout and stderr."""
        question = {"args": [os.fsdecode(arg) for arg in args], "env": dict(env), "clock_s": clock_s}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(question).encode() + b"\n")
        self._process.stdin.flush()
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            if not selector.select(timeout_s):
                self._process.kill()
                raise AssertionError(f"{self.title}: {args!r} took more than {timeout_s} s")
        answer = self._process.stdout.readline()
        assert answer, f"{self.title} ended: {args!r}"
        told = json.loads(answer)
        return told["code"], told["out"].encode("latin-1"), told["err"].encode("latin-1")


class ResidentBox(Box):
    """
    A box whose commands a resident version runs.

    Attributes:
        version: which one; it may change between two commands.
    """

    def __init__(self, home: Path, version: Resident) -> None:
        super().__init__(home)
        self.version = version

    def run(
        self,
        *args: AnyPath,
        expect: int | None = None,
        env: Mapping[str, str] | None = None,
        cwd: AnyPath | None = None,
        timeout: float = 60.0,
    ) -> Completed:
        assert cwd is None
        environment = make_environment(self.home)
        clock = (env or {}).get("RIG_CLOCK")
        clock_s = int(Path(clock).read_text(encoding="ascii")) if clock else 0
        code, out, err = self.version.run(args, environment, clock_s=clock_s, timeout_s=timeout)
        done = complete_in(environment, code, out, err, is_json="--json" in args)
        assert expect is None or done.code == expect, f"{args!r}: exit {code}, not {expect}\n{done.stdout}{done.stderr}"
        return done
