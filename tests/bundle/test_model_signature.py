"""Signatures of models: valid ones from the package of their format, and invalid ones by hand."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from model_signing import hashing, signing

from firmwright.bundle.model_signature import list_signed_files, read_model_key, verify_model
from firmwright.errors import UserError
from firmwright.ir.tensors import ModelSignature

PrivateKey = ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey


def write_key(path: Path, key: PrivateKey) -> None:
    """Write ``path`` with a private key, and its public key next to it as ``.pub``."""
    path.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    path.with_suffix(".pub").write_bytes(public)


def sign(model: Path, key: Path, signature: Path) -> None:
    """Sign a file or a folder with the package."""
    own = hashing.Config().set_ignored_paths(paths=[signature])
    config = signing.Config().use_elliptic_key_signer(private_key=key).set_hashing_config(own)
    config.sign(model, signature)


@dataclass(frozen=True)
class Signed:
    """A folder with a model, another file, and signatures of both files and of the first one."""

    folder: Path
    private: PrivateKey

    @property
    def model(self) -> Path:
        return self.folder / "deep" / "net.onnx"

    @property
    def weights(self) -> Path:
        return self.folder / "weights.bin"

    def verify(self, signature: str, key: str = "maker.pub", **changes: Any) -> ModelSignature:
        asked = {"model": self.model, "data": b"net", "others": [self.weights], **changes}
        return verify_model(
            self.folder / signature, read_model_key(self.folder.parent / key), **asked
        )

    def refuse(self, signature: str, key: str = "maker.pub", **changes: Any) -> str:
        with pytest.raises(UserError) as raised:
            self.verify(signature, key, **changes)
        return str(raised.value)

    def sign_again(self, change: Callable[[dict[str, Any], dict[str, Any]], object]) -> str:
        """Write a validly signed signature with a changed statement or envelope."""
        bundle = json.loads((self.folder / "model.sig").read_text())
        envelope = bundle["dsseEnvelope"]
        statement = json.loads(base64.b64decode(envelope["payload"]))
        change(bundle, statement)
        payload, kind = json.dumps(statement).encode(), envelope["payloadType"].encode()
        signed = b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)
        assert isinstance(self.private, ec.EllipticCurvePrivateKey)
        new = self.private.sign(signed, ec.ECDSA(hashes.SHA256()))
        envelope["payload"] = base64.b64encode(payload).decode()
        for each in envelope["signatures"]:
            each["sig"] = base64.b64encode(new).decode()
        (self.folder / "again.sig").write_text(json.dumps(bundle))
        return "again.sig"


def make_signed(folder: Path, curve: ec.EllipticCurve) -> Signed:
    """Sign a folder, and its model alone; the keys are next to the folder."""
    made = Signed(folder / "vendor", ec.generate_private_key(curve))
    made.model.parent.mkdir(parents=True)
    made.model.write_bytes(b"net")
    made.weights.write_bytes(b"weights")
    write_key(folder / "maker.pem", made.private)
    sign(made.folder, folder / "maker.pem", made.folder / "model.sig")
    sign(made.model, folder / "maker.pem", made.folder / "net.sig")
    return made


@pytest.fixture
def signed(tmp_path: Path) -> Signed:
    return make_signed(tmp_path, ec.SECP256R1())


@pytest.mark.parametrize("curve", [ec.SECP256R1(), ec.SECP384R1(), ec.SECP521R1()])
def test_what_the_package_signs_is_believed(curve: ec.EllipticCurve, tmp_path: Path) -> None:
    made = make_signed(tmp_path, curve)
    hint = json.loads((made.folder / "model.sig").read_text())["verificationMaterial"]["publicKey"]
    folder = made.verify("model.sig")
    assert (folder.name, folder.key) == ("vendor", hint["hint"])
    alone = made.verify("net.sig", others=[])
    assert made.verify("net.sig", model=None, others=[]) == alone
    assert alone.name == "net.onnx"
    assert alone.sha256 != folder.sha256


def test_what_is_not_as_it_was_signed_is_refused(signed: Signed) -> None:
    assert "'net.onnx' was changed" in signed.refuse("model.sig", data=b"Net")
    assert "'net.onnx' was changed" in signed.refuse("net.sig", data=b"Net", others=[])
    changed = signed.refuse("net.sig", model=None, data=b"Net", others=[])
    assert "differs from the signed model" in changed
    assert "differs from the signed model" in signed.refuse("model.sig", model=None, others=[])
    other = signed.folder / "other.onnx"
    assert "belongs to other files ('deep/net.onnx', 'weights.bin')" in signed.refuse(
        "model.sig", model=other
    )
    assert "'deep/more.bin' belongs to the model" in signed.refuse(
        "model.sig", others=[signed.weights, signed.model.with_name("more.bin")]
    ).replace(f"{signed.folder}/", "")
    assert "belongs to the model, but is not signed" in signed.refuse("net.sig")
    signed.weights.write_bytes(b"Weights")
    assert "'weights.bin' is not the file that was signed" in signed.refuse("model.sig")
    signed.weights.unlink()
    assert "weights.bin': No such file or directory" in signed.refuse("model.sig")
    assert "missing.sig: no such file" in signed.refuse("missing.sig")


def test_all_signed_files_are_told_to_the_build(signed: Signed) -> None:
    found = list_signed_files(signed.folder / "model.sig", signed.model)
    assert found == [signed.model, signed.weights]
    assert list_signed_files(signed.folder / "net.sig", signed.model) == [signed.model]
    signed.weights.unlink()
    assert list_signed_files(signed.folder / "model.sig", signed.model) == [signed.model]
    assert list_signed_files(signed.folder / "missing.sig", signed.model) == []


def test_another_key_is_refused(signed: Signed) -> None:
    write_key(signed.folder.parent / "other.pem", ec.generate_private_key(ec.SECP256R1()))
    assert "not signed by this key" in signed.refuse("model.sig", "other.pub")
    write_key(signed.folder.parent / "other.pem", ec.generate_private_key(ec.SECP256K1()))
    assert "found one on secp256k1" in signed.refuse("model.sig", "other.pub")
    write_key(signed.folder.parent / "other.pem", ed25519.Ed25519PrivateKey.generate())
    assert "found another kind" in signed.refuse("model.sig", "other.pub")
    assert "not a public key in PEM" in signed.refuse("model.sig", "maker.pem")


def set_value(*path: str | int, value: Any) -> Callable[[Any, Any], None]:
    """Return a change of a bundle (``b``) or of its statement (``s``)."""

    def change(bundle: Any, statement: Any) -> None:
        holder = bundle if path[0] == "b" else statement
        for key in path[1:-1]:
            holder = holder[key]
        holder[path[-1]] = value

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (set_value("b", "mediaType", value="application/json"), "found 'application/json'"),
        (set_value("b", "verificationMaterial", "certificate", value={}), "with a certificate"),
        (set_value("b", "dsseEnvelope", "payloadType", value="text/x"), "it signs a 'text/x'"),
        (set_value("b", "dsseEnvelope", "signatures", value=[]), "not a signature of a model"),
        (set_value("s", "_type", value="https://in-toto.io/Statement/v0.1"), "Statement/v0.1'"),
        (
            set_value("s", "predicateType", value="https://model_signing/Digests/v0.1"),
            "found 'https://model_signing/Digests/v0.1'",
        ),
        (set_value("s", "predicate", "resources", value=[]), "not a signature of a model"),
        (set_value("s", "predicate", "serialization", value=None), "not a signature of a model"),
        (set_value("s", "predicate", "serialization", "method", value="shards"), "as 'shards'"),
        (set_value("s", "predicate", "serialization", "hash_type", value="blake3"), "'blake3'"),
        (set_value("s", "predicate", "resources", 0, "name", value="../x"), "'..' in its name"),
        (set_value("s", "predicate", "resources", 0, "digest", value="00"), "'deep/net.onnx'"),
        (set_value("s", "predicate", "resources", 1, "digest", value="0" * 64), "subject's digest"),
        (set_value("s", "subject", value=[]), "not a signature of a model"),
    ],
)
def test_what_is_no_signature_of_a_model_is_refused(
    change: Callable[[Any, Any], None], message: str, signed: Signed
) -> None:
    again = signed.sign_again(lambda *_: None)
    assert signed.verify(again).name == "vendor"
    assert message in signed.refuse(signed.sign_again(change))


@pytest.mark.parametrize(
    "text", ["", '{"garbage": true}', "[]", '{"mediaType": 1, "mediaType": 1}']
)
def test_a_file_that_is_no_signature_is_refused(text: str, signed: Signed) -> None:
    (signed.folder / "again.sig").write_text(text)
    assert signed.refuse("again.sig").startswith(str(signed.folder / "again.sig"))


def test_a_changed_byte_is_refused(signed: Signed) -> None:
    bundle = json.loads((signed.folder / "model.sig").read_text())
    payload = bytearray(base64.b64decode(bundle["dsseEnvelope"]["payload"]))
    payload[len(payload) // 2] ^= 1
    bundle["dsseEnvelope"]["payload"] = base64.b64encode(payload).decode()
    (signed.folder / "again.sig").write_text(json.dumps(bundle))
    assert "not signed by this key, or changed since" in signed.refuse("again.sig")
