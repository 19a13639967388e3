"""Checks a TFLite model in addition to LiteRT's verifier, before TVM reads the model.

LiteRT's verifier checks the offsets and lengths inside the file. The verifier does not check tensor
indices, the order of operators, and quantization parameters. LiteRT's kernels check these values,
but some kernels abort the process. Each rule is a small function. The docstring of a rule is a
sentence of the message. The result of a rule is the wrong value or None.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
import tflite

from firmwright.errors import UserError
from firmwright.ir.tensors import LARGEST_TENSOR
from firmwright.models.importing import (
    GraphNode,
    find_duplicates,
    order_problems,
    refuse_operators,
    refuse_problems,
)

Array = npt.NDArray[Any]

SMALLEST_SCALE = np.finfo("float32").tiny

INTEGER_TYPES = {
    getattr(tflite.TensorType, n.upper()): n for n in ("int8", "uint8", "int16", "int32", "int64")
}

ELEMENT_BITS = {
    **{getattr(tflite.TensorType, n): 8 for n in ("INT8", "UINT8", "BOOL")},
    **{getattr(tflite.TensorType, n): 16 for n in ("INT16", "UINT16", "FLOAT16", "BFLOAT16")},
    **{getattr(tflite.TensorType, n): 32 for n in ("INT32", "UINT32", "FLOAT32")},
    **{getattr(tflite.TensorType, n): 64 for n in ("INT64", "UINT64", "FLOAT64", "COMPLEX64")},
    tflite.TensorType.COMPLEX128: 128,
}

QUANTIZED_ARITHMETIC = frozenset(
    """
    ADD AVERAGE_POOL_2D BATCH_MATMUL CONV_2D DEPTHWISE_CONV_2D DIV EXP FULLY_CONNECTED HARD_SWISH
    L2_NORMALIZATION LEAKY_RELU LOGISTIC LOG_SOFTMAX MEAN MUL PRELU RELU RELU6 RELU_N1_TO_1
    RESIZE_BILINEAR RSQRT SOFTMAX SQUARED_DIFFERENCE SUB SUM SVDF TANH TRANSPOSE_CONV
    """.split()
)
"""Operators that compute with the real numbers of 8-bit integers instead of the integers."""


STATEFUL_OPERATORS = frozenset({"UNIDIRECTIONAL_SEQUENCE_RNN", "BIDIRECTIONAL_SEQUENCE_RNN"})


WITHOUT_RESULTS = frozenset({"ASSIGN_VARIABLE", "CALL_ONCE"})

RENEW = "download the model again, or convert it again"
REPLACE_STATEFUL = "convert the model again with LSTM layers, which are supported"
QUANTIZE_AGAIN = "convert the model again, with a representative dataset for its quantization"


def check_model(model: Any, name: str) -> None:
    """Raise UserError with all problems of a model that cannot be imported."""
    check_indices(model, name)
    heading = f"{name}: a damaged TFLite model:"
    stateful = list_stateful_operators(model)
    if stateful:
        refuse_operators(name, stateful, REPLACE_STATEFUL)
    refuse_problems(heading, graph_problems(model), RENEW)
    refuse_signatures(model, name)
    heading = f"{name}: quantization that cannot be computed:"
    refuse_problems(heading, tensor_problems(model, QUANTIZATION_RULES), QUANTIZE_AGAIN)


def check_indices(model: Any, name: str) -> None:
    """Raise UserError if the model refers to missing tensors, buffers or operators."""
    refuse_problems(f"{name}: a damaged TFLite model:", index_problems(model), RENEW)


def refuse_signatures(model: Any, name: str) -> None:
    """Raise UserError if signatures refer to subgraphs after the first subgraph."""
    signatures = [model.SignatureDefs(i) for i in range(model.SignatureDefsLength())]
    if any(s.SubgraphIndex() for s in signatures):
        keys = [decode_text(s.SignatureKey()) for s in signatures]
        raise UserError(
            f"{name}: the model has several networks, one per signature "
            f"({', '.join(map(repr, keys))}); select one in the recipe, `model: "
            f"{{path: …, signature_name: {keys[0]}}}`, or with `firmwright init --signature-name`"
        )


def list_stateful_operators(model: Any) -> list[str]:
    graph, kinds = model.Subgraphs(0), operator_kinds(model)
    reason = "keeps a state between runs, which firmwright does not support for this operator"
    operators = map(graph.Operators, range(graph.OperatorsLength()))
    return [
        f"  {kinds[o.OpcodeIndex()]} "
        f"(tensor '{decode_text(graph.Tensors(o.Outputs(0)).Name())}') {reason}"
        for o in operators
        if kinds[o.OpcodeIndex()] in STATEFUL_OPERATORS
    ]


def decode_text(raw: bytes | None) -> str:
    return (raw or b"").decode("utf-8", "replace")


def to_ints(values: Any) -> list[int]:
    """Return a vector of the file as a list. The reader returns 0 for a missing vector."""
    return [int(v) for v in values] if isinstance(values, np.ndarray) else []


def operator_kinds(model: Any) -> list[str]:
    known = {v: k for k, v in vars(tflite.BuiltinOperator).items() if isinstance(v, int)}
    codes = [model.OperatorCodes(i) for i in range(model.OperatorCodesLength())]
    numbers = [max(c.BuiltinCode(), c.DeprecatedBuiltinCode()) for c in codes]
    return [known.get(code, f"BUILTIN_{code}") for code in numbers]


def index_problems(model: Any) -> Iterator[str]:
    """Yield the invalid indices of buffers, and of operators and tensors of the first subgraph."""
    graph = model.Subgraphs(0)
    count, kinds = graph.TensorsLength(), operator_kinds(model)
    if not graph.OutputsLength():
        yield "the graph has no outputs; expected one output or more"
    for values, what in ((graph.InputsAsNumpy(), "input"), (graph.OutputsAsNumpy(), "output")):
        for index in find_invalid(values, count):
            yield f"an {what} of the graph is tensor {index}; expected 0 to {count - 1}"
    for twice in find_duplicates(to_ints(graph.InputsAsNumpy())):
        yield f"tensor {twice} is two inputs of the graph; expected different tensors"
    for each in map(model.Subgraphs, range(model.SubgraphsLength())):
        for tensor in map(each.Tensors, range(each.TensorsLength())):
            if tensor.Buffer() >= model.BuffersLength():
                where = f"buffer {tensor.Buffer()}; the file has {model.BuffersLength()} buffers"
                yield f"tensor '{decode_text(tensor.Name())}' is in {where}"
    for position in range(graph.OperatorsLength()):
        operator = graph.Operators(position)
        for problem in operator_index_problems(operator, kinds, count):
            yield f"operator {position} {problem}"


def operator_index_problems(operator: Any, kinds: Sequence[str], tensors: int) -> Iterator[str]:
    if operator.OpcodeIndex() >= len(kinds):
        yield f"has operator code {operator.OpcodeIndex()}; expected 0 to {len(kinds) - 1}"
    elif not operator.OutputsLength() and kinds[operator.OpcodeIndex()] not in WITHOUT_RESULTS:
        yield "has no results; expected one result or more"
    for index in find_invalid(operator.InputsAsNumpy(), tensors, lowest=-1):
        yield f"reads tensor {index}; expected -1 to {tensors - 1}"
    for index in find_invalid(operator.OutputsAsNumpy(), tensors):
        yield f"writes tensor {index}; expected 0 to {tensors - 1}"


def find_invalid(values: Any, count: int, lowest: int = 0) -> Iterator[int]:
    """Yield the indices below ``lowest``, and the indices from ``count``.

    Index -1 is a missing tensor.
    """
    return (i for i in to_ints(values) if not lowest <= i < count)


@dataclass(frozen=True)
class CheckedTensor:
    tensor: Any
    buffer_bytes: int
    is_arithmetic: bool
    """Whether an operator reads or writes the real numbers of the tensor's integers."""
    is_softmax: bool
    """Whether SOFTMAX writes the tensor. Then an int16 zero point may be -32768."""

    @cached_property
    def shape(self) -> list[int]:
        return to_ints(self.tensor.ShapeAsNumpy())

    @cached_property
    def dtype(self) -> str:
        return INTEGER_TYPES.get(self.tensor.Type(), "")

    @cached_property
    def scales(self) -> Array:
        params = self.tensor.Quantization()
        return params.ScaleAsNumpy() if params and params.ScaleLength() else np.zeros(0, "float32")

    @cached_property
    def zero_points(self) -> list[int]:
        params = self.tensor.Quantization()
        return to_ints(params.ZeroPointAsNumpy()) if params else []


