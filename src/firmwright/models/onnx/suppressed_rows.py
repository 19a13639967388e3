"""Follows the rows of NonMaxSuppression, because firmware adds unused rows after the used rows.

An operator may read the rows only if no used row of its result depends on an unused row, and if the
used rows remain the first rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from firmwright.models.onnx.domains import MICROSOFT_DOMAIN
from firmwright.models.onnx.graph.body import get_attribute, read_inputs
from firmwright.models.onnx.graph.specialize import list_reads

ELEMENTWISE = frozenset(
    """
    Abs Add And Cast Ceil Clip DequantizeLinear Div Equal Exp Floor Greater GreaterOrEqual Identity
    Less LessOrEqual Max Min Mul Neg Not Or QuantizeLinear Round Sigmoid Sqrt Sub
    """.split()
)

DOMAINS = ("", "ai.onnx", MICROSOFT_DOMAIN)

QUANTIZERS = ("QuantizeLinear", "DequantizeLinear")


@dataclass(frozen=True)
class RowAxes:
    """The axes of the rows, by the names of the tensors that have rows of one operator."""

    ranks: Mapping[str, int]
    constants: Mapping[str, onnx.TensorProto]
    axes: dict[str, int] = field(default_factory=dict)

    def follow(self, node: onnx.NodeProto) -> bool:
        """Note the rows of a node's results. Return whether the node keeps the rows apart."""
        read = [name for name in list_reads(node) if name in self.axes]
        if not read:
            return True
        known = node.domain in DOMAINS and set(read) <= set(node.input)  # no graph reads the rows
        axis = self.find_axis(node, read) if known else None
        self.axes.update((name, axis) for name in node.output if axis is not None)
        return axis is not None

    def find_axis(self, node: onnx.NodeProto, read: list[str]) -> int | None:
        """Return the axis of the rows in a node's results, or None if the node can mix rows."""
        kind, (first, second) = node.op_type, read_inputs(node, 2)
        if kind in ELEMENTWISE and (kind not in QUANTIZERS or read == [first]):
            return self.align(node, read)
        if kind == "Gather":
            return self.gather(first, second, get_attribute(node, "axis", 0))
        if kind == "GatherND" and read == [second] != [first]:
            rows, rank = self.axes[second], self.ranks.get(second, 0)
            return None if get_attribute(node, "batch_dims", 0) or rows + 1 >= rank else rows
        if kind in ("Concat", "Slice", "Split", "Squeeze", "Unsqueeze"):
            return self.find_other_axis(node, read)
        return None

    def align(self, node: onnx.NodeProto, read: list[str]) -> int | None:
        """Return the axis of the rows after an operator that broadcasts its inputs."""
        names = [*read, node.output[0]]
        if not all(name in self.ranks for name in names):
            return None
        from_end = {self.axes[name] - self.ranks[name] for name in read}
        return from_end.pop() + self.ranks[node.output[0]] if len(from_end) == 1 else None

    def gather(self, data: str, indices: str, stated: int) -> int | None:
        """Return the axis of the rows after a Gather of the rows, or by the rows."""
        rows, axes = self.axes.get(data), self.normalize([stated], data)
        if axes is None or (rows is not None and indices in self.axes):
            return None
        (axis,), rank = axes, self.ranks.get(indices)
        if rows is None:
            return axis + self.axes[indices]
        return None if axis == rows or rank is None else rows + (axis < rows) * (rank - 1)

    def find_other_axis(self, node: onnx.NodeProto, read: list[str]) -> int | None:
        """Return the axis of the rows after an operator on other axes."""
        kind, rows = node.op_type, self.axes[read[0]]
        joins = kind == "Concat" and all(self.axes[name] == rows for name in read)
        if not joins and read != [node.input[0]]:
            return None
        shaped = node.output[0] if kind == "Unsqueeze" else node.input[0]
        axes = self.normalize(self.state_axes(node), shaped)
        if axes is None:
            return None
        if kind == "Unsqueeze":
            free = [a for a in range(self.ranks.get(shaped, 0)) if a not in axes]
            return free[rows] if rows < len(free) else None
        return None if rows in axes else rows - (kind == "Squeeze") * sum(a < rows for a in axes)

    def state_axes(self, node: onnx.NodeProto) -> list[int] | None:
        """Return the axes on which an operator works, or None if they are not stated."""
        if node.op_type in ("Concat", "Split"):
            return [get_attribute(node, "axis", 0)]
        stated: Any = get_attribute(node, "axes", None)
        name = read_inputs(node, 4)[3 if node.op_type == "Slice" else 1]
        if stated is None and name in self.constants:
            stated = np.atleast_1d(numpy_helper.to_array(self.constants[name])).tolist()
        return None if stated is None else list(stated)

    def normalize(self, axes: list[int] | None, name: str) -> list[int] | None:
        """Return the axes of a tensor as numbers from 0, or None if they are not known."""
        rank = self.ranks.get(name)
        if axes is None or (rank is None and min(axes, default=0) < 0):
            return None
        return [axis + (rank or 0) if axis < 0 else axis for axis in axes]


def find_rows(model: onnx.ModelProto) -> RowAxes:
    """Return the facts with which the rows of an operator are followed; no rows are known yet."""
    try:
        graph = onnx.shape_inference.infer_shapes(model, data_prop=True).graph
    except (onnx.shape_inference.InferenceError, RuntimeError, ValueError):  # a damaged model
        graph = model.graph
    values = (*graph.input, *graph.value_info, *graph.output)
    shapes = {v.name: v.type.tensor_type for v in values}
    ranks = {name: len(t.shape.dim) for name, t in shapes.items() if t.HasField("shape")}
    constants = {tensor.name: tensor for tensor in graph.initializer}
    for node in graph.node:
        if node.op_type == "Constant" and node.attribute and node.attribute[0].name == "value":
            constants[node.output[0]] = node.attribute[0].t
    ranks |= {name: len(tensor.dims) for name, tensor in constants.items()}
    return RowAxes(ranks, constants)
