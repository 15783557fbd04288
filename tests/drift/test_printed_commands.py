"""Commands in messages are written by ``program``, so that they can be typed as they stand on this machine."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "daemon/integrity"
STORED = {"kinds.py", "arbitration.py", "alerts/compose.py", "words/findings.py", "jobs/repair_advice.py"}
"""They write or read commands in the plain form, in which they are stored, and spell them when they are shown."""
HELP = {"cli/params.py", "cli/main.py", "cli/manual.py", "config/definition.py", "cli/sum_run.py"}
"""Help and manual are about the program as it is usually installed; ``integrity sum: `` is the form of md5sum."""
NOT_PRINTED = {"jobs/manifests/exporting.py", "jobs/messages.py"}
"""A header of hashdeep, a message that is stored, the name of a program that is measured."""
OTHER_MACHINES = {"hub/box_checks.py", "hub/alert_words.py"}
"""A hub advises commands for its boxes, where the program is called by its plain name."""
COMMAND = re.compile(
    r"\bintegrity (--(config|catalog)|scan|scrub|compare|repair|status|findings|explain|accept|ack|mute"
    r"|gate|root|forget|sum|catalog|config|service|daemon|web|alert|bench|manual|setup|versions|history"
    r"|inspect) ?(?![a-z]+ )"
)


def find_texts(node: ast.AST) -> Iterator[ast.Constant]:
    """Yield the texts of a module but docstrings, comments behind constants, and examples of help."""
    for child in ast.iter_child_nodes(node):
        is_bare = isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant)
        is_example = isinstance(child, ast.Call) and isinstance(child.func, ast.Name) and child.func.id == "examples"
        if isinstance(child, ast.Constant) and isinstance(child.value, str):
            yield child
        elif not (is_bare or is_example):
            yield from find_texts(child)


def test_commands_are_spelled_for_this_machine() -> None:
    """A plain name would lead to another program, or to another catalog."""
    left_out = STORED | HELP | NOT_PRINTED | OTHER_MACHINES
    modules = {str(path.relative_to(PACKAGE)): path for path in PACKAGE.rglob("*.py")}
    found = [
        f"{name}:{text.lineno}: {text.value}"
        for name, path in modules.items()
        if name not in left_out
        for text in find_texts(ast.parse(path.read_text(encoding="utf-8")))
        if COMMAND.search(str(text.value))
    ]

    assert [] == found
    assert left_out <= modules.keys()
