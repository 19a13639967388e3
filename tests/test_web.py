"""Servers that are slow, send too much, or send other data than they announce."""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from firmwright import web

Answer = Callable[[BaseHTTPRequestHandler], None]


@contextmanager
def serve(answer: Answer) -> Iterator[str]:
    """Yield the address of a server that answers every request in one way."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer(self)

        def log_message(self, *_: object) -> None:
            """Write no log."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/file"
        server.shutdown()


def send(status: int, body: bytes, **headers: object) -> Answer:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        for name, value in ({"Content-Length": len(body)} | headers).items():
            handler.send_header(name.replace("_", "-"), str(value))
        handler.end_headers()
        handler.wfile.write(body)

    return answer


def refusal(address: AbstractContextManager[str], most: int = 100) -> str:
    with address as url, pytest.raises(web.WebError) as raised:
        web.download(web.open_session(), url, most)
    return str(raised.value)


def send_for_ever(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.end_headers()
    while True:
        handler.wfile.write(bytes(1000))


def send_slowly(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.end_headers()
    for _ in range(200):
        handler.wfile.write(b"x")
        time.sleep(0.05)


def hang_up(handler: BaseHTTPRequestHandler) -> None:
    handler.wfile.write(b"rubbish")


def test_a_file_comes_as_it_is() -> None:
    with serve(send(200, b"\x1f\x8bpacked", Content_Encoding="gzip")) as url:
        assert web.download(web.open_session(), url, 100) == b"\x1f\x8bpacked"


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (send(200, bytes(101)), "sends more than 100 bytes"),
        (send_for_ever, "sends more than 100 bytes"),
        (send(200, b"abc", Content_Length=50), "does not answer|sent 3 of 50 bytes"),
        (send(404, b""), "answers 404 Not Found"),
        (send(302, b"", Location="file:///etc/passwd"), "does not answer"),
        (send(302, b"", Location="/file"), r"does not answer \(TooManyRedirects\)"),
        (hang_up, "does not answer"),
    ],
)
def test_other_answers_are_told(answer: Answer, message: str) -> None:
    assert re.search(message, refusal(serve(answer)))


def test_a_server_that_sends_a_byte_now_and_then_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web, "PACE", web.Pace(patience=0.2))
    assert "less than 1,024 bytes a second" in refusal(serve(send_slowly), 1000)


def test_a_server_that_says_nothing_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web, "PACE", web.Pace(next=0.2))
    assert "does not answer (ReadTimeout)" in refusal(serve(lambda _: time.sleep(1)))
    assert "does not answer (Connection refused)" in refusal(closed())


@contextmanager
def closed() -> Iterator[str]:
    """Yield the address of a port that does not listen and that no other program can bind."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{bound.getsockname()[1]}/file"
