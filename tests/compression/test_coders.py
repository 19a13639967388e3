"""Every coder: the C decodes the bytes of random arrays."""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from firmwright.compression.choice import LimitError, choose_for_limit, choose_smallest
from firmwright.compression.coders import (
    CODERS,
    DIGITS,
    JOIN,
    JOIN_BYTES,
    LONGEST,
    LOOK_UP,
    Encoded,
    encode,
    find_lengths,
    list_encoded,
    split_digits,
)
from firmwright.compression.decoding import make_files, make_state

COUNT = int(os.environ.get("FIRMWRIGHT_CODED_ARRAYS", "60"))
"""The number of random arrays; set the variable to 2000 after a change of coders."""

FUNCTIONS = sorted({coder.name for coder in CODERS} | {JOIN})
GUARD = 16

Array = npt.NDArray[Any]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    folder = tmp_path_factory.mktemp("library")
    for file in (make_state(), *(file for name in FUNCTIONS for file in make_files(name))):
        (folder / file.name).write_text(file.text)
    warnings = ["-Wall", "-Wextra", "-Werror", "-std=c99", "-fsanitize=undefined"]
    sources = [f"{name}.c" for name in FUNCTIONS]
    made = ["-fno-sanitize-recover", "-shared", "-fPIC", "-O1", "-o", "decode.so"]
    subprocess.run(["gcc", *warnings, *made, *sources], cwd=folder, check=True)
    return ctypes.CDLL(str(Path(folder / "decode.so")))


class Position(ctypes.Structure):
    _fields_ = (
        ("code", ctypes.c_void_p),
        ("at", ctypes.c_void_p),
        ("window", ctypes.c_uint32),
        ("ready", ctypes.c_int32),
    )


