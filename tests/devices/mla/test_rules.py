"""Each rule of SiMa's tables: an accepted case at the limit, and the message of a rejected one."""

from __future__ import annotations

from pathlib import Path

import pytest
from tvm import relax

from firmwright.devices.mla.option_table import OPTIONS
from firmwright.devices.mla.options import mla_rules, read_options
from firmwright.errors import UserError
from firmwright.targets import Context
from firmwright.targets.device_options import Option, format_values
from firmwright.toolchain import load_platform
from tests.devices.tidl.networks import values

from .networks import SHAPE, Build, refusals

op = relax.op
DOCS = Path(__file__).parents[3] / "docs" / "reference" / "mla.md"


def conv(**a: object) -> Build:
    return lambda x: op.nn.conv2d(x, values(4, 4, 1, 1), **a)


def transposed(groups: int = 1, stride: int = 2) -> Build:
    weights = values(4, 4 // groups, 2, 2)
    return lambda x: op.nn.conv2d_transpose(x, weights, strides=[stride] * 2, groups=groups)


def pool(side: int, **a: object) -> Build:
    return lambda x: op.nn.max_pool2d(x, pool_size=[side, side], **a)


def average(counted: bool) -> Build:
    return lambda x: op.nn.avg_pool2d(
        x, pool_size=[3, 3], padding=[1, 1], count_include_pad=counted
    )


def resized(side: int, method: str, coordinates: str = "half_pixel", rounding: str = "") -> Build:
    return lambda x: op.image.resize2d(
        x, (side, side), layout="NCHW", method=method, rounding_method=rounding,
        coordinate_transformation_mode=coordinates,
    )  # fmt: skip


def raised(exponent: float) -> Build:
    return lambda x: op.power(x, relax.const(exponent, "float32"))


def sliced(step: int) -> Build:
    begin, end = (0, 8) if step > 0 else (7, -9)
    return lambda x: op.strided_slice(x, [2], [begin], [end], [step])


def joined(axis: int) -> Build:
    return lambda x: op.concat([x, x], axis)


LARGE = (1, 1, 300, 300)
FLAT = (1, 64)
CASES: dict[str, tuple[tuple[Build, tuple[int, ...]], tuple[Build, tuple[int, ...]], str]] = {
    "rank": ((op.nn.relu, SHAPE), (op.nn.relu, FLAT), "its input has 2 axes; the MLA supports 4"),
    "rank up to 5": ((joined(1), SHAPE), (joined(1), FLAT), "its input has 2 axes"),
    "product of computed tensors": (
        (lambda x: op.matmul(x, x), SHAPE),
        (lambda x: op.matmul(x, x), (3, 8, 8)),
        "its input has 3 axes and both operands are computed",
    ),
    "strides": (
        (conv(strides=[31, 31]), (1, 4, 32, 32)),
        (conv(strides=[32, 32]), (1, 4, 64, 64)),
        "its strides are [32, 32]; the MLA supports 1 to 31",
    ),
    "dilation": ((conv(dilation=[63, 63]), SHAPE), (conv(dilation=[64, 64]), SHAPE), "[64, 64]"),
    "transposed convolution": ((transposed(), SHAPE), (transposed(2), SHAPE), "2 groups"),
    "transposed convolution of single channels": (
        (transposed(4), SHAPE),
        (transposed(4, 4), SHAPE),
        "strides [4, 4]; the MLA supports transposed convolutions of single channels",
    ),
    "pooling": ((pool(127), LARGE), (pool(128), LARGE), "its window is [128, 128]"),
    "average of padding": ((average(True), SHAPE), (average(False), SHAPE), "count_include_pad=0"),
    "softmax axis": (
        (lambda x: op.nn.softmax(x, 1), SHAPE),
        (lambda x: op.nn.softmax(x, 3), SHAPE),
        "it runs along axis 3 of 4; the MLA supports only the axis of channels",
    ),
    "normalized axes": (
        (lambda x: op.nn.layer_norm(x, values(4), values(4), [1]), SHAPE),
        (lambda x: op.nn.layer_norm(x, values(8), values(8), [3]), SHAPE),
        "it normalizes axes [3]",
    ),
    "concatenation axis": ((joined(3), SHAPE), (joined(0), SHAPE), "it joins along the batch"),
    "slice": ((sliced(2), SHAPE), (sliced(-1), SHAPE), "with strides [-1]"),
    "transposed axes": (
        (lambda x: op.permute_dims(x, [0, 2, 3, 1]), SHAPE),
        (lambda x: op.permute_dims(x, [1, 0, 2, 3]), SHAPE),
        "it moves the batch axis",
    ),
    "pad": (
        (lambda x: op.nn.pad(x, [0, 0, 0, 0, 1, 1, 1, 1]), SHAPE),
        (lambda x: op.nn.pad(x, [0, 0, 1, 1, 0, 0, 0, 0]), SHAPE),
        "it pads by [0, 0, 1, 1, 0, 0, 0, 0]",
    ),
    "resize": (
        (resized(24, "linear"), SHAPE),
        (resized(16, "cubic"), SHAPE),
        "it resizes with cubic",
    ),
    "nearest element": (
        (resized(16, "nearest_neighbor"), SHAPE),
        (resized(24, "nearest_neighbor"), SHAPE),
        "it resizes by 3.0 and 3.0 to the nearest element",
    ),
    "nearest element with an even scale": (
        (resized(48, "nearest_neighbor", "half_pixel", "floor"), SHAPE),
        (resized(48, "nearest_neighbor", "asymmetric", "floor"), SHAPE),
        "it resizes by 6.0 with coordinates asymmetric",
    ),
    "reduced axes": (
        (lambda x: op.mean(x, [2, 3], keepdims=True), LARGE),
        (lambda x: op.mean(x, [2], keepdims=True), LARGE),
        "it reduces axes [2], 300 elements to one",
    ),
    "argmax axis": (
        (lambda x: op.argmax(x, 1, keepdims=True), SHAPE),
        (lambda x: op.argmax(x, 2, keepdims=True), SHAPE),
        "it runs along axis 2 of 4",
    ),
    "exponent": ((raised(0.5), SHAPE), (raised(1.5), SHAPE), "its exponent is 1.5"),
    "slope": (
        (lambda x: op.nn.prelu(x, values(4)), SHAPE),
        (lambda x: op.nn.prelu(x, op.mean(x, [0, 2, 3])), SHAPE),
        "its slopes are computed",
    ),
    "index": (
        (lambda x: op.take(x, relax.const([1, 0], "int32"), 1), SHAPE),
        (lambda x: op.take(x, relax.const([[1, 0]], "int32"), 1), SHAPE),
        "its index is constant and has 2 axes",
    ),
}
OPTIONS_BY_RULE = {"index": {"precision": "bf16"}}
"""The values that let the tables list an operator of a rule."""


def test_every_rule_has_a_case() -> None:
    assert list(CASES) == [rule.name for rule in mla_rules().rules]


@pytest.mark.parametrize("rule", CASES)
def test_a_rule_accepts_its_limit_and_refuses_what_is_beyond(rule: str) -> None:
    (build, shape), (beyond, its_shape), words = CASES[rule]
    options = OPTIONS_BY_RULE.get(rule, {})
    assert not refusals(build, shape, **options)
    refused = refusals(beyond, its_shape, **options)
    found = [text for text in refused if text.startswith(f"{rule}: ")]
    assert len(found) == 1
    assert words in found[0]


def test_an_operator_that_the_tables_do_not_list_is_named() -> None:
    assert refusals(op.sin) == ["operator: SiMa's tables do not list sin"]


def test_a_precision_that_the_tables_do_not_list_is_named() -> None:
    assert not refusals(op.log)
    assert refusals(op.log, precision="bf16") == [
        "precision: SiMa's tables list log for int8, not bf16"
    ]


def test_bias_and_activation_are_part_of_a_product_of_two_axes() -> None:
    def dense(x: relax.Var) -> relax.Expr:
        return op.nn.relu(op.add(op.matmul(x, values(64, 8)), values(8)))

    assert not refusals(dense, FLAT)


def test_options_lift_rules_or_keep_everything_off() -> None:
    assert not refusals(op.nn.relu, FLAT, any_shape_on_mla="1")
    assert refusals(op.nn.relu, arm_only="1") == [
        "arm_only: the target's arm_only keeps it off the MLA"
    ]


@pytest.mark.parametrize(
    ("platform", "options", "message"),
    [
        ("mlsoc", {"precision": "bf16"}, "precision is bf16, which chips of gen1 do not have"),
    ],
)
def test_options_that_do_not_fit_are_refused(
    platform: str, options: dict[str, str], message: str
) -> None:
    with pytest.raises(UserError, match=r"target: mla: ") as caught:
        read_options(Context(load_platform(platform), "onnx", options))
    assert message in str(caught.value)


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.name)
def test_every_option_is_documented(option: Option[str]) -> None:
    values = format_values(option.values) or "a list"
    default = f"`{option.default}`" if option.default else ""
    row = f"| `{option.name}` | {default} | {values} | {option.meaning} |"
    assert row in DOCS.read_text("utf-8")


def test_bf16_is_for_modalix() -> None:
    context = Context(load_platform("modalix"), "onnx", {"precision": "bf16"})
    assert read_options(context).values["precision"] == "bf16"
    assert {option.name for option in OPTIONS} == set(read_options(context).values)