def find_negative_length(t: CheckedTensor) -> str | None:
    """a shape must have no negative lengths"""
    return f"{t.shape}" if any(d < 0 for d in t.shape) else None


def find_oversize(t: CheckedTensor) -> str | None:
    """a tensor must be smaller than 2 GiB"""
    bits = ELEMENT_BITS.get(t.tensor.Type(), 8)
    return f"{t.shape}" if prod(t.shape) * bits // 8 > LARGEST_TENSOR else None


def find_size_mismatch(t: CheckedTensor) -> str | None:
    """the data of a constant must have the size of its shape and type"""
    bits = ELEMENT_BITS.get(t.tensor.Type())
    if not t.buffer_bytes or bits is None or t.tensor.Sparsity() is not None:
        return None
    expected = prod(t.shape) * bits // 8
    return (
        None
        if t.buffer_bytes == expected
        else f"{t.buffer_bytes} bytes; its shape and type need {expected}"
    )


def find_sparsity(t: CheckedTensor) -> str | None:
    """sparse tensors are not supported: convert the model without sparsity"""
    return "a sparse tensor" if t.tensor.Sparsity() is not None else None


def find_bad_scale(t: CheckedTensor) -> str | None:
    """a scale must be a positive, finite, normal number"""
    if not t.dtype or t.dtype == "int32":  # a bias has the scale of the sums
        return None
    wrong = t.scales[~(np.isfinite(t.scales) & (t.scales >= SMALLEST_SCALE))]
    return f"{wrong[0]}" if len(wrong) else None


