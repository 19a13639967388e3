"""Signs a bundle's provenance: writes a DSSE envelope with an ed25519 signature."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from firmwright.bundle.archive import BrokenBundleError, read_capped
from firmwright.bundle.bundle import Bundle, read_json
from firmwright.bundle.provenance import PAYLOAD_TYPE, encode_statement, make_statement
from firmwright.documents.whole_file import write_whole
from firmwright.errors import UserError, first_line

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from securesystemslib.dsse import Envelope
    from securesystemslib.signer import SSlibKey

KEY_VARIABLE = "FIRMWRIGHT_SIGNING_KEY"
"""The variable with a private key in PEM, for machines that pass secrets in the environment."""
MAX_SIGNATURES = 100
SIGN_AGAIN = "sign it again with `firmwright sign`"


class UntrustedBundleError(UserError):
    """Raised if a complete bundle does not have the signatures or does not meet the policy."""


def envelope_path(bundle: Path) -> Path:
    """Return the path of a bundle's signed provenance, which is next to the bundle."""
    return bundle.with_name(f"{bundle.name.removesuffix('.tar.gz')}.intoto.json")


def sign_bundle(bundle: Bundle, key: Path | None, envelope: Path) -> str:
    """Add a signature to the envelope, or create the envelope. Return the id of the key.

    Raises the errors of :func:`prepare_envelope`.
    """
    content, signer = prepare_envelope(bundle, key, envelope)
    content.sign(signer)
    write_whole(envelope, encode_envelope(content))
    return str(signer.public_key.keyid)


def prepare_envelope(bundle: Bundle, key: Path | None, envelope: Path) -> tuple[Envelope, Any]:
    """Return the envelope for a new signature, and the signer.

    The envelope is new if the file is missing. Raises UserError if other users can read the key, or
    if the key is not an ed25519 key. Raises UntrustedBundleError if the envelope belongs to another
    bundle.
    """
    pem = read_private_key(key)
    require_extra()
    from securesystemslib.signer import CryptoSigner

    signer = CryptoSigner(load_private_key(pem))
    if envelope.exists():
        return check_envelope(bundle, envelope), signer
    return make_envelope(encode_statement(make_statement(bundle)), {}), signer


def check_envelope(bundle: Bundle, path: Path) -> Envelope:
    """Return the envelope of a bundle.

    Raises UntrustedBundleError if the envelope belongs to another bundle.
    """
    envelope = read_envelope(path)
    if envelope.payload != encode_statement(make_statement(bundle)):
        raise UntrustedBundleError(
            f"{path}: signed for another bundle; remove it, or name another with --envelope"
        )
    return envelope


def split_envelope(bundle: Bundle, path: Path) -> dict[str, bytes]:
    """Map the id of each key to a separate envelope with the key's signature."""
    envelope = check_envelope(bundle, path)
    return {
        key: encode_envelope(make_envelope(envelope.payload, {key: signature}))
        for key, signature in sorted(envelope.signatures.items())
    }


def is_provenance(bundle: Bundle, envelope: bytes, shown: str) -> bool:
    content = parse_envelope(envelope, shown)
    return (content.payload_type, content.payload) == (
        PAYLOAD_TYPE, encode_statement(make_statement(bundle))
    )  # fmt: skip


def join_envelopes(envelopes: Sequence[bytes], shown: str) -> bytes | None:
    """Return one envelope with all signatures, or None if ``envelopes`` is empty.

    The statements of all envelopes are equal. Raises BrokenBundleError if two signatures of one key
    differ, because one signature must be wrong.
    """
    parsed = [parse_envelope(envelope, shown) for envelope in envelopes]
    if not parsed:
        return None
    signatures: dict[str, Any] = {}
    for key, signature in (pair for envelope in parsed for pair in envelope.signatures.items()):
        if signatures.setdefault(key, signature) != signature:
            raise BrokenBundleError(
                f"{shown}: two signatures of the key {key} differ; {SIGN_AGAIN}"
            )
    return encode_envelope(make_envelope(parsed[0].payload, dict(sorted(signatures.items()))))


def verify_signatures(bundle: Bundle, envelope: Path, keys: Sequence[Any], wanted: int) -> None:
    """Check that at least ``wanted`` of the keys signed the statement of the bundle.

    Raises BrokenBundleError if the envelope cannot be read. Raises UntrustedBundleError if the
    envelope has too few correct signatures or belongs to another bundle.
    """
    from securesystemslib.exceptions import VerificationError

    content = read_envelope(envelope)
    try:
        content.verify(list(keys), wanted)
    except VerificationError:
        raise UntrustedBundleError(
            f"{envelope}: fewer than {wanted} of the policy's {len(keys)} keys have signed it; "
            "sign the bundle with more of these keys"
        ) from None
    if content.payload_type != PAYLOAD_TYPE:
        raise UntrustedBundleError(
            f"{envelope}: the envelope signs a {content.payload_type!r}, not a bundle; {SIGN_AGAIN}"
        )
    if content.payload != encode_statement(make_statement(bundle)):
        raise UntrustedBundleError(
            f"{envelope}: the signatures belong to another bundle, because the provenance does "
            f"not match {bundle.path}; {SIGN_AGAIN}"
        )


