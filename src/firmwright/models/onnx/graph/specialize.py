"""Evaluates the parts of an ONNX graph that do not depend on the values of the inputs.

Firmware has static shapes, so the importer can compute many nodes: shapes and their arithmetic,
constants, and conditions. Then converters support more graphs, because the types and shapes of all
tensors are known, and parameters such as axes or pads are constants.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.checker import ValidationError
from onnx.defs import OpSchema, SchemaError, get_schema, onnx_opset_version
from onnx.inliner import inline_local_functions
from onnx.parser import parse_function
from onnx.shape_inference import InferenceError, infer_node_outputs

from firmwright.errors import UserError
from firmwright.ir.tensors import STRING, Tensor
from firmwright.models.onnx.graph.body import Body, inline_branch, inline_function, list_reads

SHAPE_ONLY = frozenset({"EyeLike", "Shape", "Size"})
"""Operators that read only the shape of the input."""

NEVER_FOLDED = frozenset({"DequantizeLinear"})
"""Operators that are not evaluated, so that weights remain integers."""

LARGEST_GROWTH = 4096
"""The maximum difference in bytes between a folded constant and its operands."""

LARGEST_HINT = 1024
"""The maximum number of elements that shape inference reads. Shapes and axes are small."""

REWRITES_OPSET = 18
"""The operator set of this package's functions, and of models that do not state a version."""

Array = npt.NDArray[Any]


Nodes = list[onnx.NodeProto]
Rewrite = Callable[["NodeBuilder"], "Nodes | None"]
"""Returns the nodes that replace a node, or None to keep the node."""


def specialize(
    model: onnx.ModelProto,
    inputs: Sequence[Tensor],
    rewrites: Mapping[str, Rewrite],
    finish: Sequence[Callable[[Specializer], None]] = (),
) -> onnx.ModelProto:
    """Return the model for the inputs' shapes, with evaluated constants and rewritten operators.

    ``rewrites`` maps operators to functions. Each function is tried on the nodes of an operator,
    and the resulting nodes are specialized again. The functions of ``finish`` change the final
    graph.
    """
    inlined = inline_local_functions(model) if model.functions else model
    if not any(o.domain in ("", "ai.onnx") for o in inlined.opset_import):
        inlined.opset_import.append(helper.make_opsetid("", REWRITES_OPSET))
    walk = Specializer(inlined, inputs, rewrites)
    walk.visit(inlined.graph.node)
    for change in finish:
        change(walk)
    return walk.build_model()


