"""Corrects TVM 0.27's ONNX converters in Relax, if ONNX's operators cannot express the correction.

Each entry of :data:`CONVERTERS` replaces a converter of TVM. An entry can be removed after TVM
fixes its converter. The converters make operators instead of loops, so that later steps can round,
fold and list the operators. The converters also check the results of operators with several
results. TVM has no training mode and returns Dropout's mask as numbers. TVM pads results of
variable length, and returns constants for missing results.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np
from tvm import relax, te, topi
from tvm.relax.frontend.onnx import onnx_frontend

from firmwright.errors import UserError
from firmwright.ir.library_call import call_operator
from firmwright.ir.relax import Constant, constant_array, static_shape
from firmwright.ir.tensors import SIXTEEN_BIT_FLOATS
from firmwright.models.onnx.written_kernels import (
    convert_bit_cast,
    convert_code_to_float,
    convert_float_to_code,
    convert_packed_product,
    convert_pairwise_probabilities,
)

Inputs = Sequence[relax.Expr]
Attributes = Mapping[str, Any]
Converter = Callable[[relax.BlockBuilder, Inputs, Attributes], relax.Expr]


def convert_bit_shift(_: relax.BlockBuilder, inputs: Inputs, attributes: Attributes) -> relax.Expr:
    """Convert BitShift, because TVM writes shifts that C does not define.

    C does not define shifts by large counts, and shifts that change the sign. In ONNX, bits that
    are shifted out are lost. If the count exceeds the width, all bits are fill bits.
    """
    data, count = inputs
    dtype = str(data.ty.dtype)
    bits = np.dtype(dtype).itemsize * 8
    word = "uint64" if bits == 64 else "uint32"
    count = relax.op.astype(relax.op.astype(count, f"uint{bits}"), word)
    last = relax.const(bits - 1, word)
    within = relax.op.minimum(count, last)
    if attributes["direction"] == b"RIGHT" and dtype.startswith("int"):
        return relax.op.right_shift(data, relax.op.astype(within, dtype))
    shift = relax.op.left_shift if attributes["direction"] == b"LEFT" else relax.op.right_shift
    unsigned = relax.op.astype(relax.op.astype(data, f"uint{bits}"), word)
    shifted = relax.op.astype(shift(unsigned, within), dtype)
    lost = relax.op.greater(count, last)
    return relax.op.where(lost, relax.const(0, dtype), shifted)


def make_cumulative(compute: Callable[..., Any]) -> Converter:
    """Return a converter of CumSum or CumProd.

    TVM has no converter of CumProd, and TVM's CumSum calls a library.
    """

    def convert(builder: relax.BlockBuilder, inputs: Inputs, attributes: Attributes) -> relax.Expr:
        if not isinstance(inputs[1], Constant):
            raise UserError("its axis is known only at run time: make the axis a constant")
        data, axis = inputs[0], int(constant_array(inputs[1]).item())
        kind = str(data.ty.dtype)
        dtype = "float32" if kind in SIXTEEN_BIT_FLOATS else kind
        if kind != dtype:
            data = builder.emit(relax.op.astype(data, dtype))
        reverse = bool(attributes.get("reverse", 0))
        if reverse:
            data = builder.emit_te(topi.flip, data, axis=axis)
        exclusive = bool(attributes.get("exclusive", 0))
        result = builder.emit_te(compute, data, axis=axis, dtype=dtype, exclusive=exclusive)
        result = builder.emit_te(topi.flip, result, axis=axis) if reverse else result
        return result if kind == dtype else relax.op.astype(result, kind)

    return convert


def make_min_max(find: Callable[[relax.Expr, relax.Expr], relax.Expr]) -> Converter:
    """Return a converter that compares the inputs of Min or Max in pairs.

    TVM's converter stacks and reduces the inputs. From this form, later steps cannot derive a
    comparison of quantized integers.
    """

    return lambda builder, inputs, _: reduce(lambda a, b: builder.normalize(find(a, b)), inputs)


def convert_dynamic_quantize(
    builder: relax.BlockBuilder, inputs: Inputs, _: Attributes
) -> relax.Expr:
    """Convert DynamicQuantizeLinear, because TVM divides by a scale of 0 if all data are 0.

    ONNX Runtime uses a scale of 1 for these data.
    """
    data, zero, last = inputs[0], relax.const(0, "float32"), relax.const(255, "float32")
    high = builder.normalize(relax.op.maximum(zero, relax.op.max(data)))
    low = builder.normalize(relax.op.minimum(zero, relax.op.min(data)))
    extent = relax.op.where(relax.op.equal(high, low), last, relax.op.subtract(high, low))
    scale = builder.normalize(relax.op.divide(extent, last))
    point = relax.op.clip(relax.op.subtract(zero, relax.op.divide(low, scale)), 0, 255)
    point = builder.normalize(relax.op.astype(relax.op.round(point), "uint8"))
    quantized = relax.op.quantize(data, scale, point, axis=0, out_dtype="uint8")
    return relax.Tuple([quantized, scale, point])


def convert_gelu(_: relax.BlockBuilder, inputs: Inputs, attributes: Attributes) -> relax.Expr:
    """Convert Gelu, because TVM ignores ``approximate`` in models of opsets before 20."""
    is_tanh = attributes.get("approximate", b"none") == b"tanh"
    return (relax.op.nn.gelu_tanh if is_tanh else relax.op.nn.gelu)(inputs[0])


def convert_instance_norm(
    _: relax.BlockBuilder, inputs: Inputs, attributes: Attributes
) -> relax.Expr:
    """Convert InstanceNormalization to one operator.

    TVM splits the operator, and devices do not recognize the parts.
    """
    axes = list(range(2, len(static_shape(inputs[0]))))
    epsilon = float(attributes.get("epsilon", 1e-5))
    return relax.op.nn.instance_norm(*inputs, 1, axes, epsilon)


def convert_sign(_: relax.BlockBuilder, inputs: Inputs, __: Attributes) -> relax.Expr:
    """Convert Sign, because TVM uses the constant -1 also for unsigned numbers."""
    data = inputs[0]
    if not str(data.ty.dtype).startswith("uint"):
        return relax.op.sign(data)
    return relax.op.minimum(data, relax.const(1, str(data.ty.dtype)))


def convert_suppression(
    builder: relax.BlockBuilder, inputs: Inputs, attributes: Attributes
) -> relax.Expr:
    """Convert NonMaxSuppression with a result of fixed length to a call of its C function.

    The inputs are the boxes (batches, boxes, 4), the scores (batches, classes, boxes), the limit of
    the overlap, and the minimum score. The results are the rows and the number of used rows.
    """
    batches, classes, count = static_shape(inputs[1])
    most = int(attributes["most"])
    options = [int(attributes[name]) for name in ("centered", "filtered")]
    results = [
        ((batches * classes * most, 3), "int64"),
        ((1,), "int64"),
        ((count,), "int32"),  # the heap
    ]

    def call(*tensors: te.Tensor) -> list[te.Tensor]:
        sizes = [batches, classes, count, most, *options]
        return call_operator("non_max_suppression", results, tensors, sizes)

    outputs = builder.emit_te(call, *inputs, primfunc_name_hint="non_max_suppression")
    return relax.Tuple([relax.TupleGetItem(outputs, i) for i in range(2)])


CONVERTERS: dict[str, Converter] = {
    "BoundedSuppression": convert_suppression,
    "BitCast": convert_bit_cast,
    "BitShift": convert_bit_shift,
    "CodeToFloat": convert_code_to_float,
    "CumProd": make_cumulative(topi.cumprod),
    "CumSum": make_cumulative(topi.cumsum),
    "DynamicQuantizeLinear": convert_dynamic_quantize,
    "FloatToCode": convert_float_to_code,
    "Gelu": convert_gelu,
    "InstanceNormalization": convert_instance_norm,
    "Max": make_min_max(relax.op.maximum),
    "Min": make_min_max(relax.op.minimum),
    "PackedProduct": convert_packed_product,
    "PairwiseProbabilities": convert_pairwise_probabilities,
    "Sign": convert_sign,
}


def to_tensor(value: relax.Expr | float, like: relax.Expr) -> relax.Expr:
    return relax.const(value, str(like.ty.dtype)) if isinstance(value, int | float) else value


def interleave(before: Sequence[int], after: Sequence[int]) -> list[int]:
    """Return the numbers before and after each axis in alternating order."""
    return [int(n) for pair in zip(before, after, strict=True) for n in pair]


OPERATORS: dict[Any, Callable[..., relax.Expr]] = {
    topi.einsum: lambda equation, *operands: relax.op.einsum(relax.Tuple(operands), equation),
    topi.maximum: lambda data, limit: relax.op.maximum(data, to_tensor(limit, data)),
    topi.minimum: lambda data, limit: relax.op.minimum(data, to_tensor(limit, data)),
    topi.nn.pad: lambda data, before, after, value=0.0: relax.op.nn.pad(
        data, interleave(before, after), "constant", value
    ),
    topi.nn.replicate_pad: lambda data, before, after: relax.op.nn.pad(
        data, interleave(before, after), "replicate"
    ),
    topi.tile: relax.op.tile,
}
"""The Relax operators that replace functions of TVM's operator library.

