"""TFLite models, imported by TVM; LiteRT's reference kernels are the reference."""

from __future__ import annotations

import faulthandler
import hashlib
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import version
from multiprocessing.connection import Connection
from typing import Any, TypeVar

import numpy as np
import tflite
import tvm
from ai_edge_litert.interpreter import Interpreter, OpResolverType
from tvm import relax
from tvm.relax.frontend.tflite import from_tflite

from firmwright.errors import UserError, first_line
from firmwright.ir.tensors import ELEMENT_BYTES, ModelInterface, Operator, State, Tensor
from firmwright.models.formats import Imported, ReferenceOutputs, Samples, Shapes
from firmwright.models.importing import refuse_operators, run_importer
from firmwright.models.states import read_initial, run_in_sequence
from firmwright.models.tflite.checks import check_model, decode_text, operator_kinds, to_ints
from firmwright.models.tflite.converter import Converter
from firmwright.models.tflite.repairs import convert_constants, repair, repair_dimensions
from firmwright.models.tflite.states import expose_states

Array = np.ndarray[Any, Any]
Result = TypeVar("Result")

DIMENSION_REFUSAL = "quantized_dimension must be in range"
"""What LiteRT says of a verified file whose scales belong to an axis that a tensor has not."""


def import_model(data: bytes, name: str, shapes: Shapes) -> Imported:
    """Import a TFLite file; see :class:`firmwright.models.formats.TorchImporter`."""
    digest = hashlib.sha256(data).hexdigest()
    data, remarks = check_file(data, name)
    check_model(tflite.Model.GetRootAsModel(data, 0), name)
    try:
        data, states = expose_states(repair(data))
    except UserError as error:
        raise UserError(f"{name}: {error}") from None
    model = tflite.Model.GetRootAsModel(convert_constants(data), 0)
    graph = model.Subgraphs(0)
    operators = list_operators(model, graph)
    check_operators(operators, name)
    given, made = (to_ints(t) for t in (graph.InputsAsNumpy(), graph.OutputsAsNumpy()))
    inputs = tuple(make_tensor(graph, i, name, shapes) for i in given[: len(given) - len(states)])
    unknown = sorted(set(shapes) - {t.name for t in inputs})
    if unknown:
        known = ", ".join(t.name for t in inputs)
        raise UserError(f"{name}: inputs: the model has no input '{unknown[0]}' (it has: {known})")
    outputs = tuple(make_tensor(graph, i, name, {}) for i in made[: len(made) - len(states)])
    module = run_importer(
        name, lambda: from_tflite(model, dict(shapes) or None, op_converter=Converter)
    )
    interface = ModelInterface("tflite", digest, inputs, outputs, operators, remarks, states)
    check_outputs(module, interface.results, name)
    return module, interface


def check_outputs(module: tvm.IRModule, outputs: Sequence[Tensor], name: str) -> None:
    """Refuse outputs whose declared shape or type is not that of what is computed for them."""
    returned = module["main"].ret_ty
    types = list(returned.fields) if isinstance(returned, relax.TupleType) else [returned]
    for output, kind in zip(outputs, types, strict=True):
        shape = None if kind.shape is None else [int(d) for d in kind.shape]
        if shape != list(output.shape) or str(kind.dtype) != output.dtype:
            raise UserError(
                f"{name}: output '{output.name}': the file declares {output.dtype} "
                f"{list(output.shape)}, its operators compute {kind.dtype} {shape}"
            )