def find_bad_zero_point(t: CheckedTensor) -> str | None:
    """a zero point must be a value of the tensor's type"""
    if not t.dtype:
        return None
    limits = np.iinfo(t.dtype)
    wrong = [z for z in t.zero_points if not limits.min <= z <= limits.max]
    return f"{wrong[0]} in {t.dtype}" if wrong else None


def find_nonzero_zero_point(t: CheckedTensor) -> str | None:
    """the zero point of int16, int32 and int64 must be 0"""
    if t.tensor.IsVariable() or t.is_softmax:  # no kernel reads the zero points of states
        return None
    wrong = [z for z in t.zero_points if z] if t.dtype in ("int16", "int32", "int64") else []
    return f"{wrong[0]} in {t.dtype}" if wrong else None


def find_missing_scale(t: CheckedTensor) -> str | None:
    """int8 and uint8 tensors must have a scale if operators compute with their real numbers"""
    missing = t.is_arithmetic and t.dtype in ("int8", "uint8") and not len(t.scales)
    return "none" if missing else None


TensorRules = tuple[Callable[[CheckedTensor], str | None], ...]

FORMAT_RULES: TensorRules = (find_negative_length, find_oversize, find_size_mismatch)

QUANTIZATION_RULES: TensorRules = (
    find_sparsity,
    find_bad_scale,
    find_bad_zero_point,
    find_nonzero_zero_point,
    find_missing_scale,
)


def graph_problems(model: Any) -> Iterator[str]:
    graph = model.Subgraphs(0)
    kinds = operator_kinds(model)
    nodes = list_nodes(graph, kinds)
    labels: dict[Hashable, str] = {
        i: decode_text(graph.Tensors(i).Name()) for i in range(graph.TensorsLength())
    }
    known = {-1, *to_ints(graph.InputsAsNumpy()), *find_known_tensors(model, graph)}
    yield from order_problems(known, nodes, to_ints(graph.OutputsAsNumpy()), labels)
    yield from operator_problems(graph, kinds, labels)
    yield from tensor_problems(model, FORMAT_RULES)