class Specializer:
    """Visits the nodes in order, and collects facts about tensors.

    ``sequences`` maps a sequence to its tensors, and an absent optional value to None.
    """

    def __init__(
        self, model: onnx.ModelProto, inputs: Sequence[Tensor], rewrites: Mapping[str, Rewrite]
    ) -> None:
        self.source = model
        self.rewrites = rewrites
        self.opsets = {o.domain.removeprefix("ai.onnx") or "": o.version
                       for o in model.opset_import if o.domain in ("", "ai.onnx")} | {
                           o.domain: o.version for o in model.opset_import}  # fmt: skip
        self.types: dict[str, onnx.TypeProto] = {}
        self.constants: dict[str, Array] = {}
        self.sequences: dict[str, list[str] | None] = {}
        self.nodes: Nodes = []
        for tensor in inputs:
            element, shape = TensorProto.STRING, tensor.shape[:-1]
            if tensor.model_dtype != STRING:
                element = helper.np_dtype_to_tensor_dtype(np.dtype(tensor.stated_dtype))
                shape = tensor.shape
            self.types[tensor.name] = helper.make_tensor_type_proto(element, shape)
        for initializer in model.graph.initializer:
            self.add_constant(initializer.name, numpy_helper.to_array(initializer))

    def build_model(self) -> onnx.ModelProto:
        """Return the model of the remaining nodes and of the constants that they read.

        Outputs without elements are omitted. Raises UserError if an output is a sequence.
        """
        for output in self.source.graph.output:
            if output.name in self.sequences:
                raise UserError(
                    f"output '{output.name}' is a sequence, not a tensor: end the model with "
                    "SequenceAt for each of its tensors, or with ConcatFromSequence"
                )
        model = onnx.ModelProto()
        model.CopyFrom(self.source)
        graph = model.graph
        read = {i for n in self.nodes for i in list_reads(n)} | {o.name for o in graph.output}
        outputs = [o for o in graph.output if 0 not in (self.shape(o.name) or ())]
        for field, values in (
            ("output", outputs),
            ("node", self.nodes),
            ("input", [helper.make_value_info(v.name, self.types.get(v.name, v.type))
                       for v in graph.input if v.name not in self.constants]),
            ("initializer", [numpy_helper.from_array(a, n) for n, a in self.constants.items()
                             if n in read]),
            ("value_info", [helper.make_value_info(n, t) for n, t in self.types.items()
                            if n in read]),
        ):  # fmt: skip
            copies = list(values)
            del getattr(graph, field)[:]
            getattr(graph, field).extend(copies)
        return model

    def visit(self, nodes: Iterable[onnx.NodeProto]) -> None:
        """Visit nodes in order. Nodes that replace a node are visited next."""
        waiting = deque(nodes)
        while waiting:
            node = waiting.popleft()
            replaced = self.find_replacement(node)
            if replaced is not None:
                waiting.extendleft(reversed(replaced))
            elif not self.fold(node):
                self.infer_types(node)
                self.nodes.append(node)

    def schema(self, node: onnx.NodeProto) -> Any:
        """Return ONNX's OpSchema of the operator. Return None for operators of other domains.

        Rewrites may write operators that are newer than the model's opset.
        """
        for version in (self.opsets.get(node.domain, 1), onnx_opset_version()):
            with suppress(SchemaError):
                return get_schema(node.op_type, version, node.domain)
        return None

    def input_names(self, node: onnx.NodeProto) -> list[str]:
        schema = self.schema(node)
        return [p.name for p in schema.inputs] if schema else []

    def has_attribute(self, node: onnx.NodeProto, name: str) -> bool:
        schema = self.schema(node)
        return schema is not None and name in schema.attributes

    def find_replacement(self, node: onnx.NodeProto) -> Nodes | None:
        if node.op_type == "If" and node.input[0] in self.constants:
            return inline_branch(node, bool(self.constants[node.input[0]].all()))
        if node.op_type == "CastLike" and node.input[1] in self.types:
            element = self.types[node.input[1]].tensor_type.elem_type
            cast = helper.make_node("Cast", node.input[:1], node.output, node.name, to=element)
            cast.attribute.extend(node.attribute)
            return [cast]
        filled = [i for i in node.input if i not in self.constants or self.constants[i].size]
        if node.op_type == "Concat" and 0 < len(filled) < len(node.input):
            axis = helper.get_node_attr_value(node, "axis")
            return [helper.make_node("Concat", filled, node.output, node.name, axis=axis)]
        rewrite = self.rewrites.get(f"{node.domain}.{node.op_type}".lstrip("."))
        return rewrite(NodeBuilder(node, self)) if rewrite else None

    def function_body(self, node: onnx.NodeProto) -> Nodes | None:
        """Return the nodes of the function that defines the operator, or None.

        The nodes have the name of ``node``.
        """
        schema = self.schema(node)
        versions = schema.all_function_opset_versions if schema else ()
        version = max((v for v in versions if v <= self.opsets[node.domain]), default=0)
        if schema is None or version == 0:
            return None
        if version in schema.function_opset_versions:
            body = schema.get_function_with_opset_version(version)
        else:
            types = [self.types.get(i, onnx.TypeProto()).SerializeToString() for i in node.input]
            body = schema.get_context_dependent_function_with_opset_version(
                version, node.SerializeToString(), types
            )
        return inline_function(onnx.FunctionProto.FromString(body), node, schema)

    def fold(self, node: onnx.NodeProto) -> bool:
        """Evaluate a node with constant inputs or a static shape.

        Return whether the results are constants.
        """
        if node.op_type == "Constant":
            value = read_constant_node(node)
            if value is not None:
                self.add_constant(node.output[0], value)
            return value is not None
        shape = self.shape(node.input[0]) if node.op_type in SHAPE_ONLY else None
        if shape is not None:
            # The values of the elements are irrelevant, and the array needs no memory.
            values = [np.broadcast_to(np.zeros((), self.dtype(node.input[0])), shape)]
        elif any(i and i not in self.constants for i in node.input):
            return False
        else:
            values = [self.constants[i] for i in node.input if i]
        schema, repeatable = self.schema(node), OpSchema.NodeDeterminism.Deterministic
        if schema is None or schema.node_determinism != repeatable or node.op_type in NEVER_FOLDED:
            return False
        results = evaluate_node(node, values, self.source.opset_import)
        if results is None:
            return False
        growth = sum(r.nbytes for r in results) - sum(v.nbytes for v in values)
        if growth > LARGEST_GROWTH:
            return False
        for name, result in zip(node.output, results, strict=True):
            if name:
                self.add_constant(name, result)
        return True

    def infer_types(self, node: onnx.NodeProto) -> None:
        schema, names = self.schema(node), [i for i in list_reads(node) if i]
        if schema is None or any(i not in self.types for i in names):
            return
        hints = {
            i: numpy_helper.from_array(self.constants[i], i)
            for i in names
            if i in self.constants and self.constants[i].size <= LARGEST_HINT
        }
        try:
            types = infer_node_outputs(
                schema,
                node,
                {i: self.types[i] for i in names},
                hints,
                opset_imports=list(self.source.opset_import),
                ir_version=self.source.ir_version,
            )
        except (InferenceError, ValidationError, ValueError):  # Conv may have integers
            return
        self.types.update({name: kind for name, kind in types.items() if name})
        for name in node.output:
            if name and 0 in (self.shape(name) or ()):
                self.add_constant(name, np.empty(self.shape(name) or (), self.dtype(name)))

    def shape(self, name: str) -> tuple[int, ...] | None:
        """Return a tensor's shape. Return None if the shape is unknown or not static."""
        kind = self.types.get(name, onnx.TypeProto()).tensor_type
        if not kind.HasField("shape") or not all(d.HasField("dim_value") for d in kind.shape.dim):
            return None
        return tuple(d.dim_value for d in kind.shape.dim)

    def dtype(self, name: str) -> np.dtype[Any]:
        """Return a tensor's type. An unknown type is ``void``."""
        kind = self.types.get(name, onnx.TypeProto()).tensor_type.elem_type
        return helper.tensor_dtype_to_np_dtype(kind) if kind else np.dtype("V")

    def add_constant(self, name: str, value: Array) -> None:
        self.constants[name] = value
        element = helper.np_dtype_to_tensor_dtype(value.dtype)
        self.types[name] = helper.make_tensor_type_proto(element, value.shape)


