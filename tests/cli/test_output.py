"""Findings, paths and summaries as text and as objects."""

from __future__ import annotations

import base64
import codecs
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from integrity.cli.console import ConsoleReport, NoProgress
from integrity.cli.exitcodes import ExitCode, code_for_kinds, code_for_summary
from integrity.cli.output import Output, printable
from integrity.errors import show_path
from integrity.jobs.report import Note, NoteKind, Summary
from integrity.kinds import KINDS
from integrity.model import (
    Certainty,
    Finding,
    FindingId,
    FindingKind,
    FindingState,
    Job,
    Outcome,
    RunCounts,
)
from integrity.paths import path_fields
from integrity.words.card import write_terminal
from integrity.words.findings import damage, finding_object, gather, list_lines, make_card, next_steps, title

PLAIN = Output(color="never")
NAMES = st.binary(min_size=1, max_size=40).filter(lambda name: b"\0" not in name)


def make_finding(
    kind: FindingKind = FindingKind.ROT, number: int = 12, path: bytes | None = b"a.jpg", message: str = "why"
) -> Finding:
    """Make a finding about one damaged block."""
    return Finding(
        id=FindingId(number),
        kind=kind,
        state=FindingState.OPEN,
        root=b"/data",
        path=path,
        message=message,
        opened_at=1_795_230_840,
        updated_at=1_795_230_840,
        certainty=Certainty.PROVEN if kind is FindingKind.ROT else None,
        blocks=(17,),
        block_size_bytes=1 << 20,
        ranges=((17 << 20, 1 << 20),),
        confirmed_reads=2,
    )


def make_summary(outcome: Outcome = Outcome.CLEAN, *, is_bad: bool = False, is_incomplete: bool = False) -> Summary:
    """Make a summary of a scrub."""
    counts = RunCounts(verified=7, damaged=int(is_bad), bytes_read=1 << 30)
    return Summary(Job.SCRUB, 1_795_230_840, 1_795_230_848, outcome, counts, 7.4, is_bad, is_incomplete)


def read_back(text: str) -> bytes:
    """Turn what ``show_path`` wrote back into the bytes of the name."""
    return codecs.escape_decode(text.encode())[0]  # type: ignore[attr-defined, no-any-return]


@given(NAMES)
def test_shown_paths_can_be_turned_back(name: bytes) -> None:
    """No two names look the same, and none breaks the line or hides anything."""
    shown = show_path(name)

    assert shown.isprintable()
    assert name == read_back(shown)


@given(NAMES)
def test_paths_in_objects_can_be_turned_back(name: bytes) -> None:
    """Text that is UTF-8 stands for itself; beside any other stand the real bytes."""
    fields = json.loads(json.dumps(path_fields("path", name), ensure_ascii=False))

    assert name == (base64.b64decode(fields["path_b64"]) if "path_b64" in fields else fields["path"].encode())


def test_messages_cannot_control_the_terminal() -> None:
    """Whatever a name brings into a message is shown, not obeyed."""
    assert "a\\x1b[2Jb\\nc\\u202e" == printable("a\x1b[2Jb\nc\u202e")


def test_finding_has_the_pinned_fields() -> None:
    """Scripts rely on these names and forms."""
    fields = finding_object(make_finding())

    assert (12, "rot", "proven", "/data/a.jpg", "/data", "open") == tuple(
        fields[name] for name in ("id", "kind", "certainty", "path", "root", "state")
    )
    assert "2026-11-21T03:14:00Z" == fields["opened_at"]
    assert ([17], 1_048_576, [[17_825_792, 1_048_576]], 2) == tuple(
        fields[name] for name in ("blocks", "block_size_bytes", "ranges", "confirmed_reads")
    )
    assert "message" in fields


def test_finding_shows_the_damage_and_what_to_do() -> None:
    """What, where, how sure, and commands to copy."""
    text = "\n".join(write_terminal(make_card((make_finding(),)), PLAIN))

    assert "DAMAGED (bit rot)" in text
    assert "bytes 17,825,792 to 18,874,367" in text
    assert "2 more reads gave the same wrong data" in text
    assert "integrity scrub /data/a.jpg" in text
    assert "integrity accept /data/a.jpg --reason" in text


