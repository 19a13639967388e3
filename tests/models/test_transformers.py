"""Operators into which ONNX Runtime's optimizer fuses a transformer, against ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from firmwright.errors import UserError
from firmwright.models.onnx.importer import import_model, run_reference
from tests.networks.firmware import run_generated
from tests.networks.onnx_models import graph, node, value

BATCH, LENGTH, HIDDEN, HEADS = 2, 5, 12, 3
RANDOM = np.random.default_rng(7)

Arrays = Mapping[str, Any]
"""Arrays, and numbers of numpy, by their names."""


def draw(*shape: int) -> np.ndarray:
    return RANDOM.normal(0, 0.5, shape).astype("float32")


def fused(kind: str, inputs: Sequence[str], outputs: str, **attributes: Any) -> onnx.NodeProto:
    """Return a node of com.microsoft; ``outputs`` are names with spaces between, - for none."""
    names = [name.replace("-", "") for name in outputs.split()]
    return node(kind, inputs, names, domain="com.microsoft", **attributes)


def make_model(
    nodes: Sequence[onnx.NodeProto], inputs: Arrays, constants: Arrays, opset: int
) -> onnx.ModelProto:
    """Return a model whose outputs are the outputs of all nodes, without shapes."""
    read = {name for n in nodes for name in n.input}
    counts = {"count", "quantized_count"}
    model = graph(
        nodes,
        [value(name, a.shape, helper.np_dtype_to_tensor_dtype(a.dtype))
         for name, a in inputs.items() if name in read],
        [helper.make_tensor_value_info(
            name, TensorProto.INT32 if name in counts else TensorProto.FLOAT, None)
         for n in nodes for name in n.output if name],
        {name: array for name, array in constants.items() if name in read},
        opset,
    )  # fmt: skip
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    return model


def state_shapes(model: onnx.ModelProto, outputs: Sequence[Any]) -> bytes:
    """Return the model's bytes with the shapes of its outputs, which ONNX's checker requires."""
    for stated, array in zip(model.graph.output, outputs, strict=True):
        kind = stated.type.tensor_type.elem_type
        stated.CopyFrom(value(stated.name, array.shape, kind))
    return bytes(model.SerializeToString())


def compare(
    folder: Path,
    nodes: Sequence[onnx.NodeProto],
    inputs: Arrays,
    constants: Arrays,
    opset: int = 17,
    tolerance: float = 1e-5,
) -> None:
    """Compare every output of every node with ONNX Runtime's."""
    model = make_model(nodes, inputs, constants, opset)
    read = {name for n in nodes for name in n.input}
    sample = {name: array for name, array in inputs.items() if name in read}
    expected = run_reference(model.SerializeToString(), [sample])
    assert expected.runtime.startswith("onnxruntime")
    data = state_shapes(model, expected.outputs[0])
    (found,) = run_generated(data, [sample], folder, ("-O0",))
    names = [name for n in nodes for name in n.output if name]
    for name, ours, theirs in zip(names, found, expected.outputs[0], strict=True):
        np.testing.assert_allclose(ours, theirs, 1e-5, tolerance, err_msg=name)


@pytest.mark.needs("gcc")
@pytest.mark.parametrize("opset", [12, 21])
def test_activations_and_normalizations(tmp_path: Path, opset: int) -> None:
    x, skip = ("x", "skip")
    nodes = [
        fused("Gelu", [x], "gelu"),
        fused("BiasGelu", [x, "bias"], "bias_gelu"),
        fused("FastGelu", [x], "fast"),
        fused("FastGelu", [x, "bias"], "fast_bias"),
        fused("QuickGelu", [x], "quick"),
        fused("QuickGelu", [x], "silu", alpha=1.0),
        node("LayerNormalization", [x, "gamma", "beta"], ["norm"], epsilon=1e-3),
        node("LayerNormalization", [x, "table", "table"], ["both"], axis=1),
        node("SimplifiedLayerNormalization", [x, "gamma"], ["simple"], epsilon=1e-3),
        node("SimplifiedLayerNormalization", [x, "table"], ["simple_both"], axis=1),
        fused("SkipLayerNormalization", [x, skip, "gamma"], "skips"),
        fused("SkipLayerNormalization", [x, skip, "gamma", "beta"], "all - - sum", epsilon=0.01),
        fused("SkipLayerNormalization", [x, "table", "gamma", "", "bias"], "a - - wide_sum"),
        fused("SkipSimplifiedLayerNormalization", [x, skip, "gamma"], "c", epsilon=0.01),
        fused("SkipSimplifiedLayerNormalization", [x, skip, "gamma", "bias"], "d - - simple_sum"),
    ]
    constants = {"gamma": draw(HIDDEN), "beta": draw(HIDDEN), "bias": draw(HIDDEN),
                 "table": draw(LENGTH, HIDDEN)}  # fmt: skip
    inputs = {x: draw(BATCH, LENGTH, HIDDEN) * 4, skip: draw(BATCH, LENGTH, HIDDEN)}
    compare(tmp_path, nodes, inputs, constants, opset)


