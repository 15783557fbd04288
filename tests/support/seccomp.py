"""System calls that fail as on an old kernel or in a container. A seccomp filter: needs no root, can't be undone."""

from __future__ import annotations

import ctypes
import os
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from support import AnyPath

_TESTS = Path(__file__).parents[1]
_PR_SET_NO_NEW_PRIVS = 38
_PR_SET_SECCOMP = 22
_SECCOMP_MODE_FILTER = 2

# linux/bpf_common.h, linux/seccomp.h: load the call's number, compare, return
_LOAD_WORD, _JUMP_IF_EQUAL, _RETURN = 0x20, 0x15, 0x06
_ALLOW, _ERRNO = 0x7FFF_0000, 0x0005_0000


def refuse_syscall(number: int, errno: int) -> None:
    """Let a system call fail with ``errno`` in this process and its children from now on."""
    program = b"".join(
        struct.pack("=HBBI", *instruction)
        for instruction in (
            (_LOAD_WORD, 0, 0, 0),  # seccomp_data.nr
            (_JUMP_IF_EQUAL, 0, 1, number),
            (_RETURN, 0, 0, _ERRNO | errno),
            (_RETURN, 0, 0, _ALLOW),
        )
    )
    instructions = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("@HP", len(program) // 8, ctypes.addressof(instructions))
    libc = ctypes.CDLL(None, use_errno=True)
    for arguments in ((_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), (_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, header, 0, 0)):
        if libc.prctl(*arguments) != 0:
            raise OSError(ctypes.get_errno(), f"prctl: {os.strerror(ctypes.get_errno())}")


def without_syscall(number: int, errno: int, *command: AnyPath) -> list[AnyPath]:
    """Return an argv that runs ``command`` (an absolute path, arguments), for which a system call fails."""
    script = (
        f"import os, sys; sys.path.insert(0, {str(_TESTS)!r}); from support.seccomp import refuse_syscall;"
        f"refuse_syscall({number}, {errno}); os.execv(sys.argv[1], sys.argv[1:])"
    )
    return [sys.executable, "-c", script, *command]


def pass_without(number: int, errno: int, *args: str) -> None:
    """
    Run tests once more, in a process in which a system call fails with ``errno``; they must pass there, too.

    The test that calls this is among them: in that process it is skipped.

    Args:
        number: of the system call.
        errno: what it fails with.
        args: for pytest: modules below ``tests``, options.
    """
    if "INTEGRITY_TEST_SECCOMP" in os.environ:
        pytest.skip("this is the run without the call")
    # A folder of its own: pytest would close the one that it shares with this run, in which others work as nobody.
    with tempfile.TemporaryDirectory() as folder:
        options = ["-q", "-p", "no:cacheprovider", "--basetemp", os.path.join(folder, "tests"), *args]
        script = (
            "import sys, pytest; from support.seccomp import refuse_syscall;"
            f"refuse_syscall({number}, {errno});"
            f"sys.exit(pytest.main({options!r}))"
        )
        run = subprocess.run(
            [sys.executable, "-c", script],
            cwd=_TESTS,
            env={**os.environ, "INTEGRITY_TEST_SECCOMP": "1", "PYTHONPATH": os.pathsep.join([str(_TESTS), *sys.path])},
            capture_output=True,
            text=True,
            check=False,
        )
    assert run.returncode == 0, run.stdout + run.stderr
