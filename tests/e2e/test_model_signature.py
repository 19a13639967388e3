"""A recipe requires a signature of its model: the build checks it first, the bundle records it."""

from __future__ import annotations

import json

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from firmwright.bundle import cyclonedx, spdx
from firmwright.bundle.bundle import read_bundle
from firmwright.bundle.provenance import make_statement
from tests.bundle.test_model_signature import sign, write_key

from .conftest import Repository, new_repository
from .test_trust import firmwright

RECIPE = """\
model: {path: vendor/digits.onnx, signature: vendor/model.sig, key: maker.pub}
platform: host
run: {samples: 1}
"""
BUNDLE = "build/digits/digits-host.tar.gz"


@pytest.fixture(scope="module")
def signed(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    repository = new_repository(tmp_path_factory.mktemp("signed"))
    repository.write("digits.yaml", RECIPE)
    write_key(repository.folder / "maker.pem", ec.generate_private_key(ec.SECP256R1()))
    vendor = repository.folder / "vendor"
    vendor.mkdir()
    (repository.folder / "digits.onnx").rename(vendor / "digits.onnx")
    (vendor / "README.md").write_text("Reads digits.")
    sign(vendor, repository.folder / "maker.pem", vendor / "model.sig")
    return repository


def test_the_bundle_names_the_signature_that_was_checked(signed: Repository) -> None:
    signed.build("recipe=digits.yaml")
    bundle = read_bundle(signed.folder / BUNDLE)
    found = bundle.manifest["model_signature"]
    hint = json.loads((signed.folder / "vendor/model.sig").read_text())["verificationMaterial"]
    assert (found["name"], found["key"]) == ("vendor", hint["publicKey"]["hint"])
    assert bundle.manifest["inputs"]["files"].keys() == {
        "maker.pub", "vendor/README.md", "vendor/digits.onnx", "vendor/model.sig",
    }  # fmt: skip
    code, text = firmwright(signed, "inspect", BUNDLE)
    assert (code, f"'vendor' by the key {found['key']}" in text) == (0, True)
    definition = make_statement(bundle)["predicate"]["buildDefinition"]
    assert definition["resolvedDependencies"][0]["annotations"] == {"signature": found}
    assert (
        JsonStrictValidator(SchemaVersion.V1_7).validate_str(bundle.files[cyclonedx.FILE].decode())
        is None
    )
    for name in (cyclonedx.FILE, spdx.FILE):
        assert f"signed by the key with SHA-256 {found['key']}" in bundle.files[name].decode()


def test_another_key_or_model_ends_the_build_at_its_place(signed: Repository) -> None:
    write_key(signed.folder / "other.pem", ec.generate_private_key(ec.SECP256R1()))
    signed.write("other.yaml", RECIPE.replace("maker.pub", "other.pub"))
    code, text = firmwright(signed, "build", "other.yaml")
    assert code != 0
    assert "other.yaml:1:46: model.signature: vendor/model.sig: not signed by this key" in text

    model = signed.folder / "vendor/digits.onnx"
    content = model.read_bytes()
    model.write_bytes(content + b"\x00")
    code, text = firmwright(signed, "build", "digits.yaml")
    model.write_bytes(content)
    assert code != 0
    assert "digits.yaml:1:46: model.signature: vendor/model.sig: 'digits.onnx' was changed" in text
