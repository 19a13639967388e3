"""Defines custom operators of TFLite files: their C functions, their constants and references.

The built-in operators are always known. The operators of a recipe are known within
:func:`use_custom_operators`, because their Python functions can be called only while the recipe's
folder is in the import path.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from ai_edge_litert import schema_py_generated as schema
from flatbuffers import flexbuffers

from firmwright.errors import DiagnosticError, UserError
from firmwright.models.tflite.checks import decode_text
from firmwright.models.tflite.repairs import kind_of, pack

Array = np.ndarray[Any, Any]
Options = Mapping[str, Any]

DTYPES = {v: k.lower() for k, v in vars(schema.TensorType).items() if isinstance(v, int)}


class TensorKind(NamedTuple):
    """The shape and the dtype of a tensor."""

    shape: tuple[int, ...]
    dtype: str

    def __str__(self) -> str:
        return f"{self.dtype} {list(self.shape)}"


Kinds = Sequence[TensorKind]


Reference = Callable[[Sequence[Array], Options, Kinds], Sequence[Array]]
"""Computes results from inputs and options; the results have given shapes and types."""


def list_option_constants(_inputs: Kinds, options: Options) -> list[Array]:
    """Return each option as an array, sorted by name: int32 or float32, a scalar or a vector.

    Raises UserError for an option that is not a number or a list of numbers.
    """
    return [convert_option(name, options[name]) for name in sorted(options)]


def convert_option(name: str, value: Any) -> Array:
    try:
        array = np.asarray(value)
    except ValueError:  # a list of lists of different lengths
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

    ``function`` is its C function, which may contain the first input's dtype: ``add_{dtype}``.
    Its parameters are the inputs, the ``constants``, and the results, as DLTensors. With
    ``numbers`` it is built in: it gets pointers, and the numbers before the results. ``reference``
    computes the results from the inputs, the options, and the shapes and types of the results; None
    if LiteRT computes the operator. ``shapes`` returns the shapes and types of the results; None
    means those in the file. ``states`` are tensors that the operator keeps between runs, with zeros
    before the first run: they become its last inputs, and their next values its last results.
    ``accepts`` has the dtypes of each input, and ``requires`` the options that a file must have.
    ``scratch`` are arrays for the C function after its results. With ``in_float`` it gets the real
    numbers of quantized inputs. ``clear_undefined`` replaces results that LiteRT does not write.
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
    requires: tuple[str, ...] = ()


Operators = Mapping[str, CustomOperator]

_of_recipe: ContextVar[Operators] = ContextVar("custom operators of the recipe")


@contextmanager
def use_custom_operators(operators: Operators) -> Iterator[None]:
    """Add the operators of a recipe, by the names in the file, to the known ones in the block."""
    token = _of_recipe.set(operators)
    try:
        yield
    finally:
        _of_recipe.reset(token)


def list_known_operators() -> Operators:
    """Return all known operators by name; an operator of the recipe replaces a built-in one."""
    from firmwright.models.tflite.detection_operator import DETECTION
    from firmwright.models.tflite.signal_operators import SIGNAL

    built_in = {"TFLite_Detection_PostProcess": DETECTION, **SIGNAL}
    return {**built_in, **_of_recipe.get({})}


@dataclass(frozen=True)
class CustomCall:
    """One custom operator of a file: its name, definition, options, inputs and results.

    A missing input is not in ``inputs``.
    """

    name: str
    label: str
    operator: CustomOperator
    options: Options
    inputs: tuple[TensorKind, ...]
    results: tuple[TensorKind, ...]

    def list_results(self, inputs: Kinds) -> list[TensorKind]:
        """Return the results for ``inputs``, whose shapes may differ from the file's."""
        if self.operator.shapes is None:
            return list(self.results)
        return list(self.operator.shapes(inputs, self.options))


def read_call(model: Any, operator: Any) -> CustomCall | None:
    """Return a custom operator of a ``ModelT``'s first graph; None for other operators.

    Raises UserError for an operator without a definition, and for a file that does not fit the
    definition.
    """
    if kind_of(model, operator) != "CUSTOM":
        return None
    graph = model.subgraphs[0]
    name = decode_text(model.operatorCodes[operator.opcodeIndex].customCode)
    given, made = (
        tuple(describe_tensor(graph.tensors[i]) for i in indices if i >= 0)
        for indices in (operator.inputs, operator.outputs)
    )
    label = f"operator {name} (tensor '{decode_text(graph.tensors[operator.outputs[0]].name)}')"
    definition = list_known_operators().get(name)
    if definition is None:
        raise UserError(f"{label} has no definition")
    with label_errors(label):
        options = read_options(operator.customOptions)
    return CustomCall(name, label, definition, options, given, made)


