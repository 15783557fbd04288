"""What a run's end says: its numbers add up, and "all is well" is said of nothing that is not."""

from __future__ import annotations

import re
from dataclasses import fields, replace

from hypothesis import given
from hypothesis import strategies as st

from integrity.catalog.runs import RunRecord
from integrity.cli.output import Output
from integrity.jobs.report import Compared, Summary
from integrity.model import Job, Outcome, RootId, RunCounts, RunId, Tally
from integrity.views.runs import describe_root_run, describe_summary

numbers = st.one_of(st.just(0), st.integers(0, 50_000))
all_counts = st.builds(RunCounts, **{one.name: numbers for one in fields(RunCounts)})


def describe(job: Job, outcome: Outcome, counts: RunCounts, compared: Compared | None = None) -> list[str]:
    """Write the end of a run."""
    summary = Summary(
        job=job,
        started_at=0,
        finished_at=0,
        outcome=outcome,
        counts=counts,
        duration_s=0.0,
        has_integrity_problem=outcome is Outcome.FINDINGS,
        is_incomplete=outcome is Outcome.INCOMPLETE,
        compared=compared,
    )
    return list(describe_summary(summary, Output()))


@given(st.sampled_from([Job.SCAN, Job.SCRUB]), st.sampled_from(Outcome), all_counts)
def test_all_is_well_is_said_only_if_nothing_is_open(job: Job, outcome: Outcome, counts: RunCounts) -> None:
    """Whatever the exit code is: a scan does not answer for what was found before, nor does it call it well."""
    headline, *_ = describe(job, outcome, counts)
    is_wrong = counts.damaged or counts.unreadable or counts.unstable or counts.findings_open

    assert ("all is well" in headline) is (outcome is Outcome.CLEAN and not is_wrong)


@given(all_counts)
def test_numbers_add_up(counts: RunCounts) -> None:
    """The number of files is the sum of what is said of them, each tally named; what was skipped is told beside it."""
    _, line, *_ = describe(Job.SCRUB, Outcome.CLEAN, counts)
    files, *parts = [int(number.replace(",", "")) for number in re.findall(r"[\d,]*\d", re.sub(r" \(.*?\)", "", line))]

    assert files == counts.known - counts.skipped
    assert sum(parts) == counts.known == sum(getattr(counts, tally.value) for tally in Tally)


def test_backup_that_was_only_listed_is_not_called_well() -> None:
    """Sizes and times show that files are there, and nothing about what is in them."""
    counts, compared = RunCounts(not_due=12), Compared("restic", "restic:/repo", listed=12)
    headline, line, *_ = describe(Job.COMPARE, Outcome.CLEAN, counts, compared)

    assert "nothing differs, but some files are known by size and time only" in headline
    assert line == "  12 files: 12 known by size and time only (--read reads the backup)"


def test_files_that_an_interrupted_run_did_not_reach_are_not_called_unchanged_or_not_due() -> None:
    """Nobody looked at them."""
    counts = RunCounts(verified=8, not_due=12)

    assert "  20 files: 8 verified, 12 left for later" in describe(Job.SCRUB, Outcome.INTERRUPTED, counts)
    assert "  20 files: 8 verified, 12 unchanged or not reached" in describe(Job.SCAN, Outcome.INTERRUPTED, counts)
    assert "  20 files: 8 verified, 12 unchanged" in describe(Job.SCAN, Outcome.CLEAN, counts)


def test_status_counts_the_files_that_a_scrub_read() -> None:
    """Those that it left for later belong to no number of bytes."""
    counts = RunCounts(verified=13, not_due=2, bytes_read=130 << 10)
    run = RunRecord(RunId(1), RootId(1), Job.SCRUB, 0, 1, Outcome.CLEAN, 1, 1, counts, 1.0, None)

    assert describe_root_run(run).endswith(", 13 of 15 files, 130 KiB read")


@given(all_counts, all_counts)
def test_counts_of_two_runs_are_added_number_by_number(counts: RunCounts, others: RunCounts) -> None:
    """No number is left out, and the run that is added keeps its own."""
    expected = [getattr(counts, one.name) + getattr(others, one.name) for one in fields(RunCounts)]
    before = replace(others)
    counts += others

    assert expected == [getattr(counts, one.name) for one in fields(RunCounts)]
    assert before == others
