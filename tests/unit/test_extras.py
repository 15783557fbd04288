"""Hints about missing packages: each fits how the program was installed, and none names a stranger's package."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import venv
from pathlib import Path

from integrity.extras import DISTRIBUTION, how_to_install

ROOT = Path(__file__).parents[2]
_STRANGERS = re.compile(r"pip install[^\n&;|)`]*(?<![/.\w])integrity(?!-nas|\.|/)\b|['\"`]integrity\[")
_HINT = "from integrity.extras import how_to_install; print(how_to_install('web'))"


def test_no_text_names_the_distribution_of_another_author() -> None:
    """Neither the source nor the documents, nor what the tests say is printed."""
    places = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "pyproject.toml"]
    for folder in ("daemon", "docs", "systemd", "packaging", "tests/output"):
        places += [
            path for path in (ROOT / folder).rglob("*") if path.is_file() and path.suffix not in (".pyc", ".png")
        ]

    found = {path: match[0] for path in places if (match := _STRANGERS.search(path.read_text(errors="replace")))}

    assert not found
    assert _STRANGERS.search("pip install 'integrity[s3]'")
    assert not _STRANGERS.search(f"pip install '{DISTRIBUTION}[s3]'")


def test_hint_of_a_checkout_is_a_command_that_pip_takes() -> None:
    """These tests run from one; pip is asked to say what it would do, without a look at any index."""
    command = shlex.split(how_to_install("web").partition("install them: ")[2])

    assert [sys.executable, "-m", "pip", "install"] == command[:4]
    assert command[-1].endswith("[web]")
    assert Path(command[-1].removesuffix("[web]")).samefile(ROOT)


def make_environment(folder: Path, *, with_pip: bool) -> Path:
    """Make an environment that has the source and a distribution's metadata; return where the metadata is."""
    venv.create(folder)
    (packages,) = folder.glob("lib/python*/site-packages")
    if with_pip:
        (packages / "pip").mkdir()  # that it is there is all that counts
    (packages / "integrity").symlink_to(ROOT / "daemon/integrity")
    info = packages / f"{DISTRIBUTION.replace('-', '_')}-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {DISTRIBUTION}\nVersion: 1\n")
    return info


def ask(folder: Path) -> str:
    """Return the hint that an environment gives."""
    done = subprocess.run([folder / "bin/python", "-c", _HINT], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_hint_of_a_wheel_names_the_distribution(tmp_path: Path) -> None:
    """Also where the folder that it was built from is gone."""
    folder = tmp_path / "a b"
    info = make_environment(folder, with_pip=True)
    hints = [ask(folder)]
    for direct_url in (
        '{"url": "file:///none/such", "dir_info": {}}',
        '{"url": "https://example.com/a.whl", "archive_info": {}}',
    ):
        (info / "direct_url.json").write_text(direct_url)
        hints.append(ask(folder))

    assert [f"install them: '{folder}/bin/python' -m pip install 'integrity-nas[web]'"] * 3 == hints


def test_hint_of_a_package_asks_for_no_pip(tmp_path: Path) -> None:
    """The package of a distribution has none."""
    info = make_environment(tmp_path / "package", with_pip=False)
    (info / "direct_url.json").write_text('{"url": "file:///source", "dir_info": {}}')
    hint = ask(tmp_path / "package")

    assert "pip install" not in hint
    assert "a virtual environment of its own, with its extra `web`" in hint
