"""Sends the requests of bundles to OCI registries, which store container images.

The client trusts no answer: it compares content with the digest and limits the bytes of each
answer. Sources: OCI's image specification 1.1 (manifests, indexes, descriptors), OCI's distribution
specification 1.1 (blobs, manifests, referrers, the tag that replaces the referrers API), and
Docker's page "Token authentication".
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar
from urllib.parse import urlencode, urljoin, urlsplit

import msgspec

from firmwright import web
from firmwright.bundle.archive import BrokenBundleError
from firmwright.bundle.bundle import read_json
from firmwright.errors import UserError

if TYPE_CHECKING:
    from requests import PreparedRequest, Response

T = TypeVar("T")

MANIFEST_TYPE = "application/vnd.oci.image.manifest.v1+json"
INDEX_TYPE = "application/vnd.oci.image.index.v1+json"
EMPTY_TYPE = "application/vnd.oci.empty.v1+json"
EMPTY = b"{}"
"""The specification's replacement for the configuration of a container image."""

MAX_MANIFEST_BYTES = 4 * 1024**2
"""The size of a manifest that a registry must accept according to the specification."""
MAX_ANSWER_BYTES = 64 * 1024
MAX_PAGES = 20
"""The maximum number of pages of a registry's list of references to a manifest."""

REFERENCE = re.compile(
    r"(?P<host>[a-z0-9.-]+(:[0-9]+)?)"
    r"/(?P<name>[a-z0-9]+(([._/]|__|-+)[a-z0-9]+)*)"
    r"(:(?P<tag>[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})|@(?P<digest>sha256:[0-9a-f]{64}))"
)
LOOPBACK = re.compile(r"(localhost|127(\.[0-9]+){3})(:[0-9]+)?")
"""The hosts that the client contacts without TLS, as other clients do."""


@dataclass(frozen=True)
class Reference:
    """A location in a registry: ``name`` is a repository, ``version`` a tag or a digest."""

    host: str
    name: str
    version: str

    def __str__(self) -> str:
        separator = "@" if self.is_digest else ":"
        return f"{self.host}/{self.name}{separator}{self.version}"

    @property
    def is_digest(self) -> bool:
        return self.version.startswith("sha256:")


def parse_reference(text: str) -> Reference:
    """Return the parts of ``registry.example/team/net:1.2``. Raises UserError for other forms."""
    match = REFERENCE.fullmatch(text)
    if match is None:
        raise UserError(
            f"'{text}' is not an address in a registry; expected HOST/NAME:TAG, as in "
            "registry.example/team/digits:1.2, or HOST/NAME@sha256:DIGEST; names are in lower case"
        )
    return Reference(match["host"], match["name"], match["tag"] or match["digest"])


class Descriptor(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True, kw_only=True):
    """The type, digest and size of a blob or a manifest, known before the download."""

    media_type: str
    digest: Annotated[str, msgspec.Meta(pattern="^sha256:[0-9a-f]{64}$")]
    size: Annotated[int, msgspec.Meta(ge=0)]
    artifact_type: str = ""
    annotations: dict[str, str] = {}


class OciManifest(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True, kw_only=True):
    schema_version: Literal[2]
    media_type: str
    artifact_type: str = ""
    config: Descriptor
    layers: list[Descriptor]
    subject: Descriptor | None = None
    """The manifest to which this manifest refers."""


class Index(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True, kw_only=True):
    schema_version: Literal[2]
    media_type: str
    manifests: list[Descriptor]


class Token(msgspec.Struct):
    """The answer of a registry's token server."""

    token: str = ""
    access_token: str = ""


def describe(content: bytes, media_type: str) -> Descriptor:
    digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
    return Descriptor(media_type=media_type, digest=digest, size=len(content))


def decode(content: bytes, record: type[T], shown: str) -> T:
    """Return a record from JSON. Raises BrokenBundleError if the JSON does not fit the record."""
    try:
        return msgspec.convert(read_json(content, shown), record)
    except msgspec.ValidationError as error:
        raise BrokenBundleError(
            f"{shown}: not a valid answer of a registry: {error}; check the address"
        ) from None


