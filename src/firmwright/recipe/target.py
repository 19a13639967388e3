"""Parses the target: TVM's one-line notation, or an equivalent YAML list."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from firmwright.documents.schema_check import Finding, quote
from firmwright.documents.yaml_text import Pointer
from firmwright.errors import UserError
from firmwright.targets import DeviceSpec

_DEVICE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_OPTION = re.compile(r"--?([A-Za-z_][A-Za-z0-9_:-]*)(?:=(\S+))?")


def parse_target(text: str) -> tuple[DeviceSpec, ...]:
    """Return the devices of ``"npu -fast=1, c"``, in order of preference.

    Raises UserError with every error of the notation. The function does not check that a device
    exists.
    """
    devices, findings = read_target(text)
    if findings:
        raise UserError("\n".join(f"target: {finding.message}" for finding in findings))
    return tuple(device for _, device in devices)


def read_target(
    value: Any, key: str = "target"
) -> tuple[list[tuple[Pointer, DeviceSpec]], list[Finding]]:
    """Return the devices of a target with their pointers, and the errors of the target.

    ``value`` is the value of ``key``. Entries of the wrong type are skipped, because the schema has
    reported them.
    """
    devices: list[tuple[Pointer, DeviceSpec]] = []
    findings: list[Finding] = []
    for pointer, entry in _list_entries(value, key):
        if isinstance(entry, str):
            device = _parse_device(entry, pointer, findings)
        else:
            device = _read_mapping(entry)
        if device is None:
            continue
        if any(device.name == earlier.name for _, earlier in devices):
            findings.append(
                Finding(
                    pointer, f"the device {quote(device.name)} is named twice; remove one entry"
                )
            )
        devices.append((pointer, device))
    return devices, findings


def _list_entries(value: Any, key: str) -> Iterator[tuple[Pointer, Any]]:
    if isinstance(value, str):
        for part in value.split(","):
            yield (key,), part
    elif isinstance(value, list):
        for i, part in enumerate(value):
            named = isinstance(part, Mapping) and "device" in part
            yield (key, i, "device") if named else (key, i), part


def _parse_device(text: str, pointer: Pointer, findings: list[Finding]) -> DeviceSpec | None:
    name, *stated = text.split() or [""]
    if not name:
        findings.append(Finding(pointer, "a device is missing; write names, separated by commas"))
        return None
    if not _DEVICE.fullmatch(name):
        message = f"expected the name of a device, found {quote(name)}"
        if name.startswith(("-", "+")):
            message += "; write an option after its device, and a value with a comma "
            message += "as a quoted entry of a YAML list"
        findings.append(Finding(pointer, message))
        return None
    options: dict[str, str] = {}
    for option in stated:
        match = _OPTION.fullmatch(option)
        if not match:
            message = (
                f"{quote(name)}: expected an option as -name or -name=value, found {quote(option)}"
            )
            findings.append(Finding(pointer, message))
        elif match[1] in options:
            findings.append(
                Finding(
                    pointer,
                    f"{quote(name)}: the option {quote(match[1])} is set twice; remove one",
                )
            )
        else:
            options[match[1]] = match[2] or "1"
    return DeviceSpec(name, dict(sorted(options.items())))


def _read_mapping(entry: Any) -> DeviceSpec | None:
    if not isinstance(entry, Mapping) or not isinstance(entry.get("device"), str):
        return None
    options = entry.get("options", {})
    pairs = options.items() if isinstance(options, Mapping) else ()
    return DeviceSpec(entry["device"], {k: _format_option(v) for k, v in sorted(pairs)})


def _format_option(value: Any) -> str:
    # `-fast=1` and `fast: true` need one spelling, because the recipe's digest includes the
    # spelling.
    if isinstance(value, list):
        return ",".join(str(entry) for entry in value)
    return str(int(value)) if isinstance(value, bool) else str(value)
