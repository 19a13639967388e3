"""What comes from servers: with a limit of bytes, and of patience."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from firmwright.errors import UserError
from firmwright.progress import BYTES, report

if TYPE_CHECKING:
    from requests import PreparedRequest, Response, Session

TIMEOUT = (10.0, 60.0)
"""Seconds to wait for a connection, and for the next bytes."""
PATIENCE = 60.0
"""Seconds after which an answer has to come at ``LEAST_RATE`` from its begin on, or faster."""
LEAST_RATE = 1024
"""Bytes a second. A server that sends one byte a minute would never end."""
LARGEST_FILE = 2 * 1024**3
"""Bytes; files of models have 32-bit offsets."""
CHUNK_BYTES = 1 << 20


class WebError(UserError):
    """What a server did not do, without its address. ``status`` is its answer's code, or 0."""

    def __init__(self, message: str, status: int = 0) -> None:
        self.status = status
        super().__init__(message)


def open_session() -> Session:
    """Return a session in which answers come as they are: a compressed one has no known end."""
    import requests

    session = requests.Session()
    session.max_redirects = 10
    session.headers["Accept-Encoding"] = "identity"
    return session


def ask(
    session: Session,
    method: str,
    url: str,
    most: int,
    data: bytes | None = None,
    headers: Mapping[str, str] | None = None,
    sign: Callable[[PreparedRequest], PreparedRequest] | None = None,
) -> tuple[Response, bytes]:
    """Return a server's answer and its body, of at most so many bytes; WebError without one.

    ``sign`` changes a request before it is sent; without it, the passwords of ``~/.netrc`` count.
    """
    import requests
    import urllib3

    try:
        with session.request(
            method, url, data=data, headers=headers, auth=sign, timeout=TIMEOUT, stream=True
        ) as answer:
            return answer, read_body(answer, most)
    except (requests.RequestException, urllib3.exceptions.HTTPError, OSError, ValueError) as error:
        raise WebError(describe(error)) from None


def download(session: Session, url: str, most: int = LARGEST_FILE) -> bytes:
    """Return what a server has at an address; WebError for more, or for any other answer."""
    answer, body = ask(session, "GET", url, most)
    if answer.status_code != 200:
        raise refuse(answer)
    return body


def refuse(answer: Response, reason: str = "") -> WebError:
    """Return the error for an answer; ``reason`` is what the server says more than a number."""
    said = f"the server answers {answer.status_code} {reason or answer.reason or ''}".rstrip()
    return WebError(said, answer.status_code)


def read_body(answer: Response, most: int) -> bytes:
    """Return the bytes that follow an answer's head; WebError for too many, or too slow ones."""
    stated = answer.headers.get("Content-Length", "")
    total = int(stated) if stated.isdecimal() else 0
    body = bytearray()
    begin = time.monotonic()
    while part := answer.raw.read1(CHUNK_BYTES, decode_content=False):
        body += part
        if max(total, len(body)) > most:
            raise WebError(f"the server sends more than {most:,} bytes")
        if len(body) < LEAST_RATE * (time.monotonic() - begin - PATIENCE):
            raise WebError(f"the server sends less than {LEAST_RATE:,} bytes a second")
        report(BYTES, len(body), total)
    if len(body) < total and answer.request.method != "HEAD":
        raise WebError(f"the server sent {len(body):,} of {total:,} bytes")
    return bytes(body)


def describe(error: BaseException) -> str:
    """Say that there is no answer, and what the system says of the connection.

    The libraries put a page around that.
    """
    found = re.search(r"\[Errno -?\d+\] ([^'\")]+)", str(error))
    return f"the server does not answer ({found[1] if found else type(error).__name__})"
