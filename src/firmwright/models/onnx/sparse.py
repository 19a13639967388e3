"""Replaces sparse constants with dense constants, as ONNX Runtime does."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

import numpy as np
import onnx
from onnx import helper, numpy_helper

from firmwright.errors import UserError, first_line
from firmwright.ir.tensors import LARGEST_TENSOR


def replace_sparse(graphs: Iterable[onnx.GraphProto], nodes: Iterable[onnx.NodeProto]) -> None:
    """Make the sparse initializers of the graphs and the sparse Constants of the nodes dense."""
    for graph in graphs:
        graph.initializer.extend(make_dense(sparse) for sparse in graph.sparse_initializer)
        del graph.sparse_initializer[:]
    for node in nodes:
        for attribute in node.attribute:
            if node.op_type == "Constant" and attribute.name == "sparse_value":
                dense = make_dense(
                    attribute.sparse_tensor, node.name or next(iter(node.output), "")
                )
                attribute.CopyFrom(helper.make_attribute("value", dense))


def make_dense(sparse: onnx.SparseTensorProto, node: str = "") -> onnx.TensorProto:
    """Return the dense tensor. Raises UserError for indices outside of the shape."""
    label = f"the sparse constant '{node or sparse.values.name}'"
    if prod(sparse.dims) * element_bytes(sparse.values.data_type) >= LARGEST_TENSOR:
        raise UserError(
            f"{label} has the shape {list(sparse.dims)}; a dense constant must be smaller than "
            "2 GiB: export a smaller constant"
        )
    try:
        onnx.checker.check_sparse_tensor(sparse)
        values, indices = (numpy_helper.to_array(t) for t in (sparse.values, sparse.indices))
    except (onnx.checker.ValidationError, ValueError) as error:
        raise UserError(f"{label}: {first_line(error)}; export the model again") from None
    array = np.zeros(tuple(sparse.dims), values.dtype)
    positions = (
        indices if indices.ndim == 1 else np.ravel_multi_index(tuple(indices.T), array.shape)
    )
    array.reshape(-1)[positions] = values
    return numpy_helper.from_array(array, sparse.values.name)


def element_bytes(kind: int) -> int:
    try:
        return int(onnx.helper.tensor_dtype_to_np_dtype(kind).itemsize)
    except (KeyError, TypeError, ValueError):
        return 1