TVM writes these functions as loops.
"""


class OperatorBuilder(relax.BlockBuilder):  # type: ignore[misc]
    """A block builder that emits operators instead of equivalent loops."""

    def emit_te(self, func: Callable[..., Any], *args: Any, **kwargs: Any) -> relax.Var:
        if func in OPERATORS and not kwargs:
            return self.emit(OPERATORS[func](*args))
        return super().emit_te(func, *args, **kwargs)


DROPOUT_MASK_OPSET = 12
"""The first opset that defines Dropout's mask for inference. All elements of the mask are true."""

TRAINING_MODE_OPSET = 14
"""The first opset in which an attribute of BatchNormalization states the training mode."""


FORM_OPSETS = {"ArgMax": (1, 11), "ArgMin": (1, 11), "TopK": (10, 11)}
"""Maps operators to the first opset that TVM misreads or rejects, and to an opset that TVM reads.

TVM rejects a negative axis of ArgMax before opset 11, but rewrites of this package use negative
axes.
"""


def find_form(operator: str, inputs: Inputs, attributes: Attributes, opset: int) -> tuple[Any, int]:
    """Return the inputs of a node, and an opset that TVM's converter supports.

    Before opset 10, the limits of Slice are attributes, but TVM's converter reads inputs.
    """
    if operator == "Slice" and "starts" in attributes:
        limits = [attributes.get(name) for name in ("starts", "ends", "axes")]
        constants = [None if n is None else relax.const(np.array(n, "int64")) for n in limits]
        inputs = onnx_frontend.onnx_input([inputs[0], *constants])
    first, fitting = FORM_OPSETS.get(operator, (opset, opset))
    return inputs, max(opset, fitting) if opset >= first else opset


