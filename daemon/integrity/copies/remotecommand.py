"""Run one command on the other side of an SSH connection, and take its answer as it comes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Final

import asyncssh

from integrity.copies.ssh.connection import Line
from integrity.copies.ssh.shell import BadAnswer, Records
from integrity.errors import CopyUnreachable

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
