"""Quantized networks as float networks: weights, activations and ranges, also with shifts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import pytest

from firmwright.errors import UserError
from firmwright.models.onnx import importer
from firmwright.models.onnx.export import PER_CHANNEL_OPSET
from firmwright.models.onnx.float_export import export_onnx
from firmwright.quantize.calibration import calibrate
from firmwright.quantize.float_graph import evaluate, prepare
from firmwright.quantize.integer_io import remove_float_io
from firmwright.quantize.qdq_graph import quantize
from firmwright.quantize.restore import (
    RestoredNetwork,
    infer_distributions,
    is_quantized,
    restore_float,
)
from firmwright.transforms import canonicalize

from .networks import Array, options, ready, residual_network, samples


def quantized_and_restored() -> tuple[onnx.ModelProto, RestoredNetwork]:
    """Return the affine int8 network with float32 inputs, and the network restored from it."""
    model = ready(residual_network())
    fake = quantize(model, calibrate(model, samples(24)), options())
    inner = onnx.ModelProto()
    inner.CopyFrom(fake)
    remove_float_io(inner)
    module, interface = importer.import_model(inner.SerializeToString(), "network", {})
    module = canonicalize(module)
    assert is_quantized(module)
    return fake, restore_float(module, interface)


def as_onnx(found: RestoredNetwork) -> onnx.ModelProto:
    data = export_onnx(found.module, found.interface)
    return prepare(data, found.interface.inputs, PER_CHANNEL_OPSET)


def results(model: onnx.ModelProto, given: list[dict[str, Array]]) -> Array:
    return np.stack([found["y"] for found in evaluate(model, given)])


def test_restored_network_lacks_nothing_but_roundings() -> None:
    fake, found = quantized_and_restored()
    assert not is_quantized(found.module)
    assert [t.dtype for t in found.interface.inputs + found.interface.outputs] == ["float32"] * 2
    given = samples(24, seed=7)
    wanted, mine = results(fake, given), results(as_onnx(found), given)
    assert 10 * np.log10(np.square(wanted).sum() / np.square(mine - wanted).sum()) > 30


def test_what_a_zero_point_rectified_is_a_relu() -> None:
    # The affine graph has no Relu, because ranges that begin at 0 have its effect.
    fake, found = quantized_and_restored()
    assert "Relu" not in {n.op_type for n in fake.graph.node}
    assert [n.op_type for n in as_onnx(found).graph.node].count("Relu") == 2


def test_ranges_are_those_of_the_grids() -> None:
    _, found = quantized_and_restored()
    model = as_onnx(found)
    stated = infer_distributions(model, found.ranges)
    seen = calibrate(model, samples(24))
    assert set(stated) == set(seen)
    for name, one in stated.items():
        maker = next((n.op_type for n in model.graph.node if name in n.output), "")
        if maker not in ("Conv", "Add"):  # a ReLU hides a part
            assert one.highest == pytest.approx(seen[name].highest, rel=0.2, abs=0.1), name


def test_integers_without_a_scale_are_refused() -> None:
    model = ready(residual_network())
    inner = quantize(model, calibrate(model, samples(4)), options())
    remove_float_io(inner)
    module, interface = importer.import_model(inner.SerializeToString(), "network", {})
    # As in a network whose operators do not state it.
    bare = tuple(replace(t, scale=None, zero_point=None) for t in interface.inputs)
    with pytest.raises(UserError, match="no quantization parameters of 'x'"):
        restore_float(module, replace(interface, inputs=bare))


def test_missing_ranges_are_named() -> None:
    _, found = quantized_and_restored()
    with pytest.raises(UserError, match=r"no range for .*y; add samples"):
        infer_distributions(as_onnx(found), {})