def decode(library: ctypes.CDLL, encoded: Encoded, array: Array, calls: int = 1) -> Array:
    """Return the array that several calls decode; assert that the C writes nothing after it."""
    result = np.full(array.nbytes + GUARD, 0xA5, np.uint8)
    position = Position(encoded.code.ctypes.data, None, 0, 0)
    start = result.ctypes.data
    for end in (array.nbytes * (n + 1) // calls for n in range(calls)):
        done = start - result.ctypes.data
        to = ctypes.c_void_p(start)
        getattr(library, encoded.coder.name)(ctypes.byref(position), to, end - done)
        start += end - done
    if encoded.joined:
        to = ctypes.c_void_p(result.ctypes.data)
        library.join_digits(to, array.nbytes, encoded.joined)
    assert (result[array.nbytes :] == 0xA5).all()
    return result[: array.nbytes].view(array.dtype)


def draw_arrays() -> Iterator[Array]:
    """Yield arrays of 1, 2, 4 and 8 bits, with and without zeros, of every type."""
    random = np.random.default_rng(0)
    for number in range(COUNT):
        dtype = ("int8", "uint8", "int16", "uint16", "int32", "uint32")[number % 6]
        limits = np.iinfo(dtype)
        bits = (1, 2, 4, 8)[number // 6 % 4]
        size = int(random.integers(1, 2000))
        values = random.integers(limits.min, limits.max, 1 << bits, dtype, endpoint=True)
        weights = random.dirichlet(np.full(len(values), 0.3))
        array = random.choice(values, size, p=weights)
        if random.random() < 0.4:
            array[random.random(size) < 0.8] = 0
        yield array


@pytest.mark.needs("gcc")
def test_every_code_decodes_to_its_array(library: ctypes.CDLL) -> None:
    used = set()
    for array in draw_arrays():
        for joined in (0, *(size for size in DIGITS if size <= array.dtype.itemsize)):
            data = split_digits(array, joined) if joined else array.view(np.uint8)
            for encoded in encode(array, data, joined):
                used.add((encoded.coder, joined > 0))
                for calls in (1, 3):
                    found = decode(library, encoded, array, calls)
                    np.testing.assert_array_equal(found, array)
    assert {coder.name for coder, _ in used} == {coder.name for coder in CODERS}
    assert {joined for _, joined in used} == {False, True}


@pytest.mark.needs("gcc")
@pytest.mark.parametrize("lanes", [1, 2, 4, 8])
@pytest.mark.parametrize("paired", [False, True])
def test_blocks_have_factors(library: ctypes.CDLL, lanes: int, paired: bool) -> None:
    """A block has 32 multiples of its factor, next to blocks of other channels."""
    random = np.random.default_rng(lanes)
    factors = random.integers(1, 16, (24, 1, lanes))
    weights = factors * random.integers(-8, 8, (24, 32, lanes))
    weights[:, :1], weights[:, 1:2] = -8 * factors, 7 * factors
    stored = weights.astype("int8").reshape(-1)
    if paired:
        low, high = weights.reshape(-1, 2).T
        stored = (low + 256 * high).astype("int16")
    smallest = list_encoded(stored)[-1]
    assert smallest.coder.name == "decode_blocks"
    assert smallest.code.size == 4 + 24 * lanes * (1 + 16)
    for calls in (1, 7):
        np.testing.assert_array_equal(decode(library, smallest, stored, calls), stored)


@pytest.mark.needs("gcc")
@pytest.mark.parametrize("lanes", [1, 4, 16])
def test_channels_with_few_values_have_tables(library: ctypes.CDLL, lanes: int) -> None:
    """All 16 channels together have about 100 values, and a channel has at most 4."""
    random = np.random.default_rng(lanes)
    tables = random.integers(-128, 128, (16, 4))
    rows = np.stack([random.choice(table, 200) for table in tables])
    stored = rows.reshape(-1, lanes, 200).transpose(0, 2, 1).astype("int8").reshape(-1)
    smallest = list_encoded(stored)[-1]
    assert smallest.coder.name == "decode_row_tables"
    assert smallest.code.size == 5 + 16 * (4 + 200 // 4)
    for calls in (1, 7):
        np.testing.assert_array_equal(decode(library, smallest, stored, calls), stored)


@pytest.mark.needs("gcc")
def test_codes_have_at_most_15_bits(library: ctypes.CDLL) -> None:
    """Counts of Fibonacci's series would need 22 bits."""
    counts = [1, 1]
    while len(counts) < 23:
        counts.append(counts[-1] + counts[-2])
    lengths = find_lengths(counts)
    assert lengths.max() == LONGEST
    assert sum(2.0**-lengths) == 1
    array = np.repeat(np.arange(23), counts).astype("int8")
    (encoded,) = (e for e in list_encoded(array) if e.coder.name == "decode_huffman")
    np.testing.assert_array_equal(decode(library, encoded, array), array)


def test_pairs_of_weights_in_a_word_are_stored_as_two_weights() -> None:
    """A word with two weights of 4 bits has more than 16 different bytes, but 16 digits."""
    random = np.random.default_rng(0)
    low, high = random.integers(-8, 8, (2, 4000))
    words = (low + 256 * high).astype("int16")
    tables = [e for e in list_encoded(words) if e.coder.name == "decode_table_4"]
    assert [(e.code.size, e.joined) for e in tables] == [(16 + 4000, 2)]


def test_equal_values_need_a_bit_each_and_random_bytes_stay() -> None:
    random = np.random.default_rng(0)
    assert choose_smallest({"w": np.full(4000, 7, "int8")})["w"].code.size == 2 + 500
    arrays = {"w": random.integers(-128, 128, 4000, "int8"), "f": np.zeros(4000, "float32")}
    assert not choose_smallest(arrays)


def test_a_function_that_saves_less_than_its_code_is_not_used() -> None:
    random = np.random.default_rng(0)
    geometric = np.minimum(random.geometric(0.5, 300), 40).astype("int8")
    assert any(e.coder.name == "decode_huffman" for e in list_encoded(geometric))
    assert not any(
        e.coder.name == "decode_huffman" for e in choose_smallest({"w": geometric}).values()
    )


def make_words(values: npt.NDArray[np.int64]) -> npt.NDArray[np.int16]:
    """Return words of two weights each. Their digits have few values, but their bytes have many."""
    low, high = values.reshape(2, -1)
    return (low + 256 * high).astype("int16")


def test_all_coders_share_the_function_that_joins_digits() -> None:
    """Each array saves more than its coder, and both save more than the coders and the join."""
    random = np.random.default_rng(0)
    arrays = {
        "four": make_words(random.integers(-8, 8, 600)),
        "two": make_words(random.integers(-2, 2, 480)),
    }
    four, two = (list_encoded(array)[-1] for array in arrays.values())
    assert {four.coder.name, two.coder.name} == {"decode_blocks", "decode_table_2"}
    for each in (four, two):
        assert each.joined == 2
        assert each.coder.code_bytes < each.saved < each.coder.code_bytes + JOIN_BYTES
    assert four.saved + two.saved > four.coder.code_bytes + two.coder.code_bytes + JOIN_BYTES
    chosen = choose_smallest(arrays)
    assert {name: each.coder for name, each in chosen.items()} == {
        "four": four.coder,
        "two": two.coder,
    }
    for name, array in arrays.items():
        alone = choose_smallest({name: array})
        assert not any(each.joined for each in alone.values())


def test_a_step_without_additional_instructions_is_the_best() -> None:
    """A tuned form may need as many instructions as the form that reads a table."""
    array = np.random.default_rng(0).integers(-8, 8, 4000).astype("int8")
    for instructions in (0, -400):
        free = Encoded(LOOK_UP, np.zeros(0, "uint8"), instructions, 1900, 0)
        assert choose_for_limit({"w": array}, 1000, {"w": free})["w"] is free


def test_a_limit_selects_the_codes_that_save_most_per_instruction() -> None:
    random = np.random.default_rng(0)
    four = random.integers(-8, 8, 4000).astype("int8")
    narrow = np.minimum(random.geometric(0.4, 4000), 100).astype("int8")
    arrays = {"four": four, "narrow": narrow}
    assert not choose_for_limit(arrays, 0)
    few = choose_for_limit(arrays, 1900)
    assert [(name, e.coder.name) for name, e in few.items()] == [("four", "decode_table_4")]
    assert set(choose_for_limit(arrays, 2500)) == {"four", "narrow"}
    smallest = sum(e.saved for e in choose_smallest(arrays).values())
    with pytest.raises(LimitError) as raised:
        choose_for_limit(arrays, smallest + 10)
    assert raised.value.missing == 10
