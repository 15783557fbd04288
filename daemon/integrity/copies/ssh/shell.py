"""
The shell commands that list and digest on the other side; ``remoteanswers`` reads what they print. Knows no connection.

Each command is one ``sh -c`` with words that hold no quote, so that any login shell passes it on; folders stand in it
in octal, and the paths of files go through its standard input. Whatever a login script prints before, each answer
begins behind ``BEGIN`` and is whole only if ``END`` closes it: a connection that was cut and a program that was killed
would look like a listing of few files otherwise.

Read what the commands of ``remoteshell`` print: bytes from a machine that may be broken or hostile.

    answer := anything BEGIN NUL record* END blank status terminator
    record := size blank seconds.fraction blank path NUL     of find: what lies below the folder, "./" before it
            | hex two-characters path terminator             of md5sum and its like
            | (nothing) NUL                                  of find, for each folder: a sign of life

Run one command on the other side of an SSH connection, and take its answer as it comes.
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
        ends_with_nul: it ends its lines with NUL, so that every name can stand in them.
        of_abc: the digest of the three bytes "abc": what a program is asked before it is trusted.
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
"""What is looked for over there; of those for one kind the first that works is taken."""


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

# Lets pass what is a regular file, reached through no link: md5sum follows links, and waits for ever at a FIFO.
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
    """Ask what is there."""
    return _command(_PROBE, _octal(_entered(folder)), *(tool.words for tool in TOOLS))


def make_list(folder: bytes, prefix: bytes) -> str:
    """List what is below the prefix, or all."""
    above, _, _ = prefix.rpartition(b"/")
    start = b"./" + prefix if prefix else b"."
    return _command(_LIST, _octal(_entered(folder)), _octal(start), _octal(above or b"."))


def make_digest(folder: bytes, tool: Tool, *, is_each: bool) -> str:
    """
    Compute digests of the paths that come through standard input, each ``./path`` NUL.

    Args:
        folder: of the copy.
        tool: that computes.
        is_each: one line for each path, with a digest or empty, in their order: for names that the tool's own lines
            can't carry. Otherwise the tool's lines.
    """
    place = _octal(_entered(folder))
    if is_each:
        return _command(_DIGEST_EACH, place, tool.words, _EACH)
    return _command(_DIGEST, place, tool.words, _FILTER, "\\000" if tool.ends_with_nul else "\\n")


def _command(script: str, *words: str) -> str:
    assert not any("'" in word for word in (script, *words)), "a quote would end the word"
    return " ".join(["sh", "-c", *(f"'{word}'" for word in (script, "sh", *words))])


def _entered(folder: bytes) -> bytes:
    """Write a folder so that cd takes it for one: not for an option, nor for the one it came from."""
    return folder if folder.startswith(b"/") else b"./" + folder


def _octal(path: bytes) -> str:
    return "".join(chr(byte) if byte in _PLAIN else f"\\0{byte:03o}" for byte in path)


def make_single(tool: Tool) -> Tool:
    """Make the tool that is asked for one file at a time."""
    return tool._replace(words=tool.words.removesuffix(" -z"), ends_with_nul=False)


def needs_each(path: bytes, tool: Tool) -> bool:
    """Say whether the tool's lines can't carry a name: with newlines or backslashes, or where it is no UTF-8."""
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
    What there is on the other side.

    Attributes:
        folder: "ok", "denied", "no_folder" or "missing".
        can_list: a find that prints as GNU's does.
        tools: by kind.
    """

    folder: str
    can_list: bool
    tools: dict[Kind, Tool]


class BadAnswer(Exception):
    """Say that what came back is no answer of the command: noise without end, or another program."""


