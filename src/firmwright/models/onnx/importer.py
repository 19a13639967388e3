"""Imports ONNX models (float and QDQ graphs) with TVM. ONNX Runtime computes the reference."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

import onnx
import tvm
from google.protobuf.message import DecodeError
from onnx.defs import AI_ONNX_PREVIEW_TRAINING_DOMAIN
from tvm import relax
from tvm.relax.frontend.onnx import onnx_frontend

from firmwright.errors import UserError
from firmwright.ir.relax import list_result_types
from firmwright.ir.strings import STRING_BYTES
from firmwright.ir.tensors import (
    STORED_AS,
    STRING,
    ModelInterface,
    Operator,
    Tensor,
)
from firmwright.models.formats import (
    Imported,
    OpenShapesError,
    Shapes,
)
from firmwright.models.importing import (
    check_element_type,
    check_input_names,
    describe_failure,
    label_errors,
    refuse_operators,
    refuse_problems,
    refuse_shape,
    run_importer,
    variable_name,
)
from firmwright.models.onnx.accepted_forms import find_graphs, has_only_text, normalize_forms
from firmwright.models.onnx.checks import EXPORT_AGAIN, check_model, data_problems, describe
from firmwright.models.onnx.converters import (
    CONVERTERS,
    OperatorBuilder,
    check_results,
    convert_dropout,
    find_form,
    find_open_parameter,
    refuse_node,
)
from firmwright.models.onnx.domains import DIALECTS, get_opset, name_domains, opset_problems
from firmwright.models.onnx.graph.narrow_types import store_in_bytes
from firmwright.models.onnx.graph.rewrites import REWRITES
from firmwright.models.onnx.graph.specialize import specialize
from firmwright.models.onnx.graph.string_bytes import store_strings
from firmwright.models.onnx.onnxruntime_outputs import run_reference as run_reference
from firmwright.models.stated_params import add_params, derive_params, find_in_onnx


class NamedImporter(onnx_frontend.ONNXGraphImporter):  # type: ignore[misc]
    """TVM's importer, which binds each node's result to a variable with the node's name.

    Later stages show these names to the user.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.bb = OperatorBuilder()

    def _check_for_unsupported_ops(self, graph: onnx.GraphProto) -> None:
        """Skip TVM's check, because the messages of :func:`check_operators` name the nodes."""

    def _convert_operator(
        self, op_name: str, inputs: Any, attrs: dict[str, Any], opset: int
    ) -> relax.Expr:
        node_name = attrs["tvm_custom"]["name"]
        try:
            refuse_node(op_name, inputs, attrs, opset)
            if op_name == "Dropout":
                return convert_dropout(inputs[0], attrs, opset)
            if op_name in CONVERTERS:
                result = self.bb.normalize(CONVERTERS[op_name](self.bb, list(inputs), attrs))
            else:
                inputs, opset = find_form(op_name, inputs, attrs, opset)
                result = super()._convert_operator(op_name, inputs, attrs, opset)
            check_results(result, inputs, attrs)
        except Exception as error:
            reason = find_open_parameter(op_name, inputs) or describe_failure(error)
            raise UserError(
                f"cannot import operator {op_name} (node '{node_name}'): {reason}"
            ) from error
        if not isinstance(result, tvm.ir.Call | relax.TupleGetItem):
            return result
        # TVM's converters read a shape's expression, and a variable hides the expression.
        if isinstance(result.ty, relax.TupleType) or (
            isinstance(result.ty, relax.TensorType)
            and (result.ty.ndim > 1 or str(result.ty.dtype) != "int64")
        ):
            return self.bb.emit(result, name_hint=variable_name(node_name))
        return result


