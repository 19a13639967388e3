"""Corrects results of TVM 0.27's importer of PyTorch programs that differ from torch's results.

Each method corrects one error of TVM, and can be removed after a fix in TVM. TVM has no converters
for the quantized operators.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from tvm import relax, topi
from tvm.relax.frontend.torch.exported_program_translator import ExportedProgramImporter

from firmwright.ir.relax import dtype_of
from firmwright.ir.tensors import SIXTEEN_BIT_FLOATS
from firmwright.models.importing import plain_failure
from firmwright.models.pytorch.complex_numbers import COMPLEX, uses_complex
from firmwright.models.pytorch.indexing import INDEXING
from firmwright.models.pytorch.nodes import describe
from firmwright.models.pytorch.numbers import evaluate_numbers, may_mask_rows
from firmwright.models.pytorch.operators import (
    CUMULATIVE,
    NORMALIZATIONS,
    compute_in_parameter_type,
    normalize_groups,
    view_bits,
)
from firmwright.models.pytorch.pooling import POOLING, find_maxima, reads_indices
from firmwright.models.pytorch.quantized import QUANTIZED
from firmwright.models.pytorch.recurrent import write_out_recurrent
from firmwright.models.pytorch.resampling import RESIZES, SAMPLING, resize, scale_to_divisor

Converter = Callable[[torch.fx.Node], Any]

ATEN = torch.ops.aten
WHOLE = (
    ATEN._safe_softmax.default,
    ATEN._prelu_kernel.default,
    ATEN.adaptive_max_pool2d.default,
    ATEN.adaptive_max_pool3d.default,
)
"""Operators that are not decomposed, because torch's definitions cost more."""

FIRST_RESULT_ALONE = frozenset(
    {
        "native_group_norm",
        "native_layer_norm",
        "_native_batch_norm_legit",
        "_native_batch_norm_legit_no_training",
    }
)
"""Operators with several results. The converters compute only the first result."""


OTHERS = {**INDEXING, **CUMULATIVE, **POOLING, **QUANTIZED, **SAMPLING}
"""Maps operators to converters. The arguments of a converter are the importer and a node."""


class TypedBuilder(relax.BlockBuilder):  # type: ignore[misc]
    """Emits products and convolutions in the operands' type, because TVM always uses float32.

    Results of 16-bit floats are rounded, and matrices of integers are multiplied as integers.
    """

    def emit_wide(self, expr: relax.Expr) -> relax.Var:
        """Emit a product or convolution whose result remains float32."""
        return super().emit(expr)

    def emit(self, expr: relax.Expr, name_hint: str = "") -> relax.Var:
        if getattr(getattr(expr, "attrs", None), "out_dtype", None) != "float32":
            return super().emit(expr, name_hint)
        kind = dtype_of(expr.args[0])
        if "int" in kind and expr.op.name == "relax.matmul":
            return super().emit(relax.op.matmul(*expr.args, out_dtype=kind), name_hint)
        result = super().emit(expr, name_hint)
        if kind not in SIXTEEN_BIT_FLOATS:
            return result
        return super().emit(relax.op.astype(result, kind), name_hint)


