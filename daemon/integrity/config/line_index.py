"""
Find the lines of the tables and keys of a TOML text, for messages.

tomllib reports lines only for syntax errors, so the text is scanned again. It is known to be valid TOML by then, so the
scan needs to recognize only strings, comments and brackets.
"""

from __future__ import annotations

import re

Location = tuple[str | int, ...]
"""The path to a value: keys, and indexes for the elements of an array of tables."""

_KEY_PART = r"""(?:[A-Za-z0-9_-]+|"(?:[^"\\]|\\.)*"|'[^']*')"""
_KEY = rf"{_KEY_PART}(?:\s*\.\s*{_KEY_PART})*"
_HEADER = re.compile(rf"\s*(\[\[?)\s*({_KEY})\s*\]\]?")
_ASSIGNMENT = re.compile(rf"\s*({_KEY})\s*=")
_PART = re.compile(_KEY_PART)
# Tokens that open or close a bracket, or hide one, in a value; longest first.
_TOKEN = re.compile(r'"""|\'\'\'|"(?:[^"\\]|\\.)*"|\'[^\']*\'|#.*|[\[\]{}]')
_MULTILINE_END = {'"""': re.compile(r'(?:[^"\\]|\\.|"(?!""))*"""'), "'''": re.compile(r"(?:[^']|'(?!''))*'''")}


class LineIndex:
    """The line numbers of the keys in one TOML text."""

    def __init__(self, text: str) -> None:
        self._lines: dict[Location, int] = {}
        self._counts: dict[Location, int] = {}
        self._table: Location = ()
        self._depth = 0
        self._open_string: str | None = None
        for number, line in enumerate(text.splitlines(), start=1):
            self._take(line, number)

    def line_of(self, location: Location) -> int:
        """Return the line (from 1) of the key, or of its nearest enclosing table or key."""
        for length in range(len(location), 0, -1):
            line = self._lines.get(location[:length])
            if line is not None:
                return line
        return 1

    def _take(self, line: str, number: int) -> None:
        start = 0
        if self._open_string is None and self._depth == 0:
            header = _HEADER.match(line)
            if header is not None:
                self._enter(_split(header[2]), is_array=header[1] == "[[", number=number)
                return
            assignment = _ASSIGNMENT.match(line)
            if assignment is not None:
                self._note((*self._table, *_split(assignment[1])), number)
                start = assignment.end()
        self._skip_value(line, start)

    def _enter(self, parts: Location, *, is_array: bool, number: int) -> None:
        """Make the table of a header the current one. Each element of an array of tables gets the next index."""
        location: Location = ()
        for part in parts[:-1]:
            location = (*location, part)
            if location in self._counts:
                location = (*location, self._counts[location] - 1)
        location = (*location, parts[-1])
        if is_array:
            count = self._counts.get(location, 0)
            self._counts[location] = count + 1
            location = (*location, count)
        self._table = location
        self._note(location, number)

    def _note(self, location: Location, number: int) -> None:
        self._lines.setdefault(location, number)

    def _skip_value(self, line: str, start: int) -> None:
        """Track brackets and strings that continue on the next line."""
        position = start
        while position < len(line):
            if self._open_string is not None:
                end = _MULTILINE_END[self._open_string].match(line, position)
                if end is None:
                    return
                self._open_string, position = None, end.end()
                continue
            token = _TOKEN.search(line, position)
            if token is None:
                return
            position = token.end()
            if token[0] in _MULTILINE_END:
                self._open_string = token[0]
            elif token[0] in "[{":
                self._depth += 1
            elif token[0] in "]}":
                self._depth -= 1


def _split(key: str) -> Location:
    return tuple(part.strip("\"'") for part in _PART.findall(key))
