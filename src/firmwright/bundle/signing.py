"""Signatures of a bundle's provenance: a DSSE envelope with ed25519, beside the bundle."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from firmwright.bundle.archive import BrokenBundleError, read_capped
from firmwright.bundle.bundle import Bundle, read_json
from firmwright.bundle.provenance import PAYLOAD_TYPE, encode_statement, make_statement
from firmwright.errors import UserError, first_line

if TYPE_CHECKING:
    from securesystemslib.dsse import Envelope
    from securesystemslib.signer import SSlibKey

KEY_VARIABLE = "FIRMWRIGHT_SIGNING_KEY"
"""Holds a private key as PEM, for machines that hand out secrets in the environment."""
MAX_SIGNATURES = 100


class UntrustedBundleError(UserError):
    """A bundle that is whole, but not what a signature or a policy vouches for."""


def envelope_path(bundle: Path) -> Path:
    """Return where the signed provenance of a bundle lies: beside it."""
    return bundle.with_name(f"{bundle.name.removesuffix('.tar.gz')}.intoto.json")


def sign_bundle(bundle: Bundle, key: Path | None, envelope: Path) -> str:
    """Add a signature to the envelope, or begin one; return the id of the key.

    It raises what :func:`prepare_envelope` does.
    """
    found, signer = prepare_envelope(bundle, key, envelope)
    found.sign(signer)
    content = msgspec.json.format(msgspec.json.encode(found.to_dict()), indent=1) + b"\n"
    unfinished = envelope.with_name(f".{envelope.name}.partial")
    unfinished.write_bytes(content)
    unfinished.replace(envelope)
    return str(signer.public_key.keyid)


def prepare_envelope(bundle: Bundle, key: Path | None, envelope: Path) -> tuple[Envelope, Any]:
    """Return the envelope to sign, new where there is none, and what signs it.

    Raises UserError for a key that others can read, or that is none of ed25519, and
    UntrustedBundleError where the envelope is that of another bundle.
    """
    signer = make_signer(read_private_key(key))
    payload = encode_statement(make_statement(bundle))
    found = read_envelope(envelope) if envelope.exists() else make_envelope(payload)
    if found.payload != payload:
        raise UntrustedBundleError(
            f"{envelope}: signed for another bundle; remove it, or name another with --envelope"
        )
    return found, signer


def verify_signatures(bundle: Bundle, envelope: Path, keys: Sequence[Any], wanted: int) -> None:
    """Check that so many of the keys signed what follows from the bundle itself.

    Raises BrokenBundleError for an envelope that cannot be read, UntrustedBundleError for one
    with too few good signatures or of another bundle.
    """
    from securesystemslib.exceptions import VerificationError

    found = read_envelope(envelope)
    try:
        found.verify(list(keys), wanted)
    except VerificationError:
        raise UntrustedBundleError(
            f"{envelope}: fewer than {wanted} of the policy's {len(keys)} keys have signed it"
        ) from None
    if found.payload_type != PAYLOAD_TYPE:
        raise UntrustedBundleError(f"{envelope}: signed is a {found.payload_type!r}")
    if found.payload != encode_statement(make_statement(bundle)):
        raise UntrustedBundleError(
            f"{envelope}: the signatures are good, but of another bundle: the provenance does not "
            f"follow from {bundle.path}"
        )


def read_private_key(path: Path | None) -> bytes:
    """Return a private key from a file, or from the environment where none is named."""
    if path is None:
        text = os.environ.get(KEY_VARIABLE, "")
        if not text:
            raise UserError(f"no key to sign with: give --key FILE, or {KEY_VARIABLE}")
        return text.encode()
    content = read_key_file(path)
    if path.stat().st_mode & 0o077:
        raise UserError(f"{path}: others can read this key; `chmod 600 {path}`")
    return content


def read_key_file(path: Path) -> bytes:
    try:
        return read_capped(path)
    except BrokenBundleError as error:
        raise UserError(str(error)) from None


def make_signer(pem: bytes) -> Any:
    """Return a signer for an ed25519 key; UserError for any other. It never shows the key."""
    require_extra()
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key
    from securesystemslib.signer import CryptoSigner

    try:
        key = load_pem_private_key(pem, None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise UserError(
            "the key to sign with is no unencrypted private key in PEM; make one with `openssl "
            "genpkey -algorithm ed25519 -out key.pem`"
        ) from None
    if not isinstance(key, Ed25519PrivateKey):
        raise UserError("the key to sign with is not of ed25519, whose signatures are repeatable")
    return CryptoSigner(key)


def read_public_key(path: Path) -> SSlibKey:
    """Return an ed25519 key from a PEM file; UserError for any other."""
    require_extra()
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key
    from securesystemslib.signer import SSlibKey

    try:
        key = load_pem_public_key(read_key_file(path))
    except (ValueError, UnsupportedAlgorithm):
        raise UserError(
            f"{path}: not a public key in PEM; `openssl pkey -in key.pem -pubout` prints it"
        ) from None
    if not isinstance(key, Ed25519PublicKey):
        raise UserError(f"{path}: not a key of ed25519")
    return SSlibKey.from_crypto(key)


def make_envelope(payload: bytes) -> Envelope:
    from securesystemslib.dsse import Envelope

    return Envelope(payload, PAYLOAD_TYPE, {})


def read_envelope(path: Path) -> Envelope:
    """Read an envelope from outside; BrokenBundleError for anything else."""
    require_extra()
    from securesystemslib.dsse import Envelope
    from securesystemslib.exceptions import Error

    content = read_json(read_capped(path), str(path))
    signatures = content.get("signatures") if isinstance(content, Mapping) else None
    if not isinstance(signatures, list) or len(signatures) > MAX_SIGNATURES:
        raise BrokenBundleError(f"{path}: not an envelope (DSSE) of at most 100 signatures")
    try:
        return Envelope.from_dict(dict(content))
    except (Error, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BrokenBundleError(f"{path}: not an envelope (DSSE): {first_line(error)}") from None


def require_extra() -> None:
    try:
        import cryptography
        import securesystemslib
    except ImportError as error:
        raise UserError(
            f"signatures need the package '{error.name}': python -m pip install 'firmwright[trust]'"
        ) from None
    del cryptography, securesystemslib