@contextmanager
def label_errors(label: str) -> Iterator[None]:
    """Put the operator before the errors of a block, except errors at a place in the recipe."""
    try:
        yield
    except DiagnosticError:
        raise
    except UserError as error:
        raise UserError(f"{label}: {error}") from None


def describe_tensor(tensor: Any) -> TensorKind:
    shape = () if tensor.shape is None else tuple(int(d) for d in tensor.shape)
    return TensorKind(shape, DTYPES[tensor.type])


def read_options(data: Any) -> dict[str, Any]:
    """Return the options of a custom operator, a map in FlexBuffers; empty without options.

    Raises UserError for options in another format.
    """
    raw = b"" if data is None or isinstance(data, int) else bytes(bytearray(data))
    if not raw:
        return {}
    try:
        found = flexbuffers.Loads(raw)
    except Exception as error:  # the reader raises exceptions of many types
        raise refuse_options(raw) from error
    if not isinstance(found, dict):
        raise refuse_options(raw)
    return found


def refuse_options(raw: bytes) -> UserError:
    shown = raw[:16].hex(" ") + (" …" if len(raw) > 16 else "")
    return UserError(
        f"its custom options ({len(raw)} bytes: {shown}) are not a map in FlexBuffers; write them "
        "with flexbuffers, as TFLite's converter does"
    )


def check_call(definition: CustomOperator, inputs: Kinds, options: Options) -> None:
    """Raise UserError for inputs or options that do not fit an operator."""
    accepted = definition.accepts
    if len(inputs) < len(accepted):
        raise UserError(f"it has {len(inputs)} inputs; expected {len(accepted)}")
    for position, (kind, dtypes) in enumerate(zip(inputs, accepted, strict=False)):
        if kind.dtype not in dtypes:
            raise UserError(
                f"input {position} is {kind.dtype}; expected {' or '.join(dtypes)}, as TFLite's "
                "kernel: convert the model again"
            )
    for name in definition.requires:
        if name not in options:
            known = ", ".join(sorted(options)) or "none"
            raise UserError(f"the option '{name}' is missing (options: {known}); convert it again")
    definition.constants(inputs, options)


def add_states(data: bytes) -> bytes:
    """Check the custom operators, and add a variable tensor for each state of built-in ones.

    The state is the last input of its operator. A model without such states is returned unchanged.
    Raises UserError for an operator that does not fit its definition.
    """
    model: Any = schema.ModelT.InitFromPackedBuf(data, 0)
    graph, added = model.subgraphs[0], False
    for operator in graph.operators:
        call = read_call(model, operator)
        if call is None:
            continue
        with label_errors(call.label):
            check_call(call.operator, call.inputs, call.options)
            results = check_results(call)
            states = call.operator.states(call.inputs, call.options)
        added = set_shapes(graph, operator, results) or added
        for number, kind in enumerate(states):
            result = decode_text(graph.tensors[operator.outputs[0]].name)
            tensor = schema.TensorT()
            tensor.name = f"{result}_state" + (f"_{number}" if number else "")
            tensor.shape, tensor.isVariable = list(kind.shape), True
            tensor.type = getattr(schema.TensorType, kind.dtype.upper())
            graph.tensors.append(tensor)
            operator.inputs = [*(int(i) for i in operator.inputs), len(graph.tensors) - 1]
            added = True
    return pack(model, len(data)) if added else data


def set_shapes(graph: Any, operator: Any, kinds: Kinds) -> bool:
    """Set the shapes of an operator's results; return whether the file lacked one."""
    changed = False
    for index, kind in zip(operator.outputs, kinds, strict=True):
        if describe_tensor(graph.tensors[index]) != kind:
            graph.tensors[index].shape, changed = list(kind.shape), True
            graph.tensors[index].shapeSignature = None
    return changed


def check_results(call: CustomCall) -> list[TensorKind]:
    """Return the results. Raises UserError if the file has others; converters omit some shapes."""
    found = call.list_results(call.inputs)
    fits = len(found) == len(call.results) and all(
        stated in (kind, TensorKind((), kind.dtype))
        for kind, stated in zip(found, call.results, strict=True)
    )
    if not fits:
        returned, expected = (", ".join(map(str, kinds)) for kinds in (found, call.results))
        raise UserError(f"its results are {returned}; the file has {expected}: convert it again")
    return found
