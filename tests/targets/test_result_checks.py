"""If a plug-in's device returns a wrong value, the message names the line of its method."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest
import tvm
from tvm import relax

from firmwright.errors import UserError
from firmwright.ir.regions import Region
from firmwright.ir.relax import main_bindings
from firmwright.models.relax.importer import import_model
from firmwright.partition.outline import partition_module
from firmwright.recipe.target import parse_target
from firmwright.targets import Context
from firmwright.targets.custom import (
    METHODS,
    CustomTarget,
    guard_installed,
    load_custom_target,
)
from firmwright.targets.load_devices import load_mix
from firmwright.targets.placement import Composite, Placement
from firmwright.targets.result_checks import CHECKS, check_estimate, check_placement
from firmwright.toolchain import load_platform
from firmwright.transforms import canonicalize
from tests.devices.tidl.networks import network, saved, values

HOST = load_platform("host")
CONTEXT = Context(HOST, "onnx", {})
NPU = """\
from dataclasses import replace
import numpy as np
from firmwright.device import (
    Change, Composite, Cycles, Parameter, Placement, RuleViolation, Suggestion, Target,
    lower_region, main_bindings,
)


class NPU(Target):
    name = "npu"
    reason = "it can"

    def place(self, module, context):
        a, odd, last = (b.var for b in main_bindings(module))
        return Placement(PLACED)

    def lower(self, region, module, context):
        lowered = lower_region(region, module, context.rounding)
        kernel = lowered.kernel
        return replace(lowered, LOWERED)

    def estimate_cycles(self, region, module, context, changes=()):
        return -7

    def layout(self, context):
        return "rows"

    def suggest(self, region, module, context):
        return [SUGGESTED]

    def complete_changes(self, region, module, context, changes):
        return COMPLETED