def check_file(data: bytes, name: str) -> tuple[bytes, tuple[str, ...]]:
    """Let LiteRT verify the bytes, because TVM's reader trusts every offset in them.

    Returns the bytes, repaired where LiteRT asks for more than TFLite Micro, and remarks.
    """
    if data[4:8] != b"TFL3":
        raise UserError(f"{name}: not a TFLite model (no 'TFL3' mark at byte 4); export it again")
    what = f"{name}: LiteRT does not survive this model"
    try:
        try:
            run_in_subprocess(what, load_interpreter, data)
        except (ValueError, RuntimeError) as error:
            if DIMENSION_REFUSAL not in str(error):
                raise
            data, remarks = repair_dimensions(data)
            run_in_subprocess(what, load_interpreter, data)
            return data, remarks
    except (ValueError, RuntimeError) as error:
        raise UserError(
            f"{name}: a damaged TFLite model: {first_line(error)}; fetch or export it again"
        ) from None
    return data, ()


def list_operators(model: Any, graph: Any) -> tuple[Operator, ...]:
    """Name each operator by its first output tensor, as TFLite's own tools do."""
    kinds = operator_kinds(model)
    found = []
    for index in range(graph.OperatorsLength()):
        operator = graph.Operators(index)
        kind = kinds[operator.OpcodeIndex()]
        custom = model.OperatorCodes(operator.OpcodeIndex()).CustomCode()
        if kind == "CUSTOM" and custom:
            kind = decode_text(custom)
        results = tuple(
            decode_text(graph.Tensors(int(i)).Name()) for i in operator.OutputsAsNumpy()
        )
        found.append(Operator(results[0], kind, results))
    return tuple(found)


def check_operators(operators: Sequence[Operator], name: str) -> None:
    """Refuse, in one message, every operator that TVM has no converter for."""
    known = Converter(None, None, None, None).convert_map  # only an instance has it
    lines = [f"  {o.kind} (tensor '{o.name}')" for o in operators if o.kind not in known]
    if lines:
        refuse_operators(name, lines)


def make_tensor(graph: Any, index: int, name: str, shapes: Shapes) -> Tensor:
    """Describe one graph input or output; UserError for a dynamic or unsupported one."""
    tensor = graph.Tensors(index)
    label = tensor.Name().decode()
    signature = tensor.ShapeSignatureAsNumpy() if tensor.ShapeSignatureLength() else None
    declared = to_ints(tensor.ShapeAsNumpy() if signature is None else signature)
    # A batch of -1 in the signature with 1 in the shape is TFLite's usual "batch 1 unless resized".
    static = to_ints(tensor.ShapeAsNumpy())
    shape = shapes.get(label, tuple(static))
    if any(d < 1 for d in shape) or len(shape) != len(declared):
        raise UserError(
            f"{name}: '{label}' has the dynamic shape {declared}; firmware needs a fixed one: "
            f"state `inputs: {{{label}: {{shape: [1, …]}}}}` in the recipe"
        )
    types = {v: k.lower() for k, v in vars(tflite.TensorType).items() if isinstance(v, int)}
    dtype = types.get(tensor.Type(), "unknown")
    if dtype not in ELEMENT_BYTES:
        raise UserError(f"{name}: '{label}' is {dtype}, which firmware cannot carry")
    scale, zero_point = None, None
    parameters = tensor.Quantization()
    if parameters is not None and parameters.ScaleLength() == 1:
        scale, zero_point = float(parameters.Scale(0)), int(parameters.ZeroPoint(0))
    return Tensor(label, tuple(shape), dtype, scale, zero_point)


def load_interpreter(data: bytes) -> None:
    make_interpreter(data)


def make_interpreter(data: bytes, kernels: str = "BUILTIN_REF") -> Any:
    """Return LiteRT's interpreter; ``kernels`` is a name of its OpResolverType."""
    return Interpreter(
        model_content=data,
        experimental_op_resolver_type=getattr(OpResolverType, kernels),
        num_threads=1,
    )


