"""Rewrites the states of a TFLite model as inputs and outputs of its graph, for TVM's importer.

TFLite has two kinds of states. Operators read and assign a resource variable via its handle, and a
subgraph that runs once assigns the first value. A variable tensor is an input that an operator
overwrites.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from ai_edge_litert import schema_py_generated as schema

from firmwright.errors import UserError
from firmwright.ir.tensors import State, Tensor
from firmwright.models.tflite.checks import decode_text
from firmwright.models.tflite.custom_operators import DTYPES
from firmwright.models.tflite.lstm import STATE_INPUTS as LSTM_STATE_INPUTS
from firmwright.models.tflite.repairs import kind_of, pack, store_data, unpack

STATE_INPUTS: Mapping[str, tuple[int, ...]] = {
    "SVDF": (4,),
    **LSTM_STATE_INPUTS,
}
"""Maps operators to overwritten inputs. The converters also return these inputs."""

VARIABLE_OPERATORS = frozenset({"VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE", "CALL_ONCE"})


def expose_states(data: bytes) -> tuple[bytes, tuple[State, ...]]:
    """Return the model with its states as the last inputs and outputs of the first graph.

    A model without states is returned unchanged. Raises UserError if a variable has no first value.
    Raises UserError if values of a variable differ in shape, type or quantization parameters.
    """
    model: Any = unpack(data)
    kinds = {kind_of(model, operator) for operator in model.subgraphs[0].operators}
    variable = any(tensor.isVariable for tensor in model.subgraphs[0].tensors)
    if not variable and kinds.isdisjoint(VARIABLE_OPERATORS):
        return data, ()
    states = Exposer(model).run()
    return pack(model, len(data)), states


class Exposer:
    """Visits the operators in order. ``now`` maps each state to the tensor with its current value.

    The key of a state is the name of the variable, or the number of the tensor. ``first`` maps
    states to the tensors with the values before a run. ``replaced`` maps results of READ_VARIABLE
    to the tensors that already contain their values.
    """

    def __init__(self, model: Any) -> None:
        self.model, self.graph = model, model.subgraphs[0]
        self.names: dict[int, str] = {}
        self.initial: dict[str, Any] = {}
        self.now: dict[str | int, int] = {}
        self.first: dict[str | int, int] = {}
        self.replaced: dict[int, int] = {}

    def run(self) -> tuple[State, ...]:
        self.graph.operators = [o for o in self.graph.operators if not self.visit(o)]
        self.graph.outputs = [self.replaced.get(int(i), int(i)) for i in self.graph.outputs]
        return tuple(state for key in self.first for state in self.expose(key))

    def visit(self, operator: Any) -> bool:
        """Record an operator's effect on states. Return whether to remove the operator."""
        kind = kind_of(self.model, operator)
        given = [] if operator.inputs is None else [int(i) for i in operator.inputs]
        operator.inputs = given = [self.replaced.get(i, i) for i in given]
        if kind == "VAR_HANDLE":
            self.names[int(operator.outputs[0])] = name_variable(operator)
        elif kind == "CALL_ONCE":
            self.read_first_values(operator.builtinOptions.initSubgraphIndex)
        elif kind == "READ_VARIABLE":
            self.read(self.names[given[0]], int(operator.outputs[0]))
        elif kind == "ASSIGN_VARIABLE":
            self.now[self.names[given[0]]] = given[1]
        else:
            self.visit_overwriting(operator, kind)
        return kind in VARIABLE_OPERATORS

    def read_first_values(self, index: int) -> None:
        """Record the constants that a subgraph assigns to variables.

        Raises UserError if the subgraph assigns other values.
        """
        graph = self.model.subgraphs[index]
        names = {}
        for operator in graph.operators:
            kind = kind_of(self.model, operator)
            if kind == "VAR_HANDLE":
                names[int(operator.outputs[0])] = name_variable(operator)
            elif kind == "ASSIGN_VARIABLE":
                handle, value = (int(i) for i in operator.inputs)
                data = self.model.buffers[graph.tensors[value].buffer].data
                if data is None:
                    raise UserError(
                        f"variable '{names[handle]}' has no constant as first value; assign a "
                        "constant in the model's initialization"
                    )
                self.initial[names[handle]] = data
            else:
                raise UserError(
                    f"the initialization of the variables has the operator {kind}; firmwright "
                    "supports only constants: assign constants to the variables"
                )

    def read(self, name: str, result: int) -> None:
        if name not in self.now:
            if name not in self.initial:
                raise UserError(
                    f"variable '{name}' is read before it has a value: assign its first value "
                    "in the model's initialization"
                )
            self.first[name] = self.now[name] = result
            return
        check_alike(name, self.graph.tensors[self.now[name]], self.graph.tensors[result])
        self.replaced[result] = self.now[name]

    def visit_overwriting(self, operator: Any, kind: str) -> None:
        """Add the next values of overwritten inputs to an operator's results."""
        present = range(len(operator.inputs))  # an LSTM of the basic kernel has 5 inputs
        overwritten = self.list_variables(operator) if kind == "CUSTOM" else STATE_INPUTS.get(kind)
        for position in (i for i in overwritten or () if i in present):
            given = operator.inputs[position]
            key = next((k for k, tensor in self.now.items() if tensor == given), given)
            tensor = self.graph.tensors[given]
            if key not in self.now and not tensor.isVariable:
                continue
            if tensor.type == schema.TensorType.INT16 and tensor.quantization is not None:
                tensor.quantization.zeroPoint = [0]  # LiteRT ignores the zero point in the file
            self.first.setdefault(key, given)
            result = copy.copy(tensor)
            result.isVariable = False
            result.name = f"{decode_text(self.graph.tensors[self.first[key]].name)}_next".encode()
            self.graph.tensors.append(result)
            self.now[key] = self.replaced[given] = len(self.graph.tensors) - 1
            operator.outputs = [*(int(i) for i in operator.outputs), self.now[key]]

    def list_variables(self, operator: Any) -> list[int]:
        """Return the positions of variable tensors, which a custom operator overwrites."""
        given = [int(i) for i in operator.inputs]
        return [p for p, i in enumerate(given) if i >= 0 and self.graph.tensors[i].isVariable]

    def expose(self, key: str | int) -> list[State]:
        """Make a state an input and an output.

        A state that no operator writes becomes a constant.
        """
        before, after = self.first[key], self.now[key]
        tensor = self.graph.tensors[before]
        name = key if isinstance(key, str) else decode_text(tensor.name)
        shown = describe(name, tensor)
        tensor.isVariable = False
        data = self.initial.get(name) if isinstance(key, str) else fill(shown)
        if before == after:
            store_data(self.model, tensor, np.asarray(data, np.uint8).tobytes())
            return []
        check_alike(name, tensor, self.graph.tensors[after])
        self.graph.inputs = [*(int(i) for i in self.graph.inputs), before]
        self.graph.outputs = [*self.graph.outputs, after]
        initial = np.asarray(data, np.uint8).tobytes()
        if len(initial) != shown.bytes:
            raise UserError(
                f"variable '{name}' is {shown.dtype} {list(shown.shape)}, {shown.bytes} bytes; "
                f"its first value has {len(initial)} bytes; assign a value of this type and shape"
            )
        return [State(shown, initial)]