"""


def make_device(folder: Path, **texts: str) -> CustomTarget:
    source = NPU
    for name, text in texts.items():
        source = source.replace(name.upper(), text)
    (folder / "npu.py").write_text(source, "utf-8")
    return load_custom_target("npu", "npu:NPU", folder)


def crossed() -> tvm.IRModule:
    """Return a convolution ``a``, an operator of it on another device, and the sum of both."""

    def build(builder: relax.BlockBuilder, x: relax.Var) -> list[relax.Expr]:
        a = builder.emit(relax.op.nn.conv2d(x, values(4, 4, 1, 1)), "a")
        odd = builder.emit(relax.op.sign(a), "odd")
        return [relax.op.add(a, odd)]

    return network(build)


@pytest.mark.parametrize(
    ("placed", "message"),
    [
        (
            '(Composite("pair", (a, last)),)',
            "the composite 'pair' closes a cycle: sign ('odd') reads one of its results, and "
            "another of its operators waits for this result; remove one of these operators",
        ),
        (
            '(Composite("one", (module["main"].params[0],)),)',
            "the composite 'one' has the variable 'x', which no operator of the network is bound "
            "to",
        ),
        (
            '(Composite("one", ("a",)),)',
            "the composite 'one' has a str; expected variables that operators are bound to",
        ),
        ("((a, odd),)", "a composite is a tuple; expected a Composite"),
        ('(Composite("none", ()),)', "the composite 'none' has no operators"),
        (
            '(Composite("one", (a,)), Composite("two", (a, odd)))',
            "the composite 'two' has 'a' of another composite",
        ),
        (
            '(), {odd: "it has no sign"}',
            "the violations of 'odd' are a str; expected a tuple of RuleViolations",
        ),
        (
            '(), {odd: ("it has no sign",)}',
            "the violations of 'odd' have a str; expected a tuple of RuleViolations",
        ),
        (
            '(), {odd: RuleViolation("operator", "it has no sign")}',
            "the violations of 'odd' are a RuleViolation; expected a tuple of RuleViolations",
        ),
        (
            '(), {"odd": (RuleViolation("operator", "it has no sign"),)}',
            "the violations have a str; expected variables that operators are bound to",
        ),
        ("None", "the composites are a NoneType; expected a tuple"),
        ("(Composite(1, (a,)),)", "a composite's kind is 1; expected a text"),
        (
            '(Composite("one", a),)',
            "the variables of the composite 'one' are a DataflowVar; expected a tuple",
        ),
        (
            "(), {odd: (RuleViolation(3, 'no sign'),)}",
            "a violation of 'odd': rule is 3; expected `str`, got `int`",
        ),
        ('(), ["odd"]', "the violations are a list; expected a dictionary"),
    ],
)
def test_a_wrong_placement(placed: str, message: str, tmp_path: Path) -> None:
    device = make_device(tmp_path, placed=placed)
    with pytest.raises(UserError) as raised:
        device.place(crossed(), CONTEXT)
    assert str(raised.value) == f"{tmp_path}/npu.py:13: place: {message} (npu:NPU)"


def test_of_two_cycles_one_is_told() -> None:
    def build(builder: relax.BlockBuilder, x: relax.Var) -> list[relax.Expr]:
        last = x
        for _ in range(2):
            first = builder.emit(relax.op.abs(last))
            last = builder.emit(relax.op.add(first, builder.emit(relax.op.sign(first))))
        return [relax.op.negative(last)]

    module = network(build)
    firsts, signs, sums = (
        [b.var for b in main_bindings(module)][place : place + 4 : 3] for place in range(3)
    )
    pairs = [Composite("pair", each) for each in zip(firsts, sums, strict=True)]
    recorded = check_placement(module, Placement((pairs[1], pairs[0])))
    assert recorded.startswith("the composite 'pair' closes a cycle: sign (")
    found = [sign for sign in signs if f"'{sign.name}'" in recorded]
    first = Placement((pairs[signs.index(found[0])],))
    assert check_placement(module, first) == recorded


@pytest.mark.parametrize(
    "placed",
    [
        '(Composite("all", (a, odd, last)),), {}',
        '(Composite("one", (a,)), Composite("two", (odd, last))), {}',
        '(Composite("one", (last,)),), {odd: (RuleViolation("operator", "it has no sign"),)}',
    ],
)
def test_a_right_placement_is_returned(placed: str, tmp_path: Path) -> None:
    assert make_device(tmp_path, placed=placed).place(crossed(), CONTEXT).composites


def first_region() -> tuple[Region, tvm.IRModule]:
    """Return the region of the convolution, and the module that has its function."""
    module, interface = import_model(saved(crossed()), "crossed", {})
    mix = load_mix(parse_target("c"), HOST, "onnx", fuse_layers=False)
    module, partition = partition_module(canonicalize(module), interface, mix)
    return partition.regions[0], module


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ("", ""),
        (
            "inputs=(replace(kernel.inputs[0], tensor='y'),)",
            "the input 'input' names 'y'; there is 'input_0'",
        ),
        (
            "inputs=(replace(kernel.inputs[0], elements=128),)",
            "the input 'input' has 128 float32; the tensor 'input_0' has 256 float32",
        ),
        (
            "outputs=(replace(kernel.outputs[0], dtype='int8'),)",
            "the output 'output' has 256 int8; the tensor 'region_000_conv2d_result' has 256 "
            "float32",
        ),
        ("outputs=()", "the kernel has no output for the tensor 'region_000_conv2d_result'"),
        (
            "weights=(replace(kernel.weights[0], tensor='w'),)",
            "the weight 'weights' names 'w'; there is 'region_000_conv2d_weights'",
        ),
        (
            "scratch=(Parameter('scratch', 'int7', 4, 'scratch'),)",
            "the scratch 'scratch' has 4 int7; expected one or more of bool, int8, uint8, int16, "
            "uint16, int32, uint32, int64, uint64, float16, bfloat16, float32, float64",
        ),
        ("cycles=Cycles(-4488, 0, 0)", "the kernel's cycles are negative: compute -4,488"),
        (
            "cycles=Cycles(1.5, 0, 0)",
            "the kernel's cycles.compute is 1.5; expected `int`, got `float`",
        ),
        (
            "cycles=Cycles(np.int64(1), 0, 0)",
            "the kernel's cycles: Encoding objects of type numpy.int64 is unsupported",
        ),
        (
            "inputs=(replace(kernel.inputs[0], elements=256.0),)",
            "the kernel's inputs[0].elements is 256.0; expected `int`, got `float`",
        ),
        ("body=None", "the kernel's body is None; expected `str`, got `null`"),
        ("region='a'", "the kernel is of 'a'; expected 'region_000_conv2d'"),
        (
            "weights=(Parameter('w', 'float32', 16, next(iter(lowered.weights)), 32),)",
            "the weight 'w' has the alignment 32; expected one of 0, 1, 2, 4, 8, 16",
        ),
    ],
)
def test_a_wrong_kernel(changed: str, message: str, tmp_path: Path) -> None:
    region, module = first_region()
    device = make_device(tmp_path, lowered=f"kernel=replace(kernel, {changed})")
    if not message:
        assert device.lower(region, module, CONTEXT).kernel.region == region.name
        return
    with pytest.raises(UserError) as raised:
        device.lower(region, module, CONTEXT)
    assert str(raised.value) == f"{tmp_path}/npu.py:17: lower: {message} (npu:NPU)"


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ("[1, 2]", "the weights are a list; expected a dictionary"),
        ("{'w': [1, 2]}", "the weights 'w' are a list; expected a numpy array"),
        (
            "{'w': np.zeros(2, complex)}",
            "the weights 'w' are complex128; expected one of bool, int8, uint8, int16, uint16, "
            "int32, uint32, int64, uint64, float16, bfloat16, float32, float64",
        ),
    ],
)
def test_weights_that_c_has_not(weights: str, message: str, tmp_path: Path) -> None:
    region, module = first_region()
    device = make_device(tmp_path, lowered=f"weights={weights}")
    with pytest.raises(UserError) as raised:
        device.lower(region, module, CONTEXT)
    assert str(raised.value) == f"{tmp_path}/npu.py:17: lower: {message} (npu:NPU)"


def test_a_text_for_a_kernel_and_fewer_cycles_than_none(tmp_path: Path) -> None:
    region, module = first_region()
    device = make_device(tmp_path, lowered="kernel='C'", suggested="Suggestion('do', -1), 'more'")
    for line, message, ask in (
        (17, "lower: the kernel is a str; expected a Kernel", device.lower),
        (22, "estimate_cycles: -7 cycles are negative; expected 0 or more", device.estimate_cycles),
        (28, "suggest: 'do': -1 cycles are negative; expected 0 or more", device.suggest),
    ):
        with pytest.raises(UserError) as raised:
            ask(region, module, CONTEXT)
        assert str(raised.value) == f"{tmp_path}/npu.py:{line}: {message} (npu:NPU)"
    device = make_device(tmp_path, suggested="'more'")
    with pytest.raises(UserError, match=r":28: suggest: a suggestion is a str; expected a Sugg"):
        device.suggest(region, module, CONTEXT)


def test_cycles_that_no_report_can_show() -> None:
    assert not check_estimate((1 << 63) - 1)
    assert check_estimate(1 << 63) == "the cycles need more than 63 bits; expected fewer"
    assert check_estimate(-(10**5000)).endswith(" cycles are negative; expected 0 or more")


def test_a_suggestion_and_a_layout_that_are_none(tmp_path: Path) -> None:
    device = make_device(tmp_path, suggested="Suggestion('do', 1.5)")
    with pytest.raises(UserError, match=r"suggest: a suggestion's cycles is 1\.5; expected `int`"):
        device.suggest(*first_region(), CONTEXT)
    with pytest.raises(UserError, match=r"layout: returned a str, which has no `allows_transf"):
        device.layout(CONTEXT)


@pytest.mark.parametrize(
    ("completed", "message"),
    [
        ("['strides 1']", "a change is a str; expected a Change"),
        ("(Change('strides', 7, 2, 1),)", "a change's quantity is 7; expected `str`, got `int`"),
        ("RuleViolation('strides', 7)", "the rule's sentence is 7; expected `str`, got `int`"),
        ("None", "returned a NoneType; expected a tuple or list or RuleViolation"),
    ],
)
def test_changes_of_other_types(completed: str, message: str, tmp_path: Path) -> None:
    device = make_device(tmp_path, completed=completed)
    with pytest.raises(UserError) as raised:
        device.complete_changes(*first_region(), CONTEXT, ())
    assert str(raised.value) == f"{tmp_path}/npu.py:31: complete_changes: {message} (npu:NPU)"


def test_a_device_of_another_package_is_checked_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = NPU.replace("PLACED", "((a, odd),)").replace("LOWERED", "1 / 0")
    (tmp_path / "chip_npu.py").write_text(source.replace("SUGGESTED", ""), "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    device = guard_installed(import_module("chip_npu").NPU(), "chip")
    assert device.packages == ("chip",)
    region, module = first_region()
    with pytest.raises(UserError, match=r"chip_npu.py:13: place: a composite is a tuple"):
        device.place(crossed(), CONTEXT)
    with pytest.raises(UserError, match=r"chip_npu.py:20: ZeroDivisionError: division by zero"):
        device.lower(region, module, CONTEXT)


def test_each_method_of_a_target_has_a_check() -> None:
    assert set(CHECKS) == METHODS