def import_model(data: bytes, name: str, shapes: Shapes) -> Imported:
    """Import an ONNX file as :class:`firmwright.models.formats.Importer` describes."""
    model, remarks = parse(data, name)
    params_of = find_in_onnx(model)
    name_nodes(model.graph)
    inputs = collect_inputs(model.graph, name, shapes)
    returned = [o.name for o in model.graph.output]
    with label_errors(name):
        model = specialize(model, inputs, REWRITES, (store_strings, store_in_bytes))
    check_operators(model, name)
    opset = get_opset(model)

    def convert() -> tvm.IRModule:
        input_shapes = {t.name: list(t.shape) for t in inputs}
        with tvm.target.Target("llvm"):
            return NamedImporter(input_shapes, "float32", sanitize=False).from_onnx(
                model.graph, opset
            )

    module = run_importer(name, convert)
    interface = ModelInterface(
        format="onnx",
        sha256=hashlib.sha256(data).hexdigest(),
        inputs=add_params(inputs, params_of),
        outputs=add_params(collect_outputs(module, model.graph, name), params_of),
        operators=tuple(Operator(n.name, n.op_type, tuple(n.output)) for n in model.graph.node),
        remarks=(*remarks, *list_left_out(returned, model.graph)),
    )
    return module, derive_params(module, interface)


def list_left_out(returned: Sequence[str], graph: onnx.GraphProto) -> Iterator[str]:
    kept = {output.name for output in graph.output}
    for name in returned:
        if name not in kept:
            yield f"output '{name}' has no elements and is removed"


def parse(data: bytes, name: str) -> tuple[onnx.ModelProto, tuple[str, ...]]:
    """Decode and check the file, and return the model and notes for the user.

    Raises UserError if the file is not a complete ONNX model.
    """
    try:
        model = onnx.load_model_from_string(data)
    except DecodeError:
        raise UserError(
            f"{name}: not an ONNX model, or a truncated one; fetch or export it again"
        ) from None
    if not model.graph.node and not model.graph.output:
        raise UserError(f"{name}: not an ONNX model: it has no graph; export it again")
    damaged = (
        f"{name}: not a valid ONNX model: a name or a text is not UTF-8; fetch or export it again"
    )
    graphs = (*find_graphs(model.graph), *model.functions)
    if not all(has_only_text(node) for graph in graphs for node in graph.node):
        raise UserError(damaged)
    problems = (*opset_problems(model), *data_problems(model))
    refuse_problems(f"{name}: not a valid ONNX model:", problems, EXPORT_AGAIN)
    name_domains(model)
    try:
        with label_errors(name):
            remarks = normalize_forms(model)
    except UnicodeDecodeError:
        raise UserError(damaged) from None
    check_model(model, name)
    return model, remarks


def name_nodes(graph: onnx.GraphProto) -> None:
    """Copy the name of the first output to each node without a name."""
    for node in graph.node:
        if not node.name:
            node.name = next((o for o in node.output if o), node.op_type)


SHARED_OPERATORS = frozenset(
    "DequantizeLinear GridSample QuantizeLinear Range Trilu Unique".split()
)
"""Operators of both ONNX and com.microsoft. Other operators have different names in each domain."""


def check_operators(model: onnx.ModelProto, name: str) -> None:
    """Raise UserError with all training operators, or with all nodes that have no converter."""
    training = [
        describe_operator(n)
        for n in model.graph.node
        if n.domain == AI_ONNX_PREVIEW_TRAINING_DOMAIN
    ]
    if training:
        heading = f"{name}: training operators are not part of inference:"
        raise UserError("\n".join([heading, *training, "  export the model for inference"]))
    known = {*onnx_frontend._get_convert_map(), *CONVERTERS, "Constant", "If"}
    lines = [
        describe_operator(n)
        for n in model.graph.node
        if n.op_type not in known
        or n.domain not in ("", "ai.onnx", "com.microsoft")
        or (
            n.domain == "com.microsoft"
            and onnx.defs.has(n.op_type)
            and n.op_type not in SHARED_OPERATORS
        )
    ]
    if lines:
        dialects = dict.fromkeys(
            DIALECTS[n.domain] for n in model.graph.node if n.domain in DIALECTS
        )
        refuse_operators(name, lines, "; ".join(dialects))


def describe_operator(node: onnx.NodeProto) -> str:
    return f"  {node.domain + '.' if node.domain else ''}{node.op_type} (node '{node.name}')"


