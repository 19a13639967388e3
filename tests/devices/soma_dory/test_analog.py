"""DIANA's analog core, emulated without noise: its rules, its bits against numpy, its tiles."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm

from firmwright.compile import compile_network
from firmwright.devices.soma_dory.placing import place_layers
from firmwright.errors import UserError
from firmwright.models.relax.importer import import_model
from firmwright.project.network import Network
from firmwright.recipe.target import parse_target
from firmwright.targets import Context
from firmwright.targets.load_devices import load_mix
from firmwright.targets.placement import Placement
from firmwright.toolchain import Platform, load_platform
from firmwright.transforms import canonicalize
from firmwright.verify.protocol import decode_outputs
from tests.networks.firmware import SANITIZED, executed

from .analog_networks import AnalogForm, make_network
from .reference import evaluated

DIANA = load_platform("diana")
IMAGE = (8, 6, 9)

HOSTILE: dict[str, tuple[tuple[int, int, int], tuple[AnalogForm, ...], dict[str, int]]] = {
    # Sums of up to 64 · 72 for codes of up to 32: most sums saturate, at both ends.
    "both ends of the converter": (IMAGE, (AnalogForm(step=1.0),), {}),
    "a converter that shifts": (
        IMAGE,
        (AnalogForm(step=5, shifted=True, dtype="int32", offsets=(-31000, 31000)),),
        {},
    ),
    "odd widths, stride 2, channels that 16 does not divide": (
        (5, 11, 33),
        (AnalogForm(outputs=21, kernel=(5, 3), stride=2, padding=(2, 1, 1, 0), step=7.0),),
        {},
    ),
    "all rows of the array, and more outputs than it has columns": (
        (128, 3, 5),
        (AnalogForm(outputs=530, held=(0, 127), clip=(0, 127), step=40.0),),
        {},
    ),
    "tiles of rows and of columns of the array": (
        (16, 12, 17),
        (AnalogForm(outputs=40, kernel=(7, 7), padding=(3, 3, 3, 3), step=20.0),),
        {"l1": 9600, "analog_columns": 16},
    ),
    "analog, digital, analog, and clips that the core has to finish": (
        (8, 6, 16),
        (AnalogForm(held=(-64, 60), clip=(-3, 60), step=30.0),
         AnalogForm(held=None, kernel=(1, 1), padding=(0, 0, 0, 0), step=97.0, seed=1)),
        {},
    ),
}  # fmt: skip

REFUSED = {
    "analog weights": (AnalogForm(weights=(-1, 2)), "its weights are -1 to 2"),
    "analog input": (
        AnalogForm(held=(-65, 63)),
        "it reads numbers from [-65, 63]; the analog core",
    ),
    "converter": (AnalogForm(codes=(-31, 31)), "its converter clips to [-31, 31]; the analog"),
    "converter's step": (AnalogForm(step=3.5), "its converter divides by 3.5; the emulated core"),
    "batch normalization": (AnalogForm(by_row=True), "multiplied by a constant, [1, 1, 6, 1]"),
    "range of numbers": (
        AnalogForm(offsets=(-900, 31218)),
        "its batch normalization reaches 32768",
    ),
    "rows of the array": (AnalogForm(kernel=(7, 7), padding=(3, 3, 3, 3)), "have 1176 products"),
    "groups": (AnalogForm(groups=2), "it has 2 groups; the analog core has one"),
}
"""By rule: a layer that breaks the rule, and the message."""


def with_numbers(**numbers: int) -> Platform:
    return replace(
        DIANA, accelerators={"soma_dory": {**DIANA.accelerators["soma_dory"], **numbers}}
    )


def compiled(module: tvm.IRModule, platform: Platform, target: str) -> Network:
    data = tvm.ir.save_json(module).encode()
    module, interface = import_model(data, "test model", {})
    return compile_network(module, interface, load_mix(parse_target(target), platform, "onnx"))


def placed(form: AnalogForm, channels: int = 8, **options: str) -> Placement:
    module = canonicalize(make_network((channels, 6, 9), form))
    return place_layers(module, Context(DIANA, "onnx", options))


def sentences(placement: Placement) -> dict[str, str]:
    return {o.rule: o.sentence for found in placement.violations.values() for o in found}


@pytest.mark.needs("gcc")
@pytest.mark.parametrize("case", HOSTILE)
def test_the_bits_are_numpys(case: str, tmp_path: Path) -> None:
    image, forms, numbers = HOSTILE[case]
    module = make_network(image, *forms)
    network = compiled(module, with_numbers(**numbers), "soma_dory -analog, c")
    anchors = [region.anchor for region in network.partition.regions]
    assert anchors.count("analog_conv2d") == len(forms)
    random = np.random.default_rng(3)
    ends = random.choice([-128, 127], (1, *image)).astype("int8")
    samples: list[dict[str, Any]] = [
        {"x": ends}, {"x": random.integers(-128, 128, (1, *image)).astype("int8")},
    ]  # fmt: skip
    # The limits of the C model are those of the platform with the accelerator.
    ran = executed(network, samples, tmp_path, SANITIZED)
    found = decode_outputs(ran.console, network.interface.outputs, len(samples), ran.exit_code)
    for sample, (output,) in zip(samples, found, strict=True):
        np.testing.assert_array_equal(output, evaluated(module, sample)[0])


def test_the_converter_is_tried_at_both_ends() -> None:
    """The first hostile network reaches both ends of its converter, as its name states."""
    image, (form,), _ = HOSTILE["both ends of the converter"]
    codes = replace(form, factors=(1, 1), offsets=(0, 0), shift=0)
    sample = {"x": np.random.default_rng(3).choice([-128, 127], (1, *image)).astype("int8")}
    found = evaluated(make_network(image, codes), sample)[0]
    assert {found.min(), found.max()} == {-32, 31}


@pytest.mark.parametrize("rule", REFUSED)
def test_a_layer_that_breaks_a_rule_is_refused(rule: str) -> None:
    form, said = REFUSED[rule]
    channels = 24 if rule == "rows of the array" else 8
    placement = placed(form, channels, analog="1")
    assert not placement.composites
    assert said in sentences(placement)[rule]


def test_without_the_option_the_sentence_names_it() -> None:
    placement = placed(AnalogForm())
    assert not placement.composites
    assert "`soma_dory -analog`" in sentences(placement)["analog core"]


def test_a_layer_that_only_the_digital_accelerator_takes_stays_there() -> None:
    """A layer whose converter is a shift also fits the digital accelerator."""
    form = AnalogForm(step=3, shifted=True, dtype="int32", weights=(-2, 1))
    network = compiled(make_network(IMAGE, form), DIANA, "soma_dory -analog, c")
    placed = [r.anchor for r in network.partition.regions if r.device == "soma_dory"]
    assert placed == ["conv2d"]


def test_the_chip_has_no_way_to_the_core() -> None:
    with pytest.raises(
        UserError, match=r"of 'diana-chip' cannot be programmed[^~]*its inputs have a sign"
    ):
        compiled(make_network(IMAGE, AnalogForm()), load_platform("diana-chip"),
                 "soma_dory -analog, c")  # fmt: skip
