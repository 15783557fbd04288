"""The C core by itself, under the sanitisers, as native/CMakeLists.txt builds it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.machine import need_programs
from support.programs import sh

NATIVE = Path(__file__).parents[2] / "native"
# Of the interpreter that runs the tests: its environment brings CMake and Ninja, whatever the machine has.
PROGRAMS = Path(sys.executable).parent

# Nothing is allocated but by the test, and the leak checker fails where ptrace is not allowed (containers).
SANITIZER_ENV = {**os.environ, "ASAN_OPTIONS": "detect_leaks=0"}


def build_selftest(folder: Path, c_flags: str) -> Path:
    """Build md5_selftest with every warning as an error; return the program."""
    cmake = PROGRAMS / "cmake"
    sh(
        *(cmake, "-S", NATIVE, "-B", folder, "-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={PROGRAMS / 'ninja'}"),
        *(
            "-DCMAKE_BUILD_TYPE=Release",
            "-DINTEGRITY_SELFTEST=ON",
            "-DINTEGRITY_WERROR=ON",
            f"-DCMAKE_C_FLAGS={c_flags}",
        ),
    )
    sh(cmake, "--build", folder)
    return folder / "md5_selftest"


@pytest.mark.parametrize("c_flags", ["", "-DMD5_NO_X86_64"])
def test_core_is_right_on_every_path_under_the_sanitizers(tmp_path: Path, c_flags: str) -> None:
    """The core compiles without a warning and passes its self-test, also with all but the portable path left out."""
    need_programs("cc")
    selftest = build_selftest(tmp_path, c_flags)

    done = subprocess.run([selftest], env=SANITIZER_ENV, capture_output=True, text=True, check=False)

    assert (0, "") == (done.returncode, done.stderr)
    assert "mask 0: scalar\n" in done.stdout
    assert c_flags == "" or "x86-64" not in done.stdout
