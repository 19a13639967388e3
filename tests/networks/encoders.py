"""A layer of a transformer's encoder, as exporters write it and as ONNX Runtime's tools fuse it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from tests.networks.onnx_models import graph, node, value

LENGTH, HIDDEN, HEADS = 6, 16, 4


class EncoderBuilder:
    """Nodes after ``x`` (1, length, hidden) and ``mask`` (1, length), with random weights."""

    def __init__(self) -> None:
        self.random = np.random.default_rng(2)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, np.ndarray] = {}

    def add(self, kind: str, *inputs: str, **attributes: Any) -> str:
        name = f"{kind}_{len(self.nodes)}"
        self.nodes.append(node(kind, inputs, [name], name, **attributes))
        return name

    def store(self, array: object, dtype: str = "float32") -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = np.array(array, dtype)
        return name

    def draw(self, *shape: int) -> str:
        return self.store(self.random.normal(0, shape[0] ** -0.5, shape))

    def dense(self, data: str, inputs: int, outputs: int) -> str:
        product = self.add("MatMul", data, self.draw(inputs, outputs))
        return self.add("Add", self.draw(outputs), product)

    def normalize(self, data: str) -> str:
        ends = (self.draw(HIDDEN), self.draw(HIDDEN))
        return self.add("LayerNormalization", data, *ends, axis=-1, epsilon=1e-5)

    def heads(self, data: str, *perm: int) -> str:
        split = self.store([0, 0, HEADS, HIDDEN // HEADS], "int64")
        projected = self.dense(data, HIDDEN, HIDDEN)
        return self.add("Transpose", self.add("Reshape", projected, split), perm=perm)

    def attend(self, data: str) -> str:
        add = self.add
        query, key = self.heads(data, 0, 2, 1, 3), self.heads(data, 0, 2, 3, 1)
        scores = add("Div", add("MatMul", query, key), self.store((HIDDEN // HEADS) ** 0.5))
        mask = add("Unsqueeze", "mask", self.store([1], "int64"))
        mask = add("Unsqueeze", mask, self.store([2], "int64"))
        mask = add("Cast", mask, to=TensorProto.FLOAT)
        mask = add("Mul", add("Sub", self.store(1), mask), self.store(-10000))
        share = add("Softmax", add("Add", scores, mask), axis=-1)
        mixed = add("MatMul", share, self.heads(data, 0, 2, 1, 3))
        mixed = add("Transpose", mixed, perm=[0, 2, 1, 3])
        return add("Reshape", mixed, self.store([0, 0, HIDDEN], "int64"))

    def gelu(self, data: str) -> str:
        add = self.add
        erf = add("Erf", add("Div", data, self.store(2**0.5)))
        product = add("Mul", data, add("Add", erf, self.store(1)))
        return add("Mul", product, self.store(0.5))


def make_encoder() -> onnx.ModelProto:
    """Return the network with the operators of ONNX."""
    body = EncoderBuilder()
    data = body.normalize("x")
    data = body.normalize(body.add("Add", body.dense(body.attend(data), HIDDEN, HIDDEN), data))
    wide = body.gelu(body.dense(data, HIDDEN, 2 * HIDDEN))
    data = body.normalize(body.add("Add", body.dense(wide, 2 * HIDDEN, HIDDEN), data))
    body.nodes.append(node("Identity", [data], ["y"], "y"))
    inputs = [value("x", [1, LENGTH, HIDDEN]), value("mask", [1, LENGTH], TensorProto.INT64)]
    outputs = [value("y", [1, LENGTH, HIDDEN])]
    return graph(body.nodes, inputs, outputs, body.constants, 17)


def make_fused_encoder(folder: Path) -> onnx.ModelProto:
    """Return the network as ONNX Runtime's optimizer of transformers writes it."""
    pytest.importorskip("sympy", reason="ONNX Runtime's optimizer needs sympy; torch brings it")
    from onnxruntime.transformers.optimizer import optimize_model

    path = folder / "encoder.onnx"
    onnx.save(make_encoder(), path)
    optimize_model(str(path), "bert", HEADS, HIDDEN, opt_level=0).save_model_to_file(str(path))
    return onnx.load(path)


def make_samples(count: int) -> list[dict[str, np.ndarray]]:
    random = np.random.default_rng(4)
    return [
        {
            "x": random.normal(0, 1, (1, LENGTH, HIDDEN)).astype("float32"),
            "mask": (np.arange(LENGTH) < random.integers(2, LENGTH + 1)).astype("int64")[None],
        }
        for _ in range(count)
    ]