class Records:
    """
    Cut an answer into records as it comes.

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
        Take what came and return the records that it completes.

        Raises:
            BadAnswer: it is not the command that answers.
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
            self.status = _parse_status(records.pop())
        return records


def _parse_status(record: bytes) -> int:
    text = record[len(END) :].strip()
    if not text.isdigit():
        raise BadAnswer
    return int(text)


def parse_probe(records: list[bytes]) -> Abilities:
    """Read what there is on the other side; what it can do is believed only if it has just done it."""
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
    Read one record of a listing.

    Raises:
        BadAnswer: it is none.
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
    """Read ``seconds.fraction`` as find prints it: both parts as in a timespec, so the fraction counts forward."""
    found = re.fullmatch(rb"(-?\d{1,18})\.(\d+)", text)
    if found is None:
        raise BadAnswer
    return int(found[1]) * 1_000_000_000 + int(found[2][:9].ljust(9, b"0"))


def split_complaints(written: bytes) -> list[bytes]:
    """Cut what came on standard error into lines, without what login scripts wrote before the command began."""
    before, mark, after = written.partition(BEGIN + b"\n")
    return (after if mark else before).splitlines()


def parse_complaint(line: bytes, prefix: bytes) -> Trouble | None:
    """
    Read a line that find wrote to standard error; None if it says that the prefix is not there, which is no trouble.

    What can't be read is a trouble of all that was asked for.
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
    r"""Take back the quoting of GNU messages in the C locale: ``\n``, ``\'``, ``\\``, ``\303``."""

    def replace(found: re.Match[bytes]) -> bytes:
        code = found[1]
        return bytes([int(code, 8) & 0xFF]) if code[:1].isdigit() else _QUOTED.get(code, code)

    return re.sub(rb"\\([0-7]{3}|.)", replace, text, flags=re.DOTALL)


def parse_digest(record: bytes, tool: Tool) -> tuple[bytes, bytes] | None:
    """Read one line of a tool: the digest and what stands behind it, without ``./``; None if it is none."""
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
    A command and its answer: ``with RemoteCommand(...) as command: for record in command: ...``.

    Args:
        line: an open connection.
        text: the command, as ``remoteshell`` makes them.
        paths: sent to its standard input, each ``./path`` NUL.
        terminator: of a record.
        patience_s: how long the command may compute without printing anything. That the connection is there is known
            meanwhile: what keeps it alive is answered, or it counts as lost.

    Attributes:
        status: of the command, when all of its records have come.
        complaints: what it wrote to standard error so far.
        has_more_complaints: there were more than are kept.
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
        """Tell how it ended; known when all of its records have come."""
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
        Give the records of the answer.

        Raises:
            CopyUnreachable: the connection was lost, or the answer is not whole.
        """
        while self._records.status is None:
            data = self._line.run(self._process.stdout.read(_CHUNK_BYTES), patience_s=self._patience_s)
            if not data:
                raise self._say_cut()
            try:
                records = self._records.feed(data)
            except BadAnswer as error:
                raise self.make_error("what came back is no answer to what was asked") from error
            yield from records
        self._line.run(self._finish())

    def make_error(self, what: str) -> CopyUnreachable:
        """Say what is wrong with the other side, in the words that it said last."""
        last = bytes(self.complaints).strip().rpartition(b"\n")[2][:500].decode("utf-8", "backslashreplace")
        where = self._line.address.shown
        return CopyUnreachable(f"{where}: {what}{f' (it said: {last})' if last.isprintable() and last else ''}")

    def _say_cut(self) -> CopyUnreachable:
        return self.make_error("the answer ended too early, so nothing can be said of the rest; compare again")

    async def _start(self) -> asyncssh.SSHClientProcess[bytes]:
        process = await self._line.connection.create_process(self._text, encoding=None)
        self._tasks = [asyncio.create_task(self._send(process)), asyncio.create_task(self._listen(process))]
        return process

    async def _send(self, process: asyncssh.SSHClientProcess[bytes]) -> None:
        # If the other side is gone, or does not want them all, its answer ends: whoever reads that will say so.
        with suppress(OSError, asyncssh.Error):
            for start in range(0, len(self._paths), _PATHS_AT_ONCE):  # each writing is a packet
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
        """Wait for the last of the complaints."""
        await self._tasks[1]

    async def _stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        # What computes over there ends when it next prints something: nobody reads it any more.
        self._process.close()
