"""Custom operators of TFLite files: definitions, options, states, and errors."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema

from firmwright.errors import UserError
from firmwright.models.tflite.custom_calls import check_call, use_custom_operators
from firmwright.models.tflite.custom_operators import (
    CustomOperator,
    TensorKind,
    list_option_constants,
)
from firmwright.models.tflite.detection_operator import DETECTION, read_sizes
from firmwright.models.tflite.importer import import_model
from firmwright.models.tflite.interpreters import is_divided
from firmwright.models.tflite.litert_outputs import read_tensors, run_reference
from firmwright.models.tflite.signal_operators import SIGNAL
from tests.networks.firmware import assert_exact, lowered
from tests.networks.signal_models import SignalCase, build_model, draw_inputs, list_cases, port
from tests.networks.tflite_models import ModelBuilder, Quantization

SHARED = bytes([20, *[1] * 20, *b"a\0b\0", 2, 5, 4, 2, 1, 2, 30, 31, 44, 44, 4, 36, 1])
"""Options {"a": …, "b": …}, both the same list of 20 ones: 40 numbers in 38 bytes."""


def nest_lists(levels: int) -> bytes:
    """Return options of 2^levels numbers: each list refers twice to the list before."""
    data, inner = bytearray([1, 7, 4]), 1
    for _ in range(levels):
        data.append(2)
        start = len(data)
        data += bytes([start - inner, start + 1 - inner, 40, 40])
        inner = start
    return bytes(data) + bytes([len(data) - inner, 40, 1])


COUNT = CustomOperator(
    "count",
    lambda inputs, options, _: [inputs[0] + inputs[1] * options["step"], inputs[1] + np.int32(1)],
    list_option_constants,
)
"""Adds a multiple of the number of earlier runs, which is a variable of the file."""


@pytest.fixture(autouse=True)
def _counter() -> Iterator[None]:
    with use_custom_operators({"Count": COUNT}):
        yield


def make_counter(**options: Any) -> ModelBuilder:
    builder = ModelBuilder()
    source = builder.input((3,), "int32", None)
    runs = builder.tensor((3,), "int32", None)
    builder.graph.tensors[runs].isVariable = True
    result = builder.output((3,), "int32", None)
    builder.custom("Count", [source, runs], [result], options or {"step": 10})
    return builder


def test_the_c_function_gets_whole_bytes() -> None:
    """Loops split packed constants; a C function reads a byte per number."""
    table = np.resize(np.arange(-8, 8, dtype="int8"), (1, 1024))
    builder = ModelBuilder()
    source = builder.input((1, 1024), "int8", None)
    operands = [source, builder.constant(table, None)]
    builder.custom("Count", operands, [builder.output((1, 1024), "int8", None)], {"step": 1})
    weights = lowered(builder.build()).weights.values()
    np.testing.assert_array_equal(
        next(a for a in weights if a.size > 1).reshape(table.shape), table
    )


def test_a_variable_is_a_state() -> None:
    data = make_counter().build()
    samples = [{"t0": np.arange(3, dtype="int32")}] * 3
    found = run_reference(data, samples)
    assert found.runtime.endswith(", and Python functions for Count")
    assert [outputs[0].tolist() for outputs in found.outputs] == [
        [0, 1, 2],
        [10, 11, 12],
        [20, 21, 22],
    ]
    interface = import_model(data, "net", {})[1]
    assert [state.tensor.name for state in interface.states] == ["t1"]
    assert [operator.kind for operator in interface.operators] == ["Count"]
    assert read_tensors(data, samples)[1]["t2"].tolist() == [10, 11, 12]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            b"\x00\x01\x02",
            r"Count \(tensor 't2'\): its custom options \(3 bytes: 00 01 02\) are not",
        ),
        (nest_lists(40), r"are not a map in FlexBuffers of numbers, texts, and lists of them"),
        (SHARED, r"\(38 bytes: .* are not a map"),
        ({"step": [[1], [2]]}, "are not a map in FlexBuffers"),
        ({"step": "ten"}, r"its option 'step' is 'ten', which C constants do not support"),
        ({"step": 2**31}, "its option 'step' is 2147483648, which C constants do not support"),
    ],
)
def test_options_that_c_constants_do_not_support(options: Any, message: str) -> None:
    builder = make_counter(**({} if isinstance(options, bytes) else options))
    if isinstance(options, bytes):
        builder.graph.operators[0].customOptions = list(options)
    with pytest.raises(UserError, match=f"^net: .*{message}"):
        import_model(builder.build(), "net", {})


def test_options_become_constants() -> None:
    options = {"b": [1, 2], "a": 0.5, "c": True}
    found = list_option_constants((), options)
    assert [(a.dtype.name, a.tolist()) for a in found] == [
        ("float32", 0.5), ("int32", [1, 2]), ("int32", 1),
    ]  # fmt: skip


def test_shapes_that_contradict_the_file() -> None:
    shapes = CustomOperator("f", None, shapes=lambda *_: [TensorKind((4,), "int32")])
    with (
        use_custom_operators({"Count": shapes}),
        pytest.raises(UserError, match=r"its results are int32 \[4\]; the file has int32 \[3\]"),
    ):
        import_model(make_counter().build(), "net", {})


def test_resource_variables_next_to_custom_operators() -> None:
    builder = make_counter()
    builder.model.subgraphs.append(schema.SubGraphT())
    other = builder.model.subgraphs[-1]
    other.tensors, other.inputs, other.outputs, other.operators = [], [], [], []
    with pytest.raises(UserError, match="has custom operators and several subgraphs or resource"):
        run_reference(builder.build(), [{"t0": np.zeros(3, "int32")}])


REALS, WORDS = port("float32", 16), port("int16", 16)


@pytest.mark.parametrize(
    ("case", "message"),
    [
        (SignalCase("SignalWindow", (REALS, WORDS), (WORDS,), {"shift": 1}),
         r"input 0 is float32; expected int16, as TFLite's kernel"),
        (SignalCase("SignalWindow", (WORDS,), (WORDS,), {"shift": 1}), "expected at least 2"),
        (SignalCase("SignalWindow", (WORDS, WORDS), (WORDS,), {"bits": 1}),
         r"the option 'shift' is not an integer from 0 to 31 \(options: bits 1\)"),
        (SignalCase("SignalDelay", (WORDS,), (WORDS,), {"delay_length": -3}),
         r"'delay_length' is not an integer from 0 to 2147483647 \(options: delay_length -3\)"),
        (SignalCase("SignalDelay", (port("int16", 2, 8),), (port("int16", 2, 8),),
                    {"delay_length": 2**30}),
         r"its options need int16 \[2, 1073741824\]; expected a tensor of less than 2 GiB"),
        (SignalCase("SignalWindow", (WORDS, port("int16", 5)), (WORDS,), {"shift": 1}),
         "16 samples; expected a multiple of the window's length, 5"),
        (SignalCase("SignalRfft", (WORDS,), (port("int16", 26),), {"fft_length": 24}),
         "fft_length is 24; expected a power of two from 4 to 65536"),
        (SignalCase("SignalRfft", (WORDS,), (port("int16", 10),), {"fft_length": 8}),
         r"its rows have 16 numbers; expected at most 8 \(fft_length\)"),
        (SignalCase("SignalIrfft", (WORDS,), (WORDS,), {"fft_length": 16}),
         r"its rows have 16 numbers; expected 18 \(fft_length \+ 2\)"),
        (SignalCase("SignalFramer", (WORDS,), (port("int16", 3, 8), port("bool")),
                    {"frame_size": 8, "frame_step": 5, "prefill": 0}),
         "frame_step is 5, frame_size is 8, the input's length is 16"),
    ],
)  # fmt: skip
def test_operators_that_do_not_fit(case: SignalCase, message: str) -> None:
    named = rf"^net: operator {case.operator} \(tensor '"
    with pytest.raises(UserError, match=rf"{named}.*{message}"):
        import_model(build_model(case), "net", {})


@pytest.mark.parametrize(
    ("operator", "option", "value", "most"),
    [
        ("SignalWindow", "shift", 32, 31),
        ("SignalWindow", "shift", 2.5, 31),
        ("SignalWindow", "shift", float("nan"), 31),
        ("SignalFilterBankLog", "input_correction_bits", 32, 31),
        ("SignalFilterBankLog", "output_scale", 2**32, 2**31 - 1),
        ("SignalFilterBankSpectralSubtraction", "smoothing_bits", 32, 31),
        ("SignalFilterBankSpectralSubtraction", "spectral_subtraction_bits", 64, 63),
        ("SignalPCAN", "snr_shift", 64, 63),
        ("SignalFramer", "frame_step", -4.0, 2**31 - 1),
    ],
)
def test_options_outside_their_limits(operator: str, option: str, value: Any, most: int) -> None:
    case = next(case for case in list_cases() if case.operator == operator)
    case = replace(case, options={**case.options, option: value})
    with pytest.raises(UserError, match=f"'{option}' is not an integer from 0 to {most} "):
        import_model(build_model(case), "net", {})


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("y_scale", float("inf"), "a finite number"),
        ("nms_iou_threshold", float("nan"), "a finite number"),
        ("max_detections", 2.5, "an integer from 0 to 2147483647"),
    ],
)
def test_options_of_a_detection(option: str, value: float, message: str) -> None:
    options = {**SIZES, "max_classes_per_detection": 1, option: value}
    kinds = [TensorKind((), "float32")] * 3
    with pytest.raises(UserError, match=f"'{option}' is not {message} "):
        check_call(DETECTION, kinds, options)


@pytest.mark.parametrize("value", [0, -1, 2.5, 2**31])
def test_a_limit_per_class_is_a_positive_integer(value: float) -> None:
    options = {**SIZES, "max_classes_per_detection": 1, "detections_per_class": value}
    kinds = [TensorKind(shape, "float32") for shape in ((1, 12, 4), (1, 12, 3), (12, 4))]
    with pytest.raises(UserError, match=f"'detections_per_class' is {value}; expected an integer"):
        read_sizes(kinds, options)


@pytest.mark.parametrize(
    ("position", "value", "message"),
    [
        (2, -1, "its frequencies, starts or widths exceed the 16 inputs or 16 weights"),
        (2, 14, "its frequencies, starts or widths exceed the 16 inputs or 16 weights"),
        (3, 14, "its frequencies, starts or widths exceed the 16 inputs or 16 weights"),
        (4, -1, "its frequencies, starts or widths exceed the 16 inputs or 16 weights"),
        (2, None, r"its inputs 3 to 5 \(frequencies, starts, widths\) are not constants"),
    ],
)
def test_tables_that_do_not_fit(position: int, value: int | None, message: str) -> None:
    case = next(case for case in list_cases() if case.operator == "SignalFilterBank")
    tables = [table.copy() for table in case.constants]
    if value is None:
        inputs = tuple((table.shape, str(table.dtype)) for table in tables)
        case = replace(case, inputs=(*case.inputs, *inputs), constants=())
    else:
        tables[position][0] = value
        case = replace(case, constants=tuple(tables))
    with pytest.raises(UserError, match=rf"SignalFilterBank \(tensor 't6'\): {message}"):
        import_model(build_model(case), "net", {})


@pytest.mark.parametrize(
    ("operator", "shape", "least"),
    [("SignalOverlapAdd", (16,), 2), ("SignalDelay", (), 1), ("SignalFramer", (), 1)],
)
def test_ranks_that_do_not_fit(operator: str, shape: tuple[int, ...], least: int) -> None:
    case = next(case for case in list_cases() if case.operator == operator)
    case = replace(case, inputs=((shape, "int16"),))
    message = re.escape(f"input 0 has the shape {list(shape)}; expected at least {least} dim")
    with pytest.raises(UserError, match=message):
        import_model(build_model(case), "net", {})


VECTORS = {
    "SignalFftAutoScale", "SignalFilterBank", "SignalFilterBankSquareRoot", "SignalPCAN",
    "SignalFilterBankSpectralSubtraction", "SignalFilterBankLog",
}  # fmt: skip


def test_ranks_do_not_change_results_of_vectors() -> None:
    cases = [case for case in list_cases() if case.operator in VECTORS]
    for case in cases:
        operator = SIGNAL[case.operator]
        assert operator.reference is not None
        results = [TensorKind(*each) for each in case.outputs]
        inputs = [*draw_inputs(case, 1), *case.constants]
        if "Subtraction" in case.operator:
            inputs.append(np.zeros(10, "uint32"))
            results.append(results[0])
        higher = [each[np.newaxis] for each in inputs]
        expected, found = (
            operator.reference(given, case.options, results) for given in (inputs, higher)
        )
        assert [e.tolist() for e in expected] == [f.tolist() for f in found]


def test_a_reference_that_raises_type_error() -> None:
    def fail(*_: Any) -> Any:
        raise TypeError("an int is not iterable")

    with (
        use_custom_operators({"Count": CustomOperator("count", fail)}),
        pytest.raises(UserError, match=r"Count .* do not fit: an int is not iterable"),
    ):
        run_reference(make_counter().build(), [{"t0": np.zeros(3, "int32")}])


def test_a_file_without_custom_operators_is_not_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    builder = ModelBuilder()
    source = builder.input((3,), "float32", None)
    builder.operator("ABS", [source], [builder.output((3,), "float32", None)], version=1)
    data = builder.build()
    monkeypatch.delattr(schema.ModelT, "InitFromPackedBuf")
    assert not is_divided(data)


SIZES = {
    "max_detections": 4, "num_classes": 3, "nms_score_threshold": 0.3, "nms_iou_threshold": 0.5,
    "y_scale": 10.0, "x_scale": 10.0, "h_scale": 5.0, "w_scale": 5.0, "detections_per_class": 2,
}  # fmt: skip


def add_detection(builder: ModelBuilder, regular: bool, per_box: int, dtype: str) -> None:
    """Add TFLite_Detection_PostProcess of 12 boxes; its results have no shapes, as often."""
    is_float = dtype == "float32"
    boxes, scores, corners = (
        None if is_float else Quantization(*grid)
        for grid in ((0.06, 128), (1 / 256, 0), (1 / 255, 0))
    )
    places = np.random.default_rng(2).integers(40, 130, (12, 4)).astype("uint8")
    anchors = (places / np.float32(255)).astype("float32") if is_float else places
    given = [
        builder.input((1, 12, 4), dtype, boxes),
        builder.input((1, 12, 4), dtype, scores),
        builder.constant(anchors, corners),
    ]
    made = [builder.output((), "float32", None) for _ in range(4)]
    options = {**SIZES, "use_regular_nms": regular, "max_classes_per_detection": per_box}
    builder.custom("TFLite_Detection_PostProcess", given, made, options)


@pytest.mark.needs("gcc")
def test_detection_equals_litert(tmp_path: Path) -> None:
    builder = ModelBuilder()
    for regular, per_box, dtype in product((False, True), (1, 2), ("float32", "uint8")):
        add_detection(builder, regular, per_box, dtype)
    random, samples = np.random.default_rng(4), []
    for limit in (1.0, 0.7, 0.2):
        sample = {}
        for number, index in enumerate(builder.graph.inputs):
            is_scores = number % 2 == 1
            distinct = random.permutation(144)[:48].reshape(1, 12, 4) / 144 * limit
            real = distinct if is_scores else random.standard_normal((1, 12, 4))
            is_float = builder.graph.tensors[index].type == schema.TensorType.FLOAT32
            stored = real if is_float else real * 255 if is_scores else 128 + 40 * real
            sample[f"t{index}"] = np.clip(stored, *((-9, 9) if is_float else (0, 255))).astype(
                "float32" if is_float else "uint8"
            )
        samples.append(sample)
    found = assert_exact(builder.build(), tmp_path, samples)
    counts = {int(outputs[i][0]) for outputs in found for i in range(3, len(outputs), 4)}
    assert {0, 4} <= counts
