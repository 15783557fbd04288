"""
Read ``INTEGRITY_NATIVE``, which switches the C core off or limits it to narrower paths.

All of them ignore an unknown word, and the command line warns of it: a typing error must not slow down a part of the
program, or all of it.
"""

from __future__ import annotations

import os

VARIABLE = "INTEGRITY_NATIVE"
OFF = "off"
WORDS = (OFF, "avx512", "avx2", "neon", "interleaved", "scalar-x86-64", "scalar")
"""``off``, and the paths of MD5, widest first. Stated here, because they must be known where the C core is not."""


def read_setting() -> str:
    """Return the word that is set; empty if none is, or an unknown one."""
    setting = os.environ.get(VARIABLE, "")
    return setting if setting in WORDS else ""


def describe_unknown() -> str | None:
    """Return a warning for people if an unknown word is set; else None."""
    setting = os.environ.get(VARIABLE, "")
    if not setting or setting in WORDS:
        return None
    return f"{VARIABLE}={setting}: unknown, and ignored; set one of: {', '.join(WORDS)}"
