"""examples/tidl: the operators of TIDL and the C7x after the rewrite of a convolution's strides."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from .conftest import Repository, repository_of_example

WITH, WITHOUT = "conv2d_1x2_stride", "conv2d_1x2_stride_as_it_is"


@pytest.fixture
def examples(tmp_path: Path) -> Repository:
    return repository_of_example("tidl", tmp_path)


def explained(examples: Repository, recipe: str) -> list[dict[str, Any]]:
    done = examples.firmwright("explain", f"{recipe}.yaml", "--json")
    assert done.returncode == 0, done.stderr
    operators: list[dict[str, Any]] = json.loads(done.stdout)["operators"]
    return operators


def test_a_stride_of_1x2_is_taken_and_only_integers_are_handed_on(examples: Repository) -> None:
    options = ("platform=host", "toolchain=gcc", "emulator=native")
    examples.build(f"recipe={WITH}.yaml,{WITHOUT}.yaml", *options)
    outputs = []
    for name in (WITH, WITHOUT):
        manifest = examples.manifest(f"build/{name}/{name}-host.tar.gz")
        assert manifest["run"]["differences"] == 0
        with np.load(examples.folder / "build" / name / "host" / "run" / "outputs.npz") as found:
            outputs.append(found["firmware_0"])
    assert len(np.unique(outputs[0])) > 100
    np.testing.assert_array_equal(*outputs)
    partition = examples.folder / "build" / WITH / "host" / "partition" / "partition.json"
    tensors = json.loads(partition.read_text())["tensors"]
    assert [t["dtype"] for t in tensors] == ["int8"] * 3


def test_explain_tells_what_the_rewrite_changes(examples: Repository) -> None:
    conv, pool = explained(examples, WITH)
    assert [conv["device"], pool["device"]] == ["tidl", "c7x"]
    assert [r["rule"] for r in pool["refusals"]] == ["pooling"]
    (conv,) = explained(examples, WITHOUT)
    assert conv["device"] == "c7x"
    assert [r["rule"] for r in conv["refusals"]] == ["equal strides"]


def test_what_falls_back_to_the_processor_can_be_forbidden(examples: Repository) -> None:
    """With `tidl, c7x` no operator falls back to the cores; with `tidl, c` the pool does."""
    recipe = examples.folder / f"{WITH}.yaml"
    recipe.write_text(recipe.read_text() + "allow_fallback: false\n")
    explained(examples, WITH)
    done = examples.firmwright("explain", recipe.name, "--target", "tidl, c")
    assert done.returncode == 1
    assert "allow_fallback: false, but on c are\n" in done.stderr
    assert "max_pool2d ('conv_QuantizeLinear'), 0 MACs\n    tidl: pooling: its" in done.stderr


def test_a_quantized_network_has_8_bits_and_no_options_on_how_tidl_quantizes(
    examples: Repository,
) -> None:
    recipe = examples.folder / f"{WITH}.yaml"
    text = recipe.read_text()
    recipe.write_text(text.replace("tidl, c7x", "tidl -accuracy_level=0, c7x"))
    refused = examples.firmwright("explain", recipe.name)
    assert refused.returncode == 1
    assert "conv2d_1x2_stride.yaml:7:9: target: tidl: accuracy_level is for" in refused.stderr
    assert "compile the float network, which TIDL quantizes" in refused.stderr

    wide = "quantize:\n  layers: [{match: conv_1, activations: int16}]\n"
    text = text.replace("require_offload: 100 %\n", "").replace("quantize:\n", wide)
    recipe.write_text(text)
    conv, _ = explained(examples, WITH)
    assert conv["device"] == "c7x"
    assert [r["rule"] for r in conv["refusals"]] == ["quantized to 8 bits"]
