"""Writes the SBOM in the form of SPDX 3.0.1, https://spdx.github.io/spdx-spec/v3.0.1/, as JSON-LD.

SPDX requires a time of creation. The time is the release time in the recipe, or the beginning of
1970 if the recipe states no release.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from firmwright.bundle.components import BillOfMaterials, Component, ReleaseFacts

FILE = "sbom/firmware.spdx.json"
"""The path of the SBOM in a bundle."""

CONTEXT = "https://spdx.org/rdf/3.0.1/spdx-context.jsonld"
CREATION = "_:creation"
CREATED = "1970-01-01T00:00:00Z"
PURPOSES = {"library": "library", "tool": "application"}

Element = dict[str, Any]


def make_spdx(bill: BillOfMaterials) -> dict[str, Any]:
    """Return the document: the firmware contains some parts, and the build used the other parts."""
    space = f"urn:sha256:{bill.identity}"
    agent = make_element("SoftwareAgent", f"{space}#firmwright", name="firmwright")
    release = bill.release
    stated = list_agents(space, release) if release else {}
    root = make_element(
        "software_Package",
        f"{space}#firmware",
        name=bill.name,
        software_packageVersion=release.version if release else "",
        suppliedBy=stated["supplier"]["spdxId"] if release else "",
        description=bill.description,
        verifiedUsing=[make_hash(bill.sha256)],
        software_primaryPurpose="firmware",
    )
    build = make_element(
        "build_Build",
        f"{space}#build",
        build_buildType="tag:firmwright,2026:recipe/v1",
        description="; ".join(f"{stage}: {what}" for stage, what in bill.stages.items()),
    )
    parts = [(c, make_part(c, f"{space}#{number}")) for number, c in enumerate(bill.components)]
    included = [part["spdxId"] for component, part in parts if component.included]
    inputs = [part["spdxId"] for component, part in parts if component.kind == "data"]
    tools = [part["spdxId"] for component, part in parts if component.kind == "tool"]
    elements = [agent, *stated.values(), root, build, *(part for _, part in parts)]
    elements.append(relate(f"{space}#contains", root, "contains", included))
    elements.append(relate(f"{space}#inputs", build, "hasInput", inputs))
    elements.append(relate(f"{space}#tools", build, "usesTool", tools))
    elements.append(relate(f"{space}#output", build, "hasOutput", [root["spdxId"]]))
    elements += [e for component, part in parts for e in make_license(component, part)]
    listed = [element["spdxId"] for element in elements]
    document = make_element(
        "SpdxDocument",
        f"{space}#document",
        rootElement=[root["spdxId"]],
        element=listed,
        profileConformance=["core", "software", "build", "simpleLicensing"],
    )
    creation = {
        "type": "CreationInfo",
        "@id": CREATION,
        "specVersion": "3.0.1",
        "created": release.time if release else CREATED,
        "createdBy": [stated.get("author", agent)["spdxId"]],
    }
    return {"@context": CONTEXT, "@graph": [creation, document, *elements]}


def list_agents(space: str, release: ReleaseFacts) -> dict[str, Element]:
    return {
        "supplier": make_element("Organization", f"{space}#supplier", name=release.supplier),
        "author": make_element("Agent", f"{space}#author", name=release.author),
    }


def make_element(kind: str, identifier: str, **properties: Any) -> Element:
    known = {key: value for key, value in properties.items() if value}
    return {"type": kind, "spdxId": identifier, "creationInfo": CREATION, **known}


def make_hash(digest: str) -> Element:
    return {"type": "Hash", "algorithm": "sha256", "hashValue": digest}


def make_part(component: Component, name: str) -> Element:
    """Return a package. SPDX has separate types for models and for data."""
    common = {
        "name": component.name,
        "description": component.description,
        "verifiedUsing": [make_hash(component.sha256)] if component.sha256 else [],
        "software_packageVersion": component.version,
        "software_packageUrl": component.purl,
    }
    if component.kind == "model":
        return make_element("ai_AIPackage", name, software_primaryPurpose="model", **common)
    if component.kind == "data":
        kinds = {"software_primaryPurpose": "data", "dataset_datasetType": ["noAssertion"]}
        return make_element("dataset_DatasetPackage", name, **kinds, **common)
    purpose = PURPOSES[component.kind]
    return make_element("software_Package", name, software_primaryPurpose=purpose, **common)


def make_license(component: Component, part: Element) -> list[Element]:
    """Return a part's license and the relationship to it, or [] without an SPDX expression."""
    name = part["spdxId"]
    if not component.license.expression:
        return []
    stated = make_element(
        "simplelicensing_LicenseExpression",
        f"{name}-license",
        simplelicensing_licenseExpression=component.license.expression,
    )
    declared = relate(f"{name}-declared", part, "hasDeclaredLicense", [stated["spdxId"]])
    return [stated, declared]


def relate(name: str, source: Element, kind: str, others: Sequence[str]) -> Element:
    """Return a relationship.

    The relationship refers to SPDX's ``NoneElement`` if ``others`` is empty.
    """
    none = "https://spdx.org/rdf/3.0.1/terms/Core/NoneElement"
    return make_element(
        "Relationship",
        name,
        **{"from": source["spdxId"]},
        relationshipType=kind,
        to=list(others) or [none],
        completeness="complete",
    )
