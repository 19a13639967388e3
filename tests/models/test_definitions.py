"""Operators that other operators define, with settings that ONNX's tests do not have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from firmwright.errors import UserError
from firmwright.models.onnx.importer import import_model, run_reference
from tests.networks.firmware import SANITIZED, run_generated
from tests.networks.onnx_models import graph, node, value

RANDOM = np.random.default_rng(8)
INT64 = TensorProto.INT64
Array = np.ndarray[Any, Any]


def compare(
    model: onnx.ModelProto,
    sample: dict[str, Array],
    folder: Path,
    runtime: str = "onnxruntime",
    tolerance: float = 1e-5,
) -> None:
    """Compare the results of the generated C and of ONNX Runtime for one sample."""
    data = model.SerializeToString()
    expected = run_reference(data, [sample])
    assert expected.runtime.startswith(runtime)
    found = run_generated(data, [sample], folder, SANITIZED)
    for ours, theirs in zip(found[0], expected.outputs[0], strict=True):
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
        np.testing.assert_allclose(ours, theirs, 1e-4, tolerance)


def normal(*shape: int) -> Array:
    return RANDOM.normal(0, 1, shape).astype("float32")


@pytest.mark.needs("gcc")
@pytest.mark.parametrize(
    ("size", "dtype", "attributes"),
    [
        ([7, 6], "float32", {"strides": [2, 1], "pads": [1, 0, 1, 1], "dilations": [1, 2]}),
        ([7, 6], "int8", {"strides": [2, 2], "ceil_mode": 1, "pads": [1, 1, 1, 1]}),
        ([5, 6], "float32", {"auto_pad": "SAME_LOWER", "strides": [2, 2], "storage_order": 1}),
        ([9], "float32", {"auto_pad": "SAME_UPPER"}),
    ],
)
def test_max_pool_tells_where_the_largest_was(
    tmp_path: Path, size: list[int], dtype: str, attributes: dict[str, Any]
) -> None:
    kernel = [3, 2][: len(size)]
    pool = node("MaxPool", ["x"], ["y", "i"], kernel_shape=kernel, **attributes)
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    sizes: list[int | str] = [2, 3, *"ab"[: len(size)]]
    inputs = [value("x", [2, 3, *size], kind)]
    model = graph([pool], inputs, [value("y", sizes, kind), value("i", sizes, INT64)], {}, 17)
    compare(model, {"x": (normal(2, 3, *size) * 40).astype(dtype)}, tmp_path)


@pytest.mark.needs("gcc")
def test_deform_conv_with_groups_strides_and_samples_outside(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"strides": [2, 1], "pads": [1, 1, 1, 0], "dilations": [1, 2],
                "group": 2, "offset_group": 2}  # fmt: skip
    shapes = {"x": [2, 4, 7, 6], "w": [6, 2, 3, 2], "o": [2, 24, 4, 5], "b": [6],
              "m": [2, 12, 4, 5]}  # fmt: skip
    model = graph(
        [node("DeformConv", [*shapes], ["y"], **settings)],
        [value(n, s) for n, s in shapes.items()],
        [value("y", [2, 6, 4, 5])],
        {},
        22,
    )
    sample = {n: normal(*s) * (3 if n == "o" else 1) for n, s in shapes.items()}
    compare(model, sample, tmp_path)


@pytest.mark.needs("gcc")
@pytest.mark.parametrize("pixels", ["half_pixel", "output_half_pixel"])
@pytest.mark.parametrize("mode", ["avg", "max"])
def test_roi_align_samples_scaled_regions(tmp_path: Path, mode: str, pixels: str) -> None:
    align = node("RoiAlign", ["x", "r", "b"], ["y"], mode=mode, output_height=3, output_width=2,
                 sampling_ratio=2, spatial_scale=0.5,
                 coordinate_transformation_mode=pixels)  # fmt: skip
    inputs = [value("x", [2, 3, 8, 9]), value("r", [4, 4]), value("b", [4], INT64)]
    model = graph([align], inputs, [value("y", [4, 3, 3, 2])], {}, 16)
    boxes = np.array([[0, 0, 9, 9], [-6, 4, 4, 15], [5, 5, 30, 30], [3, 3, 3.5, 3.5]], "float32")
    sample = {"x": normal(2, 3, 8, 9), "r": boxes, "b": np.array([0, 1, 1, 0])}
    compare(model, sample, tmp_path)


def test_roi_align_without_a_ratio_is_refused() -> None:
    align = node("RoiAlign", ["x", "r", "b"], ["y"], mode="max")
    inputs = [value("x", [2, 3, 8, 9]), value("r", [4, 4]), value("b", [4], INT64)]
    model = graph([align], inputs, [value("y", [4, 3, 1, 1])], {}, 16)
    with pytest.raises(UserError, match="its sampling_ratio is 0"):
        import_model(model.SerializeToString(), "m.onnx", {})


@pytest.mark.needs("gcc")
@pytest.mark.parametrize(
    ("mode", "length", "pads"),
    [
        ("reflect", 3, [5, 4]),
        ("reflect", 3, [0, 3]),
        ("reflect", 1, [1, 0]),
        ("wrap", 5, [-2, 3]),
        ("wrap", 5, [9, -1]),
    ],
)
def test_pads_may_be_longer_than_what_they_repeat(
    tmp_path: Path, mode: str, length: int, pads: list[int]
) -> None:
    pad = node("Pad", ["x", "p", "", "a"], ["y"], mode=mode)
    constants = {"p": np.array(pads), "a": np.array([-1])}
    model = graph([pad], [value("x", [2, length])], [value("y", [2, "n"])], constants, 19)
    runtime = "onnx " if mode == "reflect" else "onnxruntime"  # which rejects such reflections
    compare(model, {"x": normal(2, length)}, tmp_path, runtime)


@pytest.mark.needs("gcc")
def test_a_pad_of_pytorch_wraps_before_opset_19(tmp_path: Path) -> None:
    pad = node("Pad", ["x", "p"], ["y"], mode="wrap")
    constants = {"p": np.array([0, 2, 0, 1])}
    model = graph([pad], [value("x", [2, 3])], [value("y", [2, 6])], constants, 18)
    compare(model, {"x": normal(2, 3)}, tmp_path)


@pytest.mark.parametrize("mode", ["edge", "reflect", "wrap"])
def test_pads_of_nothing_are_refused(mode: str) -> None:
    pad = node("Pad", ["x", "p"], ["y"], mode=mode)
    constants = {"p": np.array([-3, 2])}
    model = graph([pad], [value("x", [3])], [value("y", ["n"])], constants, 19)
    with pytest.raises(UserError, match="remove all 3 elements of axis 0"):
        import_model(model.SerializeToString(), "m.onnx", {})


@pytest.mark.needs("gcc")
@pytest.mark.parametrize("norm", [1, 2])
@pytest.mark.parametrize("opset", [11, 17, 22])
def test_vectors_are_divided_by_their_norm(tmp_path: Path, opset: int, norm: int) -> None:
    divide = node("LpNormalization", ["x"], ["y"], axis=1, p=norm)
    x = normal(2, 5, 3)
    x[1, :, 2] = 0
    model = graph([divide], [value("x", [2, 5, 3])], [value("y", [2, 5, 3])], {}, opset)
    compare(model, {"x": x}, tmp_path)


@pytest.mark.needs("gcc")
@pytest.mark.parametrize("kind", ["int32", "float32"])
def test_reductions_of_no_axes_compute_their_elements(tmp_path: Path, kind: str) -> None:
    names = ["L1", "L2", "LogSum", "SumSquare"] if kind == "float32" else ["L1", "L2", "SumSquare"]
    element = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    nodes = [node(f"Reduce{n}", ["x", "a"], [n], noop_with_empty_axes=1) for n in names[::2]]
    nodes += [node(f"Reduce{n}", ["x"], [n], noop_with_empty_axes=1) for n in names[1::2]]
    outputs = [value(n, [2, 3], element) for n in names]
    none = {"a": np.zeros(0, "int64")}
    model = graph(nodes, [value("x", [2, 3], element)], outputs, none, 18)
    x = normal(2, 3) * 9
    compare(model, {"x": x.astype(kind)}, tmp_path)


@pytest.mark.needs("gcc")
@pytest.mark.parametrize("factor", [0, 1, -3])
def test_data_find_their_own_grid_also_if_all_are_zero(tmp_path: Path, factor: int) -> None:
    quantize = node("DynamicQuantizeLinear", ["x"], ["y", "s", "z"])
    byte = TensorProto.UINT8
    outputs = [value("y", [5], byte), value("s", []), value("z", [], byte)]
    model = graph([quantize], [value("x", [5])], outputs, {}, 11)
    compare(model, {"x": np.arange(5, dtype="float32") * factor}, tmp_path)


@pytest.mark.needs("gcc")
@pytest.mark.parametrize("opset", [9, 10, 11])
def test_the_largest_elements_are_as_many_as_stated(tmp_path: Path, opset: int) -> None:
    if opset < 10:
        top = node("TopK", ["x"], ["v", "i"], k=3)
    else:
        top = node("TopK", ["x", "k"], ["v", "i"], axis=-1)
    outputs = [value("v", [5, 3]), value("i", [5, 3], INT64)]
    model = graph([top], [value("x", [5, 4])], outputs, {"k": np.array([3])}, opset)
    compare(model, {"x": normal(5, 4)}, tmp_path)


@pytest.mark.needs("gcc")
@pytest.mark.parametrize("attributes", [{}, {"axes": [-1, 0]}])
def test_slices_may_state_their_limits_as_attributes(
    tmp_path: Path, attributes: dict[str, Any]
) -> None:
    cut = node("Slice", ["x"], ["y"], starts=[1, -2], ends=[3, 99], **attributes)
    model = graph([cut], [value("x", [4, 5])], [value("y", ["a", "b"])], {}, 9)
    compare(model, {"x": normal(4, 5)}, tmp_path)


@pytest.mark.needs("gcc")
@pytest.mark.parametrize("mode", ["linear", "nearest"])
@pytest.mark.parametrize("opset", [10, 13])
@pytest.mark.parametrize("scale", [0.6, 0.7, 2])
def test_images_are_resized_by_scales_in_single_precision(
    tmp_path: Path, scale: float, opset: int, mode: str
) -> None:
    inputs = ["x", "s"] if opset == 10 else ["x", "", "s"]
    resize = node("Resize", inputs, ["y"], mode=mode)
    scales = {"s": np.array([1, 1, scale, 1.3], "float32")}
    model = graph([resize], [value("x", [1, 2, 10, 9])], [value("y", [*"abcd"])], scales, opset)
    compare(model, {"x": normal(1, 2, 10, 9)}, tmp_path)


@pytest.mark.needs("gcc")
@pytest.mark.parametrize("mode", ["linear", "nearest"])
@pytest.mark.parametrize("policy", ["not_larger", "not_smaller"])
def test_images_that_keep_their_shape_are_resized_by_one_scale(
    tmp_path: Path, policy: str, mode: str
) -> None:
    resize = node("Resize", ["x", "", "", "s"], ["y"], mode=mode, axes=[2, 3],
                  keep_aspect_ratio_policy=policy)  # fmt: skip
    sizes = {"s": np.array([7, 9])}
    model = graph([resize], [value("x", [1, 2, 12, 14])], [value("y", [*"abcd"])], sizes, 19)
    compare(model, {"x": normal(1, 2, 12, 14)}, tmp_path)


@pytest.mark.needs("gcc")
@pytest.mark.parametrize("kind", ["int32", "int64"])
@pytest.mark.parametrize("exponent", [2, [3], [[0], [2]], [[3], [5]]])
@pytest.mark.parametrize("is_known", [True, False])
def test_powers_of_integers_are_exact(
    tmp_path: Path, is_known: bool, exponent: Any, kind: str
) -> None:
    element = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    x = np.array([[2000000011, -208065, 7], [208065, 0, 11]], "int64").astype(kind)
    if 5 in np.ravel(exponent):
        x[1] = [-9, 0, 11]
    power = np.array(exponent, "int64")
    inputs = [value("x", [2, 3], element), value("e", power.shape, INT64)]
    model = graph([node("Pow", ["x", "e"], ["y"])], inputs[: 1 if is_known else 2],
                  [value("y", [2, 3], element)], {"e": power} if is_known else {}, 15)  # fmt: skip
    sample = {"x": x} if is_known else {"x": x, "e": power}
    np.testing.assert_array_equal(
        run_generated(model.SerializeToString(), [sample], tmp_path, SANITIZED)[0][0],
        run_reference(model.SerializeToString(), [sample]).outputs[0][0],
    )


@pytest.mark.needs("gcc")
@pytest.mark.parametrize("kind", ["uint8", "uint16", "uint32", "uint64"])
def test_unsigned_numbers_have_a_sign(tmp_path: Path, kind: str) -> None:
    element = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    ends = [value(n, [4], element) for n in "xy"]
    model = graph([node("Sign", ["x"], ["y"])], ends[:1], ends[1:], {}, 13)
    compare(model, {"x": np.array([0, 1, 7, np.iinfo(kind).max], kind)}, tmp_path)


@pytest.mark.needs("gcc")
@pytest.mark.parametrize("kind", ["int8", "uint8", "int16", "int32", "int64", "float32"])
@pytest.mark.parametrize("bias", [2.5, -2.5])
def test_integers_shrink_by_fractions(tmp_path: Path, bias: float, kind: str) -> None:
    element = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    shrink = node("Shrink", ["x"], ["y"], bias=bias, lambd=1.5)
    ends = [value(n, [8], element) for n in "xy"]
    model = graph([shrink], ends[:1], ends[1:], {}, 9)
    x = np.array([-128, -3, -1, 0, 1, 2, 3, 127], "int64").astype(kind)
    compare(model, {"x": x}, tmp_path)


@pytest.mark.needs("gcc")
@pytest.mark.parametrize(
    ("left", "right", "scales"),
    [
        ([4], [4], [0.05]),
        ([4], [4, 3], [0.05]),
        ([2, 4], [4], [0.05]),
        ([2, 4], [4, 3], [0.05, 0.1, 0.2]),
    ],
)
def test_a_quantized_product_takes_vectors(
    tmp_path: Path, left: list[int], right: list[int], scales: list[float]
) -> None:
    byte = TensorProto.UINT8
    product = node("QLinearMatMul", ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz"], ["y"])
    constants: dict[str, Any] = {
        "xs": np.float32(0.1), "xz": np.uint8(3), "ys": np.float32(0.7), "yz": np.uint8(100),
        "w": RANDOM.integers(-127, 127, right, "int8"), "ws": np.array(scales, "float32"),
        "wz": np.zeros(len(scales), "int8"),
    }  # fmt: skip
    result = [*left[:-1], *right[1:]]
    model = graph([product], [value("x", left, byte)], [value("y", result, byte)], constants, 10)
    compare(model, {"x": RANDOM.integers(0, 255, left, "uint8")}, tmp_path)


@pytest.mark.needs("gcc")
@pytest.mark.parametrize(
    "operator", ["CumSum", "Elu", "Hardmax", "HardSigmoid", "Selu", "ThresholdedRelu"]
)
def test_floats_of_16_bits_are_rounded_once(tmp_path: Path, operator: str) -> None:
    ends = [value(n, [99], TensorProto.FLOAT16) for n in "xy"]
    constants = {"axis": np.array(0)} if operator == "CumSum" else {}
    model = graph([node(operator, ["x", *constants], ["y"])], ends[:1], ends[1:], constants, 22)
    data, sample = model.SerializeToString(), {"x": normal(99).astype("float16")}
    found = run_generated(data, [sample], tmp_path, SANITIZED)[0][0]
    np.testing.assert_array_equal(found, run_reference(data, [sample]).outputs[0][0])


@pytest.mark.needs("gcc")
@pytest.mark.parametrize("kind", ["int32", "int64", "uint32"])
def test_integers_have_slopes(tmp_path: Path, kind: str) -> None:
    element = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    ends = [value(n, [2, 3], element) for n in "xy"]
    slopes = {"s": np.array([2, 3, 0], kind)}
    model = graph([node("PRelu", ["x", "s"], ["y"])], ends[:1], ends[1:], slopes, 16)
    x = np.array([[-5, 4, -1], [np.iinfo(kind).min, -2, 7]], "int64").astype(kind)
    compare(model, {"x": x}, tmp_path)


@pytest.mark.needs("gcc")
def test_determinants_of_matrices_that_need_exchanged_rows(tmp_path: Path) -> None:
    model = graph([node("Det", ["x"], ["y"])], [value("x", [4, 4, 4])], [value("y", [4])], {}, 17)
    x = normal(4, 4, 4)
    x[0, 0, 0], x[1], x[2, 1] = 0, np.eye(4)[[2, 0, 3, 1]], x[2, 0] * 2
    compare(model, {"x": x}, tmp_path)


@pytest.mark.needs("gcc")
@pytest.mark.parametrize("version", [2, 4])
def test_labels_that_are_numbers_are_encoded(tmp_path: Path, version: int) -> None:
    encode = helper.make_node(
        "LabelEncoder", ["x"], ["y"], domain="ai.onnx.ml", keys_floats=[1.5, 2.0, np.nan],
        values_int64s=[7, 8, 9], default_int64=-3,
    )  # fmt: skip
    model = graph([encode], [value("x", [2, 3])], [value("y", [2, 3], INT64)], {}, 17)
    model.opset_import.append(helper.make_opsetid("ai.onnx.ml", version))
    x = np.array([[2, 1.5, 4], [np.nan, -1.5, 2]], "float32")
    compare(model, {"x": x}, tmp_path)


@pytest.mark.needs("gcc")
@pytest.mark.parametrize("mode", ["TF", "IDF", "TFIDF"])
def test_ngrams_are_counted_and_weighted(tmp_path: Path, mode: str) -> None:
    count = node("TfIdfVectorizer", ["x"], ["y"], mode=mode, min_gram_length=1, max_gram_length=3,
                 max_skip_count=2, ngram_counts=[0, 3, 7], ngram_indexes=[0, 2, 1, 3, 5, 4],
                 weights=[0.5, 1.5, 2.0, 3.0, 0.25, 4.0],
                 pool_int64s=[1, 2, 3, 1, 2, 2, 1, 1, 2, 1])  # fmt: skip
    model = graph([count], [value("x", [3, 9], INT64)], [value("y", [3, 6])], {}, 17)
    compare(model, {"x": RANDOM.integers(1, 4, (3, 9))}, tmp_path)
