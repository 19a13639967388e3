"""A server that sends tokens for a registry to clients that have the password.

Source: the pages "Token authentication" of the registry's documentation.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding

from tests.test_web import send

ISSUER, SERVICE = "tests", "bundles"


def answer_with_tokens(certificates: Path, user: str) -> Callable[[BaseHTTPRequestHandler], None]:
    """Return a handler for a ``user:password``; write the certificate that verifies its tokens."""
    key = generate_private_key(65537, 2048)
    certificate = make_certificate(key)
    certificates.write_bytes(certificate.public_bytes(Encoding.PEM))
    password = f"Basic {base64.b64encode(user.encode()).decode()}"

    def answer(handler: BaseHTTPRequestHandler) -> None:
        if handler.headers["Authorization"] != password:
            return send(401, b"")(handler)
        scopes = parse_qs(urlsplit(handler.path).query)["scope"]
        token = make_token(key, certificate, [scope for text in scopes for scope in text.split()])
        return send(200, json.dumps({"token": token}).encode())(handler)

    return answer


def make_certificate(key: RSAPrivateKey) -> x509.Certificate:
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, ISSUER)])
    now = datetime.now(timezone.utc)
    unsigned = x509.CertificateBuilder(
        name, name, key.public_key(), 1, now - timedelta(1), now + timedelta(1)
    )
    return unsigned.sign(key, SHA256())


def make_token(key: RSAPrivateKey, certificate: x509.Certificate, scopes: list[str]) -> str:
    """Return a JSON web token for scopes such as ``repository:team/net:pull,push``."""
    chain = [base64.b64encode(certificate.public_bytes(Encoding.DER)).decode()]
    now = int(time.time())
    claims = {
        "iss": ISSUER,
        "sub": "me",
        "aud": SERVICE,
        "jti": "1",
        "iat": now,
        "nbf": now - 60,
        "exp": now + 600,
        "access": [
            {"type": kind, "name": name, "actions": actions.split(",")}
            for kind, name, actions in (scope.split(":") for scope in scopes)
        ],
    }
    header = {"typ": "JWT", "alg": "RS256", "x5c": chain}
    text = ".".join(encode(json.dumps(part).encode()) for part in (header, claims))
    return f"{text}.{encode(key.sign(text.encode(), PKCS1v15(), SHA256()))}"


def encode(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode().rstrip("=")
