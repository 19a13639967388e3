"""Layout transforms: their number is minimal, and regions between them give the same results."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
import tvm
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm import relax

from firmwright.builder import Graph
from firmwright.compile import partition_network
from firmwright.devices.soma_dory.boundaries import DeviceLayout
from firmwright.devices.soma_dory.device_layout import device_storage
from firmwright.errors import UserError
from firmwright.ir.layer import Array
from firmwright.ir.regions import TRANSFORM, Partition, Region
from firmwright.ir.tensors import ModelInterface, Tensor
from firmwright.models.relax.importer import import_model, run_reference
from firmwright.partition.layouts import TransformInserter, choose_layout_regions
from firmwright.partition.outline import partition_module
from firmwright.recipe.target import parse_target
from firmwright.targets.load_devices import load_mix
from firmwright.toolchain import load_platform

from .device_arrays import from_device, to_device

LAYOUT = DeviceLayout()


@st.composite
def graphs(draw: st.DrawFn) -> tuple[Partition, set[str], set[str]]:
    """A partition of up to seven regions, the regions of the device, and the flexible regions."""
    count = draw(st.integers(1, 7))
    inputs = tuple(f"input_{i}" for i in range(draw(st.integers(1, 2))))
    names, regions, native, flexible = list(inputs), [], set(), set()
    for index in range(count):
        name = f"region_{index}"
        read = draw(st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True))
        written = tuple(f"{name}_result_{i}" for i in range(draw(st.integers(1, 2))))
        device = "soma_dory" if draw(st.booleans()) else "c"
        regions.append(
            Region(name, device, "", "", (), (), tuple(read), written, 0, False, ())
        )  # fmt: skip
        names += written
        if device == "soma_dory":
            native.add(name)
        elif draw(st.booleans()):
            flexible.add(name)
    outputs = draw(st.lists(st.sampled_from(names), min_size=1, max_size=2, unique=True))
    widths = draw(st.lists(st.integers(1, 40), min_size=len(names), max_size=len(names)))
    tensors = tuple(Tensor(n, (1, w), "int8") for n, w in zip(names, widths, strict=True))
    return Partition(inputs, tuple(outputs), tensors, tuple(regions)), native, flexible


def cost(partition: Partition, inside: set[str]) -> tuple[int, int]:
    """Return the transforms that a choice of sides needs, and the bytes that they move."""
    sides: dict[str, set[bool]] = {t.name: set() for t in partition.tensors}
    for name in (*partition.inputs, *partition.outputs):
        sides[name].add(False)
    for region in partition.regions:
        for name in (*region.inputs, *region.outputs):
            sides[name].add(region.name in inside)
    moved = [t for t in partition.tensors if len(sides[t.name]) == 2]
    return len(moved), sum(-(-t.shape[-1] // 16) * 16 for t in moved)


@settings(max_examples=300, deadline=None)
@given(graphs())
def test_no_choice_needs_fewer_transforms(
    graph: tuple[Partition, set[str], set[str]],
) -> None:
    partition, native, flexible = graph
    inside = choose_layout_regions(partition, native, flexible, LAYOUT)
    assert native <= inside <= native | flexible
    free = sorted(flexible)
    choices = [
        native | {name for name, taken in zip(free, bits, strict=True) if taken}
        for bits in product((False, True), repeat=len(free))
    ]
    assert cost(partition, inside) == min(cost(partition, choice) for choice in choices)


@settings(max_examples=100, deadline=None)
@given(graphs())
def test_every_tensor_is_made_before_it_is_read_and_in_the_right_layout(
    graph: tuple[Partition, set[str], set[str]],
) -> None:
    before, native, flexible = graph
    inside = choose_layout_regions(before, native, flexible, LAYOUT)
    insertion = TransformInserter(before, inside, "soma_dory", LAYOUT, "c")
    for region in before.regions:
        insertion.add(region)
    after = insertion.build_partition()
    in_layout = dict.fromkeys(after.inputs, False)
    for region in after.regions:
        assert all(n in in_layout for n in region.inputs)
        if region.anchor == TRANSFORM:
            (read,), (written,) = region.inputs, region.outputs
            in_layout[written] = not in_layout[read]
        else:
            assert all(in_layout[n] == (region.name in inside) for n in region.inputs)
            in_layout.update(dict.fromkeys(region.outputs, region.name in inside))
    assert not any(in_layout[n] for n in after.outputs)
    assert sorted(t.name for t in after.tensors) == sorted(in_layout)
    transforms = [r for r in after.regions if r.anchor == TRANSFORM]
    assert len(transforms) == cost(before, inside)[0]


class Network:
    """A graph whose convolutions and dense layers the accelerator supports."""

    def __init__(self) -> None:
        self.graph = Graph()
        self.random = np.random.default_rng(0)

    def conv(self, x: relax.Var, name: str, outputs: int) -> relax.Var:
        shape = (outputs, int(x.ty.shape[1]), 3, 3)
        weights = self.random.integers(-9, 9, shape).astype("int8")
        return self.graph.conv2d(x, name, weights, shift_bits=6)

    def dense(self, x: relax.Var, name: str, outputs: int) -> relax.Var:
        weights = self.random.integers(-9, 9, (outputs, int(x.ty.shape[1]))).astype("int8")
        return self.graph.dense(x, name, weights, shift_bits=6)


def chain() -> tvm.IRModule:
    """Elementwise operators between convolutions stay in the device's layout."""
    net = Network()
    x = net.conv(net.graph.input("x", (2, 3, 5, 7)), "first", 4)
    x = net.graph.emit(relax.op.maximum(x, relax.const(-7, "int8")), "at_least")
    x = net.conv(x, "second", 5)
    return net.graph.output(x).module()


