"""An SBOM with any texts of users stays valid and contains the texts unchanged."""

from __future__ import annotations

import io
import json

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from spdx_python_model import v3_0_1 as spdx

from firmwright.bundle.components import BillOfMaterials, Component, License
from firmwright.bundle.cyclonedx import make_cyclonedx
from firmwright.bundle.spdx import make_spdx
from firmwright.ir.records import encode_record


@pytest.mark.parametrize(
    "text",
    [
        'say "a\\b"',
        "two\nlines",
        "\u202egpj.exe",
        "\x1b[2J\x00",
        "日本語 é",
        "</script>&'",
        "a" * 5000,
    ],
)
def test_any_text_stays_as_it_is(text: str) -> None:
    parts = (
        Component("model", text, True, sha256="0" * 64, description=text),
        Component("library", text, True, license=License(name=text)),
        Component("data", text, False, description=text),
    )
    bill = BillOfMaterials("digits-host", "host", text, "0" * 64, parts, {"model": text}, {})
    content = encode_record(make_cyclonedx(bill)).decode()
    assert JsonStrictValidator(SchemaVersion.V1_7).validate_str(content) is None
    assert [part["name"] for part in json.loads(content)["components"]] == [text, text]

    found = spdx.SHACLObjectSet()
    spdx.JSONLDDeserializer().read(io.BytesIO(encode_record(make_spdx(bill))), found)
    assert found.link() == set()
    assert [part.name for part in found.foreach_type(spdx.ai_AIPackage)] == [text]
