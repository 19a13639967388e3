"""Writes values as C literals with identical bits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

INDENTATION = "    "
LINE_LENGTH = 96 - len(INDENTATION)

SMALLEST = -(2**31)
"""Some integers at or below this number have no C literal."""

LARGEST = 2**63 - 1
"""The largest integer with a signed literal. Larger integers have an unsigned literal."""


def format_c_values(array: npt.NDArray[Any]) -> str:
    """Return the elements of an array as the lines of a C initializer, or '' if the array is
    empty."""
    flat = array.reshape(-1)
    if flat.dtype.kind in "iu" and flat.size and flat.min() > SMALLEST and flat.max() <= LARGEST:
        text = ", ".join(map(str, flat.tolist()))  # a fast path, because 100,000 weights are common
    else:
        text = ", ".join(format_c_value(value) for value in flat)
    return "\n".join(INDENTATION + line for line in split_lines(text))


def split_lines(text: str) -> Iterator[str]:
    """Split text at spaces into lines of maximum length. ``textwrap`` is too slow for weights."""
    start = 0
    while len(text) - start > LINE_LENGTH:
        end = text.rindex(" ", start, start + LINE_LENGTH + 1)
        yield text[start:end]
        start = end + 1
    if text:
        yield text[start:]


def format_c_string(text: str) -> str:
    """Return text as a C literal in UTF-8 that all compilers read identically.

    Octal escapes end after three digits. Question marks are escaped because of trigraphs.
    """
    escaped = "".join(
        chr(byte) if 32 <= byte < 127 and chr(byte) not in '"\\?' else f"\\{byte:03o}"
        for byte in text.encode()
    )
    return f'"{escaped}"'


def format_c_value(value: np.generic) -> str:
    """Return the exact C of one number. The smallest int32 and int64 are macros."""
    if isinstance(value, np.floating):
        return format_c_float(value.tobytes()[::-1].hex())
    if isinstance(value, np.bool_):
        return "true" if value else "false"
    number = int(value)
    if number == -(2**31):
        return "INT32_MIN"
    if number == -(2**63):
        return "INT64_MIN"
    return f"{number}U" if number > LARGEST else str(number)


def format_c_float(bits: str) -> str:
    """Return the shortest decimal C literal with identical bits.

    ``bits`` is the big-endian pattern of the value in hexadecimal, of 4 or 8 bytes.
    """
    value = np.frombuffer(bytes.fromhex(bits), ">f4" if len(bits) == 8 else ">f8")[0]
    if np.isnan(value):
        return "NAN"
    if np.isinf(value):
        return "INFINITY" if value > 0 else "(-INFINITY)"
    digits = np.format_float_scientific(value, trim="0") if needs_exponent(value) else str(value)
    literal = f"{digits}f" if len(bits) == 8 else digits
    return f"({literal})" if value < 0 else literal


def needs_exponent(value: np.floating[Any]) -> bool:
    return bool(value != 0 and not 1e-4 <= abs(value) < 1e7)