class Registry:
    """A connection to one repository of a registry.

    The methods raise UserError if the registry rejects a request, and BrokenBundleError if the
    registry returns wrong content.
    """

    def __init__(self, reference: Reference) -> None:
        self.host = reference.host
        self.shown = f"{reference.host}/{reference.name}"
        scheme = "http" if LOOPBACK.fullmatch(self.host) else "https"
        self.address = f"{scheme}://{self.host}/v2/{reference.name}"
        self.session = web.open_session()
        self.token = ""

    def get_manifest(self, version: str, record: type[T]) -> tuple[T, Descriptor] | None:
        """Return the manifest or index of a tag or digest, and its descriptor, or None."""
        shown = f"{self.shown}, manifest {version}"
        url = f"{self.address}/manifests/{version}"
        accepted = {"Accept": f"{MANIFEST_TYPE}, {INDEX_TYPE}"}
        answer, content = self.ask("GET", url, MAX_MANIFEST_BYTES, headers=accepted)
        if answer.status_code == 404:
            return None
        self.require(answer, content, 200)
        descriptor = describe(content, answer.headers.get("Content-Type", ""))
        if version.startswith("sha256:") and descriptor.digest != version:
            raise BrokenBundleError(
                f"{shown}: the registry returned another digest, {descriptor.digest}; try again"
            )
        return decode(content, record, shown), descriptor

    def put_manifest(self, content: OciManifest | Index, version: str = "") -> Descriptor:
        """Put a manifest or an index under a tag, or under its digest if the tag is empty."""
        encoded = msgspec.json.encode(content)
        described = describe(encoded, content.media_type)
        url = f"{self.address}/manifests/{version or described.digest}"
        headers = {"Content-Type": content.media_type}
        answer, said = self.ask("PUT", url, MAX_ANSWER_BYTES, encoded, headers)
        self.require(answer, said, 201)
        if (
            isinstance(content, OciManifest)
            and content.subject
            and "OCI-Subject" not in answer.headers
        ):
            self.tag_referrer(content, described)
        return described

    def get_blob(self, wanted: Descriptor, most: int) -> bytes:
        """Return a blob after a check of its digest.

        Raises BrokenBundleError if the blob has more than ``most`` bytes or another digest.
        """
        shown = f"{self.shown}, blob {wanted.digest}"
        if wanted.size > most:
            raise BrokenBundleError(
                f"{shown}: too large ({wanted.size:,} bytes); expected at most {most:,}: check the "
                "address"
            )
        url = f"{self.address}/blobs/{wanted.digest}"
        answer, content = self.ask("GET", url, max(wanted.size, MAX_ANSWER_BYTES))
        self.require(answer, content, 200)
        descriptor = describe(content, wanted.media_type)
        if (descriptor.digest, descriptor.size) != (wanted.digest, wanted.size):
            raise BrokenBundleError(
                f"{shown}: digest mismatch in {descriptor.size:,} bytes; try again"
            )
        return content

    def put_blob(self, content: bytes, media_type: str) -> Descriptor:
        """Upload a blob if the registry does not have it."""
        described = describe(content, media_type)
        answer, _ = self.ask("HEAD", f"{self.address}/blobs/{described.digest}", MAX_ANSWER_BYTES)
        if answer.status_code == 200:
            return described
        begin = f"{self.address}/blobs/uploads/"
        answer, said = self.ask("POST", begin, MAX_ANSWER_BYTES)
        self.require(answer, said, 202)
        location = urljoin(begin, answer.headers.get("Location", ""))
        location += f"{'&' if urlsplit(location).query else '?'}digest={described.digest}"
        headers = {"Content-Type": "application/octet-stream"}
        answer, said = self.ask("PUT", location, MAX_ANSWER_BYTES, content, headers)
        self.require(answer, said, 201)
        return described

    def list_referrers(self, digest: str) -> list[Descriptor]:
        """Return the references to a manifest, from the registry's list or from a tag.

        A registry without lists of references answers with 404 or with an HTML page.
        """
        first = url = f"{self.address}/referrers/{digest}"
        referrers: list[Descriptor] = []
        for _ in range(MAX_PAGES):
            accepted = {"Accept": INDEX_TYPE}
            answer, content = self.ask("GET", url, MAX_MANIFEST_BYTES, headers=accepted)
            kind = answer.headers.get("Content-Type", "").partition(";")[0]
            if answer.status_code == 404 or (answer.status_code == 200 and kind != INDEX_TYPE):
                return self.list_tagged(digest)
            self.require(answer, content, 200)
            referrers += decode(content, Index, f"{self.shown}, referrers").manifests
            following = answer.links.get("next", {}).get("url")
            if following is None:
                return referrers
            url = f"{first}?{urlsplit(following).query}"  # stay on this host
        raise BrokenBundleError(
            f"{self.shown}: more than {MAX_PAGES} pages of references to one manifest; delete "
            "references in the registry"
        )

    def list_tagged(self, digest: str) -> list[Descriptor]:
        """Return the references in the tag of a manifest.

        Registries without lists need this tag.
        """
        pair = self.get_manifest(digest.replace(":", "-"), Index)
        return pair[0].manifests if pair else []

    def tag_referrer(self, content: OciManifest, described: Descriptor) -> None:
        """Add a reference to the manifest's tag, for a registry without lists of references."""
        if content.subject is None:
            return
        others = self.list_tagged(content.subject.digest)
        entry = msgspec.structs.replace(described, artifact_type=content.artifact_type)
        if entry.digest not in {other.digest for other in others}:
            index = Index(schema_version=2, media_type=INDEX_TYPE, manifests=[*others, entry])
            self.put_manifest(index, content.subject.digest.replace(":", "-"))

    def ask(
        self,
        method: str,
        url: str,
        most: int,
        data: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[Response, bytes]:
        """Send a request. Return the answer and its body. Passwords are read from ``~/.netrc``."""
        try:
            answer, body = web.ask(self.session, method, url, most, data, headers, self.sign)
            if answer.status_code == 401:
                self.token = self.fetch_token(answer.headers.get("WWW-Authenticate", ""))
            if answer.status_code == 401 and self.token:
                return web.ask(self.session, method, url, most, data, headers, self.sign)
        except web.WebError as error:
            raise UserError(f"{self.shown}: {error}") from None
        return answer, body

    @property
    def sign(self) -> Callable[[PreparedRequest], PreparedRequest] | None:
        """Return a function that adds the token to requests for the host, or None."""

        def add(request: PreparedRequest) -> PreparedRequest:
            if urlsplit(request.url or "").netloc == self.host:
                request.headers["Authorization"] = f"Bearer {self.token}"
            return request

        return add if self.token else None

    def fetch_token(self, challenge: str) -> str:
        """Return a token from the server that the registry names, or '' if no server is named."""
        from requests.utils import parse_dict_header

        scheme, _, rest = challenge.partition(" ")
        if scheme.lower() != "bearer":
            return ""
        parameters = parse_dict_header(rest)
        location = urlsplit(str(parameters.get("realm", "")))
        if location.scheme != "https" and not LOOPBACK.fullmatch(location.netloc):
            name = repr(location.geturl())
            raise web.WebError(
                f"the registry asks for a password at {name}, which is not an https address; use "
                "a registry with https"
            )
        asked = urlencode(
            {key: parameters[key] for key in ("service", "scope") if parameters.get(key)}
        )
        url = location._replace(query=asked).geturl()
        answer = decode(web.download(self.session, url, MAX_ANSWER_BYTES), Token, url)
        token = answer.token or answer.access_token
        return token if token.isprintable() and token.isascii() else ""

    def require(self, answer: Response, content: bytes, status: int) -> None:
        """Raise UserError with the registry's error code if the answer has another status."""
        if answer.status_code != status:
            said = re.search(rb'"code": *"([A-Z_]{1,40})"', content)
            raise UserError(f"{self.shown}: {web.refuse(answer, said[1].decode() if said else '')}")