PARAMETERS: dict[str, tuple[str, ...]] = {
    "Expand": ("shape",),
    "Pad": ("pads",),
    "Reshape": ("shape",),
    "Resize": ("roi", "scales", "sizes"),
    "Slice": ("starts", "ends", "axes", "steps"),
    "Split": ("split",),
    "Squeeze": ("axes",),
    "Tile": ("repeats",),
    "TopK": ("k",),
    "Unsqueeze": ("axes",),
}
"""The inputs after the data that determine the shape of the result."""


def find_open_parameter(operator: str, inputs: Sequence[relax.Expr | None]) -> str:
    """Return the reason why a node whose shape depends on an input cannot be compiled, or ''."""
    for name, given in zip(PARAMETERS.get(operator, ()), inputs[1:], strict=False):
        if isinstance(given, relax.Var):
            return (
                f"its input '{name}' is known only at run time, but firmware needs fixed shapes: "
                "make it a constant. A recipe fixes an input of the model with "
                "`inputs: {NAME: {value: …}}`"
            )
    return ""


LOGICAL = frozenset({"And", "Not", "Or", "Xor"})


def refuse_node(
    operator: str, inputs: Sequence[relax.Expr | None], attributes: Mapping[str, Any], opset: int
) -> None:
    """Raise UserError if a node cannot be compiled.

    The causes are results of variable length, training mode, and results without a reference. ONNX
    Runtime, which computes the reference, supports LRN only with odd sizes.
    """
    if operator == "NonMaxSuppression":  # TVM pads the result to the maximum length
        raise UserError(
            "the length of its result is known only at run time; move it out of the subgraph, or "
            "end the model before the operator"
        )
    if operator in LOGICAL:
        kinds = sorted({str(value.ty.dtype) for value in inputs if value is not None} - {"bool"})
        if kinds:
            raise UserError(f"its input is {kinds[0]}; expected a Boolean: add a Cast to bool")
    if operator == "LRN" and attributes["size"] % 2 == 0:
        raise UserError(
            f"its size is {attributes['size']}; only odd sizes have a channel in their middle: "
            "export the model with an odd size"
        )
    if operator == "Dropout" and len(inputs) > 2 and inputs[2] is not None:
        # Dropout with ratio zero keeps all elements.
        training = not any(
            isinstance(i, Constant) and not constant_array(i).any() for i in inputs[1:3]
        )
    elif operator == "BatchNormalization":
        several = opset < TRAINING_MODE_OPSET and count_results(attributes) > 1
        training = bool(attributes.get("training_mode", 0)) or several
    else:
        return
    if training:
        raise UserError("it is in training mode; export the model for inference")


def convert_dropout(data: relax.Expr, attributes: Mapping[str, Any], opset: int) -> relax.Expr:
    """Return the data unchanged, and the mask if the node has this result."""
    if count_results(attributes) == 1:
        return data
    if opset < DROPOUT_MASK_OPSET:
        raise UserError(
            f"its mask has no defined value in opset {opset}; remove that output, or export the "
            f"model with opset {DROPOUT_MASK_OPSET} or later"
        )
    return relax.Tuple([data, relax.const(np.ones(static_shape(data), "bool"), "bool")])


def check_results(
    result: relax.Expr, inputs: Sequence[relax.Expr | None], attributes: Mapping[str, Any]
) -> None:
    """Raise UserError if a result is missing, or if a constant replaces a computed result."""
    wanted = count_results(attributes)
    if wanted == 1:
        return
    count = 1
    if isinstance(result, relax.Tuple):
        computed = any(i is not None and not isinstance(i, Constant) for i in inputs)
        stand_ins = [n for n, f in enumerate(result.fields) if isinstance(f, Constant) and computed]
        count = min([len(result.fields), *stand_ins])
    elif isinstance(result.ty, relax.TupleType):
        count = len(result.ty.fields)
    if count < wanted:
        raise UserError(
            f"only {count} of its {wanted} results can be compiled; remove the others from the "
            "model"
        )


def count_results(attributes: Mapping[str, Any]) -> int:
    """Return the number of the node's results.

    The importer stores this number in the attributes.
    """
    return int(attributes["tvm_custom"]["num_outputs"])