def make_masks() -> dict[str, np.ndarray]:
    """Return a mask of each form; every query has at least one valid key."""
    keys = np.array([[1, 1, 1, 0, 0], [3, -1, 1, 1, 1]], "int32")
    pairs = RANDOM.integers(0, 2, (BATCH, LENGTH, LENGTH)).astype("int32")
    pairs[:, :, 0] = 1
    return {
        "keys": keys,
        "pairs": pairs,
        "ends": np.array([3, 9], "int32"),
        "limits": np.array([4, 5, 1, 0], "int32"),
        "none": np.zeros((BATCH, 1), "int32"),
        "left": np.array([[0, 1, 1, 1, 1], [0, 1, 1, 1, 1]], "int32"),
    }


@pytest.mark.needs("gcc")
def test_attention_with_all_masks(tmp_path: Path) -> None:
    masks = make_masks()
    nodes = [
        node("LayerNormalization", ["x", "gamma"], ["norm"]),
        fused("Attention", ["norm", "w", "b"], "plain state", num_heads=HEADS),
        fused("Attention", ["x", "w", "b"], "one", num_heads=1, scale=0.2, unidirectional=1),
        *(fused("Attention", ["x", "w", "b", mask], mask + "_y", num_heads=HEADS)
          for mask in masks if mask != "left"),
        fused("Attention", ["x", "w", "b", "keys"], "weak", num_heads=HEADS,
              mask_filter_value=-1.5),
        # All keys that the first query may use are padding.
        fused("Attention", ["x", "w", "b", "left"], "causal", num_heads=HEADS, unidirectional=1),
        fused("Attention", ["x", "w", "b", "keys", "", "bias"], "biased", num_heads=HEADS),
        fused("Attention", ["x", "w2", "b2"], "sizes", num_heads=2, qkv_hidden_sizes=[8, 8, 6]),
    ]  # fmt: skip
    constants = {
        "w": draw(HIDDEN, 3 * HIDDEN), "b": draw(3 * HIDDEN), "w2": draw(HIDDEN, 22),
        "b2": draw(22), "bias": draw(1, HEADS, LENGTH, LENGTH), "gamma": draw(HIDDEN),
    }  # fmt: skip
    inputs = {"x": draw(BATCH, LENGTH, HIDDEN), **masks}
    compare(tmp_path, nodes, inputs, constants, opset=11)


@pytest.mark.needs("gcc")
def test_multi_head_attention_of_one_and_of_two_sequences(tmp_path: Path) -> None:
    keys = 7
    nodes = [
        fused("MultiHeadAttention", ["q", "q", "q", "b"], "own k_heads v_heads", num_heads=HEADS),
        fused("MultiHeadAttention", ["q", "k", "v", "b2", "mask"], "cross", num_heads=HEADS),
        fused("MultiHeadAttention", ["q", "k", "k", "", "ends"], "ended", num_heads=HEADS,
              scale=0.4),
        fused("MultiHeadAttention", ["q", "k", "k", "", "pairs", "bias"], "biased",
              num_heads=HEADS, mask_filter_value=-2.0),
        fused("MultiHeadAttention", ["q", "q", "q"], "causal", num_heads=2, unidirectional=1),
        fused("MultiHeadAttention", ["last", "k", "v"], "next", num_heads=2, unidirectional=1),
        fused("MultiHeadAttention", ["q", "split", "split", "b"], "split_y", num_heads=HEADS),
    ]  # fmt: skip
    mask = RANDOM.integers(0, 2, (BATCH, keys)).astype("int32")
    mask[:, 3] = 1
    pairs = RANDOM.integers(0, 2, (BATCH, LENGTH, keys)).astype("int32")
    inputs = {
        "q": draw(BATCH, LENGTH, HIDDEN), "k": draw(BATCH, keys, HIDDEN),
        "v": draw(BATCH, keys, 6), "mask": mask, "ends": np.array([2, 7], "int32"),
        "pairs": pairs, "last": draw(BATCH, 1, HIDDEN),
        "split": draw(BATCH, HEADS, keys, HIDDEN // HEADS),
    }  # fmt: skip
    constants = {"b": draw(3 * HIDDEN), "b2": draw(2 * HIDDEN + 6),
                 "bias": draw(BATCH, 1, LENGTH, keys)}  # fmt: skip
    compare(tmp_path, nodes, inputs, constants)


@pytest.mark.needs("gcc")
def test_attention_on_grids(tmp_path: Path) -> None:
    nodes = [
        fused("QAttention", ["x", "w", "b", "xs", "ws", "mask", "xz", "wz"], "y", num_heads=HEADS),
        fused("QAttention", ["x", "w", "b", "xs", "columns", "", "xz"], "causal", num_heads=HEADS,
              unidirectional=1),
    ]  # fmt: skip
    columns = 3 * HIDDEN
    constants = {
        "w": RANDOM.integers(-127, 128, (HIDDEN, columns)).astype("int8"), "b": draw(columns),
        "xs": np.float32(0.02), "ws": np.float32(0.01), "xz": np.uint8(120), "wz": np.int8(3),
        "columns": np.linspace(0.005, 0.02, columns, dtype="float32"),
    }  # fmt: skip
    inputs = {"x": RANDOM.integers(0, 256, (BATCH, LENGTH, HIDDEN)).astype("uint8"),
              "mask": np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], "int32")}  # fmt: skip
    compare(tmp_path, nodes, inputs, constants)


