"""The facts of a release: its time exists, and its licenses are SPDX expressions."""

from __future__ import annotations

import pytest

from firmwright.recipe.releases import find_release_errors


@pytest.mark.parametrize(
    "license",
    [
        "Apache-2.0",
        "GPL-2.0+",
        "LicenseRef-ACME",
        "DocumentRef-acme.1:LicenseRef-ACME",
        "MIT AND (Apache-2.0 OR GPL-2.0-only WITH Classpath-exception-2.0)",
        "((MIT)OR Zlib)",
    ],
)
def test_license_expressions_are_accepted(license: str) -> None:
    release = {"time": "2028-02-29T12:00:00Z", "model_license": license}
    assert [*find_release_errors({"release": release})] == []


@pytest.mark.parametrize(
    "license",
    [
        "my own license (",
        "MIT License",
        "MIT AND",
        "OR",
        "",
        "()",
        "(MIT",
        "MIT)",
        "MIT or Zlib",
        "(MIT OR Zlib) WITH Classpath-exception-2.0",
        "MIT WITH a WITH b",
        "DocumentRef-acme:MIT",
        "LicenseRef-",
        "A+B",
        "MIT\n",
    ],
)
def test_other_texts_are_errors_at_their_key(license: str) -> None:
    (finding,) = find_release_errors({"release": {"data_license": license}})
    assert finding.pointer == ("release", "data_license")
    assert "is not an SPDX expression" in finding.message


@pytest.mark.parametrize("time", ["2026-02-31T12:00:00Z", "2027-02-29T12:00:00Z"])
def test_a_day_that_does_not_exist_is_an_error(time: str) -> None:
    (finding,) = find_release_errors({"release": {"time": time}})
    assert finding.pointer == ("release", "time")
