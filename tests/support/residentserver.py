"""
The process behind ``support.resident``: it imports one version of the program, and runs each command in itself.

Only the standard library is imported beside the program, which may be an old one. Each line on standard input is JSON
with ``args``, ``env`` and ``clock_s``; the answer is a line with ``code``, ``out`` and ``err``, each byte a character.
"""

from __future__ import annotations

import io
import json
import os
import sys
import time
from typing import Any


def main() -> None:
    """Answer until nobody asks any more."""
    questions, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)
    offset = os.open(os.environ["RIG_CLOCK"], os.O_WRONLY)  # read by ``shims/clockjump.c``
    for question in questions:
        asked = json.loads(question)
        os.pwrite(offset, b"%-20d\n" % asked["clock_s"], 0)
        answers.write(json.dumps(_run(asked["args"], asked["env"])).encode() + b"\n")
        answers.flush()


def _run(args: list[str], env: dict[str, str]) -> dict[str, Any]:
    os.environ.clear()
    os.environ.update(env)
    time.tzset()
    files = [os.memfd_create("printed") for _ in range(2)]
    for fd, file in enumerate(files, start=1):
        os.dup2(file, fd)
    sys.stdout, sys.stderr = (
        io.TextIOWrapper(io.BufferedWriter(io.FileIO(fd, "w", closefd=False)), "utf-8", "surrogateescape")
        for fd in (1, 2)
    )
    code = _call(args)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    out, err = (os.pread(file, os.fstat(file).st_size, 0).decode("latin-1") for file in files)
    for file in files:
        os.close(file)
    return {"code": code, "out": out, "err": err}


def _call(args: list[str]) -> int:
    """Run the program; what it does not catch ends this process."""
    from integrity.cli import main as run

    try:
        return run(args)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)


if __name__ == "__main__":
    main()
