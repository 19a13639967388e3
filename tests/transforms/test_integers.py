"""Whole numbers in float tensors become integers if a proof exists; other tensors stay float."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import tvm

from firmwright.compile import prepare_module
from firmwright.ir.relax import dtype_of, main_bindings, operator_name
from firmwright.models.onnx import importer as onnx
from firmwright.transforms.integers.fitting import fit_affine
from firmwright.transforms.integers.remarks import explain_floats
from firmwright.transforms.integers.stated_ranges import round_inputs
from tests.devices.tidl.networks import vm_outputs
from tests.networks.firmware import lowered, run_generated
from tests.networks.whole_floats import (
    WholeFloats,
    add_unclipped,
    diana_network,
    nemo_network,
    quantlab_network,
    residual_block,
)

Array = npt.NDArray[np.int64]

NETWORKS = {"diana-quantlib": diana_network, "quantlab": quantlab_network, "NEMO": nemo_network}


def import_whole(network: WholeFloats, rewrites: tuple[str, ...] = ("UseIntegers",)):  # type: ignore[no-untyped-def]
    module, _ = onnx.import_model(network.model().SerializeToString(), "x.onnx", {})
    return prepare_module(module, rewrites)


def sum_types(network: WholeFloats) -> list[str]:
    return list_sum_types(import_whole(network))


def list_sum_types(module: tvm.IRModule) -> list[str]:
    """Return the types of the convolutions' and products' results."""
    bindings = main_bindings(module)
    sums = ("relax.nn.conv2d", "relax.matmul")
    return [dtype_of(b.var) for b in bindings if operator_name(b.value) in sums]


@pytest.mark.needs("gcc")
@pytest.mark.parametrize("name", NETWORKS)
def test_c_equals_onnx_runtime(name: str, tmp_path: Path) -> None:
    """Attributes that tools write for each other are ignored."""
    data = NETWORKS[name](8).model(weight_bits=8).SerializeToString()
    random = np.random.default_rng(7)
    samples = [{"input": random.normal(0, 1, (1, 3, 8, 8)).astype("float32")} for _ in range(4)]
    expected = onnx.run_reference(data, samples).outputs
    found = run_generated(data, samples, tmp_path, format_name="onnx")
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_array_equal(ours[0], theirs[0])
    assert len(np.unique(expected[0][0])) > 10


@pytest.mark.parametrize("name", NETWORKS)
def test_every_convolution_has_a_form(name: str) -> None:
    network = lowered(NETWORKS[name](8).model().SerializeToString(), "onnx")
    regions = [r.name for r in network.partition.regions if "conv2d" in r.operators]
    notes = {k.region: k.note or "" for k in network.kernels.kernels}
    assert len(regions) >= 3
    assert all(notes[region].startswith("Form ") for region in regions)


def test_nothing_changes_where_it_is_switched_off() -> None:
    operators = [operator_name(b.value) for b in main_bindings(import_whole(diana_network(), ()))]
    assert "relax.floor" in operators
    assert "relax.right_shift" not in operators


def residual_with_divisors(shape: list[int]) -> WholeFloats:
    """A sum, a pool and an input have one range; quantlab and NEMO divide by shape [1] there."""
    network = WholeFloats((1, 6, 8, 8))
    start = network.x
    network.conv(6).shift(2.0**9, (0, 127))
    network.add("Add", start)
    network.divide(np.full(shape, 2.0))
    network.add("MaxPool", kernel_shape=[2, 2])
    network.divide(np.full(shape, 2.0))
    return network.conv(4).shift(2.0**9, (0, 127))


def widened_by_equal_factors() -> WholeFloats:
    network = WholeFloats((1, 3, 8, 8)).conv(1, largest=20)
    network.divide(np.full((1, 6, 1, 1), 64.0))
    network.channels = 6
    return network.conv(4).shift(2.0**9, (0, 127))


DIVISORS: dict[str, Callable[[], WholeFloats]] = {
    "a number": partial(residual_with_divisors, []),
    "shape [1]": partial(residual_with_divisors, [1]),
    "a number for each channel": partial(residual_with_divisors, [1, 6, 1, 1]),
    "more channels than the tensor": widened_by_equal_factors,
}


@pytest.mark.needs("gcc")
@pytest.mark.parametrize("name", DIVISORS)
def test_divisors_of_any_shape_give_what_onnx_runtime_gives(name: str, tmp_path: Path) -> None:
    network = DIVISORS[name]()
    assert sum_types(network) == ["int32", "int32"]
    data = network.model().SerializeToString()
    random = np.random.default_rng(5)
    shape = [d.dim_value for d in network.inputs[0].type.tensor_type.shape.dim]
    samples = [{"input": random.normal(0, 1, shape).astype("float32")} for _ in range(2)]
    expected = onnx.run_reference(data, samples).outputs
    found = run_generated(data, samples, tmp_path, format_name="onnx")
    np.testing.assert_array_equal(found, expected)


def sum_of_blocks(*factors: float, last: Callable[[WholeFloats], object]) -> WholeFloats:
    """Sums of 9 bits, which layers read without a clip before."""
    network = WholeFloats((1, 6, 8, 8)).conv(6).scale(2**-9, 16)
    for factor in factors:
        add_unclipped(network, 6, factor)
    return network.apply(last).shift(2.0**9, (0, 127))


def convolve(network: WholeFloats) -> WholeFloats:
    return network.conv(4, largest=20)


SUMS_OF_MORE_BITS: dict[str, Callable[[], WholeFloats]] = {
    "quantlab": partial(sum_of_blocks, 1.0, last=convolve),
    "NEMO": partial(sum_of_blocks, 32.0, last=convolve),
    "three terms": partial(sum_of_blocks, 1.0, 8.0, last=convolve),
    "a factor in the weights": partial(
        sum_of_blocks, 1.0, last=lambda n: n.add("Mul", n.constant(3)) and convolve(n)
    ),
}


@pytest.mark.needs("gcc")
@pytest.mark.parametrize("name", SUMS_OF_MORE_BITS)
def test_layers_read_the_terms_of_sums_of_more_than_8_bits(name: str, tmp_path: Path) -> None:
    network = SUMS_OF_MORE_BITS[name]()
    assert set(sum_types(network)) == {"int32"}
    data = network.model().SerializeToString()
    random = np.random.default_rng(5)
    samples = [{"input": random.normal(0, 1, (1, 6, 8, 8)).astype("float32")} for _ in range(2)]
    expected = onnx.run_reference(data, samples).outputs
    found = run_generated(data, samples, tmp_path, format_name="onnx")
    np.testing.assert_array_equal(found, expected)
    assert len(np.unique(expected)) > 10


NOT_SPLIT: dict[str, Callable[[WholeFloats], object]] = {
    "a depthwise layer": lambda n: n.conv(6, groups=6, largest=20),
    "a sum with an offset": lambda n: n.add("Add", n.constant(1)) and convolve(n),
    "a clip below the largest sum": lambda n: (
        n.add("Clip", n.constant(0), n.constant(400)) and convolve(n)
    ),
    "a factor that exceeds the weights": lambda n: n.add("Mul", n.constant(9)) and convolve(n),
}


@pytest.mark.parametrize("name", NOT_SPLIT)
def test_other_layers_after_sums_of_more_than_8_bits_stay_in_floats(name: str) -> None:
    assert sum_types(sum_of_blocks(1.0, last=NOT_SPLIT[name]))[-1] == "float32"


STAYING: dict[str, tuple[WholeFloats, str]] = {
    "an input without limits": (
        WholeFloats((1, 3, 8, 8), bounded=False).conv(4),
        "state them: `inputs: {its name: {integers: [0, 255]}}`",
    ),
    "an input that is clipped but not rounded": (
        WholeFloats((1, 3, 8, 8), bounded=False)
        .apply(lambda n: n.add("Clip", n.constant(-128), n.constant(127)))
        .conv(4),
        "its input is clipped, but not rounded to whole numbers",
    ),
    "sums that float32 rounds": (
        WholeFloats((1, 300, 8, 8)).conv(4, 5, largest=127),
        "its sums can reach",
    ),
    "an input of more than 8 bits": (
        WholeFloats((1, 3, 8, 8), bounded=False).shift(1.0, (-300, 300)).conv(4),
        "its input is from -300 to 300, which does not fit 8 bits",
    ),
    "weights of more than 8 bits": (
        WholeFloats((1, 3, 8, 8)).conv(4, largest=900),
        "which does not fit int8",
    ),
}


@pytest.mark.parametrize("name", STAYING)
def test_what_is_not_proven_stays_in_floats(name: str) -> None:
    network, reason = STAYING[name]
    assert sum_types(network) == ["float32"]
    ((_, found),) = explain_floats(import_whole(network))
    assert reason in found


def test_whole_numbers_that_are_stated_of_an_input_prove_its_layer() -> None:
    network = WholeFloats((1, 3, 8, 8), bounded=False).conv(4).shift(2.0**9, (0, 127)).conv(4)
    module, _ = onnx.import_model(network.model().SerializeToString(), "x.onnx", {})
    stated = prepare_module(round_inputs(module, [(0, 255)]), ("UseIntegers",))
    assert sum_types(network) == ["float32", "int32"]
    assert list_sum_types(stated) == ["int32", "int32"]
    assert explain_floats(stated) == []


def test_a_layer_behind_one_that_stays_is_integers() -> None:
    network = WholeFloats((1, 3, 8, 8), bounded=False).conv(4).shift(64, (0, 127)).conv(4)
    assert sum_types(network) == ["float32", "int32"]
    assert [name for name, _ in explain_floats(import_whole(network))] == ["conv_0"]


def test_a_requantization_that_overflows_stays_as_it_is() -> None:
    """The sums are integers; the next operators wrap around in int64, as in the reference."""
    network = WholeFloats((1, 3, 8, 8)).conv(4).truncate(2.0, 2**45, 2**46 - 1).conv(4)
    operators = [operator_name(b.value) for b in main_bindings(import_whole(network))]
    assert sum_types(network) == ["int32", "int32"]
    assert operators.count("relax.divide") == 2  # the input's divide, and the divide after the sums


def test_sums_of_two_tensors_and_products_are_integers() -> None:
    network = WholeFloats((1, 16, 4, 4)).apply(lambda n: residual_block(n, 16))
    network.add("MaxPool", kernel_shape=[4, 4])
    assert sum_types(network.dense(10)) == ["int32"] * 3


CHAINS: dict[str, tuple[Callable[[Array], Array], float, tuple[int, int]]] = {
    "a division that rounds down": (lambda s: np.floor(s / 64), 1 / 64, (-128, 127)),
    "a division towards zero": (lambda s: np.trunc(s / 64), 1 / 64, (0, 127)),
    "half-way values": (lambda s: np.floor(s / 64 + 0.5), 1 / 64, (-128, 127)),
    "no power of two": (lambda s: np.floor(np.float32(s) * np.float32(0.0123)), 0.0123, (0, 255)),
    "products that float32 rounds": (
        lambda s: np.floor(np.float32(s) * np.float32(54321) / np.float32(2**22)),
        54321 / 2**22,
        (0, 255),
    ),
    "a factor below zero": (lambda s: np.floor(s * -3 / 64), -3 / 64, (-128, 127)),
    "a result that is always the same": (lambda s: np.floor(s / 2**20), 2.0**-20, (0, 3)),
}


@pytest.mark.parametrize("name", CHAINS)
def test_fitted_numbers_equal_the_chain_for_every_sum(name: str) -> None:
    compute, slope, limits = CHAINS[name]

    def clip(sums: Array) -> Array:
        return np.clip(compute(sums), *limits)

    low, high = np.array([-30_001]), np.array([40_003])
    fitted = fit_affine(clip, np.array(slope), low, high, limits)
    assert fitted is not None
    sums = np.arange(low[0], high[0] + 1)
    found = (sums * fitted.multipliers + fitted.offsets) >> fitted.shift
    np.testing.assert_array_equal(np.clip(found, *limits), clip(sums))


def test_a_power_of_two_needs_no_product() -> None:
    fitted = fit_affine(
        lambda s: np.clip(np.floor(s / 64), 0, 127), np.array(1 / 64),
        np.array([-99_999]), np.array([99_999]), (0, 127),
    )  # fmt: skip
    assert fitted is not None
    assert (fitted.multipliers.item(), fitted.offsets.item(), fitted.shift) == (1, 0, 6)


def test_a_chain_that_no_line_has_is_refused() -> None:
    assert (
        fit_affine(
            lambda s: np.clip(np.sqrt(np.maximum(s, 0)) // 1, 0, 127), np.array(0.01),
            np.array([-9_999]), np.array([99_999]), (0, 127),
        )
        is None
    )  # fmt: skip


def test_the_cast_of_a_rounded_input_rounds_without_floor() -> None:
    network = WholeFloats((1, 3, 8, 8), bounded=False).conv(4).shift(2.0**9, (0, 127))
    module, _ = onnx.import_model(network.model().SerializeToString(), "x.onnx", {})
    module = prepare_module(round_inputs(module, [(0, 255)]), ("UseChannelsLast", "UseIntegers"))
    operators = [operator_name(b.value) for b in main_bindings(module)]
    assert "relax.floor" not in operators
    x = np.array([np.nan, -0.5, 0.99, 254.99, 255.5, np.inf, -np.inf, 17.0], "float32")
    sample = np.resize(x, (1, 3, 8, 8))
    whole = np.nan_to_num(np.floor(sample), nan=255.0, posinf=255.0, neginf=0.0)
    expected, found = (vm_outputs(module, s) for s in (whole, sample))
    np.testing.assert_array_equal(found, expected)
