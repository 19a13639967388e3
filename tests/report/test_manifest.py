"""Values that are not in the manifest."""

from __future__ import annotations

import msgspec

from firmwright.report.manifest import Source


def test_a_recipe_without_description_has_none_in_the_manifest() -> None:
    assert msgspec.to_builtins(Source("0", "1", {})) == {
        "sha256": "0",
        "network_sha256": "1",
        "resolved": {},
    }
    assert msgspec.to_builtins(Source("0", "1", {}, "A doorbell.")) == {
        "sha256": "0",
        "network_sha256": "1",
        "resolved": {},
        "description": "A doorbell.",
    }
