r"""
Run what was asked of ``integrity sum``, and print it: digests, a check, a match or an audit.

Names in messages are quoted as coreutils does, so that a script that reads those of md5sum reads ours: a name that a
shell would take for more than itself stands in quotes, and what can't be printed as ``$'\ooo'``. There is
``shell_path`` for commands to be typed; this is for messages, where a colon behind a name must not belong to it.
"""

from __future__ import annotations

import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from enum import Enum

import click

from integrity.cli.exitcodes import ExitCode
from integrity.cli.output import Lines, Output
from integrity.cli.sum import ONE_ALGORITHM, SumOptions
from integrity.files.plain import STDIN
from integrity.hashing.algorithms import BY_NAME, CHOICES, SHA256, XXH3, find_by_word
from integrity.hashing.file_sums import FileSum, Hint, ListedPaths, sum_files
from integrity.hashing.stored_digests import MD5, Algorithm
from integrity.lists.arguments import find_files
from integrity.lists.audit import Audited, AuditState, ManifestFiles, audit, match
from integrity.lists.check import Checked, CheckTally, LineVerdict, check
from integrity.lists.entries import BadLine, Piece
from integrity.lists.forms import (
    encode_object,
    escape,
    write_bsd,
    write_gnu,
    write_hashdeep,
    write_hashdeep_header,
    write_json,
)
from integrity.lists.reader import Manifest
from integrity.paths import path_fields, shell_word
from integrity.same_name import OtherSpellings

_has_special = re.compile(r"""[ !"$&'()*;<=>?\[\\^`|:]|^[~#]|^[{}]$""").search
_bars_double_quotes = re.compile(r"""[!"$&()*;<=>?\[\\^`|{}]|.[~#]""").search
_LETTERS = {7: "\\a", 8: "\\b", 9: "\\t", 10: "\\n", 11: "\\v", 12: "\\f", 13: "\\r"}


def quote_name(name: bytes) -> str:
    text = name.decode("utf-8", "surrogateescape")
    if text and text.isprintable() and not _has_special(text):
        return text
    if "'" in text and text.isprintable() and not _bars_double_quotes(text):
        return f'"{text}"'
    parts = ["'"]
    is_escape = False
    for char in text:
        if char == "'":
            parts.append("'\\''")
            is_escape = False
        elif char.isprintable():
            parts.append("''" + char if is_escape else char)
            is_escape = False
        else:
            codes = "".join(_escape(byte) for byte in char.encode("utf-8", "surrogateescape"))
            parts.append(codes if is_escape else "'$'" + codes)
            is_escape = True
    return "".join(parts) + "'"


def _escape(byte: int) -> str:
    return _LETTERS.get(byte) or f"\\{byte:03o}"


Write = Callable[[FileSum], bytes]


class Style(Enum):
    """How digests are written."""

    GNU = "gnu"
    BSD = "bsd"
    HASHDEEP = "hashdeep"
    OBJECTS = "json"


def make_writer(
    style: Style, algorithms: Sequence[Algorithm], *, has_pieces: bool, end: bytes = b"\n", mark: bytes = b" "
) -> Write:
    """Choose what writes the lines of one file; GNU lines have one algorithm. ``end``, ``mark``: see ``forms``."""

    def write_whole(result: FileSum) -> bytes:
        return write_gnu(result.path, algorithms[0], result.pieces[0][2][0], end=end, mark=mark)

    def write_pieces(result: FileSum) -> bytes:
        lines: list[bytes] = []
        for offset, length, digests in result.pieces:
            piece = Piece(offset, length) if has_pieces else None
            if style is Style.GNU:
                lines.append(write_gnu(result.path, algorithms[0], digests[0], piece=piece, end=end, mark=mark))
            elif style is Style.HASHDEEP:
                lines.append(write_hashdeep(result.path, length, digests, piece=piece))
            elif style is Style.BSD:
                pairs = zip(algorithms, digests, strict=True)
                lines += [write_bsd(result.path, name, digest, piece=piece, end=end) for name, digest in pairs]
            else:
                found = dict(zip(algorithms, digests, strict=True))
                lines.append(write_json(result.path, result.size_bytes, found, piece=piece))
        return b"".join(lines)

    return write_whole if style is Style.GNU and not has_pieces else write_pieces


