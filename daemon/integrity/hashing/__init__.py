"""
Digests: how bytes become the values that the catalog holds.

Cheap to import, and nothing but the standard library and the C core is needed for what stands here.
"""

from __future__ import annotations

from integrity.hashing.md5 import Md5, NativeStatus, native_status

__all__ = ["Md5", "NativeStatus", "native_status"]
