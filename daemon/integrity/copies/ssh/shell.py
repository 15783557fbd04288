"""
The shell commands that list and digest on the other side: their text, the answers they print, and running them.

Each command is one ``sh -c`` whose words contain no quote, so that any login shell passes it on. Folders stand in it in
octal, the paths of files go through its standard input. Login scripts may print anything first: an answer begins after
``BEGIN``, and is complete only if ``END`` closes it. Without that a lost connection or a killed program would look like
a listing of few files. Answers come from a machine that may be broken or hostile.

    answer := anything BEGIN NUL record* END blank status terminator
    record := size blank seconds.fraction blank path NUL     of find: a file below the folder, "./" before it
            | hex two-characters path terminator             of md5sum and similar tools
            | (nothing) NUL                                  of find, for each folder: a sign of life
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Final, NamedTuple

import asyncssh

from integrity.copies.filenames import LONGEST_PATH_BYTES, find_fault, is_below
from integrity.copies.protocol import CopyEntry, Kind, Trouble
from integrity.copies.ssh.connection import Line
from integrity.errors import CopyUnreachable

BEGIN: Final = b"integrity:begin"
END: Final = b"integrity:end"
_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-")


class Tool(NamedTuple):
    """
    A program that computes digests.

    Attributes:
        ends_with_nul: it ends its lines with NUL, so that they can contain every name.
        of_abc: the digest of the three bytes "abc", which the program must compute before it is trusted.
    """

    kind: Kind
    words: str
    ends_with_nul: bool
    of_abc: str


_MD5 = "900150983cd24fb0d6963f7d28e17f72"
_SHA1 = "a9993e364706816aba3e25717850c26c9cd0d89d"
_SHA256 = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
_SHA512 = (
    "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a"
    "2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f"
)
_XXH64 = "44bc2cf5ad770999"
_XXH3_128 = "06b05ab6733a618578af5f94892f3950"
_BLAKE3 = "6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85"

TOOLS: Final = (
    Tool(Kind.MD5, "md5sum -z", True, _MD5),  # coreutils since 8.25
    Tool(Kind.MD5, "md5sum", False, _MD5),  # busybox
    Tool(Kind.SHA1, "sha1sum -z", True, _SHA1),
    Tool(Kind.SHA1, "sha1sum", False, _SHA1),
    Tool(Kind.SHA256, "sha256sum -z", True, _SHA256),
    Tool(Kind.SHA256, "sha256sum", False, _SHA256),
    Tool(Kind.SHA512, "sha512sum -z", True, _SHA512),
    Tool(Kind.SHA512, "sha512sum", False, _SHA512),
    Tool(Kind.XXH3_128, "xxh128sum", False, _XXH3_128),
    Tool(Kind.XXH3_128, "xxhsum -H2", False, _XXH3_128),
    Tool(Kind.XXH64, "xxh64sum", False, _XXH64),
    Tool(Kind.XXH64, "xxhsum -H1", False, _XXH64),
    Tool(Kind.BLAKE3, "b3sum", False, _BLAKE3),
)
"""What the probe looks for; the first that works is used for each kind."""


# $1 is the folder, in the notation of printf %b. The x keeps newlines at the end of its name, which $(...) would cut.
_ENTER = 'LC_ALL=C; export LC_ALL; d=$(printf %b "$1"x); d=${d%x}; '
_OUT = f'printf "{BEGIN.decode()}\\0"; printf "{BEGIN.decode()}\\n" >&2; '

_PROBE = (
    _ENTER
    + _OUT
    + 'if cd "$d"; then s=ok; elif [ -d "$d" ]; then s=denied; elif [ -e "$d" ]; then s=no_folder; else s=missing; fi; '
    'printf "folder %s\\0" $s; cd /; '
    'find . -maxdepth 0 -type d -printf "find %s %T@ %p\\0"; '
    'printf "a\\0b\\0" | xargs -0 -r sh -c "printf \\"xargs %s,%s\\\\0\\" \\$0 \\$1"; '
    'i=0; for t do i=$((i+1)); [ $i = 1 ] || { printf "tool %d " $i; printf abc | $t; printf "\\0"; }; done; '
    f'printf "{END.decode()} 0\\0"'
)

# $2 is the path to begin at, $3 the folder that it lies in. Were that reached through a link, it would lie elsewhere;
# if it can't be reached at all, find says why not.
_LIST = (
    _ENTER + 'cd "$d" || exit 9; '
    'p=$(printf %b "$2"x); p=${p%x}; u=$(printf %b "$3"x); u=${u%x}; h=$(pwd -P); h=${h%/}; '
    'r=$(cd -P "./$u" 2>/dev/null && pwd -P); '
    + _OUT
    + 'if [ "$u" = . ] || [ -z "$r" ] || [ "$r" = "$(printf %s "$h/$u")" ]; '
    'then find "$p" -type d -printf "\\0" -o -type f -printf "%s %T@ %p\\0"; s=$?; else s=0; fi; '
    f'printf "{END.decode()} %d\\0" $s'
)

# Passes only regular files, reached through no link: md5sum follows links, and waits for ever on a FIFO.
_IS_FILE = (
    'l=.; k=1; is_file() { u=${1%/*}; if [ "$u" = "$l" ]; then :; else l=$u; k=1; '
    'until [ "$u" = . ]; do if [ -L "$u" ]; then k=0; fi; u=${u%/*}; done; fi; '
    'if [ $k = 1 ] && [ -f "$1" ]; then if [ -L "$1" ]; then false; fi; else false; fi; }; '
)
_FILTER = _IS_FILE + 'for f do if is_file "$f"; then printf "%s\\0" "$f"; fi; done'
_EACH = (
    "t=$1; shift; " + _IS_FILE + 'for f do if is_file "$f" && [ -r "$f" ]; then $t <"$f" || echo; else echo; fi; done'
)

# $2 is the program, $3 the filter.
_DIGEST = (
    _ENTER + 'cd "$d" || exit 9; ' + _OUT + 'xargs -0 -r sh -c "$3" sh | xargs -0 -r $2; s=$?; '
    f'printf "{END.decode()} %d%b" $s "$4"'
)
_DIGEST_EACH = (
    _ENTER + 'cd "$d" || exit 9; ' + _OUT + f'xargs -0 -r sh -c "$3" sh "$2"; s=$?; printf "{END.decode()} %d\\n" $s'
)


def make_probe(folder: bytes) -> str:
    """Make the command that finds out what the other side can do."""
    return _command(_PROBE, _octal(_entered(folder)), *(tool.words for tool in TOOLS))


def make_list(folder: bytes, prefix: bytes) -> str:
    """Make the command that lists what is below the prefix, or everything."""
    above, _, _ = prefix.rpartition(b"/")
    start = b"./" + prefix if prefix else b"."
    return _command(_LIST, _octal(_entered(folder)), _octal(start), _octal(above or b"."))


def make_digest(folder: bytes, tool: Tool, *, is_each: bool) -> str:
    """
    Make the command that computes digests of the paths on its standard input, each ``./path`` NUL.

    Args:
        tool: computes them.
        is_each: print one line for each path in their order, with a digest or empty, for names that the tool's own
            lines can't contain. Otherwise print the tool's lines.
    """
    place = _octal(_entered(folder))
    if is_each:
        return _command(_DIGEST_EACH, place, tool.words, _EACH)
    return _command(_DIGEST, place, tool.words, _FILTER, "\\000" if tool.ends_with_nul else "\\n")


def _command(script: str, *words: str) -> str:
    assert not any("'" in word for word in (script, *words)), "a quote would end the word"
    return " ".join(["sh", "-c", *(f"'{word}'" for word in (script, "sh", *words))])


def _entered(folder: bytes) -> bytes:
    """Write a folder such that cd takes it neither for an option nor for ``-``, the previous folder."""
    return folder if folder.startswith(b"/") else b"./" + folder


def _octal(path: bytes) -> str:
    return "".join(chr(byte) if byte in _PLAIN else f"\\0{byte:03o}" for byte in path)


def make_single(tool: Tool) -> Tool:
    """Make the tool that digests one file at a time."""
    return tool._replace(words=tool.words.removesuffix(" -z"), ends_with_nul=False)


def needs_each(path: bytes, tool: Tool) -> bool:
    """Return whether the tool's lines can't contain a name: newlines, backslashes, or bytes that are not UTF-8."""
    if tool.ends_with_nul:
        return False
    try:
        text = path.decode("utf-8")
    except UnicodeDecodeError:
        return True
    return "\\" in text or any(ord(char) < 32 for char in text)


_NOISE_BYTES: Final = 65_536  # what login scripts may print


class Abilities(NamedTuple):
    """
    The abilities of the other side.

    Attributes:
        folder: "ok", "denied", "no_folder" or "missing".
        can_list: there is a find that prints as GNU find does.
        tools: by kind.
    """

    folder: str
    can_list: bool
    tools: dict[Kind, Tool]


class BadAnswer(Exception):
    """The output is no answer of the command: endless noise, or another program."""


class Records:
    """
    Cut an answer into records as it arrives.

    Args:
        terminator: of a record.
    """

    def __init__(self, terminator: bytes = b"\0") -> None:
        self._terminator = terminator
        self._rest = b""
        self._has_begun = False
        self.status: int | None = None  # of the command, once the answer is whole

    def feed(self, data: bytes) -> list[bytes]:
        """
        Append received bytes and return the records that they complete.

        Raises:
            BadAnswer: the output is not the command's.
        """
        data = self._rest + data
        if not self._has_begun:
            noise, mark, data = data.partition(BEGIN + b"\0")
            self._has_begun = bool(mark)
            if not mark:
                if len(noise) > _NOISE_BYTES:
                    raise BadAnswer
                self._rest = noise
                return []
        *records, self._rest = data.split(self._terminator)
        if len(self._rest) > LONGEST_PATH_BYTES + 1000:
            raise BadAnswer
        if records and records[-1].startswith(END):
            text = records.pop()[len(END) :].strip()
            if not text.isdigit():
                raise BadAnswer
            self.status = int(text)
        return records


def parse_probe(records: list[bytes]) -> Abilities:
    """Parse the answer to the probe; an ability counts only if it was just demonstrated."""
    folder, can_list, can_split = "missing", False, False
    tools: dict[Kind, Tool] = {}
    for record in records:
        word, _, rest = record.partition(b" ")
        if word == b"folder":
            folder = rest.decode("ascii", "replace")
        elif word == b"find":
            can_list = re.fullmatch(rb"\d+ -?\d+\.\d+ \.", rest) is not None
        elif word == b"xargs":
            can_split = rest == b"a,b"
        elif word == b"tool" and can_split:
            _add_tool(tools, rest)
    return Abilities(folder, can_list, tools)


def _add_tool(tools: dict[Kind, Tool], answer: bytes) -> None:
    number, _, said = answer.partition(b" ")
    index = int(number) - 2 if number.isdigit() else -1
    if 0 <= index < len(TOOLS):
        tool = TOOLS[index]
        if said.split(b" ", 1)[0] == tool.of_abc.encode():
            tools.setdefault(tool.kind, tool)


def parse_entry(record: bytes, prefix: bytes) -> CopyEntry | Trouble:
    """
    Parse one record of a listing.

    Raises:
        BadAnswer: it is malformed.
    """
    fields = record.split(b" ", 2)
    if len(fields) != 3 or re.fullmatch(rb"\d{1,19}", fields[0]) is None:
        raise BadAnswer
    path = fields[2].removeprefix(b"./")
    fault = find_fault(path)
    if fault is not None or not is_below(path, prefix):
        return Trouble(path[:LONGEST_PATH_BYTES], f"its name {fault or 'is not below what was asked for'}")
    return CopyEntry(path, int(fields[0]), _parse_time(fields[1]))


def _parse_time(text: bytes) -> int:
    """Parse ``seconds.fraction`` of find: both parts as in a timespec, so the fraction counts forward."""
    found = re.fullmatch(rb"(-?\d{1,18})\.(\d+)", text)
    if found is None:
        raise BadAnswer
    return int(found[1]) * 1_000_000_000 + int(found[2][:9].ljust(9, b"0"))


def split_complaints(written: bytes) -> list[bytes]:
    """Cut standard error into lines, without the output of login scripts before the command."""
    before, mark, after = written.partition(BEGIN + b"\n")
    return (after if mark else before).splitlines()


def parse_complaint(line: bytes, prefix: bytes) -> Trouble | None:
    """
    Parse a line of find's standard error; None if it says that the prefix does not exist, which is no trouble.

    An unreadable line is a trouble of the whole prefix.
    """
    found = re.fullmatch(rb"find: '(.*)': ([^:]+)", line)
    if found is None:
        return Trouble(prefix, f"find over there says: {line.decode('utf-8', 'backslashreplace').strip()}")
    quoted, reason = found[1], found[2].decode("ascii", "replace")
    path = _unquote(quoted).removeprefix(b"./")
    if path == prefix and reason in ("No such file or directory", "Not a directory"):
        return None
    return Trouble(b"" if path == b"." else path, f"could not be looked at over there: {reason}")


_QUOTED = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"a": b"\a", b"b": b"\b", b"f": b"\f", b"v": b"\v"}


def _unquote(text: bytes) -> bytes:
    r"""Undo the quoting of GNU messages in the C locale: ``\n``, ``\'``, ``\\``, ``\303``."""

    def replace(found: re.Match[bytes]) -> bytes:
        code = found[1]
        return bytes([int(code, 8) & 0xFF]) if code[:1].isdigit() else _QUOTED.get(code, code)

    return re.sub(rb"\\([0-7]{3}|.)", replace, text, flags=re.DOTALL)


