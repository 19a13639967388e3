"""The SBOM of a bundle is valid in both formats, and separates contents from tools."""

from __future__ import annotations

import hashlib
import io
import json

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from spdx_python_model import v3_0_1 as spdx

from firmwright.bundle.bundle import read_bundle

from .conftest import ALL_STAGES, Repository
from .test_trust import BUNDLE


def test_the_sbom_is_valid_cyclonedx(built: Repository) -> None:
    bundle = read_bundle(built.folder / BUNDLE)
    content = bundle.files["sbom/firmware.cdx.json"].decode()
    assert JsonStrictValidator(SchemaVersion.V1_7).validate_str(content) is None
    found = json.loads(content)
    image = hashlib.sha256(bundle.files["firmware.elf"]).hexdigest()
    assert found["metadata"]["component"]["hashes"][0]["content"] == image
    parts = {part["name"]: part for part in found["components"]}
    assert {*parts} == {"digits.onnx", "firmwright-templates", "zig-runtime"}
    model = parts["digits.onnx"]
    assert model["type"] == "machine-learning-model"
    assert model["hashes"][0]["content"] == bundle.manifest["model"]["sha256"]
    (build,) = found["formulation"]
    makers = {part["name"]: part for part in build["components"]}
    assert makers["apache-tvm"]["licenses"] == [{"expression": "Apache-2.0"}]
    assert makers["zig"]["purl"] == "pkg:generic/zig@0.17.0"
    assert [task["name"] for task in build["workflows"][0]["tasks"]] == ALL_STAGES


def to_element(part: object) -> spdx.Element:
    assert isinstance(part, spdx.Element)
    return part


def test_the_sbom_is_valid_spdx(built: Repository) -> None:
    bundle = read_bundle(built.folder / BUNDLE)
    found = spdx.SHACLObjectSet()
    with io.BytesIO(bundle.files["sbom/firmware.spdx.json"]) as stream:
        spdx.JSONLDDeserializer().read(stream, found)
    assert found.link() == set()  # every name in it is the name of an element
    with io.BytesIO() as stream:  # the writer checks that all required fields are present
        spdx.JSONLDSerializer().write(found, stream)
    (document,) = found.foreach_type(spdx.SpdxDocument)
    (root,) = map(to_element, document.rootElement)
    assert root.name == "digits-rv32-bare"
    (contains,) = [
        relation
        for relation in found.foreach_type(spdx.Relationship)
        if relation.relationshipType == spdx.RelationshipType.contains
    ]
    assert [to_element(part).name for part in contains.to] == [
        "digits.onnx", "firmwright-templates", "zig-runtime",
    ]  # fmt: skip
