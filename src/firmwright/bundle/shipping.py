"""Pushes bundles to a registry and pulls them: the archive, its SBOMs and its signatures.

A bundle is an artifact with one layer. Each SBOM and each signature of the provenance is a separate
artifact whose subject is the bundle's manifest. Therefore a second signature does not change
existing artifacts, and other programs find the signatures. All artifacts depend only on the files.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from msgspec import structs

from firmwright.bundle import cyclonedx, spdx
from firmwright.bundle.archive import MAX_PACKED_BYTES, BrokenBundleError, read_capped
from firmwright.bundle.bundle import Bundle, parse_bundle
from firmwright.bundle.oci_registry import (
    EMPTY,
    EMPTY_TYPE,
    MANIFEST_TYPE,
    Descriptor,
    OciManifest,
    Reference,
    Registry,
)
from firmwright.bundle.signing import (
    MAX_SIGNATURES,
    envelope_path,
    is_provenance,
    join_envelopes,
    split_envelope,
)
from firmwright.documents.whole_file import write_whole
from firmwright.errors import UserError

BUNDLE_TYPE = "application/vnd.firmwright.bundle.v1+gzip"
SIGNATURE_TYPE = "application/vnd.in-toto+json"
ENVELOPE_TYPE = "application/vnd.dsse.envelope.v1+json"
SBOM_TYPES = {
    cyclonedx.FILE: "application/vnd.cyclonedx+json",
    spdx.FILE: "application/spdx+json",
}
TITLE = "org.opencontainers.image.title"
"""The annotation with the name of a file, for other programs."""

MAX_ENVELOPE_BYTES = 64 * 1024**2


def push_bundle(path: Path, envelope: Path, reference: Reference) -> Iterator[str]:
    """Put a bundle, its SBOMs and its signatures into a registry. Yield a line per file."""
    if reference.is_digest:
        raise UserError(
            f"{reference}: a push needs a tag, not a digest; write the address as HOST/NAME:TAG"
        )
    content = read_capped(path)
    bundle = parse_bundle(content, path)
    signatures = split_envelope(bundle, envelope) if envelope.exists() else {}
    registry = Registry(reference)
    name = f"{bundle.folder}.tar.gz"
    put = put_artifact(registry, BUNDLE_TYPE, BUNDLE_TYPE, name, content, None, reference.version)
    yield f"{reference}: {path}, {put.digest}"
    for file, media_type in SBOM_TYPES.items():
        if file in bundle.files:
            put_artifact(registry, media_type, media_type, file, bundle.files[file], put)
            yield f"  {file}"
    for key, signature in signatures.items():
        name = envelope_path(Path(name)).name
        put_artifact(registry, SIGNATURE_TYPE, ENVELOPE_TYPE, name, signature, put)
        yield f"  signature by {key}"


def put_artifact(
    registry: Registry,
    artifact_type: str,
    media_type: str,
    name: str,
    content: bytes,
    subject: Descriptor | None,
    tag: str = "",
) -> Descriptor:
    """Put one file. The file's manifest refers to the manifest ``subject``, if it is not None."""
    layer = registry.put_blob(content, media_type)
    manifest = OciManifest(
        schema_version=2,
        media_type=MANIFEST_TYPE,
        artifact_type=artifact_type,
        config=registry.put_blob(EMPTY, EMPTY_TYPE),
        layers=[structs.replace(layer, annotations={TITLE: name})],
        subject=subject,
    )
    return registry.put_manifest(manifest, tag)


def pull_bundle(reference: Reference, folder: Path) -> Iterator[str]:
    """Write a checked bundle and its signatures into a folder. Yield a line per file.

    All content is read before the first file is written. Raises BrokenBundleError if the content is
    not a bundle, and UserError if a different file exists at the bundle's path.
    """
    registry = Registry(reference)
    pair = registry.get_manifest(reference.version, OciManifest)
    if pair is None:
        raise UserError(f"{reference}: not found; check the name and the tag")
    manifest, described = pair
    content = get_layer(registry, manifest, BUNDLE_TYPE, MAX_PACKED_BYTES)
    bundle = parse_bundle(content, Path(str(reference)))
    path = folder / f"{bundle.folder}.tar.gz"
    if path.exists() and read_capped(path) != content:
        raise UserError(f"{path}: differs from the bundle of {reference}; remove this file")
    envelope = envelope_path(path)
    envelopes = split_envelope(replace(bundle, path=path), envelope) if envelope.exists() else {}
    signatures, others = get_signatures(registry, bundle, described)
    joined = join_envelopes([*envelopes.values(), *signatures], str(reference))
    write_whole(path, content)
    yield f"wrote {path}, sha256 {bundle.sha256}"
    yield from (f"ignored: {digest}, a statement about another bundle" for digest in others)
    if joined is None:
        yield "it has no signature"
        return
    write_whole(envelope, joined)
    keys = ", ".join(split_envelope(replace(bundle, path=path), envelope))
    yield f"wrote {envelope}, signed by {keys}"


def get_signatures(
    registry: Registry, bundle: Bundle, subject: Descriptor
) -> tuple[list[bytes], list[str]]:
    """Return the envelopes for a bundle, and the digests of envelopes for other statements."""
    referrers = [
        referrer
        for referrer in registry.list_referrers(subject.digest)
        if referrer.artifact_type == SIGNATURE_TYPE
    ]
    if len(referrers) > MAX_SIGNATURES:
        raise BrokenBundleError(
            f"{registry.shown}: more than {MAX_SIGNATURES} statements refer to {subject.digest}; "
            "delete statements in the registry"
        )
    envelopes, others = [], []
    for referrer in referrers:
        envelope = get_referrer(registry, referrer, subject)
        if is_provenance(bundle, envelope, f"{registry.shown}, {referrer.digest}"):
            envelopes.append(envelope)
        else:
            others.append(referrer.digest)
    return envelopes, others


def get_referrer(registry: Registry, referrer: Descriptor, subject: Descriptor) -> bytes:
    """Return the envelope in an artifact that refers to a bundle's manifest."""
    pair = registry.get_manifest(referrer.digest, OciManifest)
    if pair is None or pair[0].subject is None or pair[0].subject.digest != subject.digest:
        raise BrokenBundleError(
            f"{registry.shown}: the registry lists {referrer.digest}, which does not refer to "
            f"{subject.digest}; delete this entry in the registry"
        )
    return get_layer(registry, pair[0], ENVELOPE_TYPE, MAX_ENVELOPE_BYTES)


def get_layer(registry: Registry, manifest: OciManifest, media_type: str, most: int) -> bytes:
    """Return the only file of an artifact.

    Raises BrokenBundleError if the artifact does not have exactly one file of the type
    ``media_type``.
    """
    if [layer.media_type for layer in manifest.layers] != [media_type]:
        kinds = ", ".join(layer.media_type for layer in manifest.layers) or "nothing"
        raise BrokenBundleError(
            f"{registry.shown}: expected one {media_type}, found {kinds}; name an address to which "
            "`firmwright push` has written"
        )
    return registry.get_blob(manifest.layers[0], most)
