"""Values between regions equal the values of the whole network on the host."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relax

from firmwright.devices.tidl.region_tensors import compute_tensors, select_regions
from firmwright.ir.regions import Partition
from firmwright.models.relax.importer import import_model
from firmwright.partition.outline import partition_module
from firmwright.recipe.target import parse_target
from firmwright.targets.load_devices import load_mix
from firmwright.toolchain import load_platform

GIVEN = np.array([[-2.5, -1.0, 0.0, 3.0]], "float32")


@pytest.fixture(scope="module")
def line() -> tuple[tvm.IRModule, Partition]:
    """Three regions, one after the other: negative, floor, exp."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType(GIVEN.shape, "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            value = x
            for operator in (relax.op.negative, relax.op.floor):
                value = builder.emit(operator(value))
            result = builder.emit_output(relax.op.exp(value))
        builder.emit_func_output(result)
    module, interface = import_model(tvm.ir.save_json(builder.get()).encode(), "test", {})
    mix = load_mix(parse_target("c"), load_platform("host"), "onnx", fuse_layers=False)
    return partition_module(module, interface, mix)


def test_every_tensor_is_what_the_regions_before_it_make(
    line: tuple[tvm.IRModule, Partition],
) -> None:
    module, partition = line
    names = [region.outputs[0] for region in partition.regions]
    expected = [-GIVEN, np.floor(-GIVEN), np.exp(np.floor(-GIVEN))]
    for wanted in ([names[2]], [*names, *partition.inputs]):
        (found,) = compute_tensors(module, partition, [{"x": GIVEN}], wanted)
        assert list(found) == wanted
        for name, array in zip(names, expected, strict=True):
            if name in found:
                np.testing.assert_allclose(found[name], array, rtol=1e-6)


def test_an_input_is_what_is_given(line: tuple[tvm.IRModule, Partition]) -> None:
    module, partition = line
    samples = [{"x": GIVEN}, {"x": 2 * GIVEN}]
    found = list(compute_tensors(module, partition, samples, partition.inputs))
    assert [f[partition.inputs[0]][0, 0] for f in found] == [-2.5, -5.0]


def test_what_nobody_asks_for_is_not_computed(line: tuple[tvm.IRModule, Partition]) -> None:
    partition = line[1]
    first, second, _ = partition.regions
    assert select_regions(partition, second.outputs) == [first, second]
    assert select_regions(partition, partition.inputs) == []
