"""Reads the custom operators of a TFLite file, and converts them to calls of their C functions.

The built-in operators are always available. The operators of a recipe are available only within
:func:`use_custom_operators`, because the recipe's folder is not always in the import path.

An installed package can contain the importer of files with a vendor's custom operators. The name of
its entry point is the name of the custom operator. The value is a module with the functions of
:class:`firmwright.models.formats.Importer`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from math import prod
from typing import Any, cast

import numpy as np
from ai_edge_litert import schema_py_generated as schema
from tvm import relax, te

from firmwright.errors import UserError
from firmwright.ir.library_call import call_library, call_operator
from firmwright.ir.relax import dtype_of, static_shape
from firmwright.ir.tensors import LARGEST_TENSOR
from firmwright.models.formats import Importer
from firmwright.models.importing import label_errors
from firmwright.models.tflite.checks import decode_text, operator_kinds, to_ints
from firmwright.models.tflite.custom_operators import (
    DTYPES,
    Array,
    CustomOperator,
    Kinds,
    Options,
    TensorKind,
    describe_tensor,
    read_constant,
    read_options,
)
from firmwright.models.tflite.detection_operator import DETECTION
from firmwright.models.tflite.repairs import kind_of, pack, unpack
from firmwright.models.tflite.signal_operators import SIGNAL
from firmwright.plugins import list_tflite_vendors, load_plugin

FLOAT32_MAX = float(np.finfo("float32").max)

Operators = Mapping[str, CustomOperator]

BUILT_IN: Operators = {"TFLite_Detection_PostProcess": DETECTION, **SIGNAL}

_of_recipe: ContextVar[Operators] = ContextVar("custom operators of the recipe")


@contextmanager
def use_custom_operators(operators: Operators) -> Iterator[None]:
    """Add a recipe's operators to the available operators in the block.

    The keys are names in the file.
    """
    token = _of_recipe.set(operators)
    try:
        yield
    finally:
        _of_recipe.reset(token)


def list_known_operators() -> Operators:
    """Return a dictionary of all available operators. Operators of the recipe have precedence."""
    return {**BUILT_IN, **_of_recipe.get({})}


@dataclass(frozen=True)
class CustomCall:
    """The name, definition, options, inputs and results of a custom operator of a file.

    ``inputs`` does not contain missing inputs.
    """

    name: str
    label: str
    operator: CustomOperator
    options: Options
    inputs: tuple[TensorKind, ...]
    results: tuple[TensorKind, ...]

    def list_results(self, inputs: Kinds) -> list[TensorKind]:
        """Return the results for ``inputs``.

        The shapes of the results may differ from the shapes in the file.
        """
        if self.operator.shapes is None:
            return list(self.results)
        return list(self.operator.shapes(inputs, self.options))


def read_call(model: Any, operator: Any) -> CustomCall | None:
    """Return a custom operator of a ``ModelT``'s first graph. Return None for other operators.

    Raises UserError if the definition is missing, or if the options are unreadable.
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
        raise UserError(
            f"{label} has no definition; define the operator in the recipe, under `model: "
            "{custom_operators: …}`"
        )
    with label_errors(label):
        options = read_options(operator.customOptions)
    return CustomCall(name, label, definition, options, given, made)


def check_call(definition: CustomOperator, inputs: Kinds, options: Options) -> None:
    accepted = definition.accepts
    if len(inputs) < len(accepted):
        raise UserError(
            f"it has {len(inputs)} inputs; expected at least {len(accepted)}: "
            "convert the model again"
        )
    for position, (kind, dtypes) in enumerate(zip(inputs, accepted, strict=False)):
        if kind.dtype not in dtypes:
            raise UserError(
                f"input {position} is {kind.dtype}; expected {' or '.join(dtypes)}, as TFLite's "
                "kernel: convert the model again"
            )
    if inputs and len(inputs[0].shape) < definition.rank:
        raise UserError(
            f"input 0 has the shape {list(inputs[0].shape)}; expected at least {definition.rank} "
            "dimensions: convert the model again"
        )
    for name, most in definition.requires.items():
        if not is_valid(options.get(name), most):
            stated = ", ".join(f"{key} {value!r}" for key, value in sorted(options.items()))
            expected = "a finite number" if most is None else f"an integer from 0 to {most}"
            raise UserError(
                f"the option '{name}' is not {expected} (options: {stated or 'none'}); convert the "
                "model again"
            )
    definition.constants(inputs, options)


def is_valid(value: Any, most: int | None) -> bool:
    """Return whether an option is an integer from 0 to ``most``.

    If ``most`` is None, the option must be a finite float32.
    """
    if most is None:
        return isinstance(value, int | float) and abs(value) <= FLOAT32_MAX
    return isinstance(value, int) and 0 <= value <= most


def check_constants(model: Any, operator: Any, call: CustomCall) -> None:
    if call.operator.check_values is None:
        return
    graph_inputs, values = {int(i) for i in model.subgraphs[0].inputs}, list[Array | None]()
    for index in (int(i) for i in operator.inputs if i >= 0):
        try:
            values.append(None if index in graph_inputs else read_constant(model, index))
        except ValueError:
            values.append(None)
    call.operator.check_values(call.inputs, values)


def add_states(data: bytes) -> bytes:
    """Check the custom operators, and add a variable tensor for each state of built-in operators.

    The states are the last inputs of an operator. A model that needs no change is returned
    unchanged. Raises UserError if an operator does not fit its definition.
    """
    model: Any = unpack(data)
    graph, added = model.subgraphs[0], False
    for operator in graph.operators:
        call = read_call(model, operator)
        if call is None:
            continue
        with label_errors(call.label):
            check_call(call.operator, call.inputs, call.options)
            check_constants(model, operator, call)
            results = check_results(call)
            states = call.operator.states(call.inputs, call.options)
            check_sizes([*results, *states])
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


