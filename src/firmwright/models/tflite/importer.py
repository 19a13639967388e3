"""Imports TFLite models with TVM. LiteRT's reference kernels compute the reference."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import tflite
import tvm
from tvm.relax.frontend.tflite import from_tflite

from firmwright.errors import UserError, first_line
from firmwright.forked import run_in_copy
from firmwright.ir.relax import list_result_types
from firmwright.ir.tensors import ModelInterface, Operator, Tensor
from firmwright.models.formats import Imported, Shapes
from firmwright.models.importing import (
    check_element_type,
    check_input_names,
    label_errors,
    refuse_open_shape,
    refuse_operators,
    run_importer,
)
from firmwright.models.tflite.checks import (
    RENEW,
    check_indices,
    check_model,
    decode_text,
    operator_kinds,
    to_ints,
)
from firmwright.models.tflite.converter import Converter
from firmwright.models.tflite.custom_calls import (
    add_states,
    find_vendor_importer,
    list_known_operators,
    read_custom_code,
    refuse_custom_operators,
)
from firmwright.models.tflite.custom_operators import DTYPES
from firmwright.models.tflite.known_values import fold_known_values
from firmwright.models.tflite.litert_outputs import MISSING_KERNEL, load_interpreter
from firmwright.models.tflite.litert_outputs import run_reference as run_reference
from firmwright.models.tflite.port_names import name_ports
from firmwright.models.tflite.repairs import (
    convert_constants,
    repair,
    repair_dimensions,
    repair_scales,
    unpack,
)
from firmwright.models.tflite.states_as_inputs import expose_states
from firmwright.models.tflite.subgraphs import inline_subgraphs

DIMENSION_REFUSAL = "quantized_dimension must be in range"
"""The text of LiteRT's error if scales refer to an axis that does not exist."""


def import_model(data: bytes, name: str, shapes: Shapes) -> Imported:
    """Import a TFLite file as :class:`firmwright.models.formats.Importer` describes."""
    digest = hashlib.sha256(data).hexdigest()
    data, remarks = check_file(data, name)
    source = tflite.Model.GetRootAsModel(data, 0)
    check_indices(source, name)
    if vendor := find_vendor_importer(source):
        return vendor.import_model(data, name, shapes)
    refuse_custom_operators(source, name)
    with label_errors(name):
        data = add_states(data)
    data, notes = repair_scales(data)
    remarks = (*remarks, *notes)
    source = tflite.Model.GetRootAsModel(data, 0)
    check_model(source, name)
    inlined = inline_subgraphs(data, name)
    if inlined is not data:
        check_model(tflite.Model.GetRootAsModel(inlined, 0), name)
    repaired = repair(inlined)
    graph = tflite.Model.GetRootAsModel(repaired, 0).Subgraphs(0)
    tensors = list_port_tensors(graph)
    ports = name_ports(source, *tensors)
    check_input_names(name, shapes, ports.inputs)
    shapes = {
        tensor: shapes[port]
        for tensor, port in zip(tensors[0], ports.inputs, strict=True)
        if port in shapes
    }
    with label_errors(name):
        data, states = expose_states(fold_known_values(repaired, shapes))
    data = convert_constants(data)
    unpack.cache_clear()
    model = tflite.Model.GetRootAsModel(data, 0)
    graph = model.Subgraphs(0)
    operators = list_operators(model, graph)
    check_operators(operators, name)
    given, made = (to_ints(t) for t in (graph.InputsAsNumpy(), graph.OutputsAsNumpy()))
    inputs = tuple(
        make_tensor(graph, i, port, name, shapes)
        for i, port in zip(given[: len(given) - len(states)], ports.inputs, strict=True)
    )
    outputs = tuple(
        make_tensor(graph, i, port, name, {})
        for i, port in zip(made[: len(made) - len(states)], ports.outputs, strict=True)
    )
    module = run_importer(
        name, lambda: from_tflite(model, dict(shapes) or None, op_converter=Converter)
    )
    interface = ModelInterface(
        "tflite",
        digest,
        inputs,
        outputs,
        operators,
        (*remarks, *ports.remarks),
        states,
        # The states come after the outputs.
        dict(zip(ports.outputs, list_port_tensors(graph)[1], strict=False)),
    )
    check_outputs(module, interface.results, name)
    return module, interface


