"""A person at a terminal: a program on a real pseudo-terminal, its questions, and the answers that are typed."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time
from collections.abc import Mapping, Sequence

from support import AnyPath

_TIMEOUT_S = 200.0
_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
ENTER = "\n"
CTRL_C = "\x03"
CTRL_D = "\x04"


class Dialog:
    """
    ``with Dialog(command, env=...) as dialog: dialog.wait_for("Which?"); dialog.type(ENTER); code = dialog.finish()``.

    The program has the terminal for its controlling one, so Ctrl-C and a closed window reach it as they do in life.

    Attributes:
        text: what was shown so far, without colors.
    """

    def __init__(self, command: Sequence[AnyPath], *, env: Mapping[str, str], columns: int = 120) -> None:
        self._command, self._env, self._columns = command, env, columns
        self.text = ""
        self._seen = 0
        self._code: int | None = None

    def __enter__(self) -> Dialog:
        self.pid, self._fd = pty.fork()
        if self.pid == 0:
            try:
                os.execvpe(self._command[0], list(self._command), dict(self._env))
            finally:
                os._exit(127)
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", 50, self._columns, 0, 0))
        return self

    def __exit__(self, *_: object) -> None:
        self.hang_up()
        if self._code is None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)

    def wait_for(self, words: str) -> str:
        """Wait until the program shows some words, and return what it showed since the last time."""
        start = self._seen
        self.wait_for_any(words)
        return self.text[start : self._seen]

    def wait_for_any(self, *choices: str) -> str:
        """Wait until the program shows one of some words, and return which."""
        ends_at, is_open = time.monotonic() + _TIMEOUT_S, True
        while not (found := [words for words in choices if words in self.text[self._seen :]]):
            assert is_open, f"none of {choices} in: {self.text}"
            is_open = self._read(ends_at - time.monotonic())
        first = min(found, key=lambda words: self.text.index(words, self._seen))
        self._seen = self.text.index(first, self._seen) + len(first)
        return first

    def type(self, text: str) -> None:
        """Press keys."""
        os.write(self._fd, os.fsencode(text))

    def hang_up(self) -> None:
        """Close the terminal's window."""
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1

    def finish(self) -> int:
        """Read all that is shown until the program ends, and return its exit code; negative if a signal ended it."""
        ends_at = time.monotonic() + _TIMEOUT_S
        while self._fd >= 0 and self._read(ends_at - time.monotonic()):
            pass
        self._code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self._code

    def _read(self, timeout_s: float) -> bool:
        """Read what is shown; return whether more may come."""
        ready = select.select([self._fd], [], [], max(0.0, timeout_s))[0]
        assert ready, f"nothing was shown for {_TIMEOUT_S:.0f} s; so far: {self.text}"
        try:
            data = os.read(self._fd, 1 << 16)
        except OSError:  # EIO: the program has closed its end
            return False
        self.text += _ESCAPE.sub("", data.decode(errors="backslashreplace")).replace("\r\n", "\n")
        return bool(data)
