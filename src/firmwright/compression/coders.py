"""Lists the coders of constants. The C function with a coder's name decodes the coder's bytes.

An array is encoded as bytes. The bytes of wider integers are signed digits: an integer is the sum
of its digits times powers of 256. Therefore the two digits of a word with two weights are these
weights, because a negative weight does not change the other digit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]

LONGEST = 15
"""The maximum length of a code in bits. The decoder can therefore compare 16-bit numbers."""

READ_AHEAD = 2
"""The number of bytes that the decoder may read after the last code."""


def encode_huffman(data: Bytes) -> Bytes | None:
    """Return canonical Huffman codes of bytes and their table, or None if all bytes are equal.

    Also None if 256 codes have one length, because a count is stored in one byte. The result begins
    with 15 bytes: the numbers of codes of 1 to 15 bits. The different bytes follow, in the order of
    their codes. The codes are at the end, the highest bit first. The decoder may read two more
    bytes at the end, but does not use them.
    """
    symbols, counts = np.unique(data, return_counts=True)
    if len(symbols) == 1:
        return None
    lengths = find_lengths(counts.tolist())
    order = np.lexsort((symbols, lengths))
    used = np.bincount(lengths, minlength=LONGEST + 1)[1:]
    if used.max() > np.iinfo(np.uint8).max:
        return None
    codes = np.zeros(256, np.int64)
    sizes = np.zeros(256, np.int64)
    code = length = 0
    for position in order:
        code <<= int(lengths[position]) - length
        length = int(lengths[position])
        codes[symbols[position]], sizes[symbols[position]] = code, length
        code += 1
    table = np.concatenate([used, symbols[order]]).astype(np.uint8)
    packed = pack_codes(codes[data], sizes[data])
    return np.concatenate([table, packed, np.zeros(READ_AHEAD, np.uint8)])


def find_lengths(counts: list[int]) -> npt.NDArray[np.int64]:
    """Return the lengths of optimal codes of at most ``LONGEST`` bits, according to package-merge.

    Source: Larmore and Hirschberg, A Fast Algorithm for Optimal Length-Limited Huffman Codes, 1990.
    """
    leaves: list[tuple[int, tuple[int, ...]]] = sorted(
        (count, (symbol,)) for symbol, count in enumerate(counts)
    )
    merged = leaves
    for _ in range(LONGEST - 1):
        pairs = zip(merged[::2], merged[1::2], strict=False)
        packages = [(a[0] + b[0], a[1] + b[1]) for a, b in pairs]
        merged = sorted([*leaves, *packages])
    lengths = Counter(s for _, each in merged[: 2 * (len(counts) - 1)] for s in each)
    return np.array([lengths[symbol] for symbol in range(len(counts))])


def pack_codes(codes: npt.NDArray[np.int64], sizes: npt.NDArray[np.int64]) -> Bytes:
    """Return the bits of all codes in sequence. The highest bit of each code is first."""
    starts = np.cumsum(sizes) - sizes
    bits = np.zeros(int(sizes.sum()), np.uint8)
    for position in range(LONGEST):
        longer = sizes > position
        bits[starts[longer] + position] = codes[longer] >> (sizes[longer] - 1 - position) & 1
    return np.packbits(bits)


Array = npt.NDArray[Any]

JOIN_INSTRUCTIONS = 12
"""The approximate number of instructions per byte that join the digits of an integer."""

JOIN = "join_digits"
"""The C function that joins digits."""

JOIN_BYTES = 290
"""The approximate bytes of the C function that joins digits, and of a call, on a Cortex-M4."""

DIGITS = (2, 4)
"""The bytes of integers that are split into digits. A word may have two halfwords of weights."""

INTEGERS = frozenset({"int8", "uint8", "int16", "uint16", "int32", "uint32"})

LEAST_BYTES = 64
"""The minimum number of bytes that a coder must save per array. A call needs about 64 bytes."""

INDEX_BITS = (1, 2, 4)
"""The numbers of bits of an index in a table of values."""

LANES = (1, 2, 4)
"""The numbers of channels whose weights forms store alternately."""

BLOCK_LANES = (1, 2, 4, 8)
"""The numbers of lanes (alternating bytes) in a row of blocks. A word may have two taps."""

LEAST_ROW = 32
"""The minimum number of bytes in a row with separate tables."""


@dataclass(frozen=True)
class Coder:
    """A method to encode bytes. ``encode`` returns None if the method does not support the bytes.

    ``instructions`` is the approximate number per decoded byte on a Cortex-M4. ``code_bytes`` is
    the approximate size of the C function and a call on a Cortex-M4 with ``-O2``.
    """

    name: str
    sentence: str
    encode: Callable[[Bytes], Bytes | None]
    instructions: int
    code_bytes: int


@dataclass(frozen=True)
class Encoded:
    """An encoded array: its bytes, and the number of instructions of the decoder.

    The decoded bytes are signed digits if ``joined`` is not 0, and the C code joins the digits to
    integers of ``joined`` bytes.
    """

    coder: Coder
    code: Bytes
    instructions: int
    saved: int
    joined: int

    @property
    def functions(self) -> dict[str, int]:
        """The C functions that decode the array, with their approximate sizes in bytes.

        All coders share the function that joins digits.
        """
        joining = {JOIN: JOIN_BYTES} if self.joined else {}
        return {self.coder.name: self.coder.code_bytes, **joining}


def encode_table(data: Bytes, bits: int) -> Bytes | None:
    """Return a table of at most 2^bits different bytes, then each byte's index, lowest bits first.

    None if there are more different bytes.
    """
    values, numbers = np.unique(data, return_inverse=True)
    if len(values) > 1 << bits:
        return None
    table = np.pad(values, (0, (1 << bits) - len(values)))
    return np.concatenate([table, pack_indices(numbers, bits)]).astype(np.uint8)


def encode_row_tables(data: Bytes) -> Bytes | None:
    """Return the smallest code with tables per channel, or None if no rows have few values.

    A row has the bytes of one to four channels, or of all channels. A lane has the bytes of one
    channel. A code begins with the size of a row, the number of lanes, and the number of bits of an
    index.
    """
    best: tuple[int, int, int, int] | None = None
    for rows, lanes in list_shapes(data.size):
        row, shaped = data.size // rows, data.reshape(rows, -1, lanes)
        if count_values(shaped[:1, :64]) > 1 << INDEX_BITS[-1]:
            continue  # The first bytes of one row already need too many indices.
        values = count_values(shaped)
        bits = next((b for b in INDEX_BITS if values <= 1 << b), 8)
        size = rows * ((lanes << bits) + -(-row * bits // 8))
        if bits < 8 and row < 1 << 24 and (best is None or size < best[0]):
            best = (size, rows, lanes, bits)
    return None if best is None else write_row_tables(data, *best[1:])


def count_values(shaped: Bytes) -> int:
    """Return the largest number of different bytes in a lane of a row; (rows, bytes, lanes)."""
    ordered = np.sort(shaped, axis=1)
    return 1 + int((ordered[:, 1:] != ordered[:, :-1]).sum(1).max())


def list_shapes(size: int, lanes_of: Sequence[int] = LANES) -> Iterator[tuple[int, int]]:
    """Yield the possible numbers of rows and lanes of an array of channels.

    Forms store the weights of 1, 2 or 4 channels alternately, and loops of all channels.
    """
    divisors = [n for n in range(2, size // LEAST_ROW + 1) if size % n == 0]
    yield from ((1, lanes) for lanes in divisors if lanes < 256)
    yield from (
        (rows, lanes) for rows in divisors for lanes in lanes_of if size // rows % lanes == 0
    )


def write_row_tables(data: Bytes, rows: int, lanes: int, bits: int) -> Bytes:
    row = data.size // rows
    code = bytearray(row.to_bytes(3, "little") + bytes([lanes, bits]))
    for each in data.reshape(rows, -1, lanes):
        numbers = np.empty(each.shape, np.int64)
        for lane in range(lanes):
            values, numbers[:, lane] = np.unique(each[:, lane], return_inverse=True)
            code += np.pad(values, (0, (1 << bits) - values.size)).tobytes()
        code += pack_indices(numbers.reshape(-1), bits).tobytes()
    return np.frombuffer(bytes(code), np.uint8)


def pack_indices(numbers: npt.NDArray[np.int64], bits: int) -> Bytes:
    """Return numbers of 1, 2 or 4 bits in bytes, the lowest bits first."""
    padded = np.pad(numbers, (0, -len(numbers) % (8 // bits))).reshape(-1, 8 // bits)
    packed: Bytes = (padded << bits * np.arange(8 // bits)).sum(1).astype(np.uint8)
    return packed


def encode_blocks(data: Bytes) -> Bytes | None:
    """Return the smallest code with a factor per block of weights, or None if no code is possible.

    The signed bytes of a block are multiples of the block's factor. The quotients have 4 bits. A
    row has one block per lane, and the bytes of the lanes alternate. A code begins with the size of
    a row and the number of lanes. Each row has its factors, then the quotients.
    """
    best: tuple[int, int, int] | None = None
    for rows, lanes in list_shapes(data.size, BLOCK_LANES):
        row = data.size // rows
        size = rows * (lanes + -(-row // 2))
        if row >= 1 << 24 or lanes > 255 or (best and size >= best[0]):
            continue
        shaped = data.view(np.int8).reshape(rows, -1, lanes)
        if has_factors(shaped[:1]) and has_factors(shaped):
            best = size, rows, lanes
    return None if best is None else write_blocks(data.view(np.int8), *best[1:])


def has_factors(shaped: npt.NDArray[np.int8]) -> bool:
    """Return whether the quotients of all blocks have 4 bits. Shape: (rows, bytes, lanes)."""
    wide = shaped.astype(np.int64)
    factors = np.maximum(np.gcd.reduce(wide, axis=1), 1)
    return bool((wide.min(1) >= -8 * factors).all() and (wide.max(1) <= 7 * factors).all())


def write_blocks(data: npt.NDArray[np.int8], rows: int, lanes: int) -> Bytes:
    row = data.size // rows
    code = bytearray(row.to_bytes(3, "little") + bytes([lanes]))
    for each in data.reshape(rows, -1, lanes).astype(np.int64):
        factors = np.maximum(np.gcd.reduce(each, axis=0), 1)
        code += factors.astype(np.uint8).tobytes()
        code += pack_indices((each // factors & 15).reshape(-1), 4).tobytes()
    return np.frombuffer(bytes(code), np.uint8)


def encode_zeros(data: Bytes) -> Bytes:
    """Return runs: n < 128 and n + 1 literal bytes, or n >= 128 for n - 127 zeros.

    A single zero between other bytes is a literal byte.
    """
    runs = bytearray()
    start = 0
    for first, end in find_zeros(data):
        write_literals(runs, data[start:first])
        runs += bytes(127 + length for length in split_run(end - first))
        start = end
    write_literals(runs, data[start:])
    return np.frombuffer(bytes(runs), np.uint8)


def find_zeros(data: Bytes) -> Iterator[tuple[int, int]]:
    """Yield the start and the end of each run of two or more zeros."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], data == 0, [0]])))
    for first, end in edges.reshape(-1, 2).tolist():
        if end - first > 1:
            yield first, end


