"""
Libraries that a program is started with, to make its clock jump or somebody meddle; no root needed.

The C sources stand in ``shims/`` and say what is reached and what is not.
"""

from __future__ import annotations

from pathlib import Path

from support.programs import sh

_SOURCES = Path(__file__).parent / "shims"


class Shims:
    """
    The built libraries; each method returns what to add to a program's environment (``Box.run(..., env=...)``).

    They share LD_PRELOAD: one of them at a time.
    """

    def __init__(self, folder: Path) -> None:
        """Build them in ``folder`` with the machine's C compiler."""
        self._folder = folder
        for name in ("clockjump", "meddler"):
            flags = ("-shared", "-fPIC", "-O2", "-Wall", "-Wextra", "-Werror")
            sh("cc", *flags, "-o", folder / f"{name}.so", _SOURCES / f"{name}.c", "-ldl")

    def clock(self, offset_file: Path, offset_s: int = 0) -> dict[str, str]:
        """Let the wall clock be off by what ``offset_file`` says, in seconds; the test may rewrite it at any time."""
        offset_file.write_text(f"{offset_s}\n", encoding="ascii")
        return {"LD_PRELOAD": str(self._folder / "clockjump.so"), "RIG_CLOCK": str(offset_file)}

    def meddling(self, name: str, command: str) -> dict[str, str]:
        """Let the shell run ``command``, once, right after the first read of a file called ``name``."""
        library = str(self._folder / "meddler.so")
        return {"LD_PRELOAD": library, "RIG_MEDDLE_FILE": name, "RIG_MEDDLE": command}
