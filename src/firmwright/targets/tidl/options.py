"""The options of ``tidl`` in the target string, under the names that TI gives them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from firmwright.errors import UserError

VALUES: Mapping[str, tuple[str, ...]] = {
    "tensor_bits": ("8", "16", "32"),
    "max_num_subgraphs": (),
    "min_macs": (),
    "deny_list:layer_type": (),
    "deny_list:layer_name": (),
    "allow_list:layer_name": (),
}


@dataclass(frozen=True)
class TidlOptions:
    """What is offloaded: ``tensor_bits`` of an element at most, 32 for floats.

    Of the regions, the ``max_num_subgraphs`` with most multiply-accumulates stay, and of those
    the ones with ``min_macs`` or more. The lists hold operator types as Relax names them, and
    layer names of the model.
    """

    tensor_bits: int = 8
    max_num_subgraphs: int = 16
    min_macs: int = 0
    denied_types: tuple[str, ...] = ()
    denied_names: tuple[str, ...] = ()
    allowed_names: tuple[str, ...] = ()


def read_options(given: Mapping[str, str]) -> TidlOptions:
    """Read the target string's options; UserError for a number that is none, or both lists."""
    if "allow_list:layer_name" in given and any(k.startswith("deny_list") for k in given):
        raise UserError("target: tidl takes an allow_list or deny_lists, not both")
    return TidlOptions(
        tensor_bits=whole_number(given, "tensor_bits", 8),
        max_num_subgraphs=whole_number(given, "max_num_subgraphs", 16),
        min_macs=whole_number(given, "min_macs", 0),
        denied_types=listed(given, "deny_list:layer_type"),
        denied_names=listed(given, "deny_list:layer_name"),
        allowed_names=listed(given, "allow_list:layer_name"),
    )


def whole_number(given: Mapping[str, str], name: str, default: int) -> int:
    text = given.get(name, str(default))
    if not text.isascii() or not text.isdigit():
        raise UserError(f"target: tidl: {name} is a whole number, not '{text}'")
    return int(text)


def listed(given: Mapping[str, str], name: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in given.get(name, "").split(",") if part.strip())
