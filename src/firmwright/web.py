"""What comes from servers: with a limit of bytes, and of patience."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from firmwright.errors import UserError
from firmwright.progress import BYTES, report

if TYPE_CHECKING:
    from requests import PreparedRequest, Response, Session


@dataclass(frozen=True)
class Pace:
    """How slow a server may be. One that sends a byte a minute would never end.

    Seconds to wait for a ``connection``, and for the ``next`` bytes. After ``patience`` seconds an
    answer has to come at ``rate`` bytes a second from its begin on, or faster.
    """

    connection: float = 10.0
    next: float = 60.0
    patience: float = 60.0
    rate: int = 1024


PACE = Pace()
"""Of downloads, which nothing else can give."""
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
    pace: Pace | None = None,
) -> tuple[Response, bytes]:
    """Return a server's answer and its body, of at most so many bytes; WebError without one.

    ``sign`` changes a request before it is sent; without it, the passwords of ``~/.netrc`` count.
    """
    import requests
    import urllib3

    pace = pace or PACE
    try:
        with session.request(
            method, url, data=data, headers=headers, auth=sign, stream=True,
            timeout=(pace.connection, pace.next),
        ) as answer:  # fmt: skip
            return answer, read_body(answer, most, pace)
    except (requests.RequestException, urllib3.exceptions.HTTPError, OSError, ValueError) as error:
        raise WebError(describe(error)) from None


def download(
    session: Session, url: str, most: int = LARGEST_FILE, pace: Pace | None = None
) -> bytes:
    """Return what a server has at an address; WebError for more, or for any other answer."""
    answer, body = ask(session, "GET", url, most, pace=pace)
    if answer.status_code != 200:
        raise refuse(answer)
    return body


def refuse(answer: Response, reason: str = "") -> WebError:
    """Return the error for an answer; ``reason`` is what the server says more than a number."""
    said = f"the server answers {answer.status_code} {reason or answer.reason or ''}".rstrip()
    return WebError(said, answer.status_code)


def read_body(answer: Response, most: int, pace: Pace) -> bytes:
    """Return the bytes that follow an answer's head; WebError for too many, or too slow ones."""
    stated = answer.headers.get("Content-Length", "")
    total = int(stated) if stated.isdecimal() else 0
    body = bytearray()
    begin = time.monotonic()
    while part := answer.raw.read1(CHUNK_BYTES, decode_content=False):
        body += part
        if max(total, len(body)) > most:
            raise WebError(f"the server sends more than {most:,} bytes")
        if len(body) < pace.rate * (time.monotonic() - begin - pace.patience):
            raise WebError(f"the server sends less than {pace.rate:,} bytes a second")
        report(BYTES, len(body), total)
    if len(body) < total and answer.request.method != "HEAD":
        raise WebError(f"the server sent {len(body):,} of {total:,} bytes")
    return bytes(body)


def describe(error: BaseException) -> str:
    """Say that there is no answer, or no whole one, and what the system says of the connection.

    The libraries put a page around that.
    """
    from http.client import IncompleteRead

    cut = next((each for each in error.args if isinstance(each, IncompleteRead)), None)
    if cut is not None and cut.expected is not None:
        sent = cut.partial if isinstance(cut.partial, int) else len(cut.partial)
        return f"the server sent {sent:,} of {sent + cut.expected:,} bytes"
    found = re.search(r"\[Errno -?\d+\] ([^'\")]+)", str(error))
    return f"the server does not answer ({found[1] if found else type(error).__name__})"
