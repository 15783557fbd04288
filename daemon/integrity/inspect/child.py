"""
The process that checks files. It gets an open file and the name of its format at a time, and answers with a line.

Only what one library needs is imported, before all rights are given up: see ``confinement``.
"""

from __future__ import annotations

import importlib
import json
import socket
import sys

from integrity.inspect.checked_file import CheckedFile
from integrity.inspect.confinement import confine, limit_cpu
from integrity.inspect.formats import BY_NAME, Format
from integrity.inspect.outcome import CheckResult, NoChecksum, NotTestable, OwnCheck, OwnCheckFailed

_REQUEST_BYTES = 4096
_IMPORTS = {"py7zr": ("py7zr", "psutil"), "soundfile": ("soundfile", "numpy")}
"""What libraries import when they are first used."""


def inspect_open_file(fd: int, one: Format) -> OwnCheck:
    """Check an open file of a known format in this process."""
    file = CheckedFile(fd)
    try:
        one.check(file)
    except OwnCheckFailed as error:
        if (
            isinstance(error.__cause__, OSError) and error.__cause__.filename is not None
        ):  # a library wants another file
            return OwnCheck(CheckResult.UNTESTABLE, one.name, one.has_checksum, _shorten(error))
        return OwnCheck(CheckResult.FAILS, one.name, one.has_checksum, _shorten(error))
    except NotTestable as error:
        return OwnCheck(CheckResult.UNTESTABLE, one.name, one.has_checksum, _shorten(error))
    except NoChecksum:
        return OwnCheck(CheckResult.WHOLE, one.name)
    except MemoryError:
        return OwnCheck(CheckResult.UNTESTABLE, one.name, one.has_checksum, "it needs too much memory")
    except RecursionError:
        return OwnCheck(CheckResult.UNTESTABLE, one.name, one.has_checksum, "it is nested too deeply")
    if not one.has_checksum:
        return OwnCheck(CheckResult.WHOLE, one.name)
    return OwnCheck(CheckResult.PASSES, one.name, has_checksum=True, uncovered=file.find_uncovered())


def _shorten(error: Exception) -> str:
    return " ".join(str(error).split())[:300]


def main(channel: socket.socket, module: str) -> None:
    """Serve requests until the other side closes the channel."""
    _preload(module)
    confine()
    while True:
        request, fds, _, _ = socket.recv_fds(channel, _REQUEST_BYTES, 1)
        if not request:
            return
        name, cpu_s = json.loads(request)
        limit_cpu(cpu_s)
        with open(fds[0], "rb") as file:
            found = inspect_open_file(file.fileno(), BY_NAME[name])
        channel.sendall(json.dumps(found).encode() + b"\n")


def _preload(module: str) -> None:
    """Import what would be imported when it is first used: no file can be opened then."""
    for name in ("encodings.cp437", "encodings.utf_16_le", *_IMPORTS.get(module, (module,) if module else ())):
        importlib.import_module(name)
    if module == "PIL":
        from PIL import Image

        Image.init()


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])), sys.argv[2])
