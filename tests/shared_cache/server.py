"""A server that stores files, like the servers of shared caches."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


class Handler(SimpleHTTPRequestHandler):
    """Serves GET and PUT of files in a folder."""

    def do_PUT(self) -> None:
        path = Path(self.translate_path(self.path))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(201)
        self.end_headers()

    def log_message(self, *_words: object) -> None:
        """Write no log."""


class Refusing(Handler):
    """Serves GET only."""

    def do_PUT(self) -> None:
        self.send_error(403)


class Slow(Handler):
    """Answers late."""

    def do_GET(self) -> None:
        time.sleep(0.2)
        super().do_GET()


class Trickling(Handler):
    """Sends one byte at a time."""

    def copyfile(self, source: Any, outputfile: Any) -> None:
        for byte in source.read():
            outputfile.write(bytes([byte]))
            time.sleep(0.02)


class Stopping(Handler):
    """Closes the connection in the middle of an answer."""

    def copyfile(self, source: Any, outputfile: Any) -> None:
        outputfile.write(source.read()[:10])


@contextmanager
def serve(folder: Path) -> Iterator[ThreadingHTTPServer]:
    """Yield a server of the files in a folder; it listens only on 127.0.0.1."""
    handler = partial(Handler, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield running
        running.shutdown()
