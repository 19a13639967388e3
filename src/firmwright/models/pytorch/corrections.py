"""TVM's importer of PyTorch programs, corrected where 0.27 computes something else than torch.

Each method stands for one fault, so that it can be dropped once TVM has mended it; the quantized
operators are those that TVM has no converter for.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch.ao.quantization.fx import _decomposed  # noqa: F401 (defines the quantized operators)
from tvm import relax, topi
from tvm.relax.frontend.torch.exported_program_translator import ExportedProgramImporter

from firmwright.ir.relax import dtype_of
from firmwright.ir.tensors import SIXTEEN_BIT_FLOATS
from firmwright.models.pytorch.numbers import evaluate_numbers, may_mask_rows
from firmwright.models.pytorch.recurrent import write_out_recurrent

ATEN = torch.ops.aten
WHOLE = (ATEN._safe_softmax.default, ATEN._prelu_kernel.default, ATEN.adaptive_max_pool2d.default)
"""Operators that are imported as they are: torch's own definitions of them cost more."""


class SixteenBitBuilder(relax.BlockBuilder):  # type: ignore[misc]
    """Rounds products and convolutions of 16-bit floats; TVM leaves all of them in float32."""

    def emit(self, expr: relax.Expr, name_hint: str = "") -> relax.Var:
        result = super().emit(expr, name_hint)
        if getattr(getattr(expr, "attrs", None), "out_dtype", None) != "float32":
            return result
        kind = dtype_of(expr.args[0])
        if kind not in SIXTEEN_BIT_FLOATS:
            return result
        return super().emit(relax.op.astype(result, kind), name_hint)