class TorchImporter(ExportedProgramImporter):  # type: ignore[misc]
    """Converts a program of core operators.

    ``stored`` maps placeholder names to stored tensors. ``fixed`` contains the nodes that do not
    depend on inputs.
    """

    def __init__(self, program: torch.export.ExportedProgram) -> None:
        super().__init__()
        stored = {**program.state_dict, **program.constants}
        self.stored = {
            spec.arg.name: stored[spec.target].detach()
            for spec in program.graph_signature.input_specs
            if spec.target in stored
        }
        self.numbers = evaluate_numbers(program)
        self.fixed: set[torch.fx.Node] = set()
        for node in program.graph.nodes:
            is_call = node.op == "call_function"
            if node.name in self.stored or (
                is_call and self.fixed.issuperset(node.all_input_nodes)
            ):
                self.fixed.add(node)

    def _translate_fx_graph(self, graph: Any, nodes: Any, *others: Any) -> Any:
        """Replace nodes that depend only on numbers with constants, and convert the other nodes."""
        for node, value in self.numbers.items():
            dtype = self._convert_data_type(value.dtype)
            self.env[node] = relax.const(value.numpy(), dtype)
        left = [node for node in nodes if node not in self.numbers]
        return super()._translate_fx_graph(graph, left, *others)

    @property
    def block_builder(self) -> relax.BlockBuilder:
        return self.builder

    @block_builder.setter
    def block_builder(self, _: relax.BlockBuilder) -> None:
        """Use a TypedBuilder when TVM begins a program with a new builder."""
        self.builder = TypedBuilder()

    def create_convert_map(self) -> dict[str, Any]:
        converters = {
            **super().create_convert_map(),
            **dict.fromkeys(("gru.input", "lstm.input", "rnn_tanh.input"), self.write_out),
            "any.default": self._any,
            "full_like.default": self.fill,
            "amax.default": self.reduce,
            "amin.default": self.reduce,
            "_safe_softmax.default": self.safe_softmax,
            "_prelu_kernel.default": self.prelu,
            "__lshift__.Scalar": self.shift(relax.op.left_shift),
            "__rshift__.Scalar": self.shift(relax.op.right_shift),
            **dict.fromkeys(("max.default", "min.default"), self.reduce),
            **dict.fromkeys(("pow.Scalar", "pow.Tensor_Tensor"), self.power),
            **dict.fromkeys(("remainder.Scalar", "remainder.Tensor"), self.remainder),
            **dict.fromkeys((target.__name__ for target in RESIZES), self.resize),
            **{name: partial(convert, self) for name, convert in OTHERS.items()},
            "neg.default": self.negate,
            "sign.default": self.sign,
            "view.dtype": partial(view_bits, self),
            "native_group_norm.default": partial(normalize_groups, self),
        }
        for name in NORMALIZATIONS:
            converters[name] = compute_in_parameter_type(self, converters[name])
        for name, convert in COMPLEX.items():
            converters[name] = choose_by_type(converters.get(name), partial(convert, self))
        return {name: locate_failures(convert) for name, convert in converters.items()}

    def write_out(self, node: torch.fx.Node) -> relax.Tuple:
        return write_out_recurrent(self, node)

    def safe_softmax(self, node: torch.fx.Node) -> relax.Var:
        """Import the softmax of attention, which is 0 if a whole row is masked with -inf.

        Products are not -inf, except for an overflow. A constant mask determines the masked rows.
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

    def fill(self, node: torch.fx.Node) -> relax.Var:
        result = node.meta["val"]
        dtype = self._convert_data_type(result.dtype)
        value = relax.const(node.args[1], dtype)
        return self.block_builder.emit(relax.op.full([*result.shape], value, dtype))

    def shift(self, operator: Any) -> Any:
        def convert(node: torch.fx.Node) -> relax.Var:
            x = self.env[node.args[0]]
            return self.block_builder.emit(operator(x, const_like(node.args[1], x)))

        return convert

    def operands(self, node: torch.fx.Node) -> list[relax.Expr]:
        """Return both operands. A number gets the type of the other operand."""
        given = [self.env.get(a, a) for a in node.args[:2]]
        like = next(a for a in given if isinstance(a, relax.Expr))
        return [a if isinstance(a, relax.Expr) else const_like(a, like) for a in given]

    def power(self, node: torch.fx.Node) -> relax.Var:
        """Import powers of floats. TVM supports integers only if the exponent is constant."""
        base, exponent = self.operands(node)
        if "int" in dtype_of(base):
            raise ValueError(
                "powers of integers with a computed exponent; convert the integers to float32"
            )
        return self.block_builder.emit(relax.op.power(base, exponent))

    def remainder(self, node: torch.fx.Node) -> relax.Var:
        """Append the remainder with the divisor's sign. TVM's quotient has a rounding error."""
        x, divisor = self.operands(node)
        if "float" not in dtype_of(x):
            return self.block_builder.emit(relax.op.floor_mod(x, divisor))
        return self.block_builder.emit(self.floor_remainder(x, divisor))

    def floor_remainder(self, x: relax.Expr, divisor: relax.Expr) -> relax.Expr:
        """Append torch's remainder of floats: C's fmod, plus the divisor if the signs differ."""
        rest = self.block_builder.emit(relax.op.mod(x, divisor))
        zero = const_like(0.0, rest)
        below = [relax.op.less(value, zero) for value in (rest, divisor)]
        moved = relax.op.logical_and(relax.op.not_equal(rest, zero), relax.op.logical_xor(*below))
        return relax.op.where(moved, relax.op.add(rest, divisor), rest)

    def _div(self, node: torch.fx.Node) -> relax.Var:
        """Divide in the operands' type, because TVM reads a number as int32 or float32.

        Before a floor division of floats, the remainder is subtracted from the dividend, because a
        rounded quotient may be too large.
        """
        x, divisor = self.operands(node)
        mode = node.kwargs.get("rounding_mode")
        if mode == "floor" and "float" in dtype_of(x):
            rest = self.floor_remainder(x, divisor)
            quotient = relax.op.divide(relax.op.subtract(x, rest), divisor)
            return self.block_builder.emit(relax.op.round(quotient))
        if mode == "floor":
            return self.block_builder.emit(relax.op.floor_divide(x, divisor))
        quotient = self.block_builder.emit(relax.op.divide(x, divisor))
        if mode == "trunc" and "float" in dtype_of(x):
            return self.block_builder.emit(relax.op.trunc(quotient))
        return quotient

    def negate(self, node: torch.fx.Node) -> relax.Var:
        x = self.env[node.args[0]]
        if dtype_of(x).startswith("uint"):
            return self.block_builder.emit(relax.op.subtract(const_like(0, x), x))
        return self.block_builder.emit(relax.op.negative(x))

    def sign(self, node: torch.fx.Node) -> relax.Var:
        """Append the sign, because TVM compares unsigned integers with -1."""
        x = self.env[node.args[0]]
        if dtype_of(x) == "bool":
            return x
        if dtype_of(x).startswith("uint"):
            return self.block_builder.emit(relax.op.minimum(x, const_like(1, x)))
        return self.block_builder.emit(relax.op.sign(x))

    def _max_pool2d_with_indices(self, node: torch.fx.Node) -> relax.Expr:
        """Compute indices that the program reads, because TVM's indices are zeros."""
        if reads_indices(node):
            return find_maxima(self, node)
        return super()._max_pool2d_with_indices(node)

    def _max_pool3d_with_indices(self, node: torch.fx.Node) -> relax.Expr:
        if reads_indices(node):
            return find_maxima(self, node)
        return super()._max_pool3d_with_indices(node)

    def resize(self, node: torch.fx.Node) -> relax.Var:
        return resize(self.block_builder, self.env[node.args[0]], node)

    def _avg_pool2d(self, node: torch.fx.Node) -> relax.Var:
        return self.average(node, super()._avg_pool2d, self._avg_pool2d_impl)

    def _avg_pool3d(self, node: torch.fx.Node) -> relax.Var:
        return self.average(node, super()._avg_pool3d, self._avg_pool3d_impl)

    def average(self, node: torch.fx.Node, convert: Any, pool: Any) -> relax.Var:
        """Divide the sums of windows by the program's divisor, which TVM omits."""
        if len(node.args) < 7 or node.args[6] is None:
            return convert(node)
        x, *options = node.args[:5]
        means = self.block_builder.emit(pool(self.env[x], *options, count_include_pad=False))
        return scale_to_divisor(self.block_builder, means, node)

    def _addmm(self, node: torch.fx.Node) -> relax.Var:
        """Round ``x + a @ b`` of 16-bit floats once, as torch does. TVM also rounds the product."""
        bias, *operands = (self.env[a] for a in node.args)
        kind = dtype_of(bias)
        if kind not in SIXTEEN_BIT_FLOATS:
            return super()._addmm(node)
        total = self.builder.emit_wide(relax.op.matmul(*operands, out_dtype="float32"))
        alpha, beta = (float(node.kwargs.get(name, 1)) for name in ("alpha", "beta"))
        if alpha != 1:
            total = relax.op.multiply(total, relax.const(alpha, "float32"))
        if beta != 0:
            wide = relax.op.astype(bias, "float32")
            if beta != 1:
                wide = relax.op.multiply(wide, relax.const(beta, "float32"))
            total = relax.op.add(total, wide)
        return self.block_builder.emit(relax.op.astype(total, kind))

    def _convolution(self, node: torch.fx.Node) -> relax.Var:
        """Import a transposed 3D convolution, which TVM's importer does not support."""
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
        """Count a negative index from the end. TVM reads before the tensor."""
        source, axis, index = self.env[node.args[0]], node.args[1], node.args[2]
        length = int(self.shape_of(source)[axis])
        position = relax.const(index % length, "int64")
        return self.block_builder.emit(relax.op.take(source, position, axis))

    def _clamp(self, node: torch.fx.Node) -> relax.Expr:
        """Clamp integers to the given limits. TVM uses infinity for a missing limit."""
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
        """Import ``amax(x, axes, keepdim)`` and ``amin``, also for Booleans."""
        x = self.env[node.args[0]]
        kind = dtype_of(x)
        if kind == "bool":
            x = self.block_builder.emit(relax.op.astype(x, "int8"))
        axes = list(node.args[1]) if len(node.args) > 1 else []
        keep = bool(node.args[2]) if len(node.args) > 2 else False
        operator = relax.op.max if "max" in node.target.__name__ else relax.op.min
        values = self.block_builder.emit(operator(x, axes or None, keep))
        return self.block_builder.emit(relax.op.astype(values, kind)) if kind == "bool" else values

    def _any(self, node: torch.fx.Node) -> relax.Var:
        """Return whether any value differs from 0. The result is a Boolean, or 0 or 1 for uint8."""
        x = self.env[node.args[0]]
        nonzero = x if dtype_of(x) == "bool" else relax.op.not_equal(x, const_like(0, x))
        largest = relax.op.max(relax.op.astype(nonzero, "int8"), *node.args[1:])
        dtype = self._convert_data_type(node.meta["val"].dtype)
        return self.block_builder.emit(relax.op.astype(largest, dtype))

    def _cumsum(self, node: torch.fx.Node) -> relax.Var:
        """Add elements in loops, because TVM calls a runtime library for ``cumsum``."""
        x, axis = self.env[node.args[0]], node.args[1]
        dtype = self._convert_data_type(node.meta["val"].dtype)
        return self.block_builder.emit_te(topi.cumsum, x, axis, dtype)

    def _elu(self, node: torch.fx.Node) -> relax.Var:
        """Compute scale · (max(0, x) + alpha · min(0, exp(x · input scale) - 1)).

        TVM omits both scales, which SELU and CELU need.
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


def choose_by_type(plain: Converter | None, paired: Converter) -> Converter:
    def convert(node: torch.fx.Node) -> Any:
        if plain is None or uses_complex(node):
            return paired(node)
        return plain(node)

    return convert


def locate_failures(convert: Converter) -> Converter:
    def converted(node: torch.fx.Node) -> Any:
        try:
            return convert(node)
        except Exception as error:
            raise ValueError(f"{describe(node)}: {plain_failure(error)}") from error

    return converted