@pytest.mark.needs("gcc")
def test_embeddings_of_words(tmp_path: Path) -> None:
    tables = ["words", "places", "kinds", "gamma", "beta"]
    grids = [f"{n}_q" for n in tables]
    nodes = [
        fused("EmbedLayerNormalization", ["ids", "segments", *tables, "mask", "positions"],
              "all count sum", epsilon=1e-3),
        fused("EmbedLayerNormalization",
              ["ids", "", "words", "places", "", "gamma", "beta"], "few", mask_index_type=0),
        fused("QEmbedLayerNormalization",
              ["ids", "segments", *grids, "mask", *["scale"] * 5, *["zero"] * 5],
              "quantized quantized_count"),
    ]  # fmt: skip
    lengths = {"words": (9, HIDDEN), "places": (LENGTH + 2, HIDDEN), "kinds": (2, HIDDEN),
               "gamma": (HIDDEN,), "beta": (HIDDEN,)}  # fmt: skip
    constants: dict[str, Any] = {name: draw(*shape) for name, shape in lengths.items()}
    constants |= {f"{name}_q": RANDOM.integers(0, 256, shape).astype("uint8")
                  for name, shape in lengths.items()}  # fmt: skip
    constants |= {"scale": np.float32(0.02), "zero": np.uint8(128)}
    integers = {"ids": 9, "segments": 2, "mask": 3, "positions": LENGTH + 2}
    inputs = {name: RANDOM.integers(0, end, (BATCH, LENGTH)).astype("int32")
              for name, end in integers.items()}  # fmt: skip
    compare(tmp_path, nodes, inputs, constants)


@pytest.mark.needs("gcc")
def test_embeddings_of_positions(tmp_path: Path) -> None:
    caches = ["cosines", "sines"]
    nodes = [
        fused("RotaryEmbedding", ["x", "each", *caches], "halves"),
        fused("RotaryEmbedding", ["x", "first", *caches], "pairs", interleaved=1),
        fused("RotaryEmbedding", ["heads", "first", *caches], "split"),
        fused("RotaryEmbedding", ["heads", "each", "few_c", "few_s"], "part",
              num_heads=HEADS, rotary_embedding_dim=2, interleaved=1),
        fused("RotaryEmbedding", ["x", "first", "few_c", "few_s"], "part_x",
              num_heads=HEADS, rotary_embedding_dim=2),
    ]  # fmt: skip
    size = HIDDEN // HEADS
    angles = np.outer(np.arange(9), [1, 0.1]).astype("float32")
    constants = {"cosines": np.cos(angles), "sines": np.sin(angles),
                 "few_c": np.cos(angles[:, :1]), "few_s": np.sin(angles[:, :1])}  # fmt: skip
    inputs = {
        "x": draw(BATCH, LENGTH, HIDDEN), "heads": draw(BATCH, HEADS, LENGTH, size),
        "each": RANDOM.integers(0, 9, (BATCH, LENGTH)), "first": np.array([3]),
    }  # fmt: skip
    compare(tmp_path, nodes, inputs, constants)