def name_variable(operator: Any) -> str:
    """Return the name of a variable. Operators with equal names share one variable."""
    options = operator.builtinOptions
    container, name = (decode_text(t) for t in (options.container, options.sharedName))
    return f"{container}/{name}" if container else name


def check_alike(name: str, before: Any, after: Any) -> None:
    """Raise UserError if a value differs from its variable in shape, type or parameters."""
    tensors = [describe(name, tensor) for tensor in (before, after)]
    if tensors[0] != tensors[1]:
        old, new = (
            f"{t.dtype} {list(t.shape)}" + ("" if t.scale is None else f" on {t.scale:g}")
            for t in tensors
        )
        raise UserError(
            f"variable '{name}' is {old}; the assigned value is {new}; expected equal types, "
            "shapes and scales: convert the value before the assignment"
        )


def describe(name: str, tensor: Any) -> Tensor:
    params = tensor.quantization
    scale = zero_point = None
    if params is not None and params.scale is not None and len(params.scale) == 1:
        scale, zero_point = float(params.scale[0]), int(params.zeroPoint[0])
    shape = tuple(int(d) for d in ([] if tensor.shape is None else tensor.shape))
    return Tensor(name, shape, DTYPES[tensor.type], scale, zero_point)


def fill(tensor: Tensor) -> npt.NDArray[np.uint8]:
    """Return LiteRT's first value of a variable tensor: the zero point in int8, otherwise zeros."""
    value = tensor.zero_point or 0 if tensor.dtype == "int8" else 0
    return np.full(tensor.bytes, value, "int8").view("uint8")