def run_reference(data: bytes, inputs: Samples, states: Sequence[State] = ()) -> ReferenceOutputs:
    """Evaluate with LiteRT's reference kernels, the definition of TFLite's arithmetic.

    A model with an int8 or int16 SUM is evaluated by LiteRT's other kernels instead: the reference
    one of LiteRT 2.3.0 takes int8 for unsigned, and keeps sums of int16 in 16 bits.

    A sample's arrays come in the order of the model's inputs: their names need not be its own.
    LiteRT keeps the states that have no output from one sample to the next.
    """
    what = "LiteRT, the reference, does not survive the model"
    model = repair(repair_dimensions(data)[0])
    results = run_in_subprocess(what, evaluate, model, list(inputs), states)
    kernels = "optimized kernels, for a SUM" if has_integer_sum(data) else "reference kernels"
    return ReferenceOutputs(f"ai-edge-litert {version('ai-edge-litert')} ({kernels})", results)


def has_integer_sum(data: bytes) -> bool:
    model = tflite.Model.GetRootAsModel(data, 0)
    graph, kinds = model.Subgraphs(0), operator_kinds(model)
    return any(
        kinds[operator.OpcodeIndex()] == "SUM"
        and graph.Tensors(operator.Inputs(0)).Type()
        in (tflite.TensorType.INT8, tflite.TensorType.INT16)
        for operator in map(graph.Operators, range(graph.OperatorsLength()))
    )


def evaluate(
    data: bytes, inputs: Samples, states: Sequence[State]
) -> list[list[np.ndarray[Any, Any]]]:
    kernels = "BUILTIN_WITHOUT_DEFAULT_DELEGATES" if has_integer_sum(data) else "BUILTIN_REF"
    interpreter = make_interpreter(data, kernels)
    handed = {state.tensor.name for state in states if state.output}
    details = interpreter.get_input_details()
    indices = {d["name"]: d["index"] for d in details if d["name"] in handed}
    order = [d["index"] for d in details if d["name"] not in handed]
    outputs = interpreter.get_output_details()

    def place(given: Mapping[str, Array]) -> Iterator[tuple[int, Array]]:
        yield from ((index, given[name]) for name, index in indices.items())
        yield from zip(order, [a for n, a in given.items() if n not in indices], strict=True)

    def run(given: Mapping[str, Array]) -> list[Array]:
        for index, array in place(given):
            interpreter.set_tensor(index, array)
        interpreter.invoke()
        return [interpreter.get_tensor(detail["index"]).copy() for detail in outputs]

    try:
        first = {s.tensor.name: read_initial(s) for s in states if s.output}
        for index, array in place({**inputs[0], **first}):
            interpreter.resize_tensor_input(index, array.shape)
        interpreter.allocate_tensors()
        return run_in_sequence(inputs, states, [d["name"] for d in outputs], run)
    except (RuntimeError, ValueError) as error:
        raise UserError(
            f"LiteRT, the reference, cannot evaluate the model: {first_line(error)}"
        ) from error


def run_in_subprocess(what: str, function: Callable[..., Result], *arguments: Any) -> Result:
    """Call the function in a copy of this process: some of LiteRT's kernels end the process.

    What it raises is raised here; UserError, beginning with ``what``, where a signal ended it.
    """
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=send_result, args=(sender, function, arguments))
    child.start()
    sender.close()
    try:
        succeeded, value = receiver.recv()
    except EOFError:
        child.join()
        code = child.exitcode or 0
        how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        raise UserError(f"{what}: it ended with {how}") from None
    finally:
        receiver.close()
    child.join()
    if not succeeded:
        raise value
    result: Result = value
    return result


def send_result(
    sender: Connection, function: Callable[..., Any], arguments: tuple[Any, ...]
) -> None:
    """Send (True, result) or (False, error); nothing that a dying runtime prints is shown."""
    faulthandler.disable()
    sink = os.open(os.devnull, os.O_WRONLY)
    for descriptor in (1, 2):
        os.dup2(sink, descriptor)
    try:
        sender.send((True, function(*arguments)))
    except Exception as error:
        sender.send((False, error if isinstance(error, UserError) else RuntimeError(str(error))))
