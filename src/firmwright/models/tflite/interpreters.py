"""Opens LiteRT's interpreter, with another set of kernels for some operators if necessary."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from copy import copy
from itertools import groupby
from typing import Any

import numpy as np
import tflite
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter, OpResolverType

from firmwright.errors import UserError
from firmwright.models.tflite.checks import operator_kinds
from firmwright.models.tflite.custom_calls import CustomCall, read_call
from firmwright.models.tflite.custom_operators import TensorKind, describe_tensor, read_constant
from firmwright.models.tflite.repairs import pack

Array = np.ndarray[Any, Any]

ALONE = "ALONE"
"""The custom operators that Python functions compute or complete."""

REFERENCE, OPTIMIZED = "BUILTIN_REF", "BUILTIN_WITHOUT_DEFAULT_DELEGATES"
"""LiteRT's two sets of kernels, as names of its OpResolverType."""

FAILED = re.compile(r"builtin opcode '(\w+)'|\((\w+)\) failed to (?:prepare|invoke)")
"""Finds the kind of an operator in LiteRT's error.

The operator has no kernel, or its kernel failed.
"""


def make_interpreter(data: bytes, kernels: str = REFERENCE, keep_all: bool = False) -> Any:
    """Return LiteRT's interpreter. ``kernels`` is a name of its OpResolverType.

    If ``keep_all`` is true, the values of all tensors are readable after a run.
    """
    return Interpreter(
        model_content=data,
        experimental_op_resolver_type=getattr(OpResolverType, kernels),
        experimental_preserve_all_tensors=keep_all,
        num_threads=1,
    )


def find_failed_kind(error: str) -> str | None:
    match = FAILED.search(error)
    return (match[1] or match[2]) if match else None


def is_divisible(data: bytes) -> bool:
    """Return whether the parts of a network can run one after another.

    Subgraphs, resource variables and common states of several operators prevent a division.
    """
    model = tflite.Model.GetRootAsModel(data, 0)
    if model.SubgraphsLength() > 1 or "VAR_HANDLE" in operator_kinds(model):
        return False
    graph = model.Subgraphs(0)
    operators = map(graph.Operators, range(graph.OperatorsLength()))
    reads = Counter(i for o in operators for i in {*to_indices(o.InputsAsNumpy())})
    return all(n == 1 or not graph.Tensors(i).IsVariable() for i, n in reads.items())


class DividedInterpreter:
    """Runs a network in parts, with the methods of LiteRT's interpreter that firmwright uses.

    LiteRT's optimized kernels run the operator kinds in ``optimized``. Python functions run custom
    operators that have a reference in Python. LiteRT's reference kernels run all other operators.
    The tensors keep their indices.
    """

    def __init__(self, data: bytes, optimized: frozenset[str], keep_all: bool) -> None:
        model: Any = schema.ModelT.InitFromPackedBuf(data, 0)
        kinds = operator_kinds(tflite.Model.GetRootAsModel(data, 0))
        self._model, self._graph = model, model.subgraphs[0]

        def choose(operator: Any) -> str:
            call = read_call(model, operator)
            if call is not None and is_separate(call):
                return ALONE
            return OPTIMIZED if kinds[operator.opcodeIndex] in optimized else REFERENCE

        self._parts: list[_OperatorRun | _PythonPart] = []
        for chosen, group in groupby(self._graph.operators, choose):
            operators = [*group]
            self._parts += (
                [
                    _PythonPart(model, o)
                    if runs_in_python(model, o)
                    else _ClearedPart(model, o, len(data), keep_all)
                    for o in operators
                ]
                if chosen == ALONE
                else [_OperatorRun(model, operators, chosen, len(data), keep_all)]
            )
        self._values: dict[int, Array] = {}

    def get_tensor_details(self) -> list[dict[str, Any]]:
        return self._describe(range(len(self._graph.tensors)))

    def get_input_details(self) -> list[dict[str, Any]]:
        return self._describe(self._graph.inputs)

    def get_output_details(self) -> list[dict[str, Any]]:
        return self._describe(self._graph.outputs)

    def _describe(self, indices: Iterable[int]) -> list[dict[str, Any]]:
        names = [(tensor.name or b"").decode() for tensor in self._graph.tensors]
        return [{"name": names[index], "index": int(index)} for index in indices]

    def resize_tensor_input(self, index: int, shape: tuple[int, ...]) -> None:
        """Ignore the shape, because each part is resized when its inputs are available."""

    def allocate_tensors(self) -> None:
        """Skip the allocation, because each part is allocated when its inputs are available."""

    def set_tensor(self, index: int, array: Array) -> None:
        self._values[index] = array

    def invoke(self) -> None:
        for part in self._parts:
            part.run(self._values)

    def get_tensor(self, index: int) -> Array:
        """Return a tensor's value. Raises ValueError if the tensor has no data."""
        if index in self._values:
            return self._values[index]
        parts = [part for part in self._parts if isinstance(part, _OperatorRun)]
        owners = [part for part in parts if index in part.results]
        if not parts:
            return read_constant(self._model, index)
        value: Array = (owners or parts)[0].interpreter.get_tensor(index)
        return value


