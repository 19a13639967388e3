"""Verifies the supplier's signature of a model, in the format OpenSSF Model Signing 1.0.

A Sigstore bundle contains a DSSE envelope, which contains an in-toto statement. The statement lists
the digests of the model's files. Signing has three methods. This module supports keys: ECDSA over
P-256, P-384 or P-521. Sources: sections 4 to 8 of the format's specification, its registry of
algorithms, and the protocol of DSSE for the signed bytes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec

from firmwright.bundle.archive import check_name, read_capped
from firmwright.bundle.bundle import MAX_LISTED, read_json
from firmwright.bundle.provenance import PAYLOAD_TYPE, STATEMENT_TYPE
from firmwright.bundle.signing import load_public_key
from firmwright.errors import UserError, explain_failure
from firmwright.ir.tensors import ModelSignature

BUNDLE_TYPE = "application/vnd.dev.sigstore.bundle.v0.3+json"
PREDICATE_TYPE = "https://model_signing/signature/v1.0"
HASHES = {"secp256r1": "SHA256", "secp384r1": "SHA384", "secp521r1": "SHA512"}
"""Maps the name of the key's curve to the hash of a signature."""
CERTIFICATES = ("certificate", "x509CertificateChain")
"""The fields of a bundle that was signed with a certificate instead of a key."""

ALONE = "."
"""The name in the statement if a single file was signed."""

Digest = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]


class EnvelopeSignature(msgspec.Struct):
    sig: bytes


class Envelope(msgspec.Struct, rename="camel"):
    payload: bytes
    payload_type: str
    signatures: Annotated[list[EnvelopeSignature], msgspec.Meta(min_length=1)]

    @property
    def signed_bytes(self) -> bytes:
        """The signed bytes, in DSSE's pre-authentication encoding."""
        kind = self.payload_type.encode()
        return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(self.payload), self.payload)


class SigstoreBundle(msgspec.Struct, rename="camel"):
    media_type: str
    verification_material: dict[str, Any]
    dsse_envelope: Envelope


class SubjectDigest(msgspec.Struct):
    sha256: Digest


class Subject(msgspec.Struct):
    name: str
    digest: SubjectDigest


class Statement(msgspec.Struct):
    type: str = msgspec.field(name="_type")
    predicate_type: str = msgspec.field(name="predicateType")
    predicate: Any = None
    subject: Any = None


class Resource(msgspec.Struct):
    name: str
    algorithm: str
    digest: str


class Serialization(msgspec.Struct):
    method: str
    hash_type: str


class Predicate(msgspec.Struct):
    resources: Annotated[list[Resource], msgspec.Meta(min_length=1)]
    serialization: Serialization


def verify_model(
    signature: Path, key: Any, model: Path | None, data: bytes, others: Iterable[Path]
) -> ModelSignature:
    """Check that a key's owner signed a model and all its files. Return the signature's facts.

    ``data`` is the content of the model. ``others`` are the other files of the model that the build
    reads. Paths are absolute and have no ``..``. ``model`` is None if the model was downloaded as a
    single file. Other files in a signed folder are ignored. Raises UserError if the signature
    cannot be read, uses another method, or is from another key or for another model. Also raises
    UserError if a signed file is missing or was changed.
    """
    payload = verify_envelope(signature, key)
    subject, signed = read_statement(payload, str(signature))
    if model is None:
        check_alone(signed, data, str(signature))
    else:
        check_files(name_files(signed, model), model, data, others, str(signature))
    return ModelSignature(subject.name, subject.digest.sha256, digest_key(key))


def list_signed_files(signature: Path, model: Path) -> list[Path]:
    """Return the existing files of a signed model, or [] if the signature is wrong."""
    try:
        _, signed = read_statement(read_sigstore(signature).dsse_envelope.payload, str(signature))
        digest = hashlib.sha256(model.read_bytes()).hexdigest()
    except (UserError, OSError):  # verify_model reports the error
        return []
    named = name_files(signed, model)
    root = find_root(named, model, digest)
    return [root / name for name in sorted(named) if (root / name).is_file()] if root else []


def read_model_key(path: Path) -> Any:
    """Return a public key. Raises UserError if the key is not on one of the supported curves."""
    key = load_public_key(path)
    curve = getattr(getattr(key, "curve", None), "name", "")
    if curve not in HASHES:
        problem = f"found one on {curve}" if curve else "found another kind"
        raise UserError(
            f"{path}: expected a key on {', '.join(HASHES)}, which signs models; {problem}"
        )
    return key


def digest_key(key: Any) -> str:
    """Return the SHA-256 of a public key in PEM. Signatures store the digest as the ``hint``."""
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    pem: bytes = key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return hashlib.sha256(pem).hexdigest()


def read_sigstore(path: Path) -> SigstoreBundle:
    """Return the content of a signature file. Raises UserError for other files and methods."""
    shown = str(path)
    bundle: SigstoreBundle = convert(read_json(read_capped(path), shown), SigstoreBundle, shown)
    if bundle.media_type != BUNDLE_TYPE:
        raise UserError(
            f"{shown}: expected the media type {BUNDLE_TYPE!r} of `model_signing sign key`, found "
            f"{bundle.media_type!r}"
        )
    if any(kind in bundle.verification_material for kind in CERTIFICATES):
        raise UserError(
            f"{shown}: signed with a certificate, which firmwright does not check; the supplier "
            "has to sign the model with a key: `model_signing sign key`"
        )
    return bundle