@pytest.mark.needs("gcc")
def test_products_with_axes_moved(tmp_path: Path) -> None:
    nodes = [
        fused("FusedMatMul", ["a", "b"], "first", transBatchA=1),
        fused("FusedMatMul", ["a", "b2"], "both", transBatchA=1, transA=1, alpha=0.3),
        fused("FusedMatMul", ["a4", "b4"], "four", transBatchA=1, transBatchB=1),
        fused("TransposeMatMul", ["a", "a"], "old", transB=1, alpha=2.0),
        *(fused("FusedGemm", ["m", "w", "bias"], kind, activation=kind, activation_alpha=0.3,
                activation_beta=0.4)
          for kind in ("Celu", "Elu", "LeakyRelu", "Softplus", "Softsign", "ThresholdedRelu")),
        fused("FusedConv", ["image", "kernel"], "conv", activation="HardSwish"),
    ]  # fmt: skip
    inputs = {"a": draw(3, 4, 5), "a4": draw(3, 4, 2, 5), "m": draw(4, 6),
              "image": draw(1, 2, 4, 4)}  # fmt: skip
    constants = {"b": draw(4, 5, 2), "b2": draw(4, 3, 2), "b4": draw(5, 4, 2, 3),
                 "w": draw(6, 5), "bias": draw(5), "kernel": draw(3, 2, 3, 3)}  # fmt: skip
    compare(tmp_path, nodes, inputs, constants)


REFUSED = {
    "past": (
        fused("Attention", ["x", "w", "b", "", "past"], "y present", num_heads=HEADS),
        r"Attention \(node 'y'\): its input past .*; export the model without a cache",
    ),
    "past key": (
        fused("MultiHeadAttention", [*"xxx", "", "", "", "past"], "y", num_heads=HEADS),
        r"MultiHeadAttention \(node 'y'\): its input past_key .*without a cache",
    ),
    "past on a grid": (
        fused("QAttention", ["x", "w", "b", "x", "x", "", "", "", "past"], "y", num_heads=HEADS),
        r"QAttention \(node 'y'\): its input past .*without a cache",
    ),
    "scores": (
        fused("MultiHeadAttention", [*"xxx"], "y - - z", num_heads=HEADS),
        "its output qk cannot be compiled; remove it",
    ),
    "packed": (
        fused("MultiHeadAttention", ["packed"], "y", num_heads=HEADS),
        "pass query, key and value as separate tensors",
    ),
    "no bias": (fused("Attention", ["x", "w"], "y", num_heads=HEADS), "add a bias of zeros"),
    "rotary": (
        fused("Attention", ["x", "w", "b"], "y", num_heads=HEADS, do_rotary=1),
        "do_rotary is set; write the operator as RotaryEmbedding and MultiHeadAttention",
    ),
    "no heads": (fused("Attention", ["x", "w", "b"], "y"), "num_heads is 0; expected a divisor of"),
    "heads": (
        fused("MultiHeadAttention", [*"xxx"], "y", num_heads=5),
        r"num_heads is 5; expected a divisor of the hidden sizes \[12, 12\]",
    ),
    "sizes": (
        fused("Attention", ["x", "w", "b"], "y", num_heads=2, qkv_hidden_sizes=[8, 8, 8]),
        r"have 36 columns, and queries, keys and values have widths \[8, 8, 8\]; expected 24",
    ),
    "mask": (
        fused("Attention", ["x", "w", "b", "far"], "y", num_heads=HEADS),
        r"its mask has shape \[8\]; expected \[2, 5\] or \[2, 5, 5\], for 2 sequences of 5 keys",
    ),
    "mean": (
        fused("SkipLayerNormalization", ["x", "x", "b12"], "y mean"),
        "its output mean cannot be compiled; export the model for inference",
    ),
    "turned and scaled": (
        fused("RotaryEmbedding", ["x", "p", "t", "t"], "y", scale=2.0),
        "it has a scale or packed batches",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused_says_the_way_out(case: str) -> None:
    refused, message = REFUSED[case]
    size = HIDDEN // HEADS
    inputs = {"x": draw(BATCH, LENGTH, HIDDEN), "past": draw(2, BATCH, HEADS, 4, size),
              "packed": draw(BATCH, LENGTH, HEADS, 3, size)}  # fmt: skip
    constants = {
        "w": draw(HIDDEN, 3 * HIDDEN), "b": draw(3 * HIDDEN), "b12": draw(HIDDEN),
        "far": np.arange(8, dtype="int32"), "p": np.array([0]), "t": draw(9, 2),
    }  # fmt: skip
    model = make_model([refused], inputs, constants, 13)
    data = state_shapes(model, [np.zeros(()) for _ in model.graph.output])
    with pytest.raises(UserError, match=message):
        import_model(data, "m.onnx", {})
