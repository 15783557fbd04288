"""A terminal with a screen that tests can look at: a real pseudo-terminal, and a model of what it would show."""

from __future__ import annotations

import fcntl
import os
import re
import select
import struct
import termios
import unicodedata

_ESCAPE = re.compile(r"\x1b\[(\d*)([A-Za-z])")
_ROWS = 24
_TIMEOUT_S = 120.0


class Screen:
    """
    What a terminal without scrollback would show; whatever it does not know how to show fails the test.

    Attributes:
        columns: its width; may be changed, what is shown stays as it is then.
        wraps: how often a character was put on the next line because its line was full.
    """

    def __init__(self, columns: int) -> None:
        self.columns = columns
        self.wraps = 0
        self._rows: list[list[str]] = [[]]
        self._column = 0

    @property
    def lines(self) -> list[str]:
        """The lines as they are shown, without blanks at their ends."""
        return ["".join(row).rstrip() for row in self._rows]

    def feed(self, text: str) -> None:
        """Show what a program wrote."""
        place = 0
        while place < len(text):
            escape = _ESCAPE.match(text, place)
            if escape is not None:
                self._obey(escape)
                place = escape.end()
                continue
            self._put(text[place])
            place += 1

    def _obey(self, escape: re.Match[str]) -> None:
        assert escape[0] == "\x1b[K", f"not known to the screen: {escape[0]!r}"
        del self._rows[-1][self._column :]

    def _put(self, char: str) -> None:
        if char == "\r":
            self._column = 0
        elif char == "\n":
            self._rows.append([])
        else:
            assert char.isprintable(), f"not known to the screen: {char!r}"
            self._print(char)

    def _print(self, char: str) -> None:
        cells = 0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1
        if self._column + cells > self.columns:
            self.wraps += 1
            self._rows.append([])
            self._column = 0
        row = self._rows[-1]
        row.extend(" " * (self._column - len(row)))
        row[self._column : self._column + cells] = [char, ""][:cells]  # the second cell of a wide one is empty
        self._column += cells


class Terminal:
    """
    ``with Terminal(80) as terminal: subprocess.Popen(..., stderr=terminal.fd)``; then ``terminal.read()``.

    Attributes:
        fd: the end that a program takes for its terminal.
        screen: what was read so far, as it is shown.
    """

    def __init__(self, columns: int) -> None:
        self._controller, self.fd = os.openpty()
        self.screen = Screen(columns)
        self.resize(columns)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        self.let_go()
        self.hang_up()

    def resize(self, columns: int) -> None:
        """Make it wider or narrower."""
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", _ROWS, columns, 0, 0))
        self.screen.columns = columns

    def let_go(self) -> None:
        """Close the end that programs write to, so that reading ends when they have."""
        if self.fd >= 0:
            os.close(self.fd)
        self.fd = -1

    def hang_up(self) -> None:
        """Go away, as a terminal does whose window is closed: writing to it fails then."""
        if self._controller >= 0:
            os.close(self._controller)
        self._controller = -1

    def read(self) -> str:
        """Wait for something to be written, show and return it; "" when nobody can write any more."""
        assert select.select([self._controller], [], [], _TIMEOUT_S)[0], "nothing was written to the terminal"
        try:
            text = os.read(self._controller, 1 << 16).decode()
        except OSError:  # EIO: the other end is closed
            return ""
        self.screen.feed(text)
        return text