def parse_digest(record: bytes, tool: Tool) -> tuple[bytes, bytes] | None:
    """Parse a tool's line: the digest and the path without ``./``; None if it is malformed."""
    size = len(tool.of_abc)
    hexed = record[:size]
    if re.fullmatch(rb"[0-9a-f]+", hexed) is None or len(hexed) != size or record[size : size + 1] not in (b" ", b""):
        return None
    return bytes.fromhex(hexed.decode("ascii")), record[size + 2 :].removeprefix(b"./")


def find_reason(complaints: bytes, path: bytes) -> str:
    """Find what a tool wrote to standard error about a path."""
    for line in complaints.splitlines():
        if b"./" + path in line:
            return line.rpartition(b": ")[2].decode("utf-8", "backslashreplace").strip(" .")
    return "it is not there, or no regular file, or can't be read"


_CHUNK_BYTES: Final = 65_536
_PATHS_AT_ONCE: Final = 256
_COMPLAINTS_BYTES: Final = 1_048_576


class RemoteCommand:
    """
    A running command and its answer: ``with RemoteCommand(...) as command: for record in command: ...``.

    Args:
        line: an open connection.
        text: the command, from one of the ``make_`` functions.
        paths: sent to its standard input, each ``./path`` NUL.
        terminator: of a record.
        patience_s: how long the command may compute without output. Keepalives detect a lost connection meanwhile.

    Attributes:
        status: the exit status, known after the last record.
        complaints: its standard error so far.
        has_more_complaints: standard error was longer than what is kept.
    """

    def __init__(
        self, line: Line, text: str, *, paths: Sequence[bytes] = (), terminator: bytes = b"\0", patience_s: float
    ) -> None:
        self._line = line
        self._text = text
        self._paths = paths
        self._patience_s = patience_s
        self._records = Records(terminator)
        self._tasks: list[asyncio.Task[None]] = []
        self.complaints = bytearray()
        self.has_more_complaints = False

    @property
    def status(self) -> int:
        """Return the exit status; known after the last record."""
        assert self._records.status is not None, "not at its end"
        return self._records.status

    def __enter__(self) -> RemoteCommand:
        self._process = self._line.run(self._start())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._line.is_open:
            self._line.run(self._stop())

    def __iter__(self) -> Iterator[bytes]:
        """
        Yield the records of the answer.

        Raises:
            CopyUnreachable: the connection was lost, or the answer is incomplete.
        """
        while self._records.status is None:
            data = self._line.run(self._process.stdout.read(_CHUNK_BYTES), patience_s=self._patience_s)
            if not data:
                raise self.make_error("the answer ended too early, so nothing can be said of the rest; compare again")
            try:
                records = self._records.feed(data)
            except BadAnswer as error:
                raise self.make_error("what came back is no answer to what was asked") from error
            yield from records
        self._line.run(self._finish())

    def make_error(self, what: str) -> CopyUnreachable:
        """Return an error that quotes the last words of the other side."""
        last = bytes(self.complaints).strip().rpartition(b"\n")[2][:500].decode("utf-8", "backslashreplace")
        where = self._line.address.shown
        return CopyUnreachable(f"{where}: {what}{f' (it said: {last})' if last.isprintable() and last else ''}")

    async def _start(self) -> asyncssh.SSHClientProcess[bytes]:
        process = await self._line.connection.create_process(self._text, encoding=None)
        self._tasks = [asyncio.create_task(self._send(process)), asyncio.create_task(self._listen(process))]
        return process

    async def _send(self, process: asyncssh.SSHClientProcess[bytes]) -> None:
        # If the other side is gone, or stops reading, its answer ends, and the reader of the answer raises the error.
        with suppress(OSError, asyncssh.Error):
            for start in range(0, len(self._paths), _PATHS_AT_ONCE):  # each write is a packet
                paths = self._paths[start : start + _PATHS_AT_ONCE]
                process.stdin.write(b"".join(b"./" + path + b"\0" for path in paths))
                await process.stdin.drain()
            process.stdin.write_eof()

    async def _listen(self, process: asyncssh.SSHClientProcess[bytes]) -> None:
        with suppress(asyncssh.Error):  # as above
            while data := await process.stderr.read(_CHUNK_BYTES):
                self.has_more_complaints |= len(self.complaints) + len(data) > _COMPLAINTS_BYTES
                self.complaints += data[: _COMPLAINTS_BYTES - len(self.complaints)]

    async def _finish(self) -> None:
        """Wait for the rest of standard error."""
        await self._tasks[1]

    async def _stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        # The command on the other side ends at its next output, which nobody reads.
        self._process.close()
