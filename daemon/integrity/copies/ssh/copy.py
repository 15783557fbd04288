"""
A copy on another machine, reached by SSH: ``ssh://user@host/folder``.

Where there is a shell, one ``find`` lists all files and the digests are computed on the other side, so that little more
than the names is transferred. Bytes are read by SFTP, and so is the listing without a shell or without GNU find.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, groupby
from types import TracebackType
from typing import Final, Self

import asyncssh

from integrity.copies.base import BaseCopy
from integrity.copies.filenames import find_fault, require_harmless
from integrity.copies.protocol import CopyEntry, Kind, Trouble
from integrity.copies.ssh.connection import Line, parse_address
from integrity.copies.ssh.sftp import SftpFile, SftpFolder, open_sftp
from integrity.copies.ssh.shell import (
    Abilities,
    BadAnswer,
    RemoteCommand,
    Tool,
    find_reason,
    make_digest,
    make_list,
    make_probe,
    make_single,
    needs_each,
    parse_complaint,
    parse_digest,
    parse_entry,
    parse_probe,
    split_complaints,
)
from integrity.errors import CopyUnreachable, Unreadable, show_path

TIMEOUT_S: Final = 30.0
_FIND_PATIENCE_S: Final = 600.0  # covers a sleeping disk, or a million folders without a file
_DIGEST_PATIENCE_S: Final = 6 * 3600.0  # covers one file of several TB, of which one line is printed, at the end

_PIECE: Final = 256  # paths; a piece that contains an odd name is digested one by one, the others together

_WHY_NOT = {
    "missing": "there is no such folder over there; is its disk mounted, and is the path right?",
    "no_folder": "what is there is no folder; give the folder that the copy lies in",
    "denied": "the folder can't be entered; let the user who logs in read it",
}


class SshCopy(BaseCopy):
    """
    A folder on another machine; see ``protocol.Copy``.

    Args:
        url: as ``connection.parse_address`` describes it.
        timeout_s: how long the other side may be silent.
    """

    keeps_times = True

    def __init__(self, url: str, *, timeout_s: float = TIMEOUT_S) -> None:
        self._address = parse_address(url)
        super().__init__(url, self._address.shown)
        self.has_bytes = False  # until SFTP was started
        self._line = Line(self._address, timeout_s)
        self._abilities: Abilities | None = None
        self._sftp: SftpFolder | None = None

    def interrupt_when(self, must_stop: Callable[[], bool], /) -> None:
        """See ``Copy``."""
        self._line.must_stop = must_stop

    def __enter__(self) -> Self:
        self._line.open()
        try:
            self._find_abilities()
        except BaseException:
            self._line.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._line.close()

    def _find_abilities(self) -> None:
        found = self._probe()
        self._sftp = open_sftp(self._line, self._address.folder)
        self.has_bytes = self._sftp is not None  # None also if SFTP shows another folder
        if found is not None and found.folder == "ok":
            self._abilities = found
            self.remote_kinds = frozenset(found.tools)
        if self._sftp is None and (self._abilities is None or not self._abilities.can_list):
            raise CopyUnreachable(f"{self.shown}: {_say_why_not(found)}")

    def _probe(self) -> Abilities | None:
        """Ask the shell for its programs; None if there is no shell."""
        try:
            with RemoteCommand(
                self._line, make_probe(self._address.folder), patience_s=self._line.timeout_s
            ) as command:
                return parse_probe(list(command))
        except asyncssh.ChannelOpenError:
            return None
        except CopyUnreachable as error:
            # An invalid answer (no cause), or none in time: SFTP will show whether the connection works.
            if error.__cause__ is None or isinstance(error.__cause__, BadAnswer | TimeoutError):
                return None
            raise

    def list(self, prefix: bytes = b"") -> Iterator[CopyEntry | Trouble]:
        """List all files, or those below one folder; see ``Copy.list``."""
        fault = find_fault(prefix) if prefix else None
        if fault is not None:
            yield Trouble(prefix, f"its name {fault}")
            return
        is_empty = True
        for found in self._list(prefix):
            is_empty &= isinstance(found, Trouble)
            yield found
        if is_empty and not prefix:
            raise CopyUnreachable(
                f"{self.shown}: no file can be seen there; mount the copy's disk, or correct the path"
            )

    def _list(self, prefix: bytes) -> Iterator[CopyEntry | Trouble]:
        if self._abilities is not None and self._abilities.can_list:
            return self._list_by_shell(prefix)
        assert self._sftp is not None, "not connected"
        return self._sftp.list(prefix)

    def _list_by_shell(self, prefix: bytes) -> Iterator[CopyEntry | Trouble]:
        text = make_list(self._address.folder, prefix)
        with RemoteCommand(self._line, text, patience_s=_FIND_PATIENCE_S) as command:
            for record in command:
                if record:
                    try:
                        yield parse_entry(record, prefix)
                    except BadAnswer as error:
                        raise command.make_error("what lists the files over there is no find") from error
            complaints = split_complaints(bytes(command.complaints))
            for line in complaints:
                trouble = parse_complaint(line, prefix)
                if trouble is not None:
                    yield trouble
            if command.has_more_complaints or (command.status not in (0, 1)) or (command.status and not complaints):
                yield Trouble(prefix, f"find over there ended with {command.status}, and not all of why is known")

    def digest(self, paths: Sequence[bytes], kind: Kind) -> Iterator[tuple[bytes, bytes | Trouble]]:
        """
        Compute digests on the other side; see ``Copy.digest``.

        Pass many paths at once: each call sends a kilobyte and starts programs.
        """
        if self._abilities is None or kind not in self._abilities.tools:
            raise ValueError(f"no {kind} digests can be computed over there")
        tool = self._abilities.tools[kind]
        pieces = (paths[start : start + _PIECE] for start in range(0, len(paths), _PIECE))
        for is_each, group in groupby(pieces, lambda piece: any(needs_each(path, tool) for path in piece)):
            yield from self._digest(list(chain.from_iterable(group)), tool, is_each=is_each)

    def _digest(self, paths: Sequence[bytes], tool: Tool, *, is_each: bool) -> Iterator[tuple[bytes, bytes | Trouble]]:
        """Compute digests by one command; refused paths are not sent to the other side."""
        good = [path for path in paths if find_fault(path) is None]
        answers = self._digest_each(good, tool) if is_each else self._digest_together(good, tool)
        for path in paths:
            fault = find_fault(path)
            yield next(answers) if fault is None else (path, Trouble(path, f"its name {fault}"))

    def _start_digest(self, paths: Sequence[bytes], tool: Tool, *, is_each: bool) -> RemoteCommand:
        return RemoteCommand(
            self._line,
            make_digest(self._address.folder, tool, is_each=is_each),
            paths=paths,
            terminator=b"\0" if tool.ends_with_nul and not is_each else b"\n",
            patience_s=_DIGEST_PATIENCE_S,
        )

    def _digest_together(self, paths: Sequence[bytes], tool: Tool) -> Iterator[tuple[bytes, bytes | Trouble]]:
        """
        Match the lines, which come in the order of the paths, with the paths.

        Paths without a line are asked for again, one by one: xxhsum omits all files if it can't read one.
        """
        rest: list[tuple[bytes, bytes | None]] = []  # from the first path without a digest on
        with self._start_digest(paths, tool, is_each=False) as command:
            answers = (found for record in command if (found := parse_digest(record, tool)) is not None)
            answer = next(answers, None)
            for path in paths:
                is_next = answer is not None and answer[1] == path
                digest = answer[0] if answer is not None and is_next else None
                if digest is not None and not rest:
                    yield path, digest
                else:
                    rest.append((path, digest))
                if is_next:
                    answer = next(answers, None)
            complaints = bytes(command.complaints)
        again = self._digest_each([path for path, digest in rest if digest is None], make_single(tool), complaints)
        for path, digest in rest:
            yield next(again) if digest is None else (path, digest)

    def _digest_each(
        self, paths: Sequence[bytes], tool: Tool, complaints: bytes = b""
    ) -> Iterator[tuple[bytes, bytes | Trouble]]:
        """Compute one digest after the other; ``complaints`` are those of an earlier command."""
        with self._start_digest(paths, tool, is_each=True) as command:
            records = iter(command)
            for path in paths:
                answer = parse_digest(next(records, b""), tool)
                if answer is not None:
                    yield path, answer[0]
                else:
                    reason = find_reason(complaints or bytes(command.complaints), path)
                    yield path, Trouble(path, f"no digest came from the other side: {reason}")

    def open(self, path: bytes) -> SftpFile:
        """Open one file for reading; see ``Copy.open``."""
        require_harmless(path)
        if self._sftp is None:
            raise Unreadable(
                f"cannot open {show_path(path)}: {self.shown} gives no bytes, as no SFTP shows this folder",
                errno=errno.EOPNOTSUPP,
            )
        return self._sftp.open(path)


def _say_why_not(found: Abilities | None) -> str:
    if found is None:
        return "there is neither a shell nor SFTP with this folder; is the path right, and its disk mounted?"
    if found.folder == "ok":
        return "there is neither a find as GNU's nor SFTP; install findutils over there, or let sshd offer sftp"
    return _WHY_NOT.get(found.folder, _WHY_NOT["missing"])
