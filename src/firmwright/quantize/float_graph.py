"""Prepares float ONNX graphs for quantization, and evaluates all of their tensors."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
from onnx import TensorProto, numpy_helper

from firmwright.data.samples import Sample
from firmwright.errors import UserError, first_line
from firmwright.ir.tensors import Tensor
from firmwright.models.onnx import importer
from firmwright.models.onnx.domains import get_opset, has_runtime_operators, name_domains
from firmwright.models.onnx.export import refuse_quantized
from firmwright.models.onnx.graph.rewrites import RUNTIME_REWRITES
from firmwright.models.onnx.graph.specialize import specialize
from firmwright.progress import track
from firmwright.quantize.unrolled_layers import name_apart, store_states, write_out_steps

Array = npt.NDArray[Any]
SIXTEEN_BITS = (TensorProto.FLOAT16, TensorProto.BFLOAT16)


def prepare(data: bytes, inputs: Sequence[Tensor], opset: int) -> onnx.ModelProto:
    """Return the graph with constants and batch normalizations folded, and every shape inferred.

    Recurrent layers, and operators that ONNX Runtime's optimizer fused, are written out. ``inputs``
    have the shapes that the model does not fix. ``opset`` is the oldest accepted operator set. ONNX
    Runtime's basic optimizations fold constants. Raises UserError if the graph is already
    quantized, or if ONNX Runtime cannot evaluate it.
    """
    model = onnx.load_model_from_string(data)
    refuse_sixteen_bits(model.graph)
    importer.name_nodes(model.graph)
    fix_shapes(model.graph, inputs)
    model = write_out_fused(model, inputs)
    refuse_quantized(n.op_type for n in model.graph.node)
    states = write_out_steps(model, inputs)
    options = session_options()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    try:
        if get_opset(model) < opset:
            model = onnx.version_converter.convert_version(model, opset)
        with tempfile.TemporaryDirectory() as scratch:
            path = Path(scratch) / "optimized.onnx"
            options.optimized_model_filepath = str(path)
            onnxruntime.InferenceSession(
                model.SerializeToString(), options, providers=["CPUExecutionProvider"]
            )
            model = onnx.load(path)
        store_states(model, states)
        model = onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
    except Exception as error:  # the errors of these libraries have no common base class
        raise UserError(
            f"quantize: the model cannot be prepared for quantization: {first_line(error)}; "
            "export the model again"
        ) from error
    used = {"", *(n.domain for n in model.graph.node)}
    kept = [o for o in model.opset_import if o.domain in used]
    del model.opset_import[:]
    model.opset_import.extend(kept)
    return model


def refuse_sixteen_bits(graph: onnx.GraphProto) -> None:
    """Raise UserError if constants or inputs are 16-bit floats.

    ONNX Runtime would compute 16-bit floats in float32 after casts, which hide weights from the
    quantizer.
    """
    types = {i.name: i.data_type for i in graph.initializer}
    types |= {i.name: i.type.tensor_type.elem_type for i in graph.input}
    names = sorted(name for name, kind in types.items() if kind in SIXTEEN_BITS)
    if names:
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        raise UserError(
            f"quantize: the model has 16-bit floats ('{names[0]}'{more}); quantization starts "
            "from float32: export the model with float32"
        )


def fix_shapes(graph: onnx.GraphProto, inputs: Sequence[Tensor]) -> None:
    """Set the static shape of every input, and remove the stated shapes of the other tensors."""
    shapes = {t.name: t.shape for t in inputs}
    for value in graph.input:
        kind = value.type.tensor_type
        if value.name in shapes:
            kind.CopyFrom(
                onnx.helper.make_tensor_type_proto(kind.elem_type, shapes[value.name]).tensor_type
            )
    del graph.value_info[:]
    for value in graph.output:
        value.type.tensor_type.ClearField("shape")


def read_attributes(node: onnx.NodeProto) -> dict[str, Any]:
    return {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}


def find_readers(model: onnx.ModelProto) -> dict[str, list[onnx.NodeProto]]:
    """Return the nodes that read each tensor, in order. Tensors without readers are missing."""
    readers: dict[str, list[onnx.NodeProto]] = {}
    for node in model.graph.node:
        for name in node.input:
            readers.setdefault(name, []).append(node)
    return readers


def read_constants(model: onnx.ModelProto) -> dict[str, Array]:
    return {i.name: numpy_helper.to_array(i) for i in model.graph.initializer}


def remove_unread(model: onnx.ModelProto) -> None:
    read = find_readers(model)
    kept = [i for i in model.graph.initializer if i.name in read]
    del model.graph.initializer[:]
    model.graph.initializer.extend(kept)


def session_options() -> Any:
    """Return options of a session that computes node by node, on one thread, without messages."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    return options


def evaluate(
    model: onnx.ModelProto, samples: Sequence[Sample], tensors: Sequence[str] | None = None
) -> Iterator[dict[str, Array]]:
    """Yield the named tensors for each sample, or the graph's outputs if ``tensors`` is None.

    Raises UserError if ONNX Runtime rejects the graph or a sample.
    """
    shown = deepcopy(model)
    inputs = {i.name for i in model.graph.input}
    if tensors is not None:
        del shown.graph.output[:]
        shown.graph.output.extend(onnx.ValueInfoProto(name=t) for t in tensors if t not in inputs)
    names = [o.name for o in shown.graph.output]
    try:
        session = onnxruntime.InferenceSession(
            shown.SerializeToString(), session_options(), providers=["CPUExecutionProvider"]
        )
    except Exception as error:
        raise UserError(
            f"quantize: ONNX Runtime rejects the model: {first_line(error)}; export the model again"
        ) from error
    for index, sample in enumerate(track(samples, "samples")):
        try:
            computed = session.run(names, dict(sample)) if names else []
        except Exception as error:
            raise UserError(
                f"quantize: ONNX Runtime rejects sample {index}: {first_line(error)}; check "
                "its shape and values"
            ) from error
        arrays = dict(zip(names, computed, strict=True))
        if tensors is not None:
            arrays.update({t: sample[t] for t in tensors if t in inputs})
        yield {name: np.asarray(array) for name, array in arrays.items()}


def float_tensors(model: onnx.ModelProto) -> list[str]:
    """Return the names of all computed float32 tensors and of the float32 inputs, in order."""
    graph = model.graph
    constants = {i.name for i in graph.initializer}
    described = [*graph.input, *graph.value_info, *graph.output]
    floats = {v.name for v in described if v.type.tensor_type.elem_type == TensorProto.FLOAT}
    inputs = [i.name for i in graph.input if i.name not in constants]
    results = [name for node in graph.node for name in node.output]
    return [name for name in (*inputs, *results) if name in floats]


FUSED_OPSET = 20
"""The oldest operator set with all operators of the written-out forms.

Gelu was the last addition.
"""


def write_out_fused(model: onnx.ModelProto, inputs: Sequence[Tensor]) -> onnx.ModelProto:
    """Return the model without operators of ONNX Runtime's domain.

    Raises UserError if its other operators cannot be converted to the required operator set.
    """
    name_domains(model)
    if not has_runtime_operators(model):
        return model
    if get_opset(model) < FUSED_OPSET:
        try:
            model = onnx.version_converter.convert_version(model, FUSED_OPSET)
        except Exception as error:  # the converter's errors have no common base class
            raise UserError(
                f"quantize: the model cannot be converted to operator set {FUSED_OPSET}, which its "
                f"fused operators need: {first_line(error)}; export it for {FUSED_OPSET}"
            ) from error
    model = specialize(model, inputs, RUNTIME_REWRITES)
    name_apart(model.graph)
    return model
