"""Evaluates a TFLite model with LiteRT, the reference; needs no TVM."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib.metadata import version
from typing import Any, TypeVar

import numpy as np
import tflite
from ai_edge_litert.interpreter import Interpreter, OpResolverType

from firmwright.errors import UserError, first_line
from firmwright.forked import run_in_copy
from firmwright.ir.tensors import State
from firmwright.models.formats import ReferenceOutputs, Samples, TensorValues
from firmwright.models.sequence import read_initial, run_in_sequence
from firmwright.models.tflite.checks import operator_kinds
from firmwright.models.tflite.port_names import name_ports
from firmwright.models.tflite.repairs import repair, repair_dimensions
from firmwright.models.tflite.vendor_files import find_vendor_importer

Array = np.ndarray[Any, Any]
Result = TypeVar("Result")


REFERENCE, OPTIMIZED = "BUILTIN_REF", "BUILTIN_WITHOUT_DEFAULT_DELEGATES"
"""LiteRT's two sets of kernels, as names of its OpResolverType."""

CANNOT = "LiteRT, the reference, cannot evaluate the model"

MISSING_KERNEL = "Didn't find op for builtin opcode"


def load_interpreter(data: bytes) -> None:
    """Load a model with LiteRT's reference kernels, or its optimized kernels if one is missing."""
    try:
        make_interpreter(data)
    except (ValueError, RuntimeError) as error:
        if MISSING_KERNEL not in str(error):
            raise
        make_interpreter(data, OPTIMIZED)


def make_interpreter(data: bytes, kernels: str = REFERENCE, keep_all: bool = False) -> Any:
    """Return LiteRT's interpreter; ``kernels`` is a name of its OpResolverType.

    With ``keep_all``, the values of all tensors can be read after a run.
    """
    return Interpreter(
        model_content=data,
        experimental_op_resolver_type=getattr(OpResolverType, kernels),
        experimental_preserve_all_tensors=keep_all,
        num_threads=1,
    )


def run_reference(data: bytes, inputs: Samples, states: Sequence[State] = ()) -> ReferenceOutputs:
    """Evaluate with LiteRT's reference kernels, the definition of TFLite's arithmetic.

    LiteRT's optimized kernels evaluate a model that the reference kernels cannot run. They also
    evaluate a model with an int8 or int16 SUM: the reference SUM of LiteRT 2.3.0 reads int8 as
    unsigned, and keeps sums of int16 in 16 bits. The name of the runtime states the kernels.

    A sample's arrays are in the order of the model's inputs; their names may differ from the
    model's. LiteRT keeps the states without an output from one sample to the next.
    """
    if vendor := find_vendor_importer(tflite.Model.GetRootAsModel(data, 0)):
        return vendor.run_reference(data, inputs, states)

    def run(model: bytes, kernels: str) -> list[list[Array]]:
        interpreter = open_interpreter(model, kernels)
        names, step = prepare(interpreter, model, inputs, states)
        return run_steps(inputs, states, names, step)

    return ReferenceOutputs(*run_with_kernels(data, run))


def read_tensors(data: bytes, inputs: Samples, states: Sequence[State] = ()) -> TensorValues:
    """Return every tensor of the network, with the kernels of :func:`run_reference`.

    Names that several tensors have are missing.
    """

    def run(model: bytes, kernels: str) -> TensorValues:
        interpreter = open_interpreter(model, kernels, keep_all=True)
        names, step = prepare(interpreter, model, inputs, states)
        details = interpreter.get_tensor_details()
        counts = Counter(detail["name"] for detail in details)
        found: TensorValues = []

        def record(given: Mapping[str, Array]) -> list[Array]:
            results = step(given)
            found.append({})
            for detail in details:
                if counts[detail["name"]] == 1:
                    with suppress(ValueError):  # a tensor without data
                        found[-1][detail["name"]] = interpreter.get_tensor(detail["index"]).copy()
            return results

        run_steps(inputs, states, names, record)
        return found

    return run_with_kernels(data, run)[1]


def run_with_kernels(data: bytes, run: Callable[[bytes, str], Result]) -> tuple[str, Result]:
    """Return the runtime, and the result of ``run`` in a copy, for the model and a set of kernels.

    Raises UserError if no set of kernels can evaluate the model.
    """
    what = "LiteRT, the reference, crashes on this model"
    model = repair(repair_dimensions(data)[0])
    if has_integer_sum(data):
        return describe("optimized kernels, for a SUM"), run_in_copy(what, run, model, OPTIMIZED)
    try:
        return describe("reference kernels"), run_in_copy(what, run, model, REFERENCE)
    except UserError as error:
        try:
            result = run_in_copy(what, run, model, OPTIMIZED)
        except UserError:
            raise error from None
        reason = str(error).removeprefix("LiteRT, the reference, ").split(". ")[0]
    kernels = f"optimized kernels, because the reference kernels failed: {reason}"
    return describe(kernels), result


def describe(kernels: str) -> str:
    return f"ai-edge-litert {version('ai-edge-litert')} ({kernels})"


def has_integer_sum(data: bytes) -> bool:
    model = tflite.Model.GetRootAsModel(data, 0)
    graph, kinds = model.Subgraphs(0), operator_kinds(model)
    return any(
        kinds[operator.OpcodeIndex()] == "SUM"
        and graph.Tensors(operator.Inputs(0)).Type()
        in (tflite.TensorType.INT8, tflite.TensorType.INT16)
        for operator in map(graph.Operators, range(graph.OperatorsLength()))
    )


def open_interpreter(data: bytes, kernels: str, keep_all: bool = False) -> Any:
    """Return LiteRT's interpreter. Raises UserError if LiteRT rejects the model."""
    try:
        return make_interpreter(data, kernels, keep_all)
    except (RuntimeError, ValueError) as error:
        raise UserError(f"{CANNOT}: {first_line(error)}") from error


Step = Callable[[Mapping[str, Array]], list[Array]]
"""A function that returns the outputs for one sample and the values of the states."""


def prepare(
    interpreter: Any, data: bytes, inputs: Samples, states: Sequence[State]
) -> tuple[list[str], Step]:
    """Allocate the tensors for the first sample; return the outputs' names and the step.

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

    def place(given: Mapping[str, Array]) -> Iterator[tuple[int, Array]]:
        yield from ((index, given[name]) for name, index in indices.items())
        yield from zip(order, [a for n, a in given.items() if n not in indices], strict=True)

    def step(given: Mapping[str, Array]) -> list[Array]:
        for index, array in place(given):
            interpreter.set_tensor(index, array)
        interpreter.invoke()
        return [interpreter.get_tensor(detail["index"]).copy() for detail in outputs]

    first = {s.tensor.name: read_initial(s) for s in states if s.output}
    try:
        for index, array in place({**inputs[0], **first}):
            interpreter.resize_tensor_input(index, array.shape)
        interpreter.allocate_tensors()
    except (RuntimeError, ValueError) as error:
        raise UserError(f"{CANNOT}: {first_line(error)}") from error
    return [*names.outputs], step


def run_steps(
    inputs: Samples, states: Sequence[State], names: Sequence[str], step: Step
) -> list[list[Array]]:
    """Return the outputs of all samples. Raises UserError if LiteRT cannot evaluate one."""
    try:
        return run_in_sequence(inputs, states, names, step)
    except (RuntimeError, ValueError) as error:
        raise UserError(f"{CANNOT}: {first_line(error)}") from error