def test_finding_is_one_line_in_lists() -> None:
    """A name with a line break makes no second line."""
    (line,) = list_lines([(make_finding(path=b"a\nb\x1b"),)])

    assert "/data/a\\nb\\x1b" in line
    assert line.isprintable()


def test_findings_of_one_folder_share_a_line() -> None:
    """A deleted album is one line, below the paths of the others; its numbers are told."""
    album = [make_finding(FindingKind.MISSING, number, b"album/%d.jpg" % number) for number in range(20, 32)]

    alone, group = list_lines(list(gather([make_finding(), *album])))

    assert "20-31" == group.split()[0]
    assert group.endswith("/data/album  12 files")
    assert alone.index("/data/") == group.index("/data/")


def test_numbers_of_a_group_are_those_of_its_files() -> None:
    """Whoever mutes what is listed mutes nothing else: a span ends where a number belongs to another folder."""
    album = [make_finding(FindingKind.MISSING, number, b"album/%d.jpg" % number) for number in range(9, 18)]
    album[5] = make_finding(FindingKind.MISSING, 14, b"other/14.jpg")
    odd = [make_finding(FindingKind.MISSING, number, b"odd/%d.jpg" % number) for number in range(1, 40, 2)]

    lines = list(list_lines(list(gather([*album, *odd]))))
    assert "9-13, 15-17  " in lines[0]
    assert "1, 3 and 18 more  " in lines[2]
    (group, *_) = gather(album)
    assert "[findings 9-13, 15-17]" in next(iter(write_terminal(make_card(group), PLAIN)))


def test_columns_of_a_list_are_as_wide_as_its_headlines() -> None:
    """Whatever is listed, the paths stand below each other, and no word is cut."""
    short = make_finding(path=b"short")
    long = [make_finding(kind, path=b"long") for kind in FindingKind if len(KINDS[kind].headline) > 34]
    assert len(long) >= 2

    for listed in ([short], [short, *long], long):
        lines = list(list_lines([(finding,) for finding in listed]))
        assert 1 == len({line.index("/data/") for line in lines})
        assert all(title(finding) in line for finding, line in zip(listed, lines, strict=True))
    (alone,) = list_lines([(short,)])
    assert f"{title(short)}  /data/short" in alone


def test_many_blocks_are_summed_up() -> None:
    """Neighbours are joined, and a long list ends in a count."""
    finding = make_finding()
    many = finding._replace(ranges=(), blocks=BLOCKS)

    assert "blocks 1-3, 5, 7, 9, 11 and 2 more (counted from 0, 1 MiB each)" == damage(many)


BLOCKS = (1, 2, 3, 5, 7, 9, 11, 13, 15)


@pytest.mark.parametrize("kind", [FindingKind.ROT, FindingKind.MISSING, FindingKind.UNREADABLE])
def test_copy_that_is_known_to_be_good_is_named_instead_of_some_copy(kind: FindingKind) -> None:
    """One way to the good bytes is enough; the others stay."""
    finding = make_finding(kind)
    known = finding._replace(step="put the good bytes back from the copy", command="integrity repair /a --from nightly")
    some, named = ([step.command or "" for step in next_steps(one)] for one in (finding, known))

    assert ["nightly"] == [command.rpartition(" ")[2] for command in named if "repair" in command]
    assert [command for command in some if "COPY" not in command] == named[1:]
    assert len(some) == len(named)


@pytest.mark.parametrize("kind", list(FindingKind))
def test_next_steps_hold_no_unfilled_places(kind: FindingKind) -> None:
    """Every command line is whole, also for names with braces."""
    for step in next_steps(make_finding(kind, path=b"{x} {path}")):
        assert step.command is None or "{root}" not in step.command
        assert step.command is None or "'/data/{x} {path}'" in step.command or "{" not in step.command


