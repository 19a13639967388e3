"""Invalid TFLite models are rejected with a message; unusual models compute the right results."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm_ffi
from ai_edge_litert import schema_py_generated as schema

from firmwright.errors import UserError
from firmwright.models.tflite import importer as tflite
from tests.networks.firmware import assert_exact, lowered
from tests.networks.tflite_models import ModelBuilder, Quantization

Edit = Callable[[ModelBuilder], Any]
GRID = Quantization(0.1, 3)
SUM_GRID = Quantization(0.2, -1)
FIRST, SECOND, SUM = 0, 1, 2
WEIGHTS = 1


def added(
    grid: Quantization | None = GRID,
    result: Quantization | None = SUM_GRID,
    edit: Edit | None = None,
    shape: tuple[int, ...] = (1, 4),
) -> bytes:
    """An addition of two tensors: tensors 0 and 1 are the inputs, 2 is the output."""
    builder = ModelBuilder()
    inputs = [builder.input(shape, "int8", grid) for _ in range(2)]
    builder.operator("ADD", inputs, [builder.output(shape, "int8", result)], "AddOptions")
    if edit:
        edit(builder)
    return builder.build()


def pooled_to_nothing() -> bytes:
    """A pooling of a picture that is smaller than the window."""
    builder = ModelBuilder()
    source = builder.input((1, 2, 2, 3), "float32", None)
    output = builder.output((1, 0, 0, 3), "float32", None)
    window = {"padding": 1, "strideW": 1, "strideH": 1, "filterWidth": 3, "filterHeight": 3}
    builder.operator("MAX_POOL_2D", [source], [output], "Pool2DOptions", **window)
    return builder.build()


def convolved(
    scales: tuple[float, ...] = (0.1, 0.2, 0.3),
    edit: Edit | None = None,
    result: Quantization = SUM_GRID,
    **options: int,
) -> bytes:
    """A convolution of four channels by three: tensor 1 is the weights."""
    builder = ModelBuilder()
    source = builder.input((1, 4, 4, 2), "int8", GRID)
    weights = builder.constant(np.ones((3, 1, 1, 2), "int8"), Quantization(0, 0, scales))
    sums = Quantization(0, 0, tuple(0.1 * s for s in (*scales, 0.1)[:3]))
    bias = builder.constant(np.array([5, -5, 7], "int32"), sums)
    output = builder.output((1, 4, 4, 3), "int8", result)
    given = {"padding": 0, "strideH": 1, "strideW": 1}
    given |= {"dilationHFactor": 1, "dilationWFactor": 1, **options}
    builder.operator("CONV_2D", [source, weights, bias], [output], "Conv2DOptions", **given)
    if edit:
        edit(builder)
    return builder.build()


def grid(tensor: int, **values: Any) -> Edit:
    """Change quantization parameters."""

    def edit(builder: ModelBuilder) -> None:
        for name, value in values.items():
            setattr(builder.graph.tensors[tensor].quantization, name, value)

    return edit


def tensors(**values: Any) -> Edit:
    """Change all tensors."""

    def edit(builder: ModelBuilder) -> None:
        for tensor in builder.graph.tensors:
            for name, value in values.items():
                setattr(tensor, name, value)

    return edit


def operator(**values: Any) -> Edit:
    return lambda builder: vars(builder.graph.operators[0]).update(values)


def whole_graph(**values: Any) -> Edit:
    return lambda builder: vars(builder.graph).update(values)


def output_shape(shape: list[int]) -> Edit:
    return lambda builder: vars(builder.graph.tensors[SUM]).update(shape=shape)


def second_operator(reads: list[int], writes: list[int]) -> Edit:
    return lambda builder: builder.operator("SUB", reads, writes, "SubOptions")


def custom(builder: ModelBuilder, name: str = "Maker*/Op") -> None:
    code = builder.model.operatorCodes[0]
    code.builtinCode = code.deprecatedBuiltinCode = schema.BuiltinOperator.CUSTOM
    code.customCode = name


def sparse(builder: ModelBuilder) -> None:
    sparsity = schema.SparsityParametersT()
    sparsity.traversalOrder, sparsity.dimMetadata = [0, 1, 2, 3], []
    for length in (3, 1, 1, 2):
        metadata = schema.DimensionMetadataT()
        metadata.format, metadata.denseSize = schema.DimensionType.DENSE, length
        sparsity.dimMetadata.append(metadata)
    builder.graph.tensors[WEIGHTS].sparsity = sparsity


def signature_of(subgraph: int) -> Edit:
    def edit(builder: ModelBuilder) -> None:
        builder.model.subgraphs = [builder.graph, builder.graph]
        signature = schema.SignatureDefT()
        signature.signatureKey, signature.subgraphIndex = "train", subgraph
        signature.inputs, signature.outputs = [], []
        builder.model.signatureDefs = [signature]

    return edit


def weight_bytes(count: int) -> Edit:
    def edit(builder: ModelBuilder) -> None:
        buffer = builder.graph.tensors[WEIGHTS].buffer
        builder.model.buffers[buffer].data = np.zeros(count, "uint8")

    return edit


def unsorted(builder: ModelBuilder) -> None:
    late = builder.tensor((1, 4), "int8", GRID)
    builder.operator("SUB", [FIRST, SECOND], [late], "SubOptions")
    builder.graph.operators[0].inputs = [FIRST, late]


def pooled_over_nothing() -> bytes:
    builder = ModelBuilder()
    source, output = (f((1, 4, 4, 2), "int8", GRID) for f in (builder.input, builder.output))
    values = {"strideH": 1, "strideW": 1, "filterHeight": 2, "filterWidth": 0}
    builder.operator("MAX_POOL_2D", [source], [output], "Pool2DOptions", **values)
    return builder.build()


def without_buffers(builder: ModelBuilder) -> None:
    builder.model.buffers = []


def branching(builder: ModelBuilder) -> None:
    """Make the addition an IF, whose branches are missing."""
    code = builder.model.operatorCodes[0]
    code.builtinCode = code.deprecatedBuiltinCode = schema.BuiltinOperator.IF
    code.version = 1
    operator = builder.graph.operators[0]
    operator.builtinOptionsType = schema.BuiltinOptions.IfOptions
    operator.builtinOptions = schema.IfOptionsT()


def convolved_wide(**options: int) -> bytes:
    """A convolution of int16 activations with an int32 bias."""
    builder = ModelBuilder()
    source = builder.input((1, 4, 4, 2), "int16", Quantization(0.1))
    weights = builder.constant(np.full((3, 1, 1, 2), 50, "int8"), Quantization(0.1))
    bias = builder.constant(np.array([5, -500000, 7], "int32"), Quantization(0.1 * 0.1))
    output = builder.output((1, 4, 4, 3), "int16", Quantization(0.9))
    windows = dict.fromkeys(("strideH", "strideW", "dilationHFactor", "dilationWFactor"), 1)
    builder.operator(
        "CONV_2D", [source, weights, bias], [output], "Conv2DOptions", **windows, **options
    )
    return builder.build()


def sloped_wide(dtype: str = "int16") -> bytes:
    builder = ModelBuilder()
    source = builder.input((1, 30, 4), "int16", Quantization(0.1))
    slopes = builder.constant(np.array([[3, -9, 100, -128]], dtype), Quantization(0.01))
    output = builder.output((1, 30, 4), "int16", Quantization(0.15))
    builder.operator("PRELU", [source, slopes], [output], version=1)
    return builder.build()


def exponential_wide() -> bytes:
    builder = ModelBuilder()
    source = builder.input((1, 9), "int16", Quantization(0.003))
    output = builder.output((1, 9), "int16", Quantization(5.0))
    builder.operator("EXP", [source], [output], "ExpOptions")
    return builder.build()


REFUSED: dict[str, tuple[Callable[[], bytes], str]] = {
    "scale nan": (
        lambda: added(Quantization(np.nan)),
        "tensor 't0': a scale must be a positive, finite, normal number; found nan",
    ),
    "convolution of nothing": (
        lambda: convolved(edit=lambda b: b.graph.operators[0].inputs.clear()),
        "a layer with weights must have data and weights as inputs; found 0 inputs",
    ),
    "no elements": (lambda: added(shape=(1, 0)), r"'t0' has no elements \(shape \[1, 0\]\)"),
    "result without elements": (pooled_to_nothing, "'t1' has no elements"),
    "scale zero": (lambda: added(result=Quantization(0.0)), "'t2': a scale must be .* found 0.0"),
    "scale negative": (lambda: added(Quantization(-0.5)), "a scale must be .* found -0.5"),
    "scale infinite": (lambda: added(Quantization(np.inf)), "a scale must be .* found inf"),
    "scale subnormal": (lambda: convolved((0.1, 1e-42, 0.3)), "a scale must be .* found 1.0.*e-42"),
    "scales far apart": (
        lambda: convolved(result=Quantization(1.2e-38)),
        "conv2d, .*the ratio of its scales, .*, is not below 2\\^30",
    ),
    "zero point outside": (
        lambda: added(Quantization(0.1, 300)),
        "a zero point must be a value of the tensor's type; found 300 in int8",
    ),
    "zero point of 64 bits": (lambda: added(Quantization(0.1, 2**40)), "found 1099511627776 in"),
    "zero point of int16": (
        lambda: added(edit=tensors(type=schema.TensorType.INT16)),
        "zero point of int16, int32 and int64 must be 0; found 3 in int16",
    ),
    "zero point by channel": (
        lambda: convolved(edit=grid(WEIGHTS, zeroPoint=[0, 5, 0])),
        "zero points to be 0",
    ),
    "scales too few": (lambda: convolved((0.1, 0.2)), "num_scales must be .* but got 2"),
    "axis outside": (
        lambda: convolved(edit=grid(WEIGHTS, quantizedDimension=7)),
        r"quantized_dimension must be in range \[0, 4\). Was 7",
    ),
    "no grid": (
        lambda: added(edit=tensors(quantization=None)),
        "tensor 't0': int8 and uint8 tensors must have a scale if",
    ),
    "no operators": (lambda: added(edit=whole_graph(operators=[])), "no operator writes .* 't2'"),
    "no outputs": (
        lambda: added(edit=whole_graph(outputs=[])),
        "no outputs; expected one output or more",
    ),
    "no inputs": (
        lambda: added(edit=whole_graph(inputs=[])),
        r"ADD \(operator 0\) reads 't0', which no operator writes",
    ),
    "no graph": (lambda: added(edit=lambda b: vars(b.model).update(subgraphs=[])), "No subgraph"),
    "graph input outside": (
        lambda: added(edit=whole_graph(inputs=[0, 77])),
        "an input of the graph is tensor 77; expected 0 to 2",
    ),
    "graph input twice": (
        lambda: added(edit=whole_graph(inputs=[0, 0])),
        "tensor 0 is two inputs of the graph",
    ),
    "graph output outside": (
        lambda: added(edit=whole_graph(outputs=[-1])),
        "an output of the graph is tensor -1; expected 0 to 2",
    ),
    "input outside": (
        lambda: added(edit=operator(inputs=[0, 99])),
        "operator 0 reads tensor 99; expected -1 to 2",
    ),
    "input negative": (lambda: added(edit=operator(inputs=[0, -7])), "reads tensor -7; expected"),
    "input missing": (lambda: added(edit=operator(inputs=[0])), "operator ADD .* should be 2"),
    "output outside": (
        lambda: added(edit=operator(outputs=[55])),
        "0 writes tensor 55; expected 0 to 2",
    ),
    "no results": (lambda: added(edit=operator(outputs=[])), "operator 0 has no results"),
    "kind outside": (lambda: added(edit=operator(opcodeIndex=9)), "opcode_index 9"),
    "cycle": (
        lambda: added(edit=operator(inputs=[0, SUM])),
        r"ADD \(operator 0\) reads 't2', which depends on its result",
    ),
    "unsorted": (lambda: added(edit=unsorted), r"reads 't3' before SUB \(operator 1\) writes it"),
    "written twice": (
        lambda: added(edit=second_operator([FIRST, SECOND], [SUM])),
        r"'t2' is written twice: by ADD \(operator 0\) and by SUB \(operator 1\)",
    ),
    "input overwritten": (
        lambda: added(edit=second_operator([FIRST, SECOND], [FIRST])),
        "writes 't0', which is an input or constant",
    ),
    "declared output": (
        lambda: added(edit=output_shape([1, 999])),
        r"'t2': the file declares int8 \[1, 999\], its operators compute int8 \[1, 4\]",
    ),
    "2 GiB": (
        lambda: added(shape=(1, 1024, 1024, 2048)),
        r"'t0': a tensor must be smaller than 2 GiB; found \[1, 1024",
    ),
    "elements overflow": (lambda: added(shape=(65536, 65536, 65536)), "smaller than 2 GiB"),
    "data too short": (lambda: convolved(edit=weight_bytes(2)), "required_bytes <= bytes"),
    "data too long": (
        lambda: convolved(edit=weight_bytes(200)),
        "must have the size of its shape and type; found 200 bytes; its shape and type need 6",
    ),
    "sparse": (lambda: convolved(edit=sparse), "'t1': sparse tensors are not supported"),
    "custom operator": (
        lambda: added(edit=custom),
        r"custom operators that no installed package reads: Maker\*/Op; define each in the recipe",
    ),
    "compiled by Vela": (
        lambda: added(edit=lambda model: custom(model, "ethos-u")),
        r"Vela compiled the model for Arm Ethos-U .*; state the \.tflite file from before that",
    ),
    "another subgraph": (
        lambda: added(edit=signature_of(1)),
        r"several networks, one per signature \('train'\); select one .*signature_name: train",
    ),
    "stride 0": (
        lambda: convolved(strideH=0),
        r"CONV_2D \(tensor 't3'\): strides, .* must be 1 or more; found StrideH 0",
    ),
    "stride negative": (lambda: convolved(strideW=-1), "must be 1 or more; found StrideW -1"),
    "dilation 0": (lambda: convolved(dilationHFactor=0), "found DilationHFactor 0"),
    "window of pooling": (pooled_over_nothing, r"MAX_POOL_2D .*; found FilterWidth 0"),
    "buffer that the file does not have": (
        lambda: added(edit=without_buffers),
        "tensor 't0' is in buffer 0; the file has 0 buffers",
    ),
    "operator with subgraphs": (
        lambda: added(edit=branching),
        r"IF \(tensor 't2'\): a damaged TFLite model: an operator runs subgraph 0",
    ),
    "int16 slopes": (sloped_wide, "PRELU .*'t2'.* has int16 slopes, which LiteRT.* as int8"),
    "int16 exponential": (exponential_wide, "EXP .*'t1'.* inputs up to 98.3, .* exceeds float32"),
    "mark alone": (lambda: b"\0\0\0\0TFL3", "not a valid Flatbuffer"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_with_place_rule_and_finding(case: str) -> None:
    make, message = REFUSED[case]
    with pytest.raises(UserError, match=message):
        lowered(make())


def shifted_floats() -> bytes:
    """Floats are added to floats without a literal in C; LiteRT's sums are finite."""
    builder = ModelBuilder()
    odd = np.array([np.nan, 1e38, -1e38, -0.0, 1e-45, 3.4e38], "float32")
    inputs = [builder.input((6,), "float32", None), builder.constant(odd)]
    builder.operator("ADD", inputs, [builder.output((6,), "float32", None)], "AddOptions")
    return builder.build()


