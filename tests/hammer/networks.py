"""Networks of all kinds, by name, in which data selects addresses, lengths or results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto

from tests.conformance.case import cases, shape_inputs, with_constants
from tests.networks.onnx_models import graph, node, value
from tests.networks.qdq_operators import random_graph
from tests.networks.streaming import write_streaming_dscnn, write_svdf_keywords
from tests.networks.tflite_models import ModelBuilder
from tests.networks.tflite_states import write_integer_lstm, write_lstm_network

ROOT = Path(__file__).parents[2]
INT32, INT64 = TensorProto.INT32, TensorProto.INT64


@dataclass(frozen=True)
class Model:
    """A model's format, and a function that returns its bytes."""

    format_name: str
    load: Callable[[], bytes]


def indexed(
    operator: str, data: list[int], indices: list[int], result: list[int], **attributes: Any
) -> bytes:
    """Return an ONNX model of one operator that reads its data at indices."""
    made = graph(
        [node(operator, ["x", "i"], ["y"], **attributes)],
        [value("x", data), value("i", indices, INT64)],
        [value("y", result)],
    )
    return bytes(made.SerializeToString())


def scattered(operator: str, indices: list[int], updates: list[int], **attributes: Any) -> bytes:
    """Return an ONNX model of one operator that writes into a tensor of 5 x 4 at indices."""
    made = graph(
        [node(operator, ["x", "i", "u"], ["y"], **attributes)],
        [value("x", [5, 4]), value("i", indices, INT64), value("u", updates)],
        [value("y", [5, 4])],
    )
    return bytes(made.SerializeToString())


def make_roi_align(ratio: int, **attributes: Any) -> bytes:
    made = graph(
        [node("RoiAlign", ["x", "r", "b"], ["y"], output_height=2, output_width=1,
              sampling_ratio=ratio, **attributes)],
        [value("x", [2, 1, 6, 5]), value("r", [1, 4]), value("b", [1], INT64)],
        [value("y", [1, 1, 2, 1])],
    )  # fmt: skip
    return bytes(made.SerializeToString())


def make_roi_pool() -> bytes:
    made = graph(
        [node("MaxRoiPool", ["x", "r"], ["y"], pooled_shape=[2, 2])],
        [value("x", [2, 1, 6, 5]), value("r", [3, 5])],
        [value("y", [3, 1, 2, 2])],
    )
    return bytes(made.SerializeToString())


def make_chain(*nodes: onnx.NodeProto, **constants: Any) -> bytes:
    """Return an ONNX model of nodes from ``x``, 4 floats, to ``y``, 4 floats."""
    made = graph(nodes, [value("x", [4])], [value("y", [4])], constants)
    return bytes(made.SerializeToString())


def make_float16() -> bytes:
    half = TensorProto.FLOAT16
    weights = np.random.default_rng(0).normal(0, 1, (8, 16)).astype("float16")
    made = graph(
        [node("MatMul", ["x", "w"], ["h"]), node("Sigmoid", ["h"], ["y"])],
        [value("x", [1, 8], half)],
        [value("y", [1, 16], half)],
        {"w": weights},
    )
    return bytes(made.SerializeToString())


def make_integers(kind: int) -> bytes:
    """Return an ONNX model that divides, computes remainders and multiplies integers of data."""
    nodes = [
        node("Div", ["a", "b"], ["q"]),
        node("Mod", ["a", "b"], ["r"]),
        node("Mul", ["q", "r"], ["m"]),
        node("Neg", ["m"], ["n"]),
        node("Abs", ["n"], ["s"]),
        node("Sub", ["s", "a"], ["y"]),
    ]
    inputs = [value(name, [6], kind) for name in "ab"]
    made = graph(nodes, inputs, [value("y", [6], kind)])
    return bytes(made.SerializeToString())