def verify_envelope(path: Path, key: Any) -> bytes:
    """Return the signed statement. Raises UserError if the key did not sign the statement."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric.ec import ECDSA

    shown = str(path)
    envelope = read_sigstore(path).dsse_envelope
    algorithm = ECDSA(getattr(hashes, HASHES[key.curve.name])())
    for each in envelope.signatures:
        try:
            key.verify(each.sig, envelope.signed_bytes, algorithm)
            break
        except InvalidSignature:
            continue
    else:
        raise UserError(f"{shown}: not signed by this key, or changed since; fetch it again")
    if envelope.payload_type != PAYLOAD_TYPE:
        raise UserError(
            f"{shown}: it signs a {envelope.payload_type!r}; expected {PAYLOAD_TYPE!r}, from "
            "`model_signing sign key`"
        )
    return envelope.payload


def read_statement(payload: bytes, shown: str) -> tuple[Subject, dict[str, str]]:
    """Return the subject of a statement, and a mapping of its files' names to digests.

    Raises UserError if the subject's digest is not the digest of all file digests.
    """
    statement = convert(read_json(payload, shown), Statement, shown)
    if (statement.type, statement.predicate_type) != (STATEMENT_TYPE, PREDICATE_TYPE):
        raise UserError(
            f"{shown}: not the signature of a model: expected a predicate {PREDICATE_TYPE!r}, "
            f"found {statement.predicate_type!r} in a statement {statement.type!r}"
        )
    predicate = convert(statement.predicate, Predicate, shown)
    listed = predicate.serialization
    if (listed.method, listed.hash_type) != ("files", "sha256"):
        raise UserError(
            f"{shown}: the files are listed as {listed.method!r} with {listed.hash_type!r}; only "
            "whole files ('files') with 'sha256' are supported: sign the model again"
        )
    signed = {each.name: each.digest for each in predicate.resources}
    for name, digest in signed.items():
        convert(digest, Digest, f"{shown}, {name!r}")
        if name != ALONE:
            check_name(name)
    (subject,) = convert(
        statement.subject, Annotated[list[Subject], msgspec.Meta(min_length=1, max_length=1)], shown
    )
    together = b"".join(bytes.fromhex(each.digest) for each in predicate.resources)
    if hashlib.sha256(together).hexdigest() != subject.digest.sha256:
        problem = "the subject's digest is not the digest of the listed files"
        raise UserError(f"{shown}: {problem}; sign the model again")
    return subject, signed


def check_alone(signed: Mapping[str, str], data: bytes, shown: str) -> None:
    """Raise UserError if the file is not the only signed file. The name may differ."""
    digest = hashlib.sha256(data).hexdigest()
    if [*signed.values()] != [digest]:
        listed = list_names(signed)
        raise UserError(
            f"{shown}: the model differs from the signed model: {listed}; fetch both again; "
            f"sha256 {digest}"
        )


def check_files(
    signed: Mapping[str, str], model: Path, data: bytes, others: Iterable[Path], shown: str
) -> None:
    """Raise UserError if a signed file is missing or differs, or if a file is not signed."""
    digest = hashlib.sha256(data).hexdigest()
    root = find_root(signed, model, digest)
    if root is None:
        raise UserError(
            f"{shown}: {model.name!r} was changed, or the signature belongs to other files "
            f"({list_names(signed)}); fetch both again; found sha256 {digest}"
        )
    for name in sorted(signed):
        path = root / name
        with explain_failure(f"{shown}: cannot read the signed {str(path)!r}"):
            content = data if path == model else path.read_bytes()
        if hashlib.sha256(content).hexdigest() != signed[name]:
            raise UserError(f"{shown}: {name!r} is not the file that was signed; fetch it again")
    unsigned = {*others} - {root / name for name in signed}
    if unsigned:
        name = repr(str(min(unsigned)))
        raise UserError(f"{shown}: {name} belongs to the model, but is not signed; sign it too")


def find_root(signed: Mapping[str, str], model: Path, digest: str) -> Path | None:
    """Return the signed folder: the model's folder or a parent, or None if neither fits.

    The statement lists the model's digest, and the model's name relative to the signed folder.
    """
    names = ((folder, model.relative_to(folder).as_posix()) for folder in model.parents)
    return next((folder for folder, name in names if signed.get(name) == digest), None)


def name_files(signed: Mapping[str, str], model: Path) -> dict[str, str]:
    """Return the digests. The model's name replaces the name of a file that was signed alone."""
    return {model.name if name == ALONE else name: digest for name, digest in signed.items()}


def list_names(signed: Mapping[str, str]) -> str:
    names = [repr(name) for name in sorted(signed)]
    return ", ".join([*names[:MAX_LISTED], *(["…"] if len(names) > MAX_LISTED else [])])


def convert(content: Any, kind: Any, shown: str) -> Any:
    """Return a record of external JSON. Raises UserError if the JSON does not fit the record."""
    try:
        return msgspec.convert(content, kind)
    except msgspec.ValidationError as error:
        raise UserError(f"{shown}: not a signature of a model: {error}; sign it again") from None
