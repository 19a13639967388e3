"""Reads a bundle and checks its manifest and the digests of its files."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from firmwright.bundle.archive import BrokenBundleError, read_archive, read_capped
from firmwright.documents.schema_check import find_errors, read_schema
from firmwright.documents.yaml_text import format_pointer

MANIFEST = "manifest.json"
MANIFEST_VERSION = 1
MAX_LISTED = 5
AGAIN = "fetch or build the bundle again"


@dataclass(frozen=True)
class Bundle:
    """A checked bundle. ``files`` maps each file's name below ``folder`` to its content.

    ``manifest`` is the content of ``manifest.json``. The manifest fits its schema and lists all
    files.
    """

    path: Path
    folder: str
    sha256: str
    packed_bytes: int
    files: Mapping[str, bytes]
    manifest: Mapping[str, Any]

    @property
    def has_networks(self) -> bool:
        """Return whether the firmware has several networks, which have a separate schema."""
        return is_of_networks(self.manifest)


def read_bundle(path: Path) -> Bundle:
    """Read an untrusted bundle into memory with :func:`parse_bundle`, without writing a file."""
    return parse_bundle(read_capped(path), path)


def parse_bundle(content: bytes, path: Path) -> Bundle:
    """Return the bundle in the bytes of an archive. Messages name the archive ``path``.

    Raises BrokenBundleError if the archive, the manifest or a file's digest differs from the form
    that firmwright writes, or if the bundle has several networks.
    """
    bundle = parse_any_bundle(content, path)
    if bundle.has_networks:
        inner = ", ".join(entry["bundle"] for entry in bundle.manifest["networks"].values())
        raise BrokenBundleError(
            f"{path}: a firmware of several networks; it contains a bundle per network: {inner}; "
            "pass one of these"
        )
    return bundle


def parse_any_bundle(content: bytes, path: Path) -> Bundle:
    """Return the bundle in the bytes of an archive. The bundle may have several networks.

    Raises the errors of :func:`parse_bundle`.
    """
    folder, files = read_archive(content, str(path))
    try:
        manifest = read_manifest(files)
        if not is_of_networks(manifest):
            compare_recipe(manifest)
        compare_files(manifest, files)
    except BrokenBundleError as error:
        raise BrokenBundleError(f"{path}: {error}") from None
    return Bundle(path, folder, hashlib.sha256(content).hexdigest(), len(content), files, manifest)


def read_json(content: bytes, name: str) -> Any:
    """Return the value of untrusted JSON.

    Raises BrokenBundleError if the JSON is damaged or has a duplicate key, NaN or infinity.
    """

    def refuse_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        mapping = dict(pairs)
        if len(mapping) != len(pairs):
            twice = next(key for key, _ in pairs if sum(k == key for k, _ in pairs) > 1)
            raise BrokenBundleError(f"{name}: duplicate key {twice!r}")
        return mapping

    def refuse_constant(text: str) -> None:
        raise BrokenBundleError(f"{name}: {text} is not JSON")

    try:
        return json.loads(
            content.decode("utf-8"),
            object_pairs_hook=refuse_duplicates,
            parse_constant=refuse_constant,
        )
    except (ValueError, RecursionError) as error:
        raise BrokenBundleError(f"{name}: not JSON: {error}") from None


def is_of_networks(manifest: Any) -> bool:
    return isinstance(manifest, dict) and manifest.get("kind") == "networks"


def read_manifest(files: Mapping[str, bytes]) -> dict[str, Any]:
    """Return the manifest.

    Raises BrokenBundleError if the manifest is missing or does not fit its schema.
    """
    if MANIFEST not in files:
        raise BrokenBundleError(
            f"not a bundle: it has no {MANIFEST}; expected a .tar.gz of a build"
        )
    manifest = read_json(files[MANIFEST], MANIFEST)
    version = manifest.get("manifest_version") if isinstance(manifest, dict) else None
    if isinstance(version, int) and version > MANIFEST_VERSION:
        raise BrokenBundleError(
            f"{MANIFEST} has version {version}; expected {MANIFEST_VERSION}: update firmwright"
        )
    kind = "networks" if is_of_networks(manifest) else "manifest"
    schema = read_schema("report", f"{kind}.schema.json")
    wrong = [
        f"  {format_pointer(finding.pointer)}: {finding.message}"
        for finding in islice(find_errors(manifest, schema), MAX_LISTED)
    ]
    if wrong:
        raise BrokenBundleError(
            "\n".join([f"{MANIFEST} does not fit its schema:", *wrong, f"  {AGAIN}"])
        )
    checked: dict[str, Any] = manifest
    return checked


def compare_recipe(manifest: Mapping[str, Any]) -> None:
    """Raise BrokenBundleError if ``recipe.sha256`` is not the digest of the resolved recipe."""
    recipe = manifest["recipe"]
    text = json.dumps(recipe["resolved"], sort_keys=True, separators=(",", ":"))
    if hashlib.sha256(text.encode("ascii")).hexdigest() != recipe["sha256"]:
        problem = f"{MANIFEST}: recipe.sha256 is not the digest of recipe.resolved"
        raise BrokenBundleError(f"{problem}; {AGAIN}")


def compare_files(manifest: Mapping[str, Any], files: Mapping[str, bytes]) -> None:
    """Raise BrokenBundleError if a file is missing, is not listed or differs from its entry."""
    listed = {entry["path"]: (entry["bytes"], entry["sha256"]) for entry in manifest["files"]}
    contents = {
        name: (len(data), hashlib.sha256(data).hexdigest())
        for name, data in files.items()
        if name != MANIFEST
    }
    wrong = [
        *(f"  {name} is missing" for name in sorted({*listed} - {*contents})),
        *(f"  {name} is not listed" for name in sorted({*contents} - {*listed})),
        *(
            f"  {name} has a different digest or size"
            for name in sorted({*listed} & {*contents})
            if listed[name] != contents[name]
        ),
    ]
    if wrong:
        head = f"the files differ from the list in {MANIFEST}:"
        raise BrokenBundleError("\n".join([head, *wrong, f"  {AGAIN}"]))