class _OperatorRun:
    """Consecutive operators of a network, in a separate interpreter."""

    def __init__(
        self, model: Any, operators: list[Any], kernels: str, size: int, keep_all: bool
    ) -> None:
        graph = model.subgraphs[0]
        others = [operator for operator in graph.operators if operator not in operators]
        self.results = find_results(operators)
        given = find_results(others) | {*to_indices(graph.inputs)}
        self.inputs = sorted(find_operands(operators) & given - self.results)
        needed = find_operands(others) | {*to_indices(graph.outputs)}
        self.outputs = sorted(self.results & needed)
        file = write_part(model, operators, self.inputs, self.outputs, size)
        self.interpreter = make_interpreter(file, kernels, keep_all)
        self._shapes: dict[int, tuple[int, ...]] = {}

    def run(self, values: dict[int, Array]) -> None:
        """Compute the outputs, and add them to the values of the network's tensors."""
        shapes = {index: values[index].shape for index in self.inputs}
        if shapes != self._shapes or not self.inputs:
            for index, shape in shapes.items():
                self.interpreter.resize_tensor_input(index, shape)
            self.interpreter.allocate_tensors()
            self._shapes = shapes
        for index in self.inputs:
            self.interpreter.set_tensor(index, values[index])
        self.interpreter.invoke()
        values.update({i: self.interpreter.get_tensor(i).copy() for i in self.outputs})


class _ClearedPart(_OperatorRun):
    """A custom operator with results that LiteRT does not write completely."""

    def __init__(self, model: Any, operator: Any, size: int, keep_all: bool) -> None:
        super().__init__(model, [operator], REFERENCE, size, keep_all)
        self._call, self._indices = read_call(model, operator), to_indices(operator.outputs)

    def run(self, values: dict[int, Array]) -> None:
        """Compute the results, and replace the elements that LiteRT does not write."""
        super().run(values)
        assert self._call is not None
        assert self._call.operator.clear_undefined is not None
        arrays = [self.interpreter.get_tensor(index) for index in self._indices]
        cleared = self._call.operator.clear_undefined(arrays, self._call.options)
        values.update(zip(self._indices, cleared, strict=True))


