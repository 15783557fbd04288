"""Make the rows of any table."""

from __future__ import annotations

from integrity.jobs.bench.algorithms import measure_algorithms
from integrity.jobs.bench.lanes import measure_lanes
from integrity.jobs.bench.large import measure_large
from integrity.jobs.bench.objects import measure_objects
from integrity.jobs.bench.python import measure_python
from integrity.jobs.bench.rows import Row, Table
from integrity.jobs.bench.tools import measure_tools
from integrity.jobs.bench.workspace import Workspace

_MEASURES = {
    Table.LARGE: measure_large,
    Table.OBJECTS: measure_objects,
    Table.TOOLS: measure_tools,
    Table.ALGORITHMS: measure_algorithms,
    Table.PYTHON: measure_python,
    Table.LANES: measure_lanes,
}


def measure_table(table: Table, workspace: Workspace) -> list[Row]:
    """
    Measure one table, which takes from a second to, with a large file, minutes.

    What can't be measured here, a tool that is missing, say, has a row that says why.
    """
    return _MEASURES[table](workspace)