def read_private_key(path: Path | None) -> bytes:
    """Return a private key from a file, or from the environment if ``path`` is None."""
    if path is None:
        text = os.environ.get(KEY_VARIABLE, "")
        if not text:
            raise UserError(f"no key to sign with; pass --key FILE, or set {KEY_VARIABLE}")
        return text.encode()
    content = read_key_file(path)
    if path.stat().st_mode & 0o077:
        raise UserError(f"{path}: other users can read this key; run `chmod 600 {path}`")
    return content


def read_key_file(path: Path) -> bytes:
    try:
        return read_capped(path)
    except BrokenBundleError as error:
        raise UserError(str(error)) from None


def load_private_key(pem: bytes) -> Ed25519PrivateKey:
    """Return an ed25519 key. Raises UserError for other keys."""
    require_extra()
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        key = load_pem_private_key(pem, None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise UserError(
            "the signing key is encrypted or not a private key in PEM; make one with `openssl "
            "genpkey -algorithm ed25519 -out key.pem`"
        ) from None
    if not isinstance(key, Ed25519PrivateKey):
        raise UserError(
            "the signing key is not an ed25519 key; make one "
            "with `openssl genpkey -algorithm ed25519 -out key.pem`"
        )
    return key


def read_public_key(path: Path) -> SSlibKey:
    """Return an ed25519 key from a PEM file. Raises UserError for other files."""
    key = load_public_key(path)
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from securesystemslib.signer import SSlibKey

    if not isinstance(key, Ed25519PublicKey):
        raise UserError(
            f"{path}: not a public key of ed25519, the kind that signs bundles; use the public "
            "part of such a key: `openssl pkey -in key.pem -pubout`"
        )
    return SSlibKey.from_crypto(key)


def load_public_key(path: Path) -> Any:
    """Return a key of any kind from a PEM file. Raises UserError for other files."""
    require_extra()
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    try:
        return load_pem_public_key(read_key_file(path))
    except (ValueError, UnsupportedAlgorithm):
        raise UserError(
            f"{path}: not a public key in PEM; `openssl pkey -in key.pem -pubout` prints it"
        ) from None


class StatedSignature(msgspec.Struct):
    keyid: str
    sig: str


class StatedEnvelope(msgspec.Struct, rename="camel"):
    """The types of an envelope's parts, which ``Envelope.from_dict`` does not check."""

    payload: str
    payload_type: str
    signatures: list[StatedSignature]


def make_envelope(payload: bytes, signatures: Mapping[str, Any]) -> Envelope:
    from securesystemslib.dsse import Envelope

    return Envelope(payload, PAYLOAD_TYPE, dict(signatures))


def encode_envelope(envelope: Envelope) -> bytes:
    return msgspec.json.format(msgspec.json.encode(envelope.to_dict()), indent=1) + b"\n"


def read_envelope(path: Path) -> Envelope:
    """Read an untrusted envelope. Raises BrokenBundleError for other files."""
    return parse_envelope(read_capped(path), str(path))


def parse_envelope(encoded: bytes, shown: str) -> Envelope:
    """Return the envelope in untrusted bytes. Messages name the envelope ``shown``."""
    require_extra()
    from securesystemslib.dsse import Envelope
    from securesystemslib.exceptions import Error

    content = read_json(encoded, shown)
    signatures = content.get("signatures") if isinstance(content, Mapping) else None
    if not isinstance(signatures, list) or len(signatures) > MAX_SIGNATURES:
        raise BrokenBundleError(
            f"{shown}: not an envelope (DSSE) of at most 100 signatures; {SIGN_AGAIN}"
        )
    try:
        msgspec.convert(content, StatedEnvelope)
        return Envelope.from_dict(dict(content))
    except (Error, ValueError, KeyError, TypeError, AttributeError) as error:
        problem = f"{shown}: not an envelope (DSSE): {first_line(error)}"
        raise BrokenBundleError(f"{problem}; {SIGN_AGAIN}") from None


def require_extra() -> None:
    try:
        import cryptography
        import securesystemslib
    except ImportError as error:
        raise UserError(
            f"signatures need the package '{error.name}': python -m pip install 'firmwright[trust]'"
        ) from None
    del cryptography, securesystemslib
