"""Builds small integer networks in Python: layers whose sums are shifted, and random weights."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
import tvm
from tvm import relax

from firmwright.errors import UserError, first_line
from firmwright.ir.relax import dtype_of, static_shape

Array = npt.NDArray[Any]
Pair = tuple[int, int]

INT8_RANGE = (-128, 127)


class Graph:
    """A Relax module under construction. Tensors are NCHW, weights OIHW, activations int8.

    A layer has the arithmetic of small accelerators. The sum of int8 products and an int32 bias is
    computed in int32. The sum is shifted arithmetically to the right by ``shift_bits`` (rounding
    toward minus infinity) and clipped to int8. Negative values become 0 (ReLU) if ``act`` is set.
    Reports and the C code use the ``name`` of each layer. Weights are rejected if an input can make
    a sum leave int32.

    All methods raise UserError if the arguments do not fit each other.
    """

    def __init__(self) -> None:
        self._inputs: list[relax.Var] = []
        self._bindings: list[relax.VarBinding] = []
        self._names: set[str] = set()
        self._outputs: list[relax.Var] = []

    def input(self, name: str, shape: Sequence[int], dtype: str = "int8") -> relax.Var:
        variable = relax.Var(self._register_name(name), relax.TensorType(tuple(shape), dtype))
        self._inputs.append(variable)
        return variable

    def output(self, *tensors: relax.Var) -> Graph:
        self._outputs = list(tensors)
        return self

    def conv2d(
        self,
        x: relax.Var,
        name: str,
        weights: Array,
        bias: Array | None = None,
        *,
        strides: Pair = (1, 1),
        padding: Pair | None = None,
        groups: int = 1,
        act: bool = False,
        shift_bits: int = 0,
    ) -> relax.Var:
        """Convolve int8 (N, C, H, W) with int8 weights (O, C / groups, height, width).

        ``bias`` is int32 (O,). ``padding`` is the number of zeros on both sides of (height, width).
        The default keeps the size of the image if the kernel is odd and the stride is 1.
        """
        self._expect(x, name, "x", "int8", 4)
        self._expect(weights, name, "weights", "int8", 4)
        self._expect_sums_fit(name, weights, bias)
        height, width = weights.shape[2:]
        pads = (height // 2, width // 2) if padding is None else padding
        total = relax.op.nn.conv2d(
            x, constant(weights), strides=list(strides), padding=list(pads), groups=groups,
            out_dtype="int32",
        )  # fmt: skip
        return self._finish_layer(name, total, bias, (-1, 1, 1), act, shift_bits)

    def depthwise_conv2d(
        self, x: relax.Var, name: str, weights: Array, bias: Array | None = None, **options: Any
    ) -> relax.Var:
        """Convolve each channel with a separate kernel. Weights are (C, 1, height, width)."""
        return self.conv2d(x, name, weights, bias, groups=len(weights), **options)

    def dense(
        self,
        x: relax.Var,
        name: str,
        weights: Array,
        bias: Array | None = None,
        *,
        act: bool = False,
        shift_bits: int = 0,
    ) -> relax.Var:
        """Multiply int8 (N, inputs) by int8 weights (outputs, inputs). ``bias`` is (outputs,).

        A tensor with more axes is flattened after the first axis.
        """
        self._expect(weights, name, "weights", "int8", 2)
        self._expect_sums_fit(name, weights, bias)
        flat = x if len(static_shape(x)) == 2 else self.flatten(x, f"{name}_flat")
        self._expect(flat, name, "x", "int8", 2)
        total = relax.op.matmul(flat, constant(weights.T), out_dtype="int32")
        return self._finish_layer(name, total, bias, (-1,), act, shift_bits)

    def add(
        self, x: relax.Var, y: relax.Var, name: str, *, act: bool = False, shift_bits: int = 0
    ) -> relax.Var:
        """Add two int8 tensors in int32, shift the sum, and clip it to int8."""
        self._expect(x, name, "x", "int8")
        self._expect(y, name, "y", "int8")
        wide = [self._emit(relax.op.astype(t, "int32"), name) for t in (x, y)]
        return self._finish_layer(name, relax.op.add(*wide), None, (), act, shift_bits)

    def max_pool2d(
        self, x: relax.Var, name: str, size: Pair, strides: Pair | None = None
    ) -> relax.Var:
        """Return the maximum of each window. The default of ``strides`` is the window's size."""
        self._expect(x, name, "x", "int8", 4)
        step = size if strides is None else strides
        return self.emit(relax.op.nn.max_pool2d(x, pool_size=list(size), strides=list(step)), name)

    def sum_pool2d(self, x: relax.Var, name: str, *, shift_bits: int = 0) -> relax.Var:
        """Sum each channel over the image, shift and clip the sums. (N, C, H, W) becomes (N, C).

        The result is the average, rounded toward minus infinity, if H·W is 2 ** ``shift_bits``.
        """
        self._expect(x, name, "x", "int8", 4)
        wide = self._emit(relax.op.astype(x, "int32"), name)
        return self._finish_layer(name, relax.op.sum(wide, [2, 3]), None, (), False, shift_bits)

    def flatten(self, x: relax.Var, name: str) -> relax.Var:
        shape = static_shape(x)
        return self.emit(relax.op.reshape(x, (shape[0], prod(shape[1:]))), name)

    def emit(self, expression: relax.Expr, name: str) -> relax.Var:
        """Append a call of ``relax.op``. The arguments are tensors of the graph and constants."""
        return self._emit(expression, name, self._register_name(name))

    def module(self) -> tvm.IRModule:
        """Return the finished network as a module with one function, ``main``."""
        if not self._outputs:
            raise UserError("the graph has no output: call graph.output(tensor)")
        several = len(self._outputs) > 1
        builder = relax.BlockBuilder()
        with builder.function("main", self._inputs):
            for binding in self._bindings:
                builder.emit_normalized(binding)
            builder.emit_func_output(relax.Tuple(self._outputs) if several else self._outputs[0])
        return builder.get()

    def _finish_layer(
        self,
        name: str,
        total: relax.Expr,
        bias: Array | None,
        along: tuple[int, ...],
        act: bool,
        shift_bits: int,
    ) -> relax.Var:
        """Add the bias to an int32 sum, shift, clip and convert it to int8.

        Apply ReLU if ``act``.
        """
        if not 0 <= shift_bits <= 31:
            raise UserError(f"{name}: shift_bits is {shift_bits}; expected 0 to 31")
        sums = self._emit(total, name)
        if bias is not None:
            sums = self._emit(relax.op.add(sums, constant(bias.reshape(along))), name)
        shift = relax.const(shift_bits, "int32")
        shifted = self._emit(relax.op.right_shift(sums, shift), name)
        clipped = self._emit(relax.op.clip(shifted, *INT8_RANGE), name)
        narrow = relax.op.astype(clipped, "int8")
        if not act:
            return self.emit(narrow, name)
        return self.emit(relax.op.clip(self._emit(narrow, name), 0, INT8_RANGE[1]), name)

    def _emit(self, expression: relax.Expr, name: str, variable: str = "lv") -> relax.Var:
        """Bind a call to a variable. Raises UserError if Relax rejects the call."""
        try:
            value = relax.BlockBuilder().normalize(expression)
        except (RuntimeError, TypeError, ValueError) as error:  # the bases of TVM's exceptions
            raise UserError(f"{name}: {first_line(error)}") from error
        bound = relax.Var(variable, value.ty)
        self._bindings.append(relax.VarBinding(bound, value))
        return bound

    def _register_name(self, name: str) -> str:
        if name in self._names:
            raise UserError(f"two layers or inputs are named '{name}'; rename one")
        self._names.add(name)
        return name

    def _expect(
        self, value: Any, name: str, role: str, dtype: str, axes: int | None = None
    ) -> None:
        actual = (
            (value.dtype, value.ndim)
            if isinstance(value, np.ndarray)
            else get_dtype_and_rank(value)
        )
        if str(actual[0]) != dtype or axes not in (None, actual[1]):
            wanted = dtype if axes is None else f"{dtype} with {axes} axes"
            raise UserError(
                f"{name}: {role}: expected {wanted}, found {actual[0]} with {actual[1]} axes"
            )

    def _expect_sums_fit(self, name: str, weights: Array, bias: Array | None) -> None:
        """Check that sums of weights (outputs, …) and bias (outputs,) fit int32 for any input."""
        sums = -INT8_RANGE[0] * np.abs(weights.astype("int64")).reshape(len(weights), -1).sum(1)
        if bias is not None:
            self._expect(bias, name, "bias", "int32", 1)
            if len(bias) != len(weights):
                raise UserError(
                    f"{name}: {len(bias)} biases for {len(weights)} outputs; pass one bias per "
                    "output"
                )
            sums = sums + np.abs(bias.astype("int64"))
        if sums.max() > np.iinfo("int32").max:
            raise UserError(
                f"{name}: a sum can reach {sums.max()}, which does not fit int32; use smaller "
                "weights or biases"
            )


