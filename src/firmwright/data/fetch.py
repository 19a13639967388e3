"""Finds a model file by its path, by its digest in a mirror folder, or by its URL."""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from firmwright.data.sample_sources import DataFile
from firmwright.errors import UserError, explain_failure

MIRROR_VARIABLE = "FIRMWRIGHT_MIRROR"
SIGNED_VARIABLE = "FIRMWRIGHT_SIGNED_URLS"


class WrongDigestError(UserError):
    """Raised if a file's digest differs from the recipe's digest ``expected``."""

    def __init__(self, shown_as: str, expected: str, digest: str) -> None:
        self.expected = expected
        super().__init__(
            f"{shown_as}: wrong digest\n  expected sha256 {expected}\n  found    sha256 {digest}\n"
            "  fetch the file again or, if it is the right one, state the digest that was found"
        )


def read_model(path: Path, shown_as: str, sha256: str | None) -> bytes:
    """Return the bytes of a local model file.

    The file's digest is checked if the recipe states a digest.
    """
    with explain_failure(f"{shown_as}: cannot read the model"):
        data = path.read_bytes()
    if sha256 is not None:
        check_digest(data, sha256, shown_as)
    return data


def fetch_model(url: str, sha256: str) -> bytes:
    """Return the file with this digest from the first mirror folder that has it, or download it.

    ``FIRMWRIGHT_MIRROR`` lists the mirror folders, separated as in ``PATH``. The content of a
    mirror's file decides, not its name. Raises UserError if the download fails or its digest
    differs.
    """
    data = find_in_mirror(Path(urlsplit(url).path).name, sha256)
    return download(url, sha256, "the model") if data is None else data


def find_in_mirror(likely_name: str, sha256: str) -> bytes | None:
    """Return the bytes of the file with this digest, or None if no mirror folder has it.

    ``FIRMWRIGHT_MIRROR`` lists the folders in order. ``likely_name`` is the first name to try.
    """
    for candidate in list_mirror_files(likely_name):
        data = candidate.read_bytes()
        if hashlib.sha256(data).hexdigest() == sha256:
            return data
    return None


def list_mirror_files(likely_name: str) -> Iterator[Path]:
    """Yield all files of the mirror folders; in each folder, the expected name comes first."""
    for folder in filter(None, os.environ.get(MIRROR_VARIABLE, "").split(os.pathsep)):
        root = Path(folder)
        if not root.is_dir():
            raise UserError(
                f"{MIRROR_VARIABLE}: '{folder}' is not a folder; name folders, separated by "
                f"'{os.pathsep}'"
            )
        files = sorted(p for p in root.rglob("*") if p.is_file())
        yield from sorted(files, key=lambda p: p.name != likely_name)


def download(url: str, sha256: str, what: str) -> bytes:
    """Return the file at a URL. Raises UserError if the download fails or its digest differs."""
    from firmwright import web

    signed = add_query(url)
    try:
        data = web.download(web.open_session(), signed)
    except web.WebError as error:
        failure = hide_query(f"cannot download {what}: {error}", signed)
        raise UserError(
            f"{url}: {failure}; try again, or put the file with sha256 {sha256} into "
            f"a folder of {MIRROR_VARIABLE}"
        ) from None
    check_digest(data, sha256, url)
    return data


def add_query(url: str) -> str:
    """Return an address with the query that ``FIRMWRIGHT_SIGNED_URLS`` contains for this address.

    The variable contains addresses that are separated by spaces. An address that ends with ``/``
    before the query is valid for all files in this folder. Paths with ``..`` are excluded, because
    these paths lead out of the folder. Therefore a query is sent only to the server and folder in
    its entry. Raises UserError if an entry has no query.
    """
    address, _, query = url.partition("?")
    is_plain = {".", ".."}.isdisjoint(unquote(address).replace("\\", "/").split("/"))
    for signed in os.environ.get(SIGNED_VARIABLE, "").split():
        start, _, secret = signed.partition("?")
        if not (start.startswith(("http://", "https://")) and secret):
            raise UserError(
                f"{SIGNED_VARIABLE}: an entry is not an http address with a query; expected "
                "https://HOST/PATH?QUERY"
            )
        if address == start or (is_plain and start.endswith("/") and address.startswith(start)):
            return f"{address}?{query}{'&' * bool(query)}{secret}"
    return url


def hide_query(text: str, url: str) -> str:
    """Return a server's message without the query of its address. Some servers repeat the query."""
    query = urlsplit(url).query
    for secret in (query, *(value for _, value in parse_qsl(query))):
        text = text.replace(secret, "…") if secret else text
    return text


def check_digest(data: bytes, sha256: str, shown_as: str) -> None:
    digest = hashlib.sha256(data).hexdigest()
    if digest != sha256:
        raise WrongDigestError(shown_as, sha256, digest)


def fetch_file(file: DataFile, cache: Path) -> Path:
    """Return the path of a file with this digest: cached, from a mirror folder, or downloaded.

    Raises UserError if no source has the file.
    """
    assert file.sha256 is not None
    kept = cache / "data" / file.sha256
    if kept.is_file() and hashlib.sha256(kept.read_bytes()).hexdigest() == file.sha256:
        return kept
    data = find_in_mirror(file.display_name, file.sha256)
    if data is None and file.url is None:
        raise UserError(
            f"{file.display_name}: no folder in {MIRROR_VARIABLE} has the file with sha256 "
            f"{file.sha256}, and the recipe states no `url` for it; add one of them"
        )
    if data is None:
        data = download(file.url or "", file.sha256, "the file")
    kept.parent.mkdir(parents=True, exist_ok=True)
    # Parallel builds may fetch one file. Therefore each build has a separate unfinished file.
    unfinished = kept.with_name(f".{secrets.token_hex(8)}")
    unfinished.write_bytes(data)
    unfinished.replace(kept)
    return kept