def tensor_problems(model: Any, rules: TensorRules) -> Iterator[str]:
    """Yield the rules that tensors of the first subgraph violate."""
    graph, kinds = model.Subgraphs(0), operator_kinds(model)
    nodes = list_nodes(graph, kinds)
    arithmetic = {
        tensor
        for position, node in enumerate(nodes)
        if kinds[graph.Operators(position).OpcodeIndex()] in QUANTIZED_ARITHMETIC
        for tensor in (*node.reads, *node.writes)
    }
    probabilities = {
        tensor
        for position, node in enumerate(nodes)
        if kinds[graph.Operators(position).OpcodeIndex()] == "SOFTMAX"
        for tensor in node.writes
    }
    for index in range(graph.TensorsLength()):
        tensor = graph.Tensors(index)
        checked = CheckedTensor(
            tensor, buffer_bytes(model, tensor), index in arithmetic, index in probabilities
        )
        for rule in rules:
            if finding := rule(checked):
                yield f"tensor '{decode_text(tensor.Name())}': {rule.__doc__}; found {finding}"


def list_nodes(graph: Any, kinds: Sequence[str]) -> list[GraphNode]:
    return [
        GraphNode(
            f"{kinds[operator.OpcodeIndex()]} (operator {position})",
            tuple(to_ints(operator.InputsAsNumpy())),
            tuple(to_ints(operator.OutputsAsNumpy())),
        )
        for position, operator in enumerate(map(graph.Operators, range(graph.OperatorsLength())))
    ]


def find_known_tensors(model: Any, graph: Any) -> Iterator[int]:
    """Yield the tensors with data in the file, and the tensors that keep data between inferences.

    An empty tensor needs no data if no operator writes the tensor.
    """
    written = {i for node in list_nodes(graph, operator_kinds(model)) for i in node.writes}
    for index in range(graph.TensorsLength()):
        tensor = graph.Tensors(index)
        empty = prod(to_ints(tensor.ShapeAsNumpy())) == 0 and index not in written
        if buffer_bytes(model, tensor) or tensor.IsVariable() or empty:
            yield index


def buffer_bytes(model: Any, tensor: Any) -> int:
    """Return the length of a tensor's data, including data after the flatbuffer."""
    buffer = model.Buffers(tensor.Buffer())
    return int(buffer.DataLength() or buffer.Size())


WINDOW_OPTIONS = {
    **dict.fromkeys(("AVERAGE_POOL_2D", "L2_POOL_2D", "MAX_POOL_2D"), tflite.Pool2DOptions),
    "CONV_2D": tflite.Conv2DOptions,
    "DEPTHWISE_CONV_2D": tflite.DepthwiseConv2DOptions,
    "TRANSPOSE_CONV": tflite.TransposeConvOptions,
}

LENGTH_FIELDS = (
    "StrideH", "StrideW", "DilationHFactor", "DilationWFactor", "FilterHeight", "FilterWidth",
)  # fmt: skip


def operator_problems(
    graph: Any, kinds: Sequence[str], labels: Mapping[Hashable, str]
) -> Iterator[str]:
    for position in range(graph.OperatorsLength()):
        operator = graph.Operators(position)
        kind = kinds[operator.OpcodeIndex()]
        for rule in OPERATOR_RULES:
            if finding := rule(graph, operator, kind):
                yield f"{kind} (tensor '{labels[operator.Outputs(0)]}'): {rule.__doc__}; {finding}"


def read_options(operator: Any, kinds: dict[str, Any], kind: str) -> Any:
    table = operator.BuiltinOptions()
    if kind not in kinds or table is None:
        return None
    options = kinds[kind]()
    options.Init(table.Bytes, table.Pos)
    return options


def find_bad_length(graph: Any, operator: Any, kind: str) -> str | None:
    """strides, dilations and the lengths of a window must be 1 or more"""
    del graph
    stated = read_options(operator, WINDOW_OPTIONS, kind)
    lengths = {n: getattr(stated, n)() for n in LENGTH_FIELDS if hasattr(stated, n)}
    wrong = [f"{name} {length}" for name, length in lengths.items() if length < 1]
    return f"found {', '.join(wrong)}" if wrong else None


LEAST_INPUTS = {"CONV_2D": 2, "DEPTHWISE_CONV_2D": 2, "FULLY_CONNECTED": 2, "TRANSPOSE_CONV": 3}


def find_missing_inputs(graph: Any, operator: Any, kind: str) -> str | None:
    """a layer with weights must have data and weights as inputs"""
    del graph
    count = operator.InputsLength()
    return f"found {count} inputs" if count < LEAST_INPUTS.get(kind, 0) else None


OPERATOR_RULES: tuple[Callable[[Any, Any, str], str | None], ...] = (
    find_bad_length,
    find_missing_inputs,
)
