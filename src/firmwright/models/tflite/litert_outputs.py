"""Computes the reference of a TFLite model with LiteRT. The module does not need TVM."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib.metadata import version
from typing import Any, TypeVar

import numpy as np
import tflite

from firmwright.errors import UserError, first_line
from firmwright.forked import run_in_copy
from firmwright.ir.tensors import State
from firmwright.models.formats import ReferenceOutputs, Samples, TensorValues
from firmwright.models.sequence import read_initial, run_in_sequence
from firmwright.models.tflite.checks import operator_kinds
from firmwright.models.tflite.custom_calls import add_states, find_vendor_importer
from firmwright.models.tflite.interpreters import (
    OPTIMIZED,
    DividedInterpreter,
    find_failed_kind,
    is_divided,
    is_divisible,
    list_python_operators,
    make_interpreter,
)
from firmwright.models.tflite.port_names import name_ports
from firmwright.models.tflite.repairs import repair, repair_dimensions, repair_scales

Array = np.ndarray[Any, Any]
Result = TypeVar("Result")


CANNOT = "LiteRT, the reference, cannot evaluate the model"

INDIVISIBLE = (
    "the model has custom operators and several subgraphs or resource variables; LiteRT runs such "
    "a model only as a whole: split it, and build the parts as several networks"
)

MISSING_KERNEL = "Didn't find op for builtin opcode"


def load_interpreter(data: bytes) -> None:
    """Load a model with LiteRT's reference kernels, or else with optimized kernels."""
    try:
        make_interpreter(data)
    except (ValueError, RuntimeError) as error:
        if MISSING_KERNEL not in str(error):
            raise
        make_interpreter(data, OPTIMIZED)


def run_reference(data: bytes, inputs: Samples, states: Sequence[State] = ()) -> ReferenceOutputs:
    """Evaluate with LiteRT's reference kernels, which define TFLite's arithmetic.

    LiteRT's optimized kernels evaluate the operators that the reference kernels cannot run. They
    also evaluate SUM of quantized integers: the reference SUM of LiteRT 2.3.0 reads int8 as
    unsigned, and keeps sums of int16 in 16 bits. The name of the runtime states the kernels.

    A sample's arrays have the order of the model's inputs. The names of the arrays may differ from
    the names in the model. LiteRT keeps the states without an output from one sample to the next
    sample.
    """
    if vendor := find_vendor_importer(tflite.Model.GetRootAsModel(data, 0)):
        return vendor.run_reference(data, inputs, states)

    def run(model: bytes, optimized: frozenset[str]) -> list[list[Array]]:
        interpreter = open_interpreter(model, optimized)
        names, step = prepare(interpreter, model, inputs, states)
        return run_steps(inputs, states, names, step)

    return ReferenceOutputs(*run_with_kernels(data, run))


def read_tensors(data: bytes, inputs: Samples, states: Sequence[State] = ()) -> TensorValues:
    """Return all tensors of the network, with the kernels of :func:`run_reference`.

    Tensors whose names are not unique are omitted. Raises UserError if a vendor's compiler wrote
    the file.
    """
    if find_vendor_importer(tflite.Model.GetRootAsModel(data, 0)):
        raise UserError("firmwright does not read the tensors of a vendor's file")

    def run(model: bytes, optimized: frozenset[str]) -> TensorValues:
        interpreter = open_interpreter(model, optimized, keep_all=True)
        names, step = prepare(interpreter, model, inputs, states)
        details = interpreter.get_tensor_details()
        counts = Counter(detail["name"] for detail in details)
        tensors: TensorValues = []

        def record(given: Mapping[str, Array]) -> list[Array]:
            results = step(given)
            tensors.append({})
            for detail in details:
                if counts[detail["name"]] == 1:
                    with suppress(ValueError):  # some tensors have no data
                        tensors[-1][detail["name"]] = interpreter.get_tensor(detail["index"]).copy()
            return results

        run_steps(inputs, states, names, record)
        return tensors

    return run_with_kernels(data, run)[1]


def run_with_kernels(
    data: bytes, run: Callable[[bytes, frozenset[str]], Result]
) -> tuple[str, Result]:
    """Return the runtime, and the result of ``run`` in a copy of the process.

    The arguments of ``run`` are the model, and the kinds of operators for optimized kernels. Raises
    UserError if no set of kernels can evaluate the model.
    """
    what = "LiteRT, the reference, crashes on this model"
    model = repair(add_states(repair_scales(repair_dimensions(data)[0])[0]))
    kinds, divisible = find_kinds(model), is_divisible(model)
    sums = frozenset({"SUM"}) if divisible else kinds
    optimized = sums if has_integer_sum(data) else frozenset()
    in_python = list_python_operators(model)
    if is_divided(model) and not divisible:
        raise UserError(INDIVISIBLE)
    while True:
        try:
            return describe(optimized, kinds, in_python), run_in_copy(what, run, model, optimized)
        except UserError as error:
            kind = find_failed_kind(str(error))
            if is_divided(model) and kind is None:
                raise
            if kind is None or kind in optimized or not divisible:
                return run_optimized(what, model, run, error)
        optimized |= {kind}


