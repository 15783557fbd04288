"""
What the page costs: how fast it answers and how much memory it takes with a million files and 2,000 findings.

``python tests/benchmarks/bench_web.py [FOLDER]``; the tree is made in FOLDER (a temporary one; best in memory) and
removed again. Each page is asked for several times, one after the other, and the median is printed, beside that of the
style sheet, which is what the server itself costs.
"""

from __future__ import annotations

import os
import socket
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.cli import Box
from support.service import Service
from support.waiting import wait_until
from support.webpage import WebClient, WebPage, read_memory

FOLDERS, FILES_PER_FOLDER, LARGE_FOLDER, DAMAGED = 9_000, 100, 100_000, 2_000
PLACES = ("/static/style.css", "/", "/findings", "/findings/1", "/browse/1", "/browse/1/large", "/browse/1/0/7/3.txt",
          "/runs", "/copies", "/metrics", "/api/v1/findings?limit=1000")  # fmt: skip
VIEWERS, MINUTE_S, TURNS = 50, 60.0, 5
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class OwnPage(WebPage):
    """A page whose memory is its own."""

    is_shared = False


def main() -> None:
    """Make the tree, damage files, find that, and ask for the pages."""
    with tempfile.TemporaryDirectory(dir=sys.argv[1] if len(sys.argv) > 1 else None) as home:
        box, root = Box(Path(home) / "home"), Path(home) / "root"
        count = make_tree(root)
        toml = f'[[root]]\npath = "{root}"\npolicy = "archive"\n[schedule]\nscrub = "mon 00:00-00:01"\n'
        box.configure(toml)
        box.run("scan", root, expect=0, timeout=3600)
        damage(root)
        box.run("scan", root, timeout=3600)
        print(f"{count:,} files, {len(box.findings('findings')):,} findings")
        with OwnPage(box, toml) as page:
            visitor = page.visitor()
            visitor.get("/")
            visitor.get("/browse/1")
            wait_until(lambda: "are being added up" not in visitor.get("/browse/1").text, "the sums", timeout_s=120)
            for place in PLACES:
                print(f"{place:<32} {1000 * measure(visitor, place):7.1f} ms")
            print(f"memory: {read_memory(page.pid) / (1 << 20):.0f} MiB")
        watch(box, toml)


def make_tree(root: Path) -> int:
    """Make folders with small files, and one with very many."""
    names = [root / str(number // 100) / str(number % 100) for number in range(FOLDERS)]
    for folder in names:
        folder.mkdir(parents=True)
        for number in range(FILES_PER_FOLDER):
            (folder / f"{number}.txt").write_bytes(b"x" * (number % 40 + 1))
    large = root / "large"
    large.mkdir()
    for number in range(LARGE_FOLDER):
        (large / f"{number}.txt").write_bytes(b"y" * (number % 40 + 1))
    return FOLDERS * FILES_PER_FOLDER + LARGE_FOLDER


def damage(root: Path) -> None:
    """Remove files of an archive: each is a finding."""
    for number in range(DAMAGED):
        (root / str(number // 100 % 90) / str(number % 100) / f"{number // 100}.txt").unlink(missing_ok=True)


def measure(visitor: WebClient, place: str) -> float:
    """Return the median of some requests, in seconds."""
    times = []
    for _ in range(TURNS):
        began = time.perf_counter()
        assert 200 == visitor.get(place).status, place
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def watch(box: Box, toml: str) -> None:
    """Measure what viewers of the live page cost the service."""
    with OwnPage(box, toml) as page, Service(box) as service:
        visitor = page.visitor()
        streams: list[socket.socket] = []
        for number in (0, VIEWERS):
            streams += [open_stream(page.port, visitor.cookie) for _ in range(number)]
            print(f"{number} viewers: the service uses {100 * measure_load(service.pid):.2f} % of a core")
        print(f"memory of the page with them: {read_memory(page.pid) / (1 << 20):.0f} MiB")
        for one in streams:
            one.close()
        service.stop()


def measure_load(pid: int) -> float:
    """Return the share of a core that a process uses for a minute."""
    before, began = cpu_s(pid), time.monotonic()
    wait_until(lambda: time.monotonic() - began > MINUTE_S, "a minute", every_s=0.5)
    return (cpu_s(pid) - before) / MINUTE_S


def open_stream(port: int, cookie: str) -> socket.socket:
    """Open what a browser opens to see what runs now."""
    stream = socket.create_connection(("127.0.0.1", port))
    stream.sendall(f"GET /live HTTP/1.1\r\nHost: 127.0.0.1\r\nCookie: {cookie}\r\n\r\n".encode())
    return stream


def cpu_s(pid: int) -> float:
    """Return how much processor time a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S


if __name__ == "__main__":
    main()