def check_sizes(kinds: Kinds) -> None:
    for kind in kinds:
        if prod(kind.shape) > LARGEST_TENSOR:
            raise UserError(
                f"its options need {kind}; expected a tensor of less than 2 GiB: convert the model "
                "again with smaller options"
            )


def set_shapes(graph: Any, operator: Any, kinds: Kinds) -> bool:
    changed = False
    for index, kind in zip(operator.outputs, kinds, strict=True):
        if describe_tensor(graph.tensors[index]) != kind:
            graph.tensors[index].shape, changed = list(kind.shape), True
            graph.tensors[index].shapeSignature = None
    return changed


def check_results(call: CustomCall) -> list[TensorKind]:
    """Return the results of an operator.

    Raises UserError if the results in the file differ. Shapes may be absent, because some
    converters omit shapes.
    """
    results = call.list_results(call.inputs)
    fits = len(results) == len(call.results) and all(
        stated in (kind, TensorKind((), kind.dtype))
        for kind, stated in zip(results, call.results, strict=True)
    )
    if not fits:
        returned, expected = (", ".join(map(str, kinds)) for kinds in (results, call.results))
        raise UserError(
            f"its results are {returned}; the file has {expected}: convert the model again"
        )
    return results


def convert_custom(converter: Any, op: Any) -> relax.Expr:
    """Return the results of a custom operator's C function, and the next values of its states.

    The C function receives the integers of quantized tensors, unless ``in_float`` is set.
    """
    name = read_custom_code(converter.model, op)
    definition, options = list_known_operators()[name], read_options(op.CustomOptionsAsNumpy())
    given = [t for t in converter.get_input_tensors(op) if t.tensor_idx >= 0]
    inputs = [get_input(converter, tensor, definition.in_float) for tensor in given]
    kinds = [TensorKind(tuple(static_shape(each)), dtype_of(each)) for each in inputs]
    results = [
        TensorKind(tuple(to_ints(t.tensor.ShapeAsNumpy())), DTYPES[t.tensor.Type()])
        for t in converter.get_output_tensors(op)
    ]
    if definition.shapes is not None:
        stated = list(definition.shapes(kinds, options))
        results = [*stated, *results[len(stated) :]]
    function = definition.function.format(dtype=kinds[0].dtype)

    def call(*tensors: te.Tensor) -> Any:
        if definition.numbers is None:
            outputs = call_library(function, results, tensors)
        else:
            numbers = definition.numbers(kinds, options)
            outputs = call_operator(function, [*results, *scratch], tensors, numbers)
        return outputs if len(outputs) > 1 else outputs[0]

    scratch = definition.scratch(kinds, options)

    constants = [relax.const(array) for array in definition.constants(kinds, options)]
    hint = re.sub(r"\W", "_", name)
    outputs = converter.bb.call_te(call, *inputs, *constants, primfunc_name_hint=hint)
    if not scratch:
        return outputs
    whole = converter.bb.emit(outputs)
    return relax.Tuple([relax.TupleGetItem(whole, i) for i in range(len(results))])


def get_input(converter: Any, tensor: Any, in_float: bool) -> relax.Expr:
    stored = converter.get_tensor_expr(tensor)
    if not in_float or tensor.qnn_params is None:
        return stored
    return converter.bb.emit(converter.dequantize(stored, tensor))


def read_custom_code(model: Any, operator: Any) -> str:
    return decode_text(model.OperatorCodes(operator.OpcodeIndex()).CustomCode())


COMPILERS = {
    "ethos-u": "Vela compiled the model for Arm Ethos-U",
    "edgetpu-custom-op": "Google's compiler compiled the model for the Edge TPU",
}
"""The custom operators that contain a vendor's program instead of layers."""


def find_vendor_importer(model: Any) -> Importer | None:
    """Return the importer for one of the file's custom operators, or None.

    Raises UserError if there are several importers.
    """
    names = list_custom_operators(model)
    points = {p.value: p for p in list_tflite_vendors() if p.name in names}
    if len(points) > 1:
        raise UserError(
            f"the custom operators of the model have several importers, {', '.join(sorted(points))}"
            "; uninstall all packages except one of them"
        )
    return next((cast(Importer, load_plugin(point)) for point in points.values()), None)


def list_custom_operators(model: Any) -> set[str]:
    graphs = map(model.Subgraphs, range(model.SubgraphsLength()))
    used = {g.Operators(i).OpcodeIndex() for g in graphs for i in range(g.OperatorsLength())}
    kinds = enumerate(operator_kinds(model))
    codes = (model.OperatorCodes(i) for i, kind in kinds if kind == "CUSTOM" and i in used)
    return {decode_text(code.CustomCode() or b"") for code in codes}


def refuse_custom_operators(model: Any, name: str) -> None:
    """Raise UserError if neither firmwright nor the recipe defines a custom operator."""
    known = list_known_operators()
    custom = sorted(list_custom_operators(model).difference(known))
    for operator in custom:
        if operator in COMPILERS:
            raise UserError(
                f"{name}: {COMPILERS[operator]} (custom operator '{operator}'); state the .tflite "
                "file from before that compiler, or install the package of firmwright for it"
            )
    if custom:
        example = f"{{{custom[0]}: {{function: …, reference: 'module:function'}}}}"
        raise UserError(
            f"{name}: custom operators that no installed package reads: {', '.join(custom)}; "
            f"define each in the recipe: `model: {{path: …, custom_operators: {example}}}`"
        )
