"""Both forms of a release's SBOM have the minimum elements of the NTIA, and SPDX's licenses.

Source: NTIA, The Minimum Elements For a Software Bill of Materials, 2021, II. The Cyber Resilience
Act (Regulation (EU) 2024/2847, annex I, part II, 1) demands a common format with the dependencies.
"""

from __future__ import annotations

import io
import json
from dataclasses import asdict, replace

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from spdx_python_model import v3_0_1 as spdx

from firmwright.bundle.components import BillOfMaterials, Component, License, ReleaseFacts
from firmwright.bundle.cyclonedx import make_cyclonedx
from firmwright.bundle.spdx import make_spdx
from firmwright.ir.records import encode_record

TIME = "2026-11-27T12:00:00Z"
RELEASE = ReleaseFacts("1.2.0", "ACME GmbH", "product security", TIME)
PARTS = (
    Component("model", "kws.tflite", True, sha256="1" * 64, license=License("Apache-2.0")),
    Component("library", "mine", True, "2.0", "pkg:generic/mine@2.0"),
    Component("data", "run-samples", False, sha256="2" * 64, license=License("CC-BY-4.0")),
)
BILL = BillOfMaterials("kws-host", "host", "words", "0" * 64, PARTS, {"run": "run"}, {}, RELEASE)


def test_cyclonedx_has_the_minimum_elements() -> None:
    content = encode_record(make_cyclonedx(BILL)).decode()
    assert JsonStrictValidator(SchemaVersion.V1_7).validate_str(content) is None
    found = json.loads(content)
    metadata = found["metadata"]
    firmware = metadata["component"]
    assert metadata["timestamp"] == TIME
    assert [author["name"] for author in metadata["authors"]] == ["product security"]
    assert (firmware["name"], firmware["version"]) == ("kws-host", "1.2.0")
    assert firmware["supplier"] == {"name": "ACME GmbH"}
    parts = {part["bom-ref"]: part for part in found["components"]}
    for part in parts.values():
        assert part["name"] and (part.get("purl") or part["hashes"])  # a unique identifier
    (root, *_) = found["dependencies"]
    assert (root["ref"], root["dependsOn"]) == (firmware["bom-ref"], [*parts])
    assert parts["model:kws.tflite"]["licenses"] == [{"expression": "Apache-2.0"}]
    (data,) = found["formulation"][0]["components"]
    assert data["licenses"] == [{"expression": "CC-BY-4.0"}]


def test_spdx_has_the_minimum_elements() -> None:
    content = encode_record(make_spdx(BILL))
    found = spdx.SHACLObjectSet()
    spdx.JSONLDDeserializer().read(io.BytesIO(content), found)
    assert found.link() == set()
    with io.BytesIO() as stream:  # the writer checks that all required fields are present
        spdx.JSONLDSerializer().write(found, stream)
    creation, document, *elements = json.loads(content)["@graph"]
    named = {element["spdxId"]: element for element in elements}
    assert creation["created"] == TIME
    assert [named[agent]["name"] for agent in creation["createdBy"]] == ["product security"]
    (firmware,) = (named[name] for name in document["rootElement"])
    assert (firmware["name"], firmware["software_packageVersion"]) == ("kws-host", "1.2.0")
    assert named[firmware["suppliedBy"]]["name"] == "ACME GmbH"
    related = {e["relationshipType"]: e for e in elements if e["type"] == "Relationship"}
    assert [named[part]["name"] for part in related["contains"]["to"]] == ["kws.tflite", "mine"]
    licenses = {
        named[e["from"]]["name"]: named[e["to"][0]]["simplelicensing_licenseExpression"]
        for e in elements
        if e.get("relationshipType") == "hasDeclaredLicense"
    }
    assert licenses == {"kws.tflite": "Apache-2.0", "run-samples": "CC-BY-4.0"}


def test_without_a_release_no_fact_is_invented() -> None:
    bill = BillOfMaterials("kws-host", "host", "words", "0" * 64, PARTS, {"run": "run"}, {})
    metadata = make_cyclonedx(bill)["metadata"]
    assert not {"timestamp", "authors"} & {*metadata}
    assert not {"version", "supplier"} & {*metadata["component"]}
    creation, *_ = make_spdx(bill)["@graph"]
    assert creation["created"] == "1970-01-01T00:00:00Z"


def test_each_release_of_one_image_has_a_separate_identifier() -> None:
    releases = (None, RELEASE, *(replace(RELEASE, **{k: "2"}) for k in asdict(RELEASE)))
    bills = [replace(BILL, release=release) for release in releases]
    numbers = [make_cyclonedx(bill)["serialNumber"] for bill in bills]
    names = [make_spdx(bill)["@graph"][1]["spdxId"] for bill in bills]
    assert len({*numbers}) == len({*names}) == len(bills) == 6, (
        "BillOfMaterials.identity ignores a fact of the release"
    )
    assert names[0] == f"urn:sha256:{BILL.sha256}#document"
