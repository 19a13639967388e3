"""The comparison of outputs: the differences, and the message for the first one."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from firmwright.data.samples import random_samples
from firmwright.errors import UserError
from firmwright.ir.tensors import Tensor
from firmwright.recipe.recipe import Tolerance
from firmwright.verify.compare import compare, compute_share
from firmwright.verify.protocol import decode_outputs, encode_samples

OUTPUT = Tensor("scores", (1, 4), "float32")
EXACT = Tolerance(0.0, 0.0)


def row(*values: float) -> list[list[np.ndarray]]:
    return [[np.array([values], "float32")]]


def test_equal_special_values_are_no_difference() -> None:
    values = row(float("nan"), float("inf"), float("-inf"), -0.0)
    agreement = compare(
        [OUTPUT], values, row(float("nan"), float("inf"), float("-inf"), 0.0), EXACT
    )
    assert (agreement.differences, agreement.exact_samples) == (0, 1)


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), 2.0])
def test_first_mismatch_is_named(wrong: float) -> None:
    with pytest.raises(
        UserError, match=r"output 'scores', index \[0, 2\]: firmware .*, reference 1"
    ):
        compare([OUTPUT], row(1, 1, wrong, wrong), row(1, 1, 1, 1), Tolerance(0.5, 0.1))


def test_a_number_in_place_of_an_infinity_is_a_mismatch() -> None:
    with pytest.raises(UserError, match="reference inf"):
        compare([OUTPUT], row(1, 1, 1, 1), row(1, 1, float("inf"), 1), Tolerance(1.0, 1.0))


def test_tolerance_is_absolute_plus_relative() -> None:
    tolerance = Tolerance(0.5, 0.1)
    agreement = compare([OUTPUT], row(10, 11.5, 0, 0), row(10, 10, 0, 0), tolerance)
    assert (agreement.mismatches, agreement.differences, agreement.max_difference) == (0, 1, 1.5)
    with pytest.raises(UserError):
        compare([OUTPUT], row(10, 11.6, 0, 0), row(10, 10, 0, 0), tolerance)


@pytest.mark.parametrize(("kind", "last"), [("float16", 2**-11), ("bfloat16", 2**-8)])
def test_a_step_of_a_16_bit_float_is_the_distance_of_its_neighbors(kind: str, last: float) -> None:
    output, dtype = Tensor("y", (2,), kind), np.dtype(getattr(ml_dtypes, kind, kind))
    expected = [[np.array([0.75, float("nan")], dtype)]]
    near = [[np.array([0.75 + last, float("nan")], dtype)]]
    tolerance = Tolerance(0, 0, range=1e-4, steps=1)
    assert compare([output], near, expected, tolerance).differences == 1
    far, number = ([[np.array(a, dtype)]] for a in ([0.75 + 2 * last, np.nan], [0.75, 1.0]))
    for wrong in (far, number):
        with pytest.raises(UserError, match="1 of 2 values"):
            compare([output], wrong, expected, tolerance)
    with pytest.raises(UserError, match="1 of 2 values"):
        compare([output], near, expected, EXACT)


def test_range_is_of_all_samples_and_of_floating_point_alone() -> None:
    ours, theirs = [*row(0.5, 0, 0, 0), *row(9, 9, 9, 9)], [*row(0, 0, 0, 0), *row(9, 9, 10, 10)]
    assert compare([OUTPUT], ours, theirs, Tolerance(0, 0, range=0.1)).mismatches == 0
    with pytest.raises(
        UserError, match=r"(?s)tolerance \(range 0.09\).*more than rounding explains"
    ):
        compare([OUTPUT], ours, theirs, Tolerance(0, 0, range=0.09))
    integers = Tensor("y", (2,), "int8")
    one, other = [[np.array([0, 9], "int8")]], [[np.array([1, 9], "int8")]]
    with pytest.raises(UserError):
        compare([integers], one, other, Tolerance(0, 0, range=1))


def test_a_constant_output_has_the_range_of_its_rounding() -> None:
    expected = np.full((1, 2), 1000.0, "float32")
    neighbor = np.nextafter(expected, np.float32(np.inf))
    output, tolerance = Tensor("y", (1, 2), "float32"), Tolerance(0, 0, range=1e-4)
    assert compare([output], [[neighbor]], [[expected]], tolerance).mismatches == 0
    with pytest.raises(UserError, match="more than rounding explains"):
        compare([output], [[expected + 1]], [[expected]], tolerance)


def test_steps_have_the_size_that_the_output_gives_them() -> None:
    ours, theirs = row(0.26, 0, 0, 0), row(0, 0, 0, 0)
    assert compare([OUTPUT], ours, theirs, Tolerance(0, 0, steps=1), [0.27]).mismatches == 0
    with pytest.raises(UserError):
        compare([OUTPUT], ours, theirs, Tolerance(0, 0, steps=1), [0.25])


def test_unsigned_and_wide_integers_do_not_wrap() -> None:
    tensor = Tensor("y", (2,), "uint8")
    ours, theirs = [[np.array([0, 255], "uint8")]], [[np.array([255, 0], "uint8")]]
    agreement = compare([tensor], ours, theirs, Tolerance(255, 0))
    assert agreement.max_difference == 255


@pytest.mark.parametrize("expected", [np.ones((1, 4), "int32"), np.ones((1, 5), "float32")])
def test_an_output_of_another_kind_or_size_is_refused(expected: np.ndarray) -> None:
    with pytest.raises(UserError, match=r"output 'scores' is float32 .* and .* in the reference"):
        compare([OUTPUT], row(1, 1, 1, 1), [[expected]], Tolerance(relative=0.0, absolute=1.0))


def test_samples_are_the_same_for_the_same_seed_only() -> None:
    inputs = (Tensor("a", (2, 3), "int8"), Tensor("b", (4,), "float32"), Tensor("c", (9,), "bool"))
    first, again, other = (
        encode_samples(inputs, random_samples(inputs, 3, seed)) for seed in (1, 1, 2)
    )
    assert first == again
    assert first != other
    assert len(first) == 4 + 3 * (6 + 16 + 9)


def test_integers_are_drawn_from_what_they_index() -> None:
    inputs = (Tensor("ids", (40,), "int64"), Tensor("free", (40,), "int8"))
    (sample,) = random_samples(inputs, 1, 1, {"ids": (0, 29)})
    assert set(sample["ids"]) <= set(range(30))
    assert np.ptp(sample["free"].astype(int)) > 100


def test_outputs_are_read_back_and_missing_ones_noticed() -> None:
    tensor = Tensor("y", (2,), "int16")
    console = b"log text\n@output 0 0 01000200\n@done 1\n"
    assert decode_outputs(console, [tensor], 1, 0)[0][0].tolist() == [1, 2]
    with pytest.raises(UserError, match="exit code 7"):
        decode_outputs(console, [tensor], 1, 7)
    with pytest.raises(UserError, match="did not write"):
        decode_outputs(b"@done 1\n", [tensor], 1, 0)
    with pytest.raises(UserError, match="wrote 2 bytes; expected 4"):
        decode_outputs(b"@output 0 0 0100\n@done 1\n", [tensor], 1, 0)
    with pytest.raises(UserError, match="Its last lines:"):
        decode_outputs(b"@output 0 0 01000200\n", [tensor], 1, 0)


def test_a_tolerance_is_proposed_only_for_rounding() -> None:
    integers = Tensor("y", (2,), "int8")
    zeros = [[np.array([0, 0], "int8")]]
    for wrong, advice in ((1, "state `run: {tolerance"), (2, "more than rounding explains")):
        with pytest.raises(UserError, match=advice):
            compare([integers], [[np.array([0, wrong], "int8")]], zeros, EXACT)
    for apart, advice in ((1e-4, "state `run: {tolerance"), (0.1, "more than rounding explains")):
        with pytest.raises(UserError, match=advice):
            compare([OUTPUT], row(0, 0, 0, 2 + apart), row(0, 0, 0, 2), EXACT)


def test_the_distance_of_evaluators_is_a_share_of_the_range() -> None:
    assert compute_share(row(0, 1, 2, 4.1), row(0, 1, 2, 4)) == pytest.approx(0.025, rel=1e-4)
    integers = [[np.array([-100, 0, 100], "int16")]]
    for apart, share in ((1, 0), (3, 0.01)):
        other = [[np.array([-100, apart, 100], "int16")]]
        assert compute_share(other, integers) == pytest.approx(share)
