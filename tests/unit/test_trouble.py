"""The service forgets a catalog that can't be written only when a job was recorded in it."""

from __future__ import annotations

import pytest

from integrity.errors import AppError, CatalogError, CatalogLocked, ConfigError, RecordSuperseded, RootSuspended
from integrity.jobs.report import Summary
from integrity.model import Job
from integrity.service.control.requests import interrupted, nothing_done
from integrity.service.daemon import find_trouble

FULL = "catalog.db: the disk is full; free space there"
RECORDED = nothing_done(Job.SCAN, 0)._replace(duration_s=0.01)


@pytest.mark.parametrize(
    "result",
    [
        ConfigError("/nowhere: is not there"),
        RootSuspended("/srv: is not mounted"),
        CatalogLocked("another job works on the root"),
        RecordSuperseded("the file was recorded anew"),
        nothing_done(Job.SCRUB, 0),
        interrupted(Job.SCAN, 0),
    ],
)
def test_result_that_proves_nothing_changes_nothing(result: Summary | AppError) -> None:
    """Neither is a known error forgotten, nor does one begin."""
    assert FULL == find_trouble(FULL, result)
    assert "" == find_trouble("", result)


def test_run_that_was_recorded_ends_the_trouble() -> None:
    """Also one that was stopped: its end was written."""
    assert "" == find_trouble(FULL, RECORDED)
    assert "" == find_trouble(FULL, interrupted(Job.SCRUB, 0)._replace(duration_s=0.01))


def test_error_of_the_catalog_takes_the_place_of_the_former() -> None:
    """What can be read in the status is the newest."""
    assert FULL == find_trouble("", CatalogError(FULL))
    assert FULL == find_trouble("catalog.db: cannot be opened", CatalogError(FULL))