def make_tflite(
    kind: str,
    inputs: list[tuple[tuple[int, ...], str]],
    result: tuple[int, ...],
    *constants: Any,
    options: str = "",
    **values: Any,
) -> bytes:
    """Return a TFLite model of one operator: inputs (shape, type), then constants."""
    builder = ModelBuilder()
    given = [builder.input(shape, dtype, None) for shape, dtype in inputs]
    given += [builder.constant(np.asarray(c)) for c in constants]
    output = builder.output(result, "float32", None)
    builder.operator(kind, given, [output], options, version=1, **values)
    return builder.build()


def make_segment_sum() -> bytes:
    return make_tflite(
        "UNSORTED_SEGMENT_SUM",
        [((4, 3), "float32"), ((4,), "int32")],
        (5, 3),
        np.array([5], "int32"),
    )


def export_program(name: str) -> bytes:
    """Return a torch program that reads or writes 5 x 4 floats at computed indices."""
    import torch

    from tests.networks.torch_programs import exported

    functions = {
        "put": lambda x, i: x.index_put((i, i % 4), x[:3, 0], accumulate=True),
        "read": lambda x, i: x[i, i] + x.gather(0, i[None, :, None].expand(1, 3, 4)[0])[:, 0],
        "write": lambda x, i: x.scatter(0, i[:, None].expand(3, 4), x[:3]),
    }

    class Program(torch.nn.Module):  # type: ignore[misc]
        def forward(self, x: Any, i: Any) -> Any:
            return functions[name](x, i)

    return exported(Program(), torch.zeros(5, 4), torch.tensor([1, 0, 3]))


def load_case(name: str, with_shapes: bool) -> bytes:
    case = cases()[name]
    if with_shapes:
        case = with_constants(case, tuple(shape_inputs(case)))
    return bytes(case.model.SerializeToString())


CAST_TO_INDEX = (
    node("Cast", ["x"], ["i"], to=INT64),
    node("Gather", ["t", "i"], ["y"]),
)
ROWS = np.arange(7, dtype="float32")

ONNX: Mapping[str, Callable[[], bytes]] = {
    "gather": partial(indexed, "Gather", [5, 3], [2, 2], [5, 2, 2], axis=1),
    "gather of floats": partial(make_chain, *CAST_TO_INDEX, t=ROWS),
    "gather_elements": partial(indexed, "GatherElements", [5, 3], [4, 3], [4, 3]),
    "gather_nd": partial(indexed, "GatherND", [5, 3, 2], [4, 2], [4, 2]),
    "gather_nd of batches": partial(
        indexed, "GatherND", [2, 3, 4], [2, 5, 1], [2, 5, 4], batch_dims=1
    ),
    "reverse_sequence": partial(
        indexed, "ReverseSequence", [3, 4], [3], [3, 4], batch_axis=0, time_axis=1
    ),
    "scatter_elements": partial(scattered, "ScatterElements", [3, 2], [3, 2], axis=0),
    "scatter_nd": partial(scattered, "ScatterND", [3, 2], [3]),
    "scatter_nd of rows": partial(scattered, "ScatterND", [3, 1], [3, 4]),
    **{
        f"{name} {how}": partial(scattered, operator, [3, 2], updates, reduction=how)
        for how in ("add", "mul", "min", "max")
        for name, operator, updates in (
            ("scatter_elements", "ScatterElements", [3, 2]),
            ("scatter_nd", "ScatterND", [3]),
        )
    },
    "roi_align of any size": partial(make_roi_align, 0),
    "roi_align of pixels": partial(
        make_roi_align, 0, coordinate_transformation_mode="output_half_pixel"
    ),
    "roi_align": partial(make_roi_align, 2, mode="max"),
    "max_roi_pool": make_roi_pool,
    "float16": make_float16,
    "int32 arithmetic": partial(make_integers, INT32),
    "int64 arithmetic": partial(make_integers, INT64),
    "quantized graph": lambda: bytes(random_graph(0, each=1).build()),
    "digits": (ROOT / "examples/digits/digits.onnx").read_bytes,
}