def residual() -> tvm.IRModule:
    """A maximum on the CPU, of two tensors in the device's layout."""
    net = Network()
    x = net.conv(net.graph.input("x", (1, 3, 6, 18)), "first", 4)
    x = net.graph.emit(relax.op.maximum(net.conv(x, "second", 4), x), "larger")
    return net.graph.output(net.conv(x, "third", 2)).module()


def joined() -> tvm.IRModule:
    """Channels of two convolutions, and of a third one that the CPU also reads."""
    net = Network()
    x = net.graph.input("x", (1, 3, 4, 5))
    parts = [net.conv(x, f"part_{i}", 3) for i in range(3)]
    pooled = net.graph.max_pool2d(parts[2], "pooled", (2, 2))
    x = net.graph.emit(relax.op.concat(parts, 1), "joined")
    return net.graph.output(net.conv(x, "last", 2), pooled).module()


def columns() -> tvm.IRModule:
    """Columns of two convolutions: rows become longer, so the data must be in plain layout."""
    net = Network()
    x = net.graph.input("x", (1, 3, 4, 5))
    x = net.graph.emit(relax.op.concat([net.conv(x, "a", 3), net.conv(x, "b", 3)], 3), "joined")
    return net.graph.output(net.conv(x, "last", 2)).module()


def flattened() -> tvm.IRModule:
    """Rows of 16 keep their bytes when an image becomes a vector."""
    net = Network()
    x = net.conv(net.graph.input("x", (1, 3, 2, 16)), "image", 4)
    return net.graph.output(net.dense(net.graph.flatten(x, "vector"), "dense", 10)).module()


def pooled() -> tvm.IRModule:
    """Rows of 5 change their bytes: the operators on the CPU need a transform before and after."""
    net = Network()
    x = net.conv(net.graph.input("x", (2, 3, 4, 5)), "image", 4)
    x = net.dense(net.graph.flatten(x, "vector"), "dense", 10)
    x = net.graph.emit(relax.op.add(x, relax.const(np.arange(10, dtype="int8"))), "biased")
    return net.graph.output(net.dense(x, "last", 3)).module()


NETWORKS = [(chain, 2), (residual, 2), (joined, 3), (columns, 5), (flattened, 2), (pooled, 6)]


@pytest.mark.parametrize(("make", "transforms"), NETWORKS)
def test_a_network_in_two_layouts_computes_what_it_did(make: Any, transforms: int) -> None:
    data = tvm.ir.save_json(make()).encode()
    module, interface = import_model(data, "test", {})
    inputs = [
        np.random.default_rng(1).integers(-128, 128, t.shape).astype("int8")
        for t in interface.inputs
    ]
    cpu_only = load_mix(parse_target("c"), load_platform("diana"), "onnx")
    expected = execute(*partition_module(module, interface, cpu_only), inputs)
    mix = load_mix(parse_target("soma_dory, c"), load_platform("diana"), "onnx")
    module, partition = partition_module(module, interface, mix)
    assert [r.anchor for r in partition.regions].count(TRANSFORM) == transforms
    for ours, theirs in zip(execute(module, partition, inputs), expected, strict=True):
        assert np.array_equal(ours, theirs)


def without_transforms(make: Any) -> tuple[tvm.IRModule, ModelInterface, Partition]:
    module, interface = import_model(tvm.ir.save_json(make()).encode(), "test", {})
    mix = load_mix(parse_target("soma_dory -layout_transform=0, c"), load_platform("diana"), "onnx")
    return partition_network(module, interface, mix)


@pytest.mark.parametrize("make", [chain, residual, flattened])
def test_without_transforms_the_network_reads_and_writes_the_devices_layout(make: Any) -> None:
    data = tvm.ir.save_json(make()).encode()
    module, interface, partition = without_transforms(make)
    (tensor,) = interface.inputs
    image = np.random.default_rng(1).integers(-128, 128, tensor.shape).astype("int8")
    assert TRANSFORM not in {r.anchor for r in partition.regions}
    spare = device_storage(tensor.shape).spare
    assert tensor.bytes == to_device(image).size + spare
    (found,) = execute(module, partition, [to_device(image)])
    ((expected,),) = run_reference(data, [{tensor.name: image}]).outputs
    assert interface.outputs[0].bytes == found.size + spare
    assert np.array_equal(from_device(found, expected.shape), expected)


def test_without_transforms_what_needs_plain_tensors_is_refused_by_name() -> None:
    with pytest.raises(UserError, match=r"(?s)transforms are off.*max_pool2d \('pooled'\) on c"):
        without_transforms(joined)


def execute(module: tvm.IRModule, partition: Partition, inputs: list[Array]) -> list[Array]:
    """Run a partition in TVM's virtual machine; the accelerator writes any bytes into padding."""
    machine = relax.VirtualMachine(tvm.compile(module, target="llvm"), tvm.cpu())
    values = dict(zip(partition.inputs, inputs, strict=True))
    for region in partition.regions:
        read = [values[n] for n in region.inputs]
        native = region.device == "soma_dory"
        if native:
            shapes = [tuple(map(int, p.ty.shape)) for p in module[region.name].params]
            read = [from_device(a, s) for a, s in zip(read, shapes, strict=True)]
        results = machine[region.name](*map(tvm.runtime.tensor, read))
        written = [np.array(r.numpy()) for r in results]
        if native:
            written = [with_rubbish(a) for a in written]
        values.update(zip(region.outputs, written, strict=True))
    return [values[n] for n in partition.outputs]


def with_rubbish(array: Array) -> Array:
    padding = to_device(np.ones_like(array)) == 0
    return np.where(padding, np.int8(77), to_device(array))
