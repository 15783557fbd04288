"""
MD5, resumable: decide whether the C core computes it or the standard library stands in.

The choice is made once, when this module is imported: the C core, unless ``INTEGRITY_NATIVE=off`` is set in the
environment, or the extension cannot be loaded, or nothing in it passes its self-test on this machine. Digests are the
same either way; only the stand-in cannot export its state, so that large files are hashed from their beginning again.
``INTEGRITY_NATIVE=avx2`` and the like let the C core use no path wider than that.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

__all__ = ["Md5", "NativeStatus", "digest_many", "native_status"]


class NativeStatus(NamedTuple):
    """Whether the C core computes MD5, and on which path; or why it does not."""

    is_native: bool
    path: str


def _find_obstacle() -> str | None:
    """Say what keeps the C core from being used, or None."""
    setting = os.environ.get("INTEGRITY_NATIVE", "")
    if setting == "off":
        return "switched off by INTEGRITY_NATIVE=off"
    try:
        from integrity.hashing import md5_native
    except ImportError as error:
        # A wheel of another machine, a C library that is too old, no wheel at all: hashlib serves all of them.
        return f"the extension cannot be loaded: {error}"
    if setting:
        if setting not in md5_native.PATHS:
            return f"INTEGRITY_NATIVE={setting}: unknown; off or one of {', '.join(md5_native.PATHS)}"
        md5_native.limit_path(setting)
    if md5_native.get_path() is None:
        return "no path passes its self-test on this machine"
    return None


_obstacle = _find_obstacle()

if TYPE_CHECKING or _obstacle is None:
    # A type checker needs one class to speak of; the tests hold both to the same behaviour.
    from integrity.hashing.md5_native import NativeMd5 as Md5
    from integrity.hashing.md5_native import digest_many
else:
    from integrity.hashing.md5_standin import StandinMd5 as Md5
    from integrity.hashing.md5_standin import digest_many


def native_status() -> NativeStatus:
    """Return whether the C core is in use, with the path it computes on, or the reason why it is not."""
    if _obstacle is not None:
        return NativeStatus(is_native=False, path=_obstacle)
    from integrity.hashing import md5_native

    return NativeStatus(is_native=True, path=md5_native.get_path() or "none")
