"""A server on this machine that changes its answers at random, as the case decides."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.hammer.mutators import Vocabulary, mutate_bytes, mutate_json

STATUSES = (100, 200, 201, 204, 206, 301, 302, 304, 307, 401, 403, 404, 416, 429, 500, 503, 999)
HEADERS = (
    ("Content-Length", ("0", "-1", "5", "99999999999", "x", "")),
    ("Content-Type", ("", "text/html", "application/json", "\x1b[2J")),
    ("Content-Encoding", ("gzip", "br", "identity, x")),
    ("Transfer-Encoding", ("chunked", "x")),
    ("Location", ("", "/", "//", "file:///etc/passwd", "http://[", "http://127.0.0.1:9/")),
    ("Link", ('<>; rel="next"', '</v2/x?n=1>; rel="next"', "<", "\x1b[2J")),
    ("WWW-Authenticate", ("", "Basic", "Bearer", 'Bearer realm="file:///"', 'Bearer realm="http://['
                          '"', "Bearer realm=http://127.0.0.1:9/t,service=\x1b[2J")),
    ("OCI-Subject", ("x",)),
)  # fmt: skip
REASONS = ("OK", "", "\x1b[2J\x9b2J", "\u202e".encode().decode("latin-1"), "a" * 5000)


@dataclass
class Answers:
    """Bodies by path; ``content`` has the media type of each. One in four answers is changed."""

    bodies: Mapping[str, bytes]
    types: Mapping[str, str] = field(default_factory=dict)
    known: Vocabulary = field(default_factory=lambda: Vocabulary((), (), ({},)))

    @contextmanager
    def serve(self, draw: random.Random) -> Iterator[str]:
        """Yield the host and port of the server."""
        answers = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.wfile.write(answers.make(self.path, draw))
                self.close_connection = True

            do_HEAD = do_PUT = do_POST = do_GET  # noqa: N815

            def log_message(self, *_: object) -> None:
                """Write no log."""

        with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            server.daemon_threads = True
            threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
            yield f"127.0.0.1:{server.server_port}"
            server.shutdown()

    def make(self, path: str, draw: random.Random) -> bytes:
        """Return an answer as the bytes that are sent."""
        body = self.bodies.get(path.partition("?")[0])
        status, reason = (404, "Not Found") if body is None else (200, "OK")
        body = body or b""
        headers: dict[str, Any] = {"Content-Type": self.types.get(path, "")}
        if draw.randrange(4) == 0:
            change = draw.randrange(5)
            if change == 0:
                status, reason = draw.choice(STATUSES), draw.choice(REASONS)
            elif change == 1:
                name, values = draw.choice(HEADERS)
                headers[name] = draw.choice(values)
            elif change == 2:
                body = mutate_bytes(body, draw)
            elif change == 3:
                body = mutate_json(body, draw, self.known)
            else:
                return mutate_bytes(self.encode(status, reason, headers, body), draw)
        return self.encode(status, reason, headers, body)

    @staticmethod
    def encode(status: int, reason: str, headers: Mapping[str, Any], body: bytes) -> bytes:
        lines = [f"HTTP/1.1 {status} {reason}"]
        headers = {"Content-Length": len(body), "Connection": "close", **headers}
        lines += [f"{name}: {value}" for name, value in headers.items()]
        return "\r\n".join([*lines, "", ""]).encode("latin-1", "replace") + body
