"""Building the C core by itself, as native/CMakeLists.txt does it, and running what comes of that."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from pathlib import Path

from support.machine import need_linking
from support.programs import find_missing, sh

NATIVE = Path(__file__).parents[2] / "native"
# Of the interpreter that runs the tests: its environment brings CMake and Ninja, whatever the machine has.
_PROGRAMS = Path(sys.executable).parent

# Nothing is allocated but by the test, and the leak checker fails where ptrace is not allowed (containers).
_SANITIZER_ENV = {**os.environ, "ASAN_OPTIONS": "detect_leaks=0"}


def build(folder: Path, target: str = "all", **options: str) -> Path:
    """Build what ``options`` of CMake ask for, with every warning as an error; return where the programs are."""
    cmake = _PROGRAMS / "cmake"
    defines = {"CMAKE_BUILD_TYPE": "Release", "INTEGRITY_WERROR": "ON", "CMAKE_MAKE_PROGRAM": str(_PROGRAMS / "ninja")}
    settings = [f"-D{name}={value}" for name, value in (defines | options).items()]
    sh(cmake, "-S", NATIVE, "-B", folder, "-G", "Ninja", *settings)
    sh(cmake, "--build", folder, "--target", target)
    return folder


@functools.cache
def _find_prefix() -> tuple[str, ...]:
    """
    Return the command that keeps addresses from being random, where that is allowed (not in all containers).

    The address sanitizers of gcc 12 and clang 14 die now and then under a kernel that has more than 28 bits of them
    random (sysctl vm.mmap_rnd_bits), before main is reached.
    """
    prefix = ("setarch", "-R")
    if find_missing("setarch") or subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode != 0:
        return ()
    return prefix


def run(*command: str | Path) -> str:
    """Run a program that has nothing to complain of; return what it printed."""
    done = subprocess.run(
        [*_find_prefix(), *command], env=_SANITIZER_ENV, capture_output=True, text=True, errors="replace", check=False
    )
    assert done.returncode == 0, f"exit {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-8000:]}"
    return done.stdout


def find_paths(report: str, mask: int) -> list[str]:
    """Return the paths that a self-test of the C core says it used under this mask."""
    (line,) = (line for line in report.splitlines() if line.startswith(f"mask {mask}:"))
    return line.split()[2:]


def build_selftest_for(folder: Path, target: str, *, machine: str, triplet: str, package: str) -> Path:
    """Build a static self-test for another machine; skip the test where ``package``, which that takes, is missing."""
    compiler = f"{triplet}-gcc"
    need_linking(compiler, "-static", package=package)
    programs = build(
        folder,
        target,
        INTEGRITY_SELFTEST="ON",
        INTEGRITY_SANITIZE="OFF",
        CMAKE_SYSTEM_NAME="Linux",
        CMAKE_SYSTEM_PROCESSOR=machine,
        CMAKE_C_COMPILER=compiler,
        CMAKE_EXE_LINKER_FLAGS="-static",
    )
    return programs / target
