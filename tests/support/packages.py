"""Python packages that are not installed, as far as the program under test can see."""

from __future__ import annotations

import os
from pathlib import Path


def hide_package(folder: Path, name: str) -> dict[str, str]:
    """Make an environment in which importing a package fails as if it were not there."""
    hidden = folder / "hidden"
    hidden.mkdir()
    text = f"raise ModuleNotFoundError(\"No module named '{name}'\", name='{name}')\n"
    (hidden / f"{name}.py").write_text(text, encoding="utf-8")
    others = os.environ.get("PYTHONPATH")
    return {"PYTHONPATH": os.pathsep.join([str(hidden), *([others] if others else [])])}