def get_dtype_and_rank(value: Any) -> tuple[str, int]:
    if not isinstance(value, relax.Var):
        raise UserError(f"expected an array or a tensor of the graph, found {type(value).__name__}")
    return dtype_of(value), len(static_shape(value))


def constant(array: Array) -> relax.Expr:
    return relax.const(np.ascontiguousarray(array), str(array.dtype))


def random_array(
    shape: Sequence[int],
    dtype: str = "int8",
    *,
    seed: int,
    low: int | None = None,
    high: int | None = None,
) -> npt.NDArray[Any]:
    """Return integers from ``low`` to ``high`` (inclusive). The default is the range of ``dtype``.

    Each integer is ``low + r mod (high - low + 1)``; r is the next 64-bit number of PCG64 with this
    seed. NumPy guarantees that this stream never changes (NEP 19), unlike the stream of
    ``integers``. Raises UserError if ``dtype`` cannot hold the limits.
    """
    limits = np.iinfo(dtype)
    first = int(limits.min) if low is None else low
    last = int(limits.max) if high is None else high
    if not limits.min <= first <= last <= limits.max:
        raise UserError(
            f"random_array: {dtype} has no numbers from {first} to {last}; expected low <= "
            f"high, from {limits.min} to {limits.max}"
        )
    drawn = np.random.PCG64(seed).random_raw(prod(shape))
    # Differences of 64-bit numbers wrap around. The sum wraps back to the right number.
    moved = drawn % np.uint64(last - first + 1) + np.uint64(first % 2**64)
    return moved.astype(np.int64).astype(dtype).reshape(tuple(shape))
