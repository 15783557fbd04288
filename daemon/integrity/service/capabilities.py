"""
What the service may, its children may not: commands that alerts run, rclone.

The unit gives the service CAP_DAC_READ_SEARCH, to read what is only its owner's. systemd does so through the ambient
set, which every program that is started inherits: capabilities(7).
"""

from __future__ import annotations

import ctypes
import os

_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL = 47, 4  # linux/prctl.h
_PR_GET_NO_NEW_PRIVS = 39
_VERSION_3 = 0x20080522  # linux/capability.h: two words of 32 bits for each set


class _Header(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _Words(ctypes.Structure):
    _fields_ = (("effective", ctypes.c_uint32), ("permitted", ctypes.c_uint32), ("inheritable", ctypes.c_uint32))


def keep_capabilities_to_ourselves() -> None:
    """
    Clear the ambient set and, where it could give a child anything, the inheritable one.

    Before other threads are started, which inherit these. Under no_new_privs, as in the unit, whose filter of system
    calls leaves out capset(2), no program gets anything from the inheritable set: execve(2).

    Raises:
        OSError: the kernel refuses.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    _require(libc.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0), "prctl")
    if libc.prctl(_PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1:
        return
    header, sets = _Header(_VERSION_3, 0), (_Words * 2)()
    _require(libc.capget(ctypes.byref(header), ctypes.byref(sets)), "capget")
    for words in sets:
        words.inheritable = 0
    _require(libc.capset(ctypes.byref(header), ctypes.byref(sets)), "capset")


def _require(answer: int, call: str) -> None:
    if answer != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), call)