def write_object(kind: str, fields: Mapping[str, object], path: bytes | None = None) -> bytes:
    """Write any other object of ``--json``; fields that are None are left out."""
    named = path_fields("path", path) if path is not None else {}
    whole = {"type": kind, "schema": 1, **named, **{key: value for key, value in fields.items() if value is not None}}
    return encode_object(whole)


def write_checked(path: bytes, verdict: LineVerdict) -> bytes:
    """Write what a check says of a file, as coreutils 9.1 does: here only an end of line makes it escape a name."""
    lead, name = escape(path) if b"\n" in path else (b"", path)
    return lead + name + _VERDICTS[verdict] + b"\n"


def write_name(path: bytes, *, end: bytes = b"\n") -> bytes:
    """Write a name, escaped as in a line of digests unless ``end`` is NUL."""
    lead, name = (b"", path) if end == b"\0" else escape(path)
    return lead + name + end


def write_audited(event: Audited) -> bytes:
    lead, name = escape(event.path + (event.origin or b""))
    if lead:
        name, origin = (escape(path)[1] for path in (event.path, event.origin or b""))
    else:
        name, origin = event.path, event.origin or b""
    return lead + name + b": " + _SAID[event.state, event.origin is not None] + origin + b"\n"


_VERDICTS = {LineVerdict.OK: b": OK", LineVerdict.FAILED: b": FAILED", LineVerdict.UNREADABLE: b": FAILED open or read"}

_SAID = {
    (AuditState.MATCHED, False): b"Ok",
    (AuditState.MOVED, True): b"Moved from ",
    (AuditState.NEW, False): b"No match",
    (AuditState.NEW, True): b"Copy of ",
    (AuditState.MISSING, False): b"Known file not used",
    (AuditState.UNREADABLE, False): b"Not read",
}


