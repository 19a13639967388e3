"""Damages and repacks a signed bundle; each change must be detected.

``python -m tests.hammer.bundles BUNDLE [--flips 1000] [--repacks 200] [--seed 0]``
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from firmwright.bundle.archive import pack_tar
from firmwright.bundle.bundle import Bundle, read_bundle
from firmwright.bundle.policy import verify_bundle
from firmwright.bundle.signing import sign_bundle
from firmwright.errors import UserError

Change = Callable[[Bundle, random.Random], bytes]


def write_keys(folder: Path, name: str, number: int) -> tuple[Path, Path]:
    """Write a private and a public key that depend only on a number."""
    key = Ed25519PrivateKey.from_private_bytes(number.to_bytes(32, "big"))
    private, public = folder / f"{name}.pem", folder / f"{name}.pub"
    private.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    private.chmod(0o600)
    public.write_bytes(
        key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    )
    return private, public


def flip_byte(bundle: Bundle, draw: random.Random) -> bytes:
    content = bytearray(bundle.path.read_bytes())
    content[draw.randrange(len(content))] ^= draw.randrange(1, 256)
    return bytes(content)


def list_anew(manifest: dict[str, Any], files: dict[str, bytes]) -> None:
    """Update the manifest's list to the changed files, as a careful attacker would do."""
    manifest["files"] = [
        {"path": name, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        for name, data in sorted(files.items())
        if name != "manifest.json"
    ]


def change_file(manifest: dict[str, Any], files: dict[str, bytes], draw: random.Random) -> None:
    name = draw.choice(sorted({*files} - {"manifest.json"}))
    data = bytearray(files[name] or b"\0")
    data[draw.randrange(len(data))] ^= 1
    files[name] = bytes(data)
    list_anew(manifest, files)


def add_file(manifest: dict[str, Any], files: dict[str, bytes], draw: random.Random) -> None:
    files[f"src/extra{draw.randrange(1000)}.c"] = draw.randbytes(20)
    list_anew(manifest, files)


def remove_file(manifest: dict[str, Any], files: dict[str, bytes], draw: random.Random) -> None:
    del files[draw.choice(sorted({*files} - {"manifest.json"}))]
    list_anew(manifest, files)


def swap_files(manifest: dict[str, Any], files: dict[str, bytes], draw: random.Random) -> None:
    first, second = draw.sample(sorted({*files} - {"manifest.json"}), 2)
    files[first], files[second] = files[second], files[first] + b"\n"
    list_anew(manifest, files)


def change_claim(manifest: dict[str, Any], _: dict[str, bytes], draw: random.Random) -> None:
    claims = {"name": "other", "platform": "host", "target": "npu", "stand_ins": {"a": "b"}}
    key = draw.choice(sorted(claims))
    manifest[key] = claims[key]


def recompress(_: dict[str, Any], files: dict[str, bytes], draw: random.Random) -> None:
    """Change no content: the archive is compressed at another level."""
    del files, draw


EDITS = (change_file, add_file, remove_file, swap_files, change_claim, recompress)


def repack(bundle: Bundle, draw: random.Random) -> bytes:
    """Return the bundle with an edit, packed as firmwright packs it, except for the compression."""
    manifest: dict[str, Any] = json.loads(bundle.files["manifest.json"])
    files = dict(bundle.files)
    edit = draw.choice(EDITS)
    edit(manifest, files, draw)
    if edit is not recompress:
        files["manifest.json"] = json.dumps(manifest).encode()
    return gzip.compress(pack_tar(bundle.folder, files), draw.randrange(1, 9), mtime=0)


def find_undetected(path: Path, change: Change, count: int, seed: int) -> Iterator[str]:
    """Sign a bundle, change copies of it, and yield the message of each check ('' for no error)."""
    bundle, draw = read_bundle(path), random.Random(seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        private, _ = write_keys(folder, "release", 17)
        policy = folder / "policy.yaml"
        policy.write_text("keys: [release.pub]\n")
        envelope = folder / "signed.intoto.json"
        sign_bundle(bundle, private, envelope)
        verify_bundle(path, policy, envelope)
        for _ in range(count):
            changed = folder / path.name
            changed.write_bytes(change(bundle, draw))
            try:
                verify_bundle(changed, policy, envelope)
            except UserError as error:
                yield f"{type(error).__name__}"
            else:
                yield ""


def main(arguments: list[str]) -> int:
    """Change a bundle many times, print the number of each error; 1 if a change is not found."""
    parser = argparse.ArgumentParser(prog="python -m tests.hammer.bundles")
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--flips", type=int, default=1000)
    parser.add_argument("--repacks", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    wrong = 0
    for change, count in ((flip_byte, options.flips), (repack, options.repacks)):
        recorded = Counter(find_undetected(options.bundle, change, count, options.seed))
        wrong += recorded.pop("", 0)
        print(f"{change.__name__}: {sum(recorded.values())} of {count} detected: {dict(recorded)}")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
