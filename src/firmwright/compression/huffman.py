"""Encodes bytes with canonical Huffman codes of at most 15 bits.

The result begins with 15 bytes: the numbers of codes of 1 to 15 bits. The different bytes follow,
in the order of their codes. The codes are at the end, the highest bit first. The decoder may read
two more bytes at the end, but does not use them.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]

LONGEST = 15
"""The maximum length of a code in bits. The decoder can therefore compare 16-bit numbers."""

READ_AHEAD = 2
"""The number of bytes that the decoder may read after the last code."""


def encode_huffman(data: Bytes) -> Bytes | None:
    """Return the codes of bytes and their table, or None if all bytes are equal.

    Also None if 256 codes have one length, because a count is stored in one byte.
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
    found = Counter(s for _, each in merged[: 2 * (len(counts) - 1)] for s in each)
    return np.array([found[symbol] for symbol in range(len(counts))])


def pack_codes(codes: npt.NDArray[np.int64], sizes: npt.NDArray[np.int64]) -> Bytes:
    """Return the bits of all codes in sequence. The highest bit of each code is first."""
    starts = np.cumsum(sizes) - sizes
    bits = np.zeros(int(sizes.sum()), np.uint8)
    for position in range(LONGEST):
        longer = sizes > position
        bits[starts[longer] + position] = codes[longer] >> (sizes[longer] - 1 - position) & 1
    return np.packbits(bits)