def collect_inputs(graph: onnx.GraphProto, name: str, shapes: Shapes) -> tuple[Tensor, ...]:
    """Return the graph's inputs with static shapes. Shapes of the recipe have precedence.

    Raises OpenShapesError if lengths remain open, and UserError if a shape does not fit.
    """
    constants = {i.name for i in graph.initializer}
    values = [v for v in graph.input if v.name not in constants]
    check_input_names(name, shapes, (v.name for v in values))
    tensors: list[Tensor] = []
    left_open: dict[str, list[int | str]] = {}
    for value in values:
        dims = value.type.tensor_type.shape.dim
        declared = [d.dim_value if d.HasField("dim_value") else d.dim_param or "?" for d in dims]
        wanted = shapes.get(value.name, declared)
        if 0 in wanted:
            raise UserError(
                f"{name}: input '{value.name}' has no elements: its shape is {declared}; "
                "export the model with lengths of 1 or more"
            )
        shape = tuple(d for d in wanted if isinstance(d, int) and d > 0)
        if len(shape) < len(wanted):
            left_open[value.name] = declared
        elif not is_compatible(shape, declared):
            refuse_shape(name, value.name, shape, declared)
        else:
            tensors.append(make_tensor(value, shape, name))
    if left_open:
        raise OpenShapesError(name, left_open)
    return tuple(tensors)


def is_compatible(shape: Sequence[int | str], declared: Sequence[int | str]) -> bool:
    return len(shape) == len(declared) and all(
        not isinstance(d, int) or d == s for s, d in zip(shape, declared, strict=True)
    )


def make_tensor(value: onnx.ValueInfoProto, shape: tuple[int, ...], name: str) -> Tensor:
    dtype = element_type(value)
    if dtype == STRING:
        return Tensor(value.name, (*shape, STRING_BYTES), "uint8", model_dtype=STRING)
    if dtype in STORED_AS:
        return Tensor(value.name, shape, STORED_AS[dtype], model_dtype=dtype)
    check_element_type(name, value.name, dtype)
    return Tensor(value.name, shape, dtype)


def element_type(value: onnx.ValueInfoProto) -> str:
    if value.type.tensor_type.elem_type == onnx.TensorProto.STRING:
        return STRING
    try:
        return str(onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type).name)
    except KeyError:
        return "of a non-tensor type"


def collect_outputs(module: tvm.IRModule, graph: onnx.GraphProto, name: str) -> tuple[Tensor, ...]:
    """Return the outputs, with names from the graph and static shapes from the module.

    Raises UserError if an output is not a tensor, has no static shape, or has no elements.
    """
    for value in graph.output:
        kind = value.type.WhichOneof("value")
        if kind not in (None, "tensor_type"):
            type_name = kind.removesuffix("_type")
            advice = "; return tensors as separate outputs"
            raise UserError(f"{name}: output '{value.name}' is a {type_name}, not a tensor{advice}")
    outputs = []
    for value, kind in zip(graph.output, list_result_types(module["main"]), strict=True):
        shape = getattr(kind, "shape", None)
        if shape is None or not all(isinstance(d, tvm.tirx.IntImm) for d in shape):
            origin = find_origin(graph, value.name)
            of = f" of {describe(origin)}" if origin and value.name in origin.output else ""
            where = "it" if of or not origin else describe(origin)
            raise UserError(
                f"{name}: output '{value.name}'{of} has no static shape; firmware needs fixed "
                f"shapes: end the model before {where}"
            )
        numbers = tuple(int(d) for d in shape)
        if 0 in numbers:
            label = f"{name}: output '{value.name}'"
            raise UserError(
                f"{label} has no elements: its shape is {list(numbers)}; remove the output from "
                "the model"
            )
        stated = element_type(value)
        model_dtype = stated if stated in (STRING, *STORED_AS) else None
        outputs.append(Tensor(value.name, numbers, str(kind.dtype), model_dtype=model_dtype))
    return tuple(outputs)


DATA_SIZED = frozenset("Compress NonMaxSuppression NonZero Unique".split())
"""Operators whose result sizes depend on values of the inputs."""


def find_origin(graph: onnx.GraphProto, label: str) -> onnx.NodeProto | None:
    """Return the first operator with data-dependent sizes before a tensor, or its producer."""
    wanted, origin = {label}, None
    for node in reversed(graph.node):
        if wanted.intersection(node.output):
            wanted.update(node.input)
            if origin is None or node.op_type in DATA_SIZED:
                origin = node
    return origin
