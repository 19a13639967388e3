"""Sends requests to servers, with limits on the size and the duration of answers."""

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
    """The minimum speed of a server, because a server with a byte per minute would never finish.

    ``connection`` and ``next`` are the seconds to wait for a connection and for the next bytes.
    After t seconds, an answer must have at least ``rate`` · (t - ``patience``) bytes.
    """

    connection: float = 10.0
    next: float = 60.0
    patience: float = 60.0
    rate: int = 1024


PACE = Pace()
"""The pace of downloads. This pace accepts slow servers, because the data has no other source."""
LARGEST_FILE = 2 * 1024**3
"""The maximum size of a download in bytes. Model files have 32-bit offsets."""
CHUNK_BYTES = 1 << 20


class WebError(UserError):
    """The error of a server, without the server's address. ``status`` is the HTTP status, or 0."""

    def __init__(self, message: str, status: int = 0) -> None:
        self.status = status
        super().__init__(message)


def open_session() -> Session:
    """Return a session for uncompressed answers, because a compressed answer has no known end."""
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
    """Return a server's answer and its body, of at most ``most`` bytes. Raises WebError on failure.

    ``sign`` changes a request before it is sent. The passwords of ``~/.netrc`` are used if ``sign``
    is None.
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
    """Return the content at a URL.

    Raises WebError if the content is too long, or if the status is not 200.
    """
    answer, body = ask(session, "GET", url, most, pace=pace)
    if answer.status_code != 200:
        raise refuse(answer)
    return body


def refuse(answer: Response, reason: str = "") -> WebError:
    """Return the error about an answer. ``reason`` is the server's explanation, or ''."""
    said = f"the server answers {answer.status_code} {reason or answer.reason or ''}".rstrip()
    return WebError(said, answer.status_code)


def read_body(answer: Response, most: int, pace: Pace) -> bytes:
    """Return the body of an answer.

    Raises WebError if the body is too long, too slow or incomplete.
    """
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
    """Return a message about a missing or incomplete answer, with the system's reason.

    The message has only the reason, because the errors of the libraries have the length of a page.
    """
    from http.client import IncompleteRead

    cut = next((each for each in error.args if isinstance(each, IncompleteRead)), None)
    if cut is not None and cut.expected is not None:
        sent = cut.partial if isinstance(cut.partial, int) else len(cut.partial)
        return f"the server sent {sent:,} of {sent + cut.expected:,} bytes"
    match = re.search(r"\[Errno -?\d+\] ([^'\")]+)", str(error))
    return f"the server does not answer ({match[1] if match else type(error).__name__})"
