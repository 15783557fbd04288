"""What the page asks the service, and how long it waits for one that does not answer."""

from __future__ import annotations

import os
import socket
import threading
from pathlib import Path

import pytest

from integrity.catalog.connection import Catalog
from integrity.web.site import Site
from support.servers import free_port

VIEWERS = 6


def test_viewers_share_a_question_that_gets_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A service that hangs is asked once for all of them, so that they do not hold every thread of the page."""
    runtime = tmp_path / "run"
    (runtime / "integrity").mkdir(parents=True, mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    catalog = bytes(tmp_path / "catalog.db")
    Catalog.create(catalog).close()
    config = tmp_path / "integrity.toml"
    config.write_text(f'[web]\nlisten = "127.0.0.1:{free_port()}"\n')
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(runtime / "integrity" / "control.sock"))
        silent.listen(VIEWERS)
        silent.setblocking(False)
        os.symlink(runtime / "integrity" / "control.sock", catalog + b".control")
        site = Site(bytes(config), catalog)
        viewers = [threading.Thread(target=site.find_live) for _ in range(VIEWERS)]
        for one in viewers:
            one.start()
        for one in viewers:
            one.join()
        asked = 0
        try:
            while True:
                silent.accept()[0].close()
                asked += 1
        except BlockingIOError:
            pass

    assert 1 == asked