TFLITE: Mapping[str, Callable[[], bytes]] = {
    "tflite gather": partial(
        make_tflite, "GATHER", [((5, 3), "float32"), ((4,), "int32")], (4, 3),
        options="GatherOptions",
    ),
    "tflite gather_nd": partial(
        make_tflite, "GATHER_ND", [((5, 3), "float32"), ((4, 2), "int32")], (4,)
    ),
    "tflite embedding_lookup": partial(
        make_tflite, "EMBEDDING_LOOKUP", [((4,), "int32"), ((5, 3), "float32")], (4, 3)
    ),
    "tflite scatter_nd": partial(
        make_tflite, "SCATTER_ND", [((4, 1), "int32"), ((4, 3), "float32")], (5, 3),
        np.array([5, 3], "int32"),
    ),
    "tflite reverse_sequence": partial(
        make_tflite, "REVERSE_SEQUENCE", [((3, 4), "float32"), ((3,), "int32")], (3, 4),
        options="ReverseSequenceOptions", seqDim=1, batchDim=0,
    ),
    "tflite segment_sum": make_segment_sum,
    "tflite lstm": write_lstm_network,
    "tflite lstm of int16": partial(write_integer_lstm, 3, -11, 0),
    "tflite svdf": write_svdf_keywords,
    "tflite streaming": write_streaming_dscnn,
}  # fmt: skip

PYTORCH: Mapping[str, Callable[[], bytes]] = {
    "pytorch index_put": partial(export_program, "put"),
    "pytorch indices": partial(export_program, "read"),
    "pytorch scatter": partial(export_program, "write"),
}

MADE: Mapping[str, Model] = {
    name: Model(format_name, load)
    for format_name, models in (("onnx", ONNX), ("tflite", TFLITE), ("pt2", PYTORCH))
    for name, load in models.items()
}

SHORT = {
    "indices": """gather_elements_negative_indices gather_negative_indices gathernd_example_int32
        gathernd_example_int32_batch_dim1 scatter_with_axis tensorscatter tensorscatter_circular
        maxunpool_export_without_output_shape
        ai_onnx_ml_array_feature_extractor nllloss_NCd1d2 reversesequence_time""",
    "coordinates": """gridsample_bilinear gridsample_nearest gridsample_bicubic
        gridsample_border_padding gridsample_reflection_padding
        gridsample_volumetric_nearest_align_corners_0 roialign_aligned_true
        basic_deform_conv_with_padding""",
    "strings and trees": """ai_onnx_ml_label_encoder_string_int
        ai_onnx_ml_label_encoder_tensor_mapping ai_onnx_ml_tree_ensemble_single_tree
        tfidfvectorizer_tf_only_bigrams_skip0""",
    "numbers": """cast_FLOAT_to_INT4 cast_FLOAT_to_FLOAT8E4M3FN cast_FLOAT16_to_UINT4
        einsum_batch_matmul mod_mixed_sign_int32 bitshift_left_int32_overflow
        div_int16 pow_types_int32_float32 dynamicquantizelinear quantizelinear_int16
        softmax_large_number""",
    "sequences": """gru_bidirectional gru_seq_length rnn_seq_length
        attention_4d_gqa_causal attention_4d_with_past_and_present_qk_matmul_bias_4d_mask_causal
        rotary_embedding linear_attention_gated_delta causal_conv_with_state_with_past_state
        flexattention if scan_sum""",
}
"""ONNX's node tests that the short run compiles, by their possible error."""

CONSTANT = """onehot_negative_indices top_k resize_upsample_scales_cubic cumsum_2d_axis_1
    reflect_pad lstm_with_peepholes loop11"""
"""Node tests whose shapes, counts and axes are constants."""


def load_networks() -> dict[str, Model]:
    """Return the models of this file and all of ONNX's node tests, also with constant shapes."""
    found = dict(MADE)
    for name, case in cases().items():
        found[name] = Model("onnx", partial(load_case, name, False))
        if shape_inputs(case):
            found[f"{name} of constant shapes"] = Model("onnx", partial(load_case, name, True))
    return found


def list_short() -> list[str]:
    """Return the names of the networks of the short run."""
    names = [f"test_{name}" for group in SHORT.values() for name in group.split()]
    return [*MADE, *names, *(f"test_{name} of constant shapes" for name in CONSTANT.split())]
