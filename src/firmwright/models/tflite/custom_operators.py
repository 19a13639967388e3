"""Defines custom operators of TFLite files: their C functions, constants and references."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from ai_edge_litert import schema_py_generated as schema
from flatbuffers import flexbuffers

from firmwright.errors import UserError

Array = np.ndarray[Any, Any]

INT32_MAX = 2**31 - 1
"""The maximum of most options, because the parameters of C functions are int32."""

Options = Mapping[str, Any]

DTYPES = {v: k.lower() for k, v in vars(schema.TensorType).items() if isinstance(v, int)}


class TensorKind(NamedTuple):
    shape: tuple[int, ...]
    dtype: str

    def __str__(self) -> str:
        return f"{self.dtype} {list(self.shape)}"


Kinds = Sequence[TensorKind]


Reference = Callable[[Sequence[Array], Options, Kinds], Sequence[Array]]
"""Computes the results from the inputs, the options, and the results' shapes and types."""


def list_option_constants(_inputs: Kinds, options: Options) -> list[Array]:
    """Return each option as an array, sorted by name: int32 or float32, a scalar or a vector.

    Raises UserError if an option is neither a number nor a list of numbers.
    """
    return [convert_option(name, options[name]) for name in sorted(options)]


def convert_option(name: str, value: Any) -> Array:
    try:
        array = np.asarray(value)
    except ValueError:  # the inner lists differ in length
        array = np.asarray(None)
    if array.dtype.kind == "f":
        return array.astype("float32")
    limits = np.iinfo("int32")
    if array.dtype.kind in "biu" and np.all((limits.min <= array) & (array <= limits.max)):
        return array.astype("int32")
    raise UserError(
        f"its option '{name}' is {value!r}, which C constants do not support; expected numbers of "
        "int32 or float32, or a list of them"
    )


def list_nothing(_inputs: Kinds, _options: Options) -> tuple[()]:
    return ()


@dataclass(frozen=True)
class CustomOperator:
    """The definition of a custom operator.

    ``function`` is the name of the C function, which may contain the first input's dtype:
    ``add_{dtype}``. The parameters of the C function are DLTensors: the inputs, the ``constants``,
    and the results. If ``numbers`` is not None, the operator is built-in. Then the parameters are
    pointers, and the numbers precede the results. ``reference`` computes the results from the
    inputs, the options, and the shapes and types of the results. None means that LiteRT computes
    the operator. ``shapes`` returns the shapes and types of the results. None means the shapes and
    types in the file. ``states`` are tensors that the operator keeps between runs, with zeros
    before the first run. The states become the operator's last inputs, and the next values become
    the last results. ``accepts`` contains the dtypes of each input, and ``rank`` is the minimum
    number of dimensions of the first input. ``requires`` maps required options to a maximum. None
    permits all finite numbers. ``check_values`` raises UserError if constants do not fit. The
    arguments of this function are the shapes and types of the inputs, and the values of the inputs.
    The value of a computed input is None. ``scratch`` returns arrays that follow the results. If
    ``in_float`` is true, the function receives the real numbers of quantized inputs.
    ``clear_undefined`` replaces results that LiteRT does not write.
    """

    function: str
    reference: Reference | None
    constants: Callable[[Kinds, Options], Sequence[Array]] = list_nothing
    numbers: Callable[[Kinds, Options], Sequence[int]] | None = None
    shapes: Callable[[Kinds, Options], Kinds] | None = None
    states: Callable[[Kinds, Options], Kinds] = list_nothing
    scratch: Callable[[Kinds, Options], Kinds] = list_nothing
    in_float: bool = False
    clear_undefined: Callable[[Sequence[Array], Options], Sequence[Array]] | None = None
    accepts: tuple[tuple[str, ...], ...] = ()
    rank: int = 0
    requires: Mapping[str, int | None] = field(default_factory=dict)
    check_values: Callable[[Kinds, Sequence[Array | None]], None] | None = None


def describe_tensor(tensor: Any) -> TensorKind:
    shape = () if tensor.shape is None else tuple(int(d) for d in tensor.shape)
    return TensorKind(shape, DTYPES[tensor.type])


def read_constant(model: Any, index: int) -> Array:
    """Return a constant of the first graph. Raises ValueError if the tensor has no data."""
    tensor = model.subgraphs[0].tensors[index]
    data = model.buffers[tensor.buffer].data
    if data is None:
        raise ValueError(f"tensor {index} has no data")
    shape, dtype = describe_tensor(tensor)
    return np.frombuffer(bytes(bytearray(data)), dtype).reshape(shape)


def read_options(data: Any) -> dict[str, Any]:
    """Return the options of a custom operator, a map in FlexBuffers, or {} without options.

    Raises UserError if the options have another format.
    """
    raw = b"" if data is None or isinstance(data, int) else bytes(bytearray(data))
    if not raw:
        return {}
    try:
        return read_map(raw)
    except Exception as error:
        raise refuse_options(raw) from error


def read_map(raw: bytes) -> dict[str, Any]:
    """Return the values of a map in FlexBuffers: numbers, texts, and lists of both.

    Raises ValueError for lists in lists, and if the values need more bytes than ``raw`` has.
    Without this limit, repeated references to a value need a time that is exponential in the bytes.
    """
    mapping, left = flexbuffers.GetRoot(raw).AsMap, len(raw)
    options: dict[str, Any] = {}
    for key, value in zip(mapping.Keys, mapping.Values, strict=False):
        values = []
        for each in [value] if (items := find_items(value)) is None else items:
            if find_items(each) is not None:
                raise ValueError("a list contains a list")
            values.append(each.Value)
            left -= len(values[-1]) if isinstance(values[-1], str | bytes) else 1
            if left < 0:
                raise ValueError("more values than bytes")
        options[key.Value] = values[0] if items is None else values
    return options


def find_items(value: Any) -> Any:
    if value.IsVector:  # maps are also vectors
        return value.AsVector
    if value.IsTypedVector:
        return value.AsTypedVector
    return value.AsFixedTypedVector if value.IsFixedTypedVector else None


def refuse_options(raw: bytes) -> UserError:
    shown = raw[:16].hex(" ") + (" …" if len(raw) > 16 else "")
    return UserError(
        f"its custom options ({len(raw)} bytes: {shown}) are not a map in FlexBuffers of numbers, "
        "texts, and lists of them; write them with flexbuffers, as TFLite's converter does"
    )