class TorchImporter(ExportedProgramImporter):  # type: ignore[misc]
    """Converts a program in core operators; ``stored`` has its tensors by placeholder name."""

    def __init__(self, program: torch.export.ExportedProgram) -> None:
        super().__init__()
        stored = {**program.state_dict, **program.constants}
        self.stored = {
            spec.arg.name: stored[spec.target].detach()
            for spec in program.graph_signature.input_specs
            if spec.target in stored
        }
        self.numbers = evaluate_numbers(program)

    def _translate_fx_graph(self, graph: Any, nodes: Any, *others: Any) -> Any:
        """Take what is computed of numbers alone for a number."""
        for node, value in self.numbers.items():
            self.env[node] = relax.const(value.numpy())
        left = [node for node in nodes if node not in self.numbers]
        return super()._translate_fx_graph(graph, left, *others)

    @property
    def block_builder(self) -> relax.BlockBuilder:
        return self.builder

    @block_builder.setter
    def block_builder(self, _: relax.BlockBuilder) -> None:
        """Take another one where TVM begins a program with a new one."""
        self.builder = SixteenBitBuilder()

    def create_convert_map(self) -> dict[str, Any]:
        return {
            **super().create_convert_map(),
            **dict.fromkeys(("gru.input", "lstm.input", "rnn_tanh.input"), self.write_out),
            "amax.default": self.reduce,
            "amin.default": self.reduce,
            "quantize_per_tensor.default": self.quantize,
            "dequantize_per_tensor.default": self.dequantize,
            "dequantize_per_channel.default": self.dequantize_per_channel,
            "_safe_softmax.default": self.safe_softmax,
            "_prelu_kernel.default": self.prelu,
            "adaptive_max_pool2d.default": self.largest_of_parts,
            "__lshift__.Scalar": self.shift(relax.op.left_shift),
            "__rshift__.Scalar": self.shift(relax.op.right_shift),
        }

    def write_out(self, node: torch.fx.Node) -> relax.Tuple:
        return write_out_recurrent(self, node)

    def quantize(self, node: torch.fx.Node) -> relax.Var:
        """Import ``quantize_per_tensor(x, scale, zero point, lowest, highest, type)``."""
        x, scale, zero_point, lowest, highest, kind = node.args
        dtype = self._convert_data_type(kind)
        grid = [relax.const(scale, "float32"), relax.const(zero_point, "int32")]
        stored = self.block_builder.emit(relax.op.quantize(self.env[x], *grid, -1, dtype))
        limits = np.iinfo(dtype)
        if (lowest, highest) == (limits.min, limits.max):
            return stored
        return self.block_builder.emit(relax.op.clip(stored, lowest, highest))

    def dequantize(self, node: torch.fx.Node) -> relax.Var:
        """Import ``dequantize_per_tensor(x, scale, zero point, lowest, highest, type)``."""
        x, scale, zero_point = node.args[:3]
        grid = [relax.const(scale, "float32"), relax.const(zero_point, "int32")]
        return self.block_builder.emit(relax.op.dequantize(self.env[x], *grid, -1))

    def dequantize_per_channel(self, node: torch.fx.Node) -> relax.Var:
        """Import ``dequantize_per_channel(x, scales, zero points, axis, …)``."""
        x, scales, zero_points, axis = node.args[:4]
        scale = self.stored[scales.name].float().numpy()
        zeros = np.zeros(len(scale)) if zero_points is None else self.stored[zero_points.name]
        grid = [relax.const(scale, "float32"), relax.const(np.asarray(zeros, "int32"), "int32")]
        return self.block_builder.emit(relax.op.dequantize(self.env[x], *grid, axis))

    def safe_softmax(self, node: torch.fx.Node) -> relax.Var:
        """Import the softmax of attention, which is 0 where a whole row is masked by -inf.

        Products are not -inf unless they overflow, and a mask of numbers shows its rows.
        """
        x, axis = self.env[node.args[0]], node.args[1]
        result = self.block_builder.emit(relax.op.nn.softmax(x, axis))
        if not may_mask_rows(node.args[0], axis, self.numbers):
            return result
        largest = self.block_builder.emit(relax.op.max(x, axis, True))
        masked = self.block_builder.emit(relax.op.equal(largest, const_like(-np.inf, x)))
        return self.block_builder.emit(relax.op.where(masked, const_like(0.0, x), result))

    def prelu(self, node: torch.fx.Node) -> relax.Var:
        """Import ``_prelu_kernel(x, slopes)``, whose slopes have the rank of x."""
        x, slopes = (self.env[a] for a in node.args)
        flat = self.block_builder.emit(relax.op.reshape(slopes, (-1,)))
        if self.shape_of(flat)[0] == 1 != self.shape_of(x)[1]:
            channels = (self.shape_of(x)[1],)
            flat = self.block_builder.emit(relax.op.broadcast_to(flat, channels))
        return self.block_builder.emit(relax.op.nn.prelu(x, flat, 1))

    def largest_of_parts(self, node: torch.fx.Node) -> tuple[relax.Expr, ...]:
        """Import ``adaptive_max_pool2d(x, size)`` of parts that are equal; not their places."""
        x, size = self.env[node.args[0]], node.args[1]
        image = [int(n) for n in self.shape_of(x)][-2:]
        if any(whole % parts for whole, parts in zip(image, size, strict=True)):
            raise ValueError(f"adaptive_max_pool2d from {image} to {size}: parts are not equal")
        window = [whole // parts for whole, parts in zip(image, size, strict=True)]
        found = self.block_builder.emit(relax.op.nn.max_pool2d(x, window, window))
        return found, found

    def shift(self, operator: Any) -> Any:
        def convert(node: torch.fx.Node) -> relax.Var:
            x = self.env[node.args[0]]
            return self.block_builder.emit(operator(x, const_like(node.args[1], x)))

        return convert

    def _div(self, node: torch.fx.Node) -> relax.Var:
        """Give a number the type of what it divides; TVM takes it for int32 or float32."""
        x, number = self.env[node.args[0]], node.args[1]
        if node.kwargs.get("rounding_mode") != "floor" or isinstance(number, torch.fx.Node):
            return super()._div(node)
        return self.block_builder.emit(relax.op.floor_divide(x, const_like(number, x)))

    def _convolution(self, node: torch.fx.Node) -> relax.Var:
        """Import transposed convolutions of three dimensions, which TVM's importer lacks."""
        x, weights, bias, strides, pads, dilation, transposed, more, groups = node.args
        if not transposed or len(self.shape_of(self.env[x])) != 5:
            return super()._convolution(node)
        result = self.block_builder.emit(
            relax.op.nn.conv3d_transpose(
                self.env[x], self.env[weights], strides, pads, more, dilation, groups
            )
        )
        if bias is None:
            return result
        along = self.block_builder.emit(relax.op.reshape(self.env[bias], (1, -1, 1, 1, 1)))
        return self.block_builder.emit(relax.op.add(result, along))

    def _select(self, node: torch.fx.Node) -> relax.Var:
        """Count a negative index from the end; TVM takes it for a place before the tensor."""
        source, axis, index = self.env[node.args[0]], node.args[1], node.args[2]
        length = int(self.shape_of(source)[axis])
        place = relax.const(index % length, "int64")
        return self.block_builder.emit(relax.op.take(source, place, axis))

    def _index_tensor(self, node: torch.fx.Node) -> relax.Var:
        """Count negative indices from the end, also those that are computed at run time."""
        shape = self.shape_of(self.env[node.args[0]])
        given = {i: self.env[i] for i in node.args[1] if i is not None}
        for length, index in zip(shape, node.args[1], strict=False):
            if index is not None:
                self.env[index] = self.normalize_index(given[index], int(length))
        result = super()._index_tensor(node)
        self.env.update(given)
        return result

    def normalize_index(self, index: relax.Expr, length: int) -> relax.Var:
        dtype = dtype_of(index)
        negative = relax.op.less(index, relax.const(0, dtype))
        moved = relax.op.add(index, relax.const(length, dtype))
        return self.block_builder.emit(relax.op.where(negative, moved, index))

    def _clamp(self, node: torch.fx.Node) -> relax.Expr:
        """Clamp integers by the limits that are stated; TVM has infinity for the other one."""
        x, *limits = node.args
        stated = dict(zip(("min", "max"), limits, strict=False)) | dict(node.kwargs)
        result = self.env[x]
        numbers = all(n is None or isinstance(n, int) for n in stated.values())
        if "int" not in dtype_of(result) or not numbers:
            return super()._clamp(node)
        for name, limit in (("min", relax.op.maximum), ("max", relax.op.minimum)):
            if stated.get(name) is not None:
                result = self.block_builder.emit(limit(result, const_like(stated[name], result)))
        return result

    def reduce(self, node: torch.fx.Node) -> relax.Var:
        """Import ``amax(x, axes, keepdim)`` and ``amin``, which TVM has no converter for."""
        x = self.env[node.args[0]]
        axes = list(node.args[1]) if len(node.args) > 1 else []
        keep = bool(node.args[2]) if len(node.args) > 2 else False
        operator = relax.op.max if node.target.__name__.startswith("amax") else relax.op.min
        return self.block_builder.emit(operator(x, axes or None, keep))

    def _cumsum(self, node: torch.fx.Node) -> relax.Var:
        """Add by loops; TVM leaves ``cumsum`` to a runtime library."""
        x, axis = self.env[node.args[0]], node.args[1]
        dtype = self._convert_data_type(node.meta["val"].dtype)
        return self.block_builder.emit_te(topi.cumsum, x, axis, dtype)

    def _elu(self, node: torch.fx.Node) -> relax.Var:
        """Compute scale · (max(0, x) + alpha · min(0, exp(x · input scale) - 1)).

        TVM leaves out both scales, which SELU and CELU are made with.
        """
        x = self.env[node.args[0]]
        stated: list[float] = list(node.args[1:])
        alpha, scale, input_scale = stated + [1.0] * (3 - len(stated))
        negative = relax.op.minimum(x, const_like(0.0, x))
        grown = relax.op.exp(relax.op.multiply(negative, const_like(input_scale, x)))
        moved = relax.op.subtract(grown, const_like(1.0, x))
        below = relax.op.multiply(moved, const_like(alpha, x))
        total = relax.op.add(relax.op.nn.relu(x), below)
        return self.block_builder.emit(relax.op.multiply(total, const_like(scale, x)))


def const_like(value: float, like: relax.Expr) -> relax.Expr:
    return relax.const(value, dtype_of(like))
