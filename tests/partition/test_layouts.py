"""The number of layout changes is minimal, and they move the fewest bytes."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest
import tvm

from firmwright.errors import UserError
from firmwright.ir.regions import TRANSFORM, Partition, Region
from firmwright.ir.relax import set_functions
from firmwright.ir.tensors import ModelInterface, State, Storage, Tensor
from firmwright.partition.layouts import add_storage, insert_transforms
from tests.partition.graphs import build_main, make_partition, make_region

EMPTY, _ = build_main(lambda x: x, ((1,), "int8"))


class PaddedLayout:
    """A layout that pads the last axis to 8; the regions of ``flexible`` names can use it."""

    def __init__(self, flexible: Collection[str], allows_transforms: bool = True) -> None:
        self.flexible, self.allows_transforms = flexible, allows_transforms

    def storage(self, shape: tuple[int, ...]) -> Storage:
        return Storage((*shape[:-1], (shape[-1] + 7) // 8 * 8), 4)

    def convert_function(self, function: Any) -> Any:
        name = str(function.attrs["name"])
        return function if name in self.flexible else None

    def make_transform(self, shape: tuple[int, ...], dtype: str, inward: bool) -> Any:
        return EMPTY["main"].with_attr("made", f"{shape} {dtype} {'in' if inward else 'out'}")


def insert(
    partition: Partition, flexible: Collection[str] = (), allows_transforms: bool = True
) -> tuple[tvm.IRModule, Partition]:
    """Insert the transforms of the regions on ``npu``; all other regions are on ``c``."""
    functions = {r.name: EMPTY["main"].with_attr("name", r.name) for r in partition.regions}
    layout = PaddedLayout(flexible, allows_transforms)
    return insert_transforms(set_functions(EMPTY, functions), partition, "npu", layout, "c")


def list_transforms(partition: Partition) -> list[str]:
    return [r.name for r in partition.regions if r.anchor == TRANSFORM]


def list_padded(partition: Partition) -> list[str]:
    return [t.name for t in partition.tensors if t.storage is not None]


def chain(*devices: str, **shapes: tuple[int, ...]) -> Partition:
    """Return regions a, b, c, … on these devices, one after the other."""
    regions: list[Region] = []
    for name, device in zip("abcdef", devices, strict=False):
        regions.append(make_region(name, device, f"{regions[-1].name}_result" if regions else "x"))
    return make_partition(("x",), regions[-1].outputs, *regions, shapes=shapes)


def test_a_network_without_the_device_is_returned_unchanged() -> None:
    partition = chain("c", "c")
    assert insert(partition)[1] is partition


def test_inputs_and_outputs_of_the_network_are_plain() -> None:
    module, partition = insert(chain("npu"))
    assert [r.name for r in partition.regions] == ["x_to_npu", "a", "a_to_plain"]
    assert partition.outputs == ("a_to_plain_result",)
    assert list_padded(partition) == ["x_to_npu_result", "a_result"]
    assert [r.inputs for r in partition.regions] == [("x",), ("x_to_npu_result",), ("a_result",)]
    first, _, last = partition.regions
    assert (first.device, first.lowered_by) == ("c", "npu")
    assert module[first.name].attrs["made"] == "(4,) int8 in"
    assert module[last.name].attrs["made"] == "(4,) int8 out"


def test_regions_of_the_device_need_no_transform_between_them() -> None:
    assert list_transforms(insert(chain("npu", "npu"))[1]) == ["x_to_npu", "b_to_plain"]


def test_a_region_that_can_use_the_layout_between_two_of_the_device_uses_it() -> None:
    partition = chain("npu", "c", "npu")
    assert list_transforms(insert(partition, flexible="b")[1]) == ["x_to_npu", "c_to_plain"]
    assert len(list_transforms(insert(partition)[1])) == 4


def test_of_as_many_transforms_the_smaller_tensor_is_moved() -> None:
    """The pooling b makes a small tensor from a large one, so the layout changes after it."""
    smaller = chain("npu", "c", "c", a_result=(64,), b_result=(8,))
    assert list_transforms(insert(smaller, flexible="b")[1]) == ["x_to_npu", "b_to_plain"]
    larger = chain("npu", "c", "c", a_result=(8,), b_result=(64,))
    assert list_transforms(insert(larger, flexible="b")[1]) == ["x_to_npu", "a_to_plain"]


def test_padding_counts_as_bytes_that_are_moved() -> None:
    """In the layout, 1 x 9 elements have 16 bytes, and 3 x 3 elements have 24."""
    padded = chain("npu", "c", "c", a_result=(3, 3), b_result=(1, 9))
    assert list_transforms(insert(padded, flexible="b")[1]) == ["x_to_npu", "b_to_plain"]


def test_fewer_transforms_win_over_fewer_bytes() -> None:
    """Two flexible regions make small tensors from a large one, which is moved once."""
    a = make_region("a", "npu", "x")
    b, c = make_region("b", "c", "a_result"), make_region("c", "c", "a_result")
    e, f = make_region("e", "c", "b_result"), make_region("f", "c", "c_result")
    shapes = {"a_result": (512,), "b_result": (1,), "c_result": (1,)}
    partition = make_partition(("x",), ("e_result", "f_result"), a, b, c, e, f, shapes=shapes)
    assert list_transforms(insert(partition, flexible="bc")[1]) == ["x_to_npu", "a_to_plain"]


def test_one_transform_serves_all_readers() -> None:
    a = make_region("a", "npu", "x")
    b, c = make_region("b", "c", "a_result"), make_region("c", "c", "a_result", "b_result")
    module, partition = insert(make_partition(("x",), ("c_result",), a, b, c))
    assert list_transforms(partition) == ["x_to_npu", "a_to_plain"]
    assert partition.regions[-1].inputs == ("a_to_plain_result", "b_result")
    assert "b" in [v.name_hint for v in module.functions]


def test_an_output_that_the_device_reads_again_is_transformed_at_once() -> None:
    a, b = make_region("a", "npu", "x"), make_region("b", "npu", "a_result")
    _, partition = insert(make_partition(("x",), ("a_result", "b_result"), a, b))
    assert [r.name for r in partition.regions] == ["x_to_npu", "a", "a_to_plain", "b", "b_to_plain"]
    assert partition.outputs == ("a_to_plain_result", "b_to_plain_result")


def test_without_transforms_all_that_is_connected_is_in_the_layout() -> None:
    apart = make_region("z", "c", "y")
    a, b = make_region("a", "npu", "x"), make_region("b", "c", "a_result")
    given = make_partition(("x", "y"), ("b_result", "z_result"), a, b, apart)
    _, partition = insert(given, flexible="b", allows_transforms=False)
    assert list_padded(partition) == ["x", "a_result", "b_result"]
    assert list_transforms(partition) == []


def test_without_transforms_a_region_that_needs_plain_tensors_is_rejected() -> None:
    with pytest.raises(UserError, match=r"layout transforms are off.*\n.*\('b'\) on c$"):
        insert(chain("npu", "c"), allows_transforms=False)


def make_interface(outputs: tuple[Tensor, ...], states: tuple[State, ...] = ()) -> ModelInterface:
    return ModelInterface("onnx", "", (Tensor("in", (4,), "int8"),), outputs, (), states=states)


def test_the_interface_has_the_storage_of_its_tensors() -> None:
    _, partition = insert(chain("npu", "c"), flexible="b", allows_transforms=False)
    interface = add_storage(make_interface((Tensor("out", (4,), "int8"),)), partition)
    assert [t.storage for t in (*interface.inputs, *interface.outputs)] == [Storage((8,), 4)] * 2


def test_a_state_in_the_layout_is_rejected() -> None:
    a = make_region("a", "npu", "x", "s")
    given = make_partition(("x", "s"), ("a_result",), a, states=1)
    _, partition = insert(given, allows_transforms=False)
    state = State(Tensor("memory", (4,), "int8"), bytes(4))
    with pytest.raises(UserError, match="state 'memory' would have"):
        add_storage(make_interface((), (state,)), partition)


def test_a_state_whose_next_value_alone_is_in_the_layout_is_rejected() -> None:
    a, z = make_region("a", "npu", "x"), make_region("z", "c", "s")
    given = make_partition(("x", "s"), ("z_result", "a_result"), a, z, states=1)
    _, partition = insert(given, allows_transforms=False)
    assert list_padded(partition) == ["x", "a_result"]
    state = State(Tensor("memory", (4,), "int8"), bytes(4))
    with pytest.raises(UserError, match="state 'memory' would have"):
        add_storage(make_interface((Tensor("out", (4,), "int8"),), (state,)), partition)