def write_literals(runs: bytearray, data: Bytes) -> None:
    start = 0
    for length in split_run(len(data)):
        runs.append(length - 1)
        runs += data[start : start + length].tobytes()
        start += length


def split_run(length: int) -> list[int]:
    return [min(128, length - start) for start in range(0, length, 128)]


def make_table_coder(bits: int) -> Coder:
    sentence = f"a table of {1 << bits} values"
    return Coder(f"decode_table_{bits}", sentence, lambda data: encode_table(data, bits), 4, 90)


CODERS = (
    *map(make_table_coder, INDEX_BITS),
    Coder("decode_row_tables", "a table per channel", encode_row_tables, 11, 210),
    Coder("decode_blocks", "a factor per block", encode_blocks, 11, 210),
    Coder("decode_zeros", "runs of zeros", encode_zeros, 6, 560),
    Coder("decode_huffman", "a Huffman code", encode_huffman, 34, 1050),
)


LOOK_UP = Coder("look_up", "a table of 16 values in the loop", lambda _: None, 0, 0)
"""The method of layers that read weights from a table. Their C has no decoder."""


def split_digits(array: Array, size: int) -> Bytes:
    """Return the digits of the integers of ``size`` bytes in an array, lowest digit first."""
    rest = array.reshape(-1).view(f"i{size}").astype(np.int64)
    digits = np.empty((rest.size, size), np.int64)
    for position in range(size):
        digits[:, position] = (rest + 128) % 256 - 128
        rest = (rest - digits[:, position]) >> 8
    return digits.astype(np.int8).view(np.uint8).reshape(-1)


def list_encoded(array: Array, more: Sequence[Encoded] = ()) -> list[Encoded]:
    """Return the useful encodings of integers, from the fewest instructions to the fewest bytes.

    ``more`` are additional possible encodings. The list is empty for other types, and for arrays
    that no encoding makes smaller.
    """
    if array.dtype.name not in INTEGERS or array.nbytes <= LEAST_BYTES:
        return []
    encodings = [*more, *encode(array, array.reshape(-1).view(np.uint8), 0)]
    for size in DIGITS:
        if size <= array.dtype.itemsize:
            encodings += encode(array, split_digits(array, size), size)
    useful = list[Encoded]()
    least = LEAST_BYTES
    for each in sorted(encodings, key=lambda e: (e.instructions, -e.saved)):
        if each.saved >= least:
            useful.append(each)
            least = each.saved + 1
    return useful


def encode(array: Array, data: Bytes, joined: int) -> list[Encoded]:
    joining = JOIN_INSTRUCTIONS if joined else 0
    return [
        Encoded(
            coder,
            code,
            array.nbytes * (coder.instructions + joining),
            array.nbytes - code.size,
            joined,
        )
        for coder in CODERS
        if (code := coder.encode(data)) is not None
    ]
