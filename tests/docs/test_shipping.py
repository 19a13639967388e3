"""As on the page, a bundle is pushed, pulled, verified, rebuilt, attested and verified again."""

from __future__ import annotations

from pathlib import Path

import pytest

from .shipping import PAGE, follow_page
from .test_tutorial import mask


@pytest.mark.needs("docker-registry", "openssl")
def test_a_bundle_is_shipped_as_the_page_says(tmp_path: Path) -> None:
    text = follow_page(tmp_path)
    stale = "the page is stale; `python -m tests.docs.shipping` writes it"
    assert mask(text) == mask(PAGE.read_text(encoding="utf-8")), stale
    pulled = "receiver/digits-rv32-bare.tar.gz"
    assert f"{pulled}: trusted, sha256" in text
    assert "fewer than 2 of the policy's 2 keys have signed it" in text
    assert str(tmp_path) not in text