class NodeBuilder(Body):
    """A node, the facts about its tensors, and a builder of the nodes that replace the node.

    The new nodes have the name of the node. The names of new tensors begin with the name of the
    node's result. ``scope`` is part of these names, and the tensors of each scope are counted
    separately.
    """

    def __init__(self, node: onnx.NodeProto, walk: Specializer) -> None:
        super().__init__(node, walk.opsets.get("", 1))
        self.walk = walk
        self.scope = ""
        self.counts: Counter[str] = Counter()

    def shape(self, index: int) -> tuple[int, ...] | None:
        """Return the shape of an input. Return None if the shape is unknown or not static."""
        return self.walk.shape(self.node.input[index])

    def dtype(self, index: int) -> np.dtype[Any]:
        return self.walk.dtype(self.node.input[index])

    def add(self, operator: str, *inputs: str, **attributes: Any) -> str:
        self.counts[self.scope] += 1
        return self.add_as(str(self.counts[self.scope]), operator, *inputs, **attributes)

    def add_as(self, label: str, operator: str, *inputs: str, **attributes: Any) -> str:
        """Append a node whose result has the name ``label`` instead of a number."""
        name = self.name_tensor(label)
        self.nodes.append(helper.make_node(operator, inputs, [name], self.node.name, **attributes))
        return name

    def name_tensor(self, label: str) -> str:
        return f"{next(o for o in self.node.output if o)}/{self.scope}{label}"

    def finish(self, *names: str) -> Nodes:
        """Connect the tensors to the node's results, and return all nodes."""
        for name, output in zip(names, self.node.output, strict=False):
            if output:
                self.nodes.append(helper.make_node("Identity", [name], [output], self.node.name))
        return self.nodes


def parse_rewrite(text: str) -> Rewrite:
    """Return a rewrite that inlines a function.

    ``text`` is the function in ONNX's textual syntax.
    """
    function = parse_function(
        f'<opset_import: ["" : {REWRITES_OPSET}], domain: "firmwright"> {text}'
    )

    def rewrite(body: NodeBuilder) -> Nodes | None:
        schema = body.walk.schema(body.node)
        return None if schema is None else inline_function(function, body.node, schema)

    return rewrite


def evaluate_node(
    node: onnx.NodeProto, values: Sequence[Array], opsets: Sequence[onnx.OperatorSetIdProto]
) -> list[Array] | None:
    """Evaluate a node with ONNX's evaluator. Return None if a result is missing or not an array."""
    from firmwright.models.onnx.graph.evaluator import (
        make_evaluator,
    )  # the import is late, because few models need the evaluator

    names = [i for i in dict.fromkeys(node.input) if i]
    given = dict(zip([i for i in node.input if i], values, strict=True))
    graph = helper.make_graph(
        [node],
        "node",
        [helper.make_value_info(n, onnx.TypeProto()) for n in names],
        [helper.make_value_info(o, onnx.TypeProto()) for o in node.output if o],
    )
    try:
        evaluator = make_evaluator(helper.make_model(graph, opset_imports=opsets))
        results = iter(evaluator.run(None, given))
    except Exception:  # the converters report the node
        return None
    arrays = [next(results) if o else np.zeros(0) for o in node.output]
    if not all(
        isinstance(a, np.ndarray | np.generic) and a.dtype.kind in CONSTANT_KINDS for a in arrays
    ):
        return None
    return [np.asarray(a, object if a.dtype.kind == "U" else None) for a in arrays]


CONSTANT_KINDS = "biufVOU"
"""The kinds of numpy types of constants. V are narrow floats of ml_dtypes, O and U are strings."""


def read_constant_node(node: onnx.NodeProto) -> Array | None:
    """Return a Constant's value from its attribute. Return None if the value is not a tensor."""
    if len(node.attribute) != 1:
        problem = f"operator Constant (node '{node.name}'): {len(node.attribute)} attributes"
        raise UserError(f"{problem}; expected one attribute with the value")
    (attribute,) = node.attribute
    value = helper.get_attribute_value(attribute)
    if attribute.name == "value":
        array = numpy_helper.to_array(value)
        return array if array.dtype.kind in CONSTANT_KINDS else None
    dtypes = {"value_int": "int64", "value_ints": "int64",
              "value_float": "float32", "value_floats": "float32",
              "value_string": "object", "value_strings": "object"}  # fmt: skip
    return np.array(value, dtypes[attribute.name]) if attribute.name in dtypes else None
