"""
Compute resumable MD5; decide between the C core and the standard library.

The choice is made on import: the C core, unless ``INTEGRITY_NATIVE=off`` is set, the extension cannot be loaded, or no
path in it passes its self-test. Digests are the same; only hashlib cannot export its state, so large files are hashed
from the beginning again. ``INTEGRITY_NATIVE=avx2`` and the like limit the C core to that path or narrower ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from integrity.hashing.native_setting import OFF, read_setting

__all__ = ["Md5", "NativeStatus", "digest_many", "native_status"]


class NativeStatus(NamedTuple):
    """Whether the C core computes MD5; ``path`` is its path, or the reason why it does not."""

    is_native: bool
    path: str


def _find_obstacle() -> str | None:
    """Return why the C core cannot be used; None if it can."""
    setting = read_setting()
    if setting == OFF:
        return "switched off by INTEGRITY_NATIVE=off"
    try:
        from integrity.hashing import md5_native
    except ImportError as error:
        # A wheel for another machine, an old C library, or no wheel: hashlib covers all of them.
        return f"the extension cannot be loaded: {error}"
    if setting:
        md5_native.limit_path(setting)
    if md5_native.get_path() is None:
        return "no path passes its self-test on this machine"
    return None


_obstacle = _find_obstacle()

if TYPE_CHECKING or _obstacle is None:
    # Type checkers need one class; the tests require both to behave alike.
    from integrity.hashing.md5_native import NativeMd5 as Md5
    from integrity.hashing.md5_native import digest_many
else:
    from integrity.hashing.md5_standin import StandinMd5 as Md5
    from integrity.hashing.md5_standin import digest_many


def native_status() -> NativeStatus:
    """Return whether the C core is in use, with its path or the reason why not."""
    if _obstacle is not None:
        return NativeStatus(is_native=False, path=_obstacle)
    from integrity.hashing import md5_native

    return NativeStatus(is_native=True, path=md5_native.get_path() or "none")