@pytest.mark.parametrize("kind", [kind for kind in FindingKind if code_for_kinds({kind}) and "copy" not in kind])
def test_every_problem_says_what_to_do(kind: FindingKind) -> None:
    """Nobody is left alone with a word; watching and copies come later."""
    assert kind is FindingKind.WATCH_BLIND or next_steps(make_finding(kind))


@pytest.mark.parametrize(
    ("summary", "code"),
    [
        (make_summary(), 0),
        (make_summary(Outcome.FINDINGS, is_bad=True), 1),
        (make_summary(Outcome.INCOMPLETE, is_incomplete=True), 3),
        (make_summary(Outcome.FINDINGS, is_bad=True, is_incomplete=True), 1),
        (make_summary(Outcome.INTERRUPTED, is_bad=True, is_incomplete=True), 130),
    ],
)
def test_summaries_have_the_pinned_exit_codes(summary: Summary, code: int) -> None:
    """An interrupted run answers for nothing else."""
    assert code == code_for_summary(summary)


def test_problems_stand_last_above_the_summary(capsys: pytest.CaptureFixture[str]) -> None:
    """What matters is what stays on the screen."""
    report = ConsoleReport(PLAIN, NoProgress())
    report.finding(make_finding())
    report.note(Note(NoteKind.MOVED, b"/data", b"b", "was c"))
    code = report.finish(make_summary(Outcome.FINDINGS, is_bad=True))
    out = capsys.readouterr().out

    assert ExitCode.PROBLEM is code
    assert out.index("moved: /data/b") < out.index("DAMAGED (bit rot)") < out.index("scrub: PROBLEMS FOUND")


def test_a_wave_of_findings_is_cut_off_and_counted(capsys: pytest.CaptureFixture[str]) -> None:
    """Ten thousand findings neither fill the memory nor the screen; nothing is lost from the count."""
    report = ConsoleReport(PLAIN, NoProgress())
    for number in range(1000):
        report.finding(make_finding(number=number, path=b"%d/a.jpg" % number))
        report.note(Note(NoteKind.MOVED, b"/data", b"%d" % number, "was elsewhere"))
    report.finish(make_summary(Outcome.FINDINGS, is_bad=True))
    out = capsys.readouterr().out

    assert "800 more, not shown here; list them all with: integrity findings" in out
    assert "moved: and 990 more (all of them with -v)" in out


def test_gravest_finding_is_last_whatever_came_before(capsys: pytest.CaptureFixture[str]) -> None:
    """Damage that is found among thousands of files that the copy lacks stays, right above the summary."""
    report = ConsoleReport(PLAIN, NoProgress())
    report.finding(make_finding(number=1))
    for number in range(2, 2_000):
        missing = make_finding(FindingKind.COPY_MISSING, number, b"d/%d" % number, f"says {number}")
        report.finding(missing._replace(blocks=(), ranges=(), copy="nightly"))
    report.finish(make_summary(Outcome.FINDINGS, is_bad=True))
    out = capsys.readouterr().out

    assert out.rindex("Missing from the backup") < out.index("DAMAGED (bit rot)") < out.index("scrub: PROBLEMS FOUND")
    assert "1,799 more, not shown here" in out


def test_findings_that_say_the_same_of_a_copy_are_one_entry(capsys: pytest.CaptureFixture[str]) -> None:
    """A backup that did not run is one paragraph with its folders, not a screen for each file."""
    report = ConsoleReport(PLAIN, NoProgress())
    for number in range(1, 41):
        path = b"italy/%d.jpg" % number if number <= 30 else b"%d.jpg" % number
        missing = make_finding(FindingKind.COPY_MISSING, number, path, "does not have it")
        command = f"integrity compare /data/{path.decode()} --with nightly"
        report.finding(missing._replace(blocks=(), ranges=(), copy="nightly", step="back up", command=command))
    report.finish(make_summary(Outcome.FINDINGS, is_bad=True))
    out = capsys.readouterr().out

    assert "40 findings: Missing from the backup, in the copy nightly  /data  [findings 1-40]" in out
    assert "in italy (30), . (10)" in out
    assert "    - back up:  integrity compare /data --with nightly\n" in out
    assert 3 == out.count("such as ")
