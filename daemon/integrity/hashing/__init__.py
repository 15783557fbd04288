"""
Compute digests: turn bytes into the values that the catalog stores.

Cheap to import: what is exported here needs only the standard library and the C core.
"""

from __future__ import annotations

from integrity.hashing.md5 import Md5, NativeStatus, native_status
from integrity.hashing.streams import HashingReader, HashingWriter, md5_file, md5_many

__all__ = ["HashingReader", "HashingWriter", "Md5", "NativeStatus", "md5_file", "md5_many", "native_status"]
