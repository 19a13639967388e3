"""The recipe of the page about torchao builds a program that PT2E quantized."""

from __future__ import annotations

import re

import pytest

from .conftest import ROOT, Repository

PAGE = ROOT / "docs/howto/torchao.md"


def test_the_recipe_of_the_page_builds(repository: Repository) -> None:
    torch = pytest.importorskip("torch")
    from tests.models.test_pytorch_programs import Quantized
    from tests.networks.torch_programs import exported

    data = exported(Quantized(), torch.zeros(1, 3, 5, 5))
    (repository.folder / "net.pt2").write_bytes(data)
    (recipe,) = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    repository.write("net.yaml", f"{recipe}toolchain: gcc\n")  # starts faster than zig
    repository.build("recipe=net.yaml")
    assert repository.manifest("build/net/net-host.tar.gz")["run"]["mismatches"] == 0
