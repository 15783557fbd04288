"""
Print how large the program is: `python tests/drift/size.py [FOLDER ...]`, below daemon/integrity if no folder is given.

A line of code has a token that belongs to no docstring, comment or import. A function is used once if its name stands
in the package twice: where it is defined, and once more.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_PACKAGE = Path(__file__).parents[2] / "daemon" / "integrity"
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_LAYOUT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
_LONGEST_SHOWN = 5


class Function(NamedTuple):
    """A function, and how many lines it has, with its docstring."""

    lines: int
    name: str
    place: str


def find_code_lines(text: str, tree: ast.Module) -> set[int]:
    """Return the numbers of the lines that have code."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _LAYOUT:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(tree):
        is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if is_text or isinstance(node, ast.Import | ast.ImportFrom):
            lines.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return lines


def find_functions(tree: ast.Module, place: str) -> Iterator[Function]:
    """Yield all functions and methods."""
    for node in ast.walk(tree):
        if isinstance(node, _DEFINITIONS):
            first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
            yield Function((node.end_lineno or first) - first + 1, node.name, f"{place}:{node.lineno}")


def measure(folders: list[Path]) -> dict[str, str]:
    """Return the figures by their names."""
    names = Counter(name for path in _PACKAGE.rglob("*.py") for name in re.findall(r"\w+", path.read_text("utf-8")))
    files = sorted({path for folder in folders for path in ([folder] if folder.is_file() else folder.rglob("*.py"))})
    code = whole = classes = 0
    functions: list[Function] = []
    for path in files:
        text = path.read_text("utf-8")
        tree = ast.parse(text)
        code, whole = code + len(find_code_lines(text, tree)), whole + text.count("\n")
        classes += sum(isinstance(node, ast.ClassDef) for node in ast.walk(tree))
        functions += find_functions(tree, str(path.relative_to(_PACKAGE)))
    once = [one for one in functions if names[one.name] == 2]
    longest = sorted(functions, reverse=True)[:_LONGEST_SHOWN]
    return {
        "lines of code": f"{code:,}",
        "lines of all kinds": f"{whole:,}",
        "modules": f"{len(files):,}",
        "functions": f"{len(functions):,}",
        "functions per 1,000 lines of code": f"{1000 * len(functions) / max(code, 1):.0f}",
        "classes": f"{classes:,}",
        "functions used once": f"{len(once):,}",
        "lines of functions used once": f"{sum(one.lines for one in once):,}",
        "longest functions": ", ".join(f"{one.lines} {one.name} ({one.place})" for one in longest),
    }


if __name__ == "__main__":
    for title, value in measure([Path(argument).resolve() for argument in sys.argv[1:]] or [_PACKAGE]).items():
        print(f"{title:<34} {value}")
