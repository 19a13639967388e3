"""What is asked of single operators of a TFLite model, before TVM sees it.

As in :mod:`firmwright.models.tflite.checks`, a rule's docstring is the sentence that the user
reads, and its result what was found instead, or None.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any

import tflite

WINDOW_OPTIONS = {
    "AVERAGE_POOL_2D": tflite.Pool2DOptions,
    "CONV_2D": tflite.Conv2DOptions,
    "DEPTHWISE_CONV_2D": tflite.DepthwiseConv2DOptions,
    "L2_POOL_2D": tflite.Pool2DOptions,
    "MAX_POOL_2D": tflite.Pool2DOptions,
    "TRANSPOSE_CONV": tflite.TransposeConvOptions,
}

LENGTH_FIELDS = (
    "StrideH", "StrideW", "DilationHFactor", "DilationWFactor", "FilterHeight", "FilterWidth",
)  # fmt: skip

BIAS_OPTIONS = {
    "CONV_2D": tflite.Conv2DOptions,
    "FULLY_CONNECTED": tflite.FullyConnectedOptions,
    "TRANSPOSE_CONV": tflite.TransposeConvOptions,
}


def operator_problems(
    graph: Any, kinds: Sequence[str], labels: Mapping[Hashable, str]
) -> Iterator[str]:
    """Yield what is wrong with operators; ``kinds`` are those of the operator codes."""
    for position in range(graph.OperatorsLength()):
        operator = graph.Operators(position)
        kind = kinds[operator.OpcodeIndex()]
        for rule in RULES:
            if found := rule(graph, operator, kind):
                yield f"{kind} (tensor '{labels[operator.Outputs(0)]}'): {rule.__doc__}; {found}"


def read_options(operator: Any, kinds: dict[str, Any], kind: str) -> Any:
    """Return an operator's options as ``kinds`` says they are laid out; None where it has none."""
    table = operator.BuiltinOptions()
    if kind not in kinds or table is None:
        return None
    found = kinds[kind]()
    found.Init(table.Bytes, table.Pos)
    return found


def find_bad_length(graph: Any, operator: Any, kind: str) -> str | None:
    """strides, dilations and the lengths of a window are 1 or more"""
    del graph
    stated = read_options(operator, WINDOW_OPTIONS, kind)
    lengths = {n: getattr(stated, n)() for n in LENGTH_FIELDS if hasattr(stated, n)}
    wrong = [f"{name} {length}" for name, length in lengths.items() if length < 1]
    return f"found {', '.join(wrong)}" if wrong else None


def find_bad_bias_type(graph: Any, operator: Any, kind: str) -> str | None:
    """an operator on int16 has an int64 bias, or states the type of its int32 one"""
    stated = read_options(operator, BIAS_OPTIONS, kind)
    inputs = [int(i) for i in operator.InputsAsNumpy()]
    source, bias = (inputs[0], inputs[2:]) if kind != "TRANSPOSE_CONV" else (inputs[2], inputs[3:])
    if stated is None or not bias or bias[0] < 0:
        return None
    types = [graph.Tensors(i).Type() for i in (source, bias[0])]
    if types != [tflite.TensorType.INT16, tflite.TensorType.INT32]:
        return None
    if stated.QuantizedBiasType() == tflite.TensorType.INT32:
        return None
    return (
        "found an int32 bias and no quantized_bias_type: LiteRT, the reference, would read it as "
        "int64; convert the model anew"
    )


RULES: tuple[Callable[[Any, Any, str], str | None], ...] = (
    find_bad_length,
    find_bad_bias_type,
)
