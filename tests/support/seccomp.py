"""System calls that fail as on an old kernel or in a container. A seccomp filter: needs no root, can't be undone."""

from __future__ import annotations

import ctypes
import os
import struct

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