def run_optimized(
    what: str, model: bytes, run: Callable[[bytes, frozenset[str]], Result], error: UserError
) -> tuple[str, Result]:
    """Run the whole model with optimized kernels.

    Raise the earlier error if the optimized kernels also fail.
    """
    try:
        result = run_in_copy(what, run, model, find_kinds(model))
    except UserError:
        raise error from None
    reason = str(error).removeprefix("LiteRT, the reference, ").split(". ")[0]
    kernels = f"optimized kernels, because the reference kernels failed: {reason}"
    return f"{RUNTIME} ({kernels})", result


RUNTIME = f"ai-edge-litert {version('ai-edge-litert')}"


def describe(optimized: frozenset[str], kinds: frozenset[str], in_python: Sequence[str]) -> str:
    if in_python:
        return f"{RUNTIME}, and Python functions for {', '.join(in_python)}"
    if optimized and optimized >= kinds:
        return f"{RUNTIME} (optimized kernels for {', '.join(sorted(kinds))})"
    names = f", and optimized kernels for {', '.join(sorted(optimized))}" if optimized else ""
    return f"{RUNTIME} (reference kernels{names})"


def find_kinds(data: bytes) -> frozenset[str]:
    return frozenset(operator_kinds(tflite.Model.GetRootAsModel(data, 0)))


def has_integer_sum(data: bytes) -> bool:
    model = tflite.Model.GetRootAsModel(data, 0)
    graph, kinds = model.Subgraphs(0), operator_kinds(model)
    return any(
        kinds[operator.OpcodeIndex()] == "SUM"
        and graph.Tensors(operator.Inputs(0)).Type()
        in (tflite.TensorType.INT8, tflite.TensorType.UINT8, tflite.TensorType.INT16)
        for operator in map(graph.Operators, range(graph.OperatorsLength()))
    )


def open_interpreter(data: bytes, optimized: frozenset[str], keep_all: bool = False) -> Any:
    """Return LiteRT's interpreter with optimized kernels for the kinds ``optimized``.

    Raises UserError if LiteRT rejects the model.
    """
    kinds = find_kinds(data)
    try:
        if is_divided(data):
            return DividedInterpreter(data, optimized, keep_all)
        if not optimized:
            return make_interpreter(data, keep_all=keep_all)
        if optimized >= kinds:
            return make_interpreter(data, OPTIMIZED, keep_all)
        return DividedInterpreter(data, optimized, keep_all)
    except (RuntimeError, ValueError) as error:
        raise UserError(f"{CANNOT}: {first_line(error)}") from error


Step = Callable[[Mapping[str, Array]], list[Array]]
"""Returns the outputs. The argument contains one sample and the values of the states."""


def prepare(
    interpreter: Any, data: bytes, inputs: Samples, states: Sequence[State]
) -> tuple[list[str], Step]:
    """Allocate the tensors for the first sample. Return the names of the outputs, and the step.

    Raises UserError if LiteRT rejects the shapes.
    """
    handed = {state.tensor.name for state in states if state.output}
    details, outputs = interpreter.get_input_details(), interpreter.get_output_details()
    names = name_ports(
        tflite.Model.GetRootAsModel(data, 0),
        [d["name"] for d in details],
        [d["name"] for d in outputs],
    )
    placed = [*zip(names.inputs, (d["index"] for d in details), strict=True)]
    indices = {name: index for name, index in placed if name in handed}
    order = [index for name, index in placed if name not in handed]

    def number_tensors(given: Mapping[str, Array]) -> Iterator[tuple[int, Array]]:
        yield from ((index, given[name]) for name, index in indices.items())
        yield from zip(order, [a for n, a in given.items() if n not in indices], strict=True)

    def step(given: Mapping[str, Array]) -> list[Array]:
        for index, array in number_tensors(given):
            interpreter.set_tensor(index, array)
        interpreter.invoke()
        return [interpreter.get_tensor(detail["index"]).copy() for detail in outputs]

    first = {s.tensor.name: read_initial(s) for s in states if s.output}
    try:
        for index, array in number_tensors({**inputs[0], **first}):
            interpreter.resize_tensor_input(index, array.shape)
        interpreter.allocate_tensors()
    except (RuntimeError, ValueError) as error:
        raise UserError(f"{CANNOT}: {first_line(error)}") from error
    return [*names.outputs], step


def run_steps(
    inputs: Samples, states: Sequence[State], names: Sequence[str], step: Step
) -> list[list[Array]]:
    try:
        return run_in_sequence(inputs, states, names, step)
    except (RuntimeError, ValueError) as error:
        raise UserError(f"{CANNOT}: {first_line(error)}") from error
