"""A network on the C7x computes, bit for bit, the results of the network on the Arm cores."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from firmwright.devices.c7x import injective
from firmwright.recipe.target import parse_target
from firmwright.targets.load_devices import load_target
from firmwright.toolchain import load_platform, platform_names
from tests.networks.firmware import SANITIZED, run_generated
from tests.networks.qdq_operators import random_graph

pytestmark = pytest.mark.needs("gcc")


@pytest.mark.parametrize("target", ["c7x", "tidl, c7x"])
def test_every_operator_is_exact_to_the_cpu(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(injective, "BLOCK_BYTES", 32)  # so that even small tensors are split
    monkeypatch.setattr(injective, "VECTOR_BYTES", 4)
    graph = random_graph(7, each=2)
    data, samples = graph.build(), graph.samples(2, seed=1)
    on_c = run_generated(data, samples, tmp_path / "c", (), "onnx", "onnx", "c")
    found = run_generated(data, samples, tmp_path / "c7x", SANITIZED, "onnx", "onnx", target)
    for ours, theirs in zip(found, on_c, strict=True):
        for array, expected in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(array, expected)


def test_only_platforms_with_a_c7x_have_its_numbers() -> None:
    having = {n for n in platform_names() if "c7x" in load_platform(n).accelerators}
    assert having == {"am62a", "am67a", "host", "j721e", "j721s2", "j784s4"}
    for name in having:
        facts = load_platform(name).accelerators["c7x"]
        assert set(facts["unverified"]) <= set(facts), name
    assert load_platform("am67a").accelerators["c7x"]["silicon"] == 7524


def test_it_ends_a_mix_and_depends_on_the_platform() -> None:
    names = [d.name for d in parse_target("tidl, c7x")]
    assert [load_target(n).is_fallback for n in names] == [False, True]
    assert not load_target("c7x").is_portable