class _PythonPart:
    """A custom operator that a Python function computes, and the operator's states."""

    def __init__(self, model: Any, operator: Any) -> None:
        self._model, self._operator = model, operator
        self._call = read_call(model, operator)
        self._states: dict[int, Array] = {}

    def run(self, values: dict[int, Array]) -> None:
        """Compute the results, and add them to the values of the network's tensors.

        Raises UserError if the function fails.
        """
        model, operator, call = self._model, self._operator, self._call
        assert call is not None
        assert call.operator.reference is not None
        inputs = [self.read(index, values) for index in to_indices(operator.inputs)]
        given = [TensorKind(array.shape, str(array.dtype)) for array in inputs]
        variables = [i for i in to_indices(operator.inputs) if is_variable(model, i)]
        kinds = call.list_results(given)
        kinds += [describe_tensor(model.subgraphs[0].tensors[i]) for i in variables]
        try:
            arrays = call.operator.reference(inputs, call.options, kinds)
        except (ArithmeticError, IndexError, TypeError, ValueError) as error:
            raise UserError(
                f"{call.label}: its inputs, constants and results do not fit: {error}; convert the "
                "model again"
            ) from error
        results = to_indices(operator.outputs)
        values.update(zip(results, arrays, strict=False))
        self._states.update(zip(variables, arrays[len(results) :], strict=True))

    def read(self, index: int, values: dict[int, Array]) -> Array:
        if is_variable(self._model, index):
            kind = describe_tensor(self._model.subgraphs[0].tensors[index])
            return self._states.setdefault(index, np.zeros(kind.shape, kind.dtype))
        return values[index] if index in values else read_constant(self._model, index)


def runs_in_python(model: Any, operator: Any) -> bool:
    call = read_call(model, operator)
    return call is not None and call.operator.reference is not None


def is_separate(call: CustomCall) -> bool:
    return call.operator.reference is not None or call.operator.clear_undefined is not None


def is_divided(data: bytes) -> bool:
    """Return whether an operator of the first graph runs alone."""
    return any(map(is_separate, list_calls(data)))


def list_python_operators(data: bytes) -> list[str]:
    return sorted({c.name for c in list_calls(data) if c.operator.reference is not None})


def list_calls(data: bytes) -> list[CustomCall]:
    """Return the custom operators of the first graph.

    Only files with custom operators are unpacked.
    """
    if "CUSTOM" not in operator_kinds(tflite.Model.GetRootAsModel(data, 0)):
        return []
    model: Any = schema.ModelT.InitFromPackedBuf(data, 0)
    calls = (read_call(model, operator) for operator in model.subgraphs[0].operators)
    return [call for call in calls if call is not None]


def is_variable(model: Any, index: int) -> bool:
    return bool(model.subgraphs[0].tensors[index].isVariable)


def write_part(
    model: Any, operators: list[Any], inputs: list[int], outputs: list[int], size: int
) -> bytes:
    """Return a file with some operators, all tensors, and only the necessary codes and data.

    LiteRT rejects a file if a code has no kernel, even if no operator has this code.
    """
    codes = sorted({operator.opcodeIndex for operator in operators})
    part, graph = copy(model), copy(model.subgraphs[0])
    graph.operators = [copy(operator) for operator in operators]
    for operator in graph.operators:
        operator.opcodeIndex = codes.index(operator.opcodeIndex)
    graph.inputs, graph.outputs = inputs, outputs
    part.operatorCodes = [model.operatorCodes[code] for code in codes]
    part.subgraphs, part.signatureDefs = [graph], None
    read = {graph.tensors[index].buffer for index in find_operands(operators)}
    part.buffers = [b if i in read else schema.BufferT() for i, b in enumerate(model.buffers)]
    return pack(part, size)


def find_operands(operators: Iterable[Any]) -> set[int]:
    return {i for operator in operators for i in to_indices(operator.inputs)}


def find_results(operators: Iterable[Any]) -> set[int]:
    return {i for operator in operators for i in to_indices(operator.outputs)}


def to_indices(indices: Any) -> list[int]:
    """Return the tensors of a list in a file, without missing tensors (-1)."""
    if indices is None or isinstance(indices, int):  # flatbuffers returns 0 for an absent list
        return []
    return [int(index) for index in indices if index >= 0]