def check_outputs(module: tvm.IRModule, outputs: Sequence[Tensor], name: str) -> None:
    """Raise UserError if an output's declared and computed shapes or types differ."""
    for output, kind in zip(outputs, list_result_types(module["main"]), strict=True):
        shape = None if kind.shape is None else [int(d) for d in kind.shape]
        if shape != list(output.shape) or str(kind.dtype) != output.dtype:
            raise UserError(
                f"{name}: output '{output.name}': the file declares {output.dtype} "
                f"{list(output.shape)}, its operators compute {kind.dtype} {shape}; {RENEW}"
            )


def check_file(data: bytes, name: str) -> tuple[bytes, tuple[str, ...]]:
    """Verify the bytes with LiteRT, because TVM's reader does not check offsets.

    Return the bytes and notes. The bytes are repaired if LiteRT is stricter than TFLite Micro.
    """
    if data[4:8] != b"TFL3":
        raise UserError(f"{name}: not a TFLite model (no 'TFL3' mark at byte 4); export it again")
    unpack.cache_clear()
    try:
        unpack(data)
    except Exception as error:
        reason = "an offset or length is outside the file"
        raise UserError(f"{name}: a damaged TFLite model: {reason}; fetch it again") from error
    what = f"{name}: LiteRT crashes on this model"
    try:
        try:
            run_in_copy(what, load_interpreter, data)
        except (ValueError, RuntimeError) as error:
            if DIMENSION_REFUSAL not in str(error):
                raise
            data, remarks = repair_dimensions(data)
            run_in_copy(what, load_interpreter, data)
            return data, remarks
    except (ValueError, RuntimeError) as error:
        if MISSING_KERNEL in str(error):
            raise UserError(
                f"{name}: LiteRT has no kernel for an operator: {first_line(error)}; replace the "
                "operator with built-in operators of TFLite"
            ) from None
        raise UserError(
            f"{name}: a damaged TFLite model: {first_line(error)}; fetch or export it again"
        ) from None
    return data, ()


def list_operators(model: Any, graph: Any) -> tuple[Operator, ...]:
    """Return the operators.

    The name of an operator is the name of its first result, as in TFLite's tools.
    """
    kinds = operator_kinds(model)
    operators = []
    for index in range(graph.OperatorsLength()):
        operator = graph.Operators(index)
        results = tuple(
            decode_text(graph.Tensors(int(i)).Name()) for i in operator.OutputsAsNumpy()
        )
        kind = kinds[operator.OpcodeIndex()]
        kind = read_custom_code(model, operator) if kind == "CUSTOM" else kind
        operators.append(Operator(results[0], kind, results))
    return tuple(operators)


def check_operators(operators: Sequence[Operator], name: str) -> None:
    converted = Converter(None, None, None, None).convert_map
    known = {*converted, *list_known_operators()}
    lines = [f"  {o.kind} (tensor '{o.name}')" for o in operators if o.kind not in known]
    if lines:
        refuse_operators(name, lines)


def list_port_tensors(graph: Any) -> tuple[list[str], list[str]]:
    given, made = to_ints(graph.InputsAsNumpy()), to_ints(graph.OutputsAsNumpy())
    inputs, outputs = (
        [decode_text(graph.Tensors(i).Name()) for i in each] for each in (given, made)
    )
    return inputs, outputs


def make_tensor(graph: Any, index: int, label: str, name: str, shapes: Shapes) -> Tensor:
    """Return a graph input or output with the name ``label``.

    ``shapes`` maps tensor names to shapes. Raises UserError if the shape is dynamic, or if the type
    is not supported.
    """
    tensor = graph.Tensors(index)
    signature = tensor.ShapeSignatureAsNumpy() if tensor.ShapeSignatureLength() else None
    declared = to_ints(tensor.ShapeAsNumpy() if signature is None else signature)
    # Files often have a batch of -1 in the signature, and 1 in the shape ("1 unless resized").
    static = to_ints(tensor.ShapeAsNumpy())
    shape = shapes.get(decode_text(tensor.Name()), tuple(static))
    if 0 in shape and 0 in declared:
        raise UserError(
            f"{name}: '{label}' has no elements (shape {declared}); expected one or more: enlarge "
            "the model's inputs, or remove the tensor from its inputs and outputs"
        )
    if any(d < 1 for d in shape) or len(shape) != len(declared):
        refuse_open_shape(name, label, declared)
    dtype = DTYPES.get(tensor.Type(), "unknown")
    check_element_type(name, label, dtype)
    scale, zero_point = None, None
    parameters = tensor.Quantization()
    if parameters is not None and parameters.ScaleLength() == 1:
        scale, zero_point = float(parameters.Scale(0)), int(parameters.ZeroPoint(0))
    return Tensor(label, tuple(shape), dtype, scale, zero_point)
