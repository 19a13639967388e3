"""Parses and formats the frequencies, times, energies and sizes of recipes and platforms."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_HERTZ = {"Hz": 1, "kHz": 10**3, "MHz": 10**6, "GHz": 10**9}
_MILLISECONDS = {"us": 0.001, "ms": 1.0, "s": 1000.0}
_MICROJOULES = {"nJ": 0.001, "uJ": 1.0, "mJ": 1000.0}


def _parse(text: str, units: Mapping[str, float], expected: str) -> float:
    """Return a decimal number times its unit. Raises ValueError if the form is different."""
    match = re.fullmatch(rf"(\d+(?:\.\d+)?) ?({'|'.join(units)})", text)
    if match is None:
        raise ValueError(f"expected {expected}, found {text!r}")
    return float(match[1]) * units[match[2]]


def parse_frequency(frequency: int | str) -> int:
    """Return a frequency in Hz from a number of Hz or a text such as ``64 MHz``.

    Raises ValueError if the form is different or the frequency is below 1 Hz.
    """
    if isinstance(frequency, int):
        return frequency
    hertz = round(_parse(frequency, _HERTZ, "a frequency such as 64 MHz"))
    if hertz < 1:
        raise ValueError(f"expected a frequency of at least 1 Hz, found {frequency!r}")
    return hertz


def parse_time(time: str) -> float:
    """Return a time in milliseconds from a text such as ``10 ms`` (us, ms, s)."""
    return round(_parse(time, _MILLISECONDS, "a time such as 10 ms"), 6)


def parse_energy(energy: str) -> float:
    """Return an energy in microjoules from a text such as ``50 uJ`` (nJ, uJ, mJ)."""
    return round(_parse(energy, _MICROJOULES, "an energy such as 50 uJ"), 6)


def format_milliseconds(milliseconds: float) -> str:
    """Return a text such as ``64.4 ms``: three significant digits, or all whole milliseconds."""
    return f"{_format_digits(milliseconds)} ms"


def format_microjoules(microjoules: float) -> str:
    """Return a text such as ``38.4 µJ``: three significant digits, or all whole microjoules."""
    return f"{_format_digits(microjoules)} µJ"


def _format_digits(number: float) -> str:
    digits = max(0, 3 - len(str(int(number)))) if number >= 1 else 3
    return f"{number:,.{digits}f}"


def format_frequency(hertz: int) -> str:
    """Return a text such as ``64 MHz``, in the largest unit with a number of at least 1."""
    unit = max((u for u in _HERTZ if _HERTZ[u] <= hertz), key=_HERTZ.__getitem__)
    return f"{hertz / _HERTZ[unit]:g} {unit}"


_SIZE = re.compile(r"(\d+) ?(B|KiB|MiB|GiB)")
_UNITS = {"B": 1, "KiB": 1024, "MiB": 1024**2, "GiB": 1024**3}


def parse_size(size: int | str) -> int:
    """Return a size in bytes from a number or a text such as ``4 MiB`` (B, KiB, MiB, GiB)."""
    if isinstance(size, int):
        return size
    match = _SIZE.fullmatch(size)
    if match is None:
        raise ValueError(f"expected a size such as 512 B, 300 KiB, 10 MiB or 2 GiB, found {size!r}")
    return int(match[1]) * _UNITS[match[2]]


def read_sizes(value: Any) -> Any:
    """Return a description with every size in bytes."""
    if isinstance(value, dict):
        return {key: read_sizes(part) for key, part in value.items()}
    return parse_size(value) if isinstance(value, str) and _SIZE.fullmatch(value) else value