class SumRun:
    """One run. To be used as a context manager, which writes what is waiting however it ends."""

    def __init__(self, output: Output, options: SumOptions) -> None:
        self._output = output
        self._options = options
        self._lines = Lines()
        self._wanted = _find_wanted(options)
        self._end = b"\0" if options.is_zero else b"\n"
        self._is_good = self._is_complete = True

    def __enter__(self) -> SumRun:
        return self

    def __exit__(self, *_: object) -> None:
        self._lines.flush()

    def run(self) -> ExitCode:
        """Do it; return a problem if anything could not be read, or does not match."""
        if self._options.is_check:
            for name in self._options.names:
                self._read_list(name, self._check)
        elif self._options.known:
            self._compare()
        else:
            self._sum()
        if not self._is_good:
            return ExitCode.PROBLEM
        return ExitCode.OK if self._is_complete else ExitCode.INCOMPLETE

    def _complain(self, text: str) -> None:
        """Say what is wrong, below all that was said before."""
        self._lines.flush()
        self._output.complain("sum", text)

    def _fail(self, name: bytes, why: str) -> None:
        self._is_good = False
        self._complain(f"{quote_name(name)}: {why}")

    def _fail_to_read(self, path: bytes, error: OSError) -> None:
        self._fail(path, _explain(error))
        if self._output.is_json:
            self._lines.put(write_object("unreadable", {"message": _explain(error)}, path))

    def _find_files(self) -> Iterator[bytes | ListedPaths | Hint]:
        names = self._options.names
        return find_files(names, self._fail) if self._options.is_recursive else iter(names)

    # Digests

    def _sum(self) -> None:
        algorithms = self._find_algorithms()
        style = self._find_style(algorithms)
        options = self._options
        mark = (options.mark or " ").encode("ascii")
        has_pieces = options.piece_bytes is not None
        write = make_writer(style, algorithms, has_pieces=has_pieces, end=self._end, mark=mark)
        if style is Style.HASHDEEP:
            self._lines.put(_write_header(algorithms))
        files = unreadable = bytes_read = 0
        for result in sum_files(
            self._find_files(), algorithms, piece_bytes=options.piece_bytes, jobs=options.jobs, idle=self._lines.flush
        ):
            if result.error is not None:
                unreadable += 1
                self._fail_to_read(result.path, result.error)
            else:
                files += 1
                bytes_read += result.size_bytes
                self._lines.put(write(result))
        self._summarise("sum", {"files": files, "unreadable": unreadable, "bytes_read": bytes_read})

    def _find_algorithms(self) -> tuple[Algorithm, ...]:
        return self._wanted or ((MD5, SHA256) if self._options.style == "hashdeep" else (MD5,))

    def _find_style(self, algorithms: tuple[Algorithm, ...]) -> Style:
        if self._output.is_json:
            return Style.OBJECTS
        if self._options.style is not None:
            return Style(self._options.style)
        # xxhsum 0.8.1 neither writes nor reads any other form of XXH3, and later ones read this one.
        is_tagged = len(algorithms) > 1 or (algorithms == (XXH3,) and self._options.mark is None)
        return Style.BSD if is_tagged else Style.GNU

    def _summarise(self, job: str, counts: dict[str, int]) -> None:
        if self._output.is_json:
            self._lines.put(write_object("summary", {"job": job, **counts}))

    # Checks

    def _check(self, name: bytes, manifest: Manifest, label: str) -> None:
        options = self._options
        told = options.told or ("quiet" if self._output.is_quiet else None)
        tally, spelled = CheckTally(ignores_missing=options.ignores_missing), OtherSpellings()
        for event in check(manifest, name=name, is_stdin=name == STDIN, jobs=options.jobs, idle=self._lines.flush):
            if isinstance(event, Checked) and event.found_as is not None:
                spelled.add(event.path, event.found_as)
            self._tell_checked(event, told, label, is_counted=tally.add(event))
        interpreted = (*manifest.describe(), *spelled.describe()) if told in (None, "warn") else ()
        for text in (*interpreted, *(manifest.algorithms.describe_unknown() if told != "status" else ())):
            self._complain(f"{label}: {text}")
        self._is_good &= tally.is_good(is_strict=options.is_strict)
        self._is_complete &= not tally.counts["unknown"]
        self._tell_tally(tally, told, label)

    def _tell_checked(self, event: Checked | BadLine, told: str | None, label: str, *, is_counted: bool) -> None:
        if isinstance(event, BadLine):
            if told == "warn":
                algorithms = self._find_meant(event)
                tag = "/".join(algorithm.tag.decode("ascii") for algorithm in algorithms)
                self._complain(f"{label}: {event.line}: improperly formatted {tag} checksum line")
            return
        if not is_counted:
            return
        if event.error is not None:
            self._complain(f"{quote_name(event.path)}: {_explain(event.error)}")
        if self._output.is_json:
            message = _explain(event.error) if event.error is not None else None
            is_ok = event.verdict is LineVerdict.OK
            fields = {"ok": is_ok, "verdict": event.verdict.value, "message": message}
            self._lines.put(write_object("check", fields, event.path))
        elif told != "status" and not (told == "quiet" and event.verdict is LineVerdict.OK):
            self._lines.put(write_checked(event.path, event.verdict))

    def _find_meant(self, bad: BadLine) -> tuple[Algorithm, ...]:
        """Return the algorithm of a malformed line, among those that were asked for; MD5 if nothing shows it."""
        meant = () if bad.algorithm is None else (bad.algorithm,)
        if self._wanted and not set(meant) <= set(self._wanted):
            return self._wanted
        return meant or self._wanted or (MD5,)

    def _tell_tally(self, tally: CheckTally, told: str | None, label: str) -> None:
        """Print the end of a manifest, in the words and the order of md5sum."""
        if not tally.has_entries:
            self._complain(f"{label}: no properly formatted checksum lines found")
        elif told != "status":
            for count, words in (
                (tally.counts["bad_lines"], ("line is improperly formatted", "lines are improperly formatted")),
                (tally.counts["unreadable"], ("listed file could not be read", "listed files could not be read")),
                (tally.counts["failed"], ("computed checksum did NOT match", "computed checksums did NOT match")),
            ):
                if count:
                    self._complain(f"WARNING: {count} {words[count != 1]}")
            if tally.ignores_missing and not (tally.counts["ok"] or tally.counts["unknown"]):
                self._complain(f"{label}: no file was verified")
        names = ("ok", "failed", "unreadable", "missing", "unknown", "bad_lines")
        self._summarise("check", {name: tally.counts[name] for name in names})

    def _read_list(self, name: bytes, work: Callable[[bytes, Manifest, str], None]) -> None:
        """Do some work on a list, which gets its name for people, too; say why if it can't be read."""
        label = quote_name(b"standard input" if name == STDIN else name)
        try:
            with nullcontext(sys.stdin.buffer) if name == STDIN else open(name, "rb") as stream:
                work(name, Manifest(stream, name=name, wanted=self._wanted, is_zero=self._options.is_zero), label)
        except BrokenPipeError:
            raise  # of our output, not of the list
        except OSError as error:
            self._is_good = False
            self._complain(f"{label}: {_explain(error)}")

    # Match and audit

    def _compare(self) -> None:
        known = ManifestFiles()

        def add(name: bytes, manifest: Manifest, label: str) -> None:
            if not known.add(manifest, name):
                self._is_good = False
                self._complain(f"{label}: no properly formatted checksum lines found")

        for name in self._options.known:
            self._read_list(name, add)
        if known.bad_lines:
            words = "line is" if known.bad_lines == 1 else "lines are"
            self._complain(f"WARNING: {known.bad_lines} {words} improperly formatted")
        if not self._is_good:
            return  # what is not known would be told of files that perhaps are
        if self._options.audits:
            self._audit(known)
        else:
            self._match(known)

    def _match(self, known: ManifestFiles) -> None:
        wants_known = bool(self._options.matches)
        write = self._find_match_writer(known.algorithms)
        count = 0
        for result in match(
            known, self._find_files(), wants_known=wants_known, jobs=self._options.jobs, idle=self._lines.flush
        ):
            if result.error is not None:
                self._fail_to_read(result.path, result.error)
                continue
            count += 1
            if self._output.is_json:
                self._lines.put(write_object("match", {"known": wants_known}, result.path))
            else:
                self._lines.put(write(result))
        self._summarise("match", {"files": count})

    def _find_match_writer(self, algorithms: tuple[Algorithm, ...]) -> Write:
        """Choose what writes a file that matches, or does not: its name, or its digests if a style was asked for."""
        if self._options.style is None or self._output.is_json:
            return lambda result: write_name(result.path, end=self._end)
        style = Style(self._options.style)
        if style is Style.GNU and len(algorithms) > 1:
            raise click.UsageError(ONE_ALGORITHM)
        if style is Style.HASHDEEP:
            self._lines.put(_write_header(algorithms))
        return make_writer(style, algorithms, has_pieces=False, end=self._end)

    def _audit(self, known: ManifestFiles) -> None:
        counts: Counter[AuditState] = Counter()
        for event in audit(known, self._find_files(), jobs=self._options.jobs, idle=self._lines.flush):
            counts[event.state] += 1
            self._tell_audited(event)
        passed = self._is_good and counts.total() == counts[AuditState.MATCHED]
        self._is_good = passed
        if not self._output.is_json and not (passed and self._output.is_quiet):
            self._lines.put(b"integrity sum: Audit %s\n" % (b"passed" if passed else b"failed"))
            for state, words in _COUNTED:
                if counts[state] or state is not AuditState.UNREADABLE:
                    self._lines.put(f"{words:>23}: {counts[state]}\n".encode())
        self._summarise("audit", {state.value: counts[state] for state in AuditState})

    def _tell_audited(self, event: Audited) -> None:
        if event.error is not None:
            self._complain(f"{quote_name(event.path)}: {_explain(event.error)}")
        if self._output.is_json:
            origin = path_fields("origin", event.origin) if event.origin is not None else {}
            self._lines.put(write_object("audit", {"state": event.state.value, **origin}, event.path))
        elif event.state is not AuditState.MATCHED or self._output.verbosity:
            self._lines.put(write_audited(event))


_COUNTED = (
    (AuditState.MATCHED, "Files matched"),
    (AuditState.MOVED, "Files moved"),
    (AuditState.NEW, "New files found"),
    (AuditState.MISSING, "Known files not found"),
    (AuditState.UNREADABLE, "Files not read"),
)


def _find_wanted(options: SumOptions) -> tuple[Algorithm, ...]:
    """Return the algorithms that were asked for; to read digests, one of several lengths means all of these."""
    is_reading = options.is_check or bool(options.known)
    wanted = {
        one
        for word in options.chosen
        for one in ((BY_NAME[word],) if word in BY_NAME and not is_reading else find_by_word(word))
    }
    return tuple(one for one in CHOICES if one in wanted)


def _explain(error: OSError) -> str:
    return os.strerror(error.errno) if error.errno else str(error)


def _write_header(algorithms: tuple[Algorithm, ...]) -> bytes:
    words = [os.fsencode(shell_word(word)) for word in sys.argv[1:]]
    command = b" ".join([b"integrity", *words])
    return write_hashdeep_header(algorithms, os.getcwdb(), command, is_root=os.geteuid() == 0)
