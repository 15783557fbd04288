"""
A client of the control socket that means harm, as a program of its own: ``hostile.py SHAPE SOCKET``.

Its standard input is the line of a request. It prints ``ready`` once it has all the connections it wants, or after a
second of trying, and goes on until it is killed: it reads nothing, and opens a connection anew whenever it loses one.
"""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Callable, Iterator

_WANTED = 1000
_CHUNK = 1 << 16


def repeat(line: bytes) -> Callable[[], Iterator[bytes]]:
    """Return what sends the same line again and again."""

    def send() -> Iterator[bytes]:
        block = line * max(1, _CHUNK // len(line))
        while True:
            yield block

    return send


def once(data: bytes) -> Callable[[], Iterator[bytes]]:
    """Return what sends something once, and nothing more."""
    return lambda: iter((data,) if data else ())


def trickle(first: bytes) -> Callable[[], Iterator[bytes]]:
    """Return what sends a block and then single bytes, none of which ends a line."""

    def send() -> Iterator[bytes]:
        yield first
        while True:
            yield b"x"

    return send


def make_shape(shape: str, line: bytes) -> Callable[[], Iterator[bytes]]:
    """Return what makes the data that one connection sends."""
    return {
        "silent": once(b""),
        "half": once(line[:20]),
        "once": once(line),
        "repeats": repeat(line),
        "endless": repeat(b"x" * _CHUNK),
        "trickles": trickle(b"x" * ((1 << 20) - 2 * _CHUNK)),
        "storm": once(b""),
    }[shape]


class Client:
    """One connection that never reads."""

    def __init__(self, connected: socket.socket, data: Iterator[bytes]) -> None:
        self.socket, self._data, self._rest = connected, data, b""

    def push(self) -> bool:
        """Send as much as is taken, but not for ever; False once the other end has gone."""
        try:
            for _ in range(4):
                self._rest = self._rest or next(self._data, b"")
                if not self._rest:
                    break
                self._rest = self._rest[self.socket.send(self._rest) :]
            return bool(self.socket.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) or self._rest)
        except BlockingIOError:
            return True
        except OSError:
            return False


def connect(path: str) -> socket.socket | None:
    """Connect without waiting; None if there is no room."""
    connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connected.setblocking(False)
    try:
        connected.connect(path)
    except OSError:
        connected.close()
        return None
    return connected


def attack(shape: str, path: str, line: bytes) -> None:
    """Do harm until killed."""
    make_data = make_shape(shape, line)
    clients: list[Client] = []
    began, is_ready = time.monotonic(), False
    while True:
        for _ in range(100):
            if len(clients) < _WANTED and (connected := connect(path)) is not None:
                clients.append(Client(connected, make_data()))
        kept = [client for client in clients if shape != "storm" and client.push()]
        for client in set(clients).difference(kept):
            client.socket.close()
        clients = kept
        if not is_ready and (len(clients) >= _WANTED or time.monotonic() - began > 1):
            is_ready = True
            print("ready", flush=True)


if __name__ == "__main__":
    attack(sys.argv[1], sys.argv[2], sys.stdin.buffer.read())