LOOKS_ODD = {
    "scalar": lambda: added(shape=()),
    "no shape": lambda: added(edit=tensors(shape=None)),
    "no options": lambda: added(edit=operator(builtinOptionsType=0, builtinOptions=None)),
    "output twice": lambda: added(edit=whole_graph(outputs=[SUM, SUM])),
    "input is output": lambda: added(edit=whole_graph(outputs=[SUM, FIRST])),
    "several signatures": lambda: added(edit=signature_of(0)),
    "batch left open": lambda: added(edit=tensors(shapeSignature=[-1, 4])),
    "scale smallest": lambda: added(Quantization(1.2e-38, 3)),
    "scale of one channel smallest": lambda: convolved((0.1, 1.2e-38, 0.3)),
    "floats without a literal": shifted_floats,
}


@pytest.mark.needs("gcc")
@pytest.mark.parametrize("case", LOOKS_ODD)
def test_odd_model_is_compiled_exactly(case: str, tmp_path: Path) -> None:
    assert_exact(LOOKS_ODD[case](), tmp_path)


def test_reference_that_ends_its_process_ends_in_a_message() -> None:
    data = added(result=Quantization(3e38))
    sample = {name: np.zeros((1, 4), "int8") for name in ("t0", "t1")}
    with pytest.raises(UserError, match="crashes on this model: it ended with SIGABRT"):
        tflite.run_reference(data, [sample])


def test_one_scale_of_an_axis_that_is_not_there_is_taken_for_the_whole_tensor() -> None:
    wrong, right = added(edit=grid(FIRST, quantizedDimension=1)), added()
    assert tflite.import_model(wrong, "m", {})[1].remarks == ()  # an axis of the tensor
    wrong = added(edit=grid(FIRST, quantizedDimension=5))
    module, interface = tflite.import_model(wrong, "m", {})
    assert tvm_ffi.structural_equal(module, tflite.import_model(right, "m", {})[0])
    (remark,) = interface.remarks
    assert remark.endswith("firmwright uses it for the whole tensor")
    sample = {"a": np.arange(4, dtype="int8").reshape(1, 4), "b": np.ones((1, 4), "int8")}
    ours, expected = (tflite.run_reference(data, [sample]).outputs for data in (wrong, right))
    assert np.array_equal(ours[0][0], expected[0][0])
