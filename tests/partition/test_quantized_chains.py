"""Quantized layers, as plug-ins find them between dequantize and quantize."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tvm
from tvm import relax

from firmwright.ir.operators import short_name
from firmwright.ir.relax import constant_array
from firmwright.models.onnx import importer
from firmwright.partition.quantized_chains import find_quantized_chains
from firmwright.transforms import canonicalize
from tests.devices.tidl.networks import network
from tests.quality.test_repository import ROOT

op = relax.op
GRID = relax.const(np.float32(0.5)), relax.const(np.int8(3))


def digits() -> tvm.IRModule:
    data = (ROOT / "examples/digits/digits.onnx").read_bytes()
    return canonicalize(importer.import_model(data, "digits", {})[0])


def test_convolutions_have_their_weights_biases_and_scales() -> None:
    chains = list(find_quantized_chains(digits(), ["conv2d"], ["add", "relu"]))
    assert len(chains) == 4
    first = chains[0]
    assert [short_name(step.call) for step in first.steps] == ["conv2d", "add"]
    data, weights = first.steps[0].operands
    before, bias = first.steps[1].operands
    assert data is not None and weights is not None and bias is not None and before is None
    assert (data.is_constant, weights.is_constant, bias.dtype) == (False, True, "int32")
    assert weights.scale.size == 8 == constant_array(weights.value).shape[weights.axis]
    np.testing.assert_allclose(bias.scale.reshape(-1), data.scale * weights.scale.reshape(-1))
    assert first.result.value == first.variables[-1]
    (following, _) = chains[1].steps[0].operands
    assert following is not None and following.value == first.result.value


def test_a_bias_that_may_not_follow_ends_no_chain() -> None:
    assert not list(find_quantized_chains(digits(), ["conv2d"]))


def quantized(build: Callable[..., relax.Expr]) -> tvm.IRModule:
    def both(builder: relax.BlockBuilder, x: relax.Var) -> list[relax.Expr]:
        real = builder.emit(build(builder, builder.emit(op.dequantize(x, *GRID))))
        return [op.quantize(real, *GRID, out_dtype="int8")]

    return network(both, dtype="int8")


@pytest.mark.parametrize(
    ("build", "count"),
    [
        (lambda _, x: op.nn.relu(x), 1),
        (lambda _, x: op.nn.relu(op.nn.relu(x)), 1),
        (lambda b, x: op.add(r := b.emit(op.nn.relu(x)), r), 0),  # read twice
        (lambda b, x: op.nn.relu(b.emit(op.sign(x))), 0),  # of floats without a dequantize
        (lambda _, x: op.sign(op.nn.relu(x)), 0),  # may not follow
    ],
)
def test_what_is_a_chain(build: Callable[..., relax.Expr], count: int) -> None:
    module = quantized(build)
    chains = list(find_quantized_chains(module, ["relu"], ["relu"]))
    assert len(chains) == count


@pytest.mark.parametrize("quantizes", [True, False])
def test_parameters_that_are_computed_end_no_chain(quantizes: bool) -> None:
    """A device cannot write them into its program."""

    def both(builder: relax.BlockBuilder, x: relax.Var) -> list[relax.Expr]:
        scale = builder.emit(op.sqrt(relax.const(np.float32(0.25))))
        grids = [GRID, (scale, GRID[1])]
        before, after = grids[not quantizes], grids[quantizes]
        real = builder.emit(op.nn.relu(builder.emit(op.dequantize(x, *before))))
        return [op.quantize(real, *after, out_dtype="int8")]

    assert not list(find_quantized_chains(network(both, dtype="int8"), ["relu"]))


def test_operands_of_a_concatenation_are_those_of_its_tuple() -> None:
    def build(builder: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
        return op.concat(
            [x, builder.emit(op.dequantize(relax.const(np.array([[[[4]]]], "int8")), *GRID))]
        )

    module = network(
        lambda b, x: [
            op.quantize(b.emit(build(b, b.emit(op.dequantize(x, *GRID)))), *GRID, out_dtype="int8")
        ],
        (1, 1, 1, 1),
        "int8",
    )
    (chain,) = find_quantized_chains(module, ["concat"])
    assert [s.is_constant for s in chain.steps[0].operands if s] == [False, True]
