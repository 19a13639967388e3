"""Chooses the coder of each array: the smallest result, or the highest savings per instruction."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from math import inf
from types import MappingProxyType

from firmwright.compression.coders import Array, Encoded, list_encoded

Encodings = Mapping[str, Encoded]
"""Maps the names of arrays to their encodings. Arrays that are not encoded are missing."""


class LimitError(Exception):
    """Raised if no choice of coders saves enough bytes. At least ``missing`` bytes remain."""

    def __init__(self, missing: int) -> None:
        super().__init__(missing)
        self.missing = missing


NO_TABLES: Encodings = MappingProxyType({})


def choose_smallest(arrays: Mapping[str, Array], tables: Encodings = NO_TABLES) -> Encodings:
    """Return the smallest encoding of each array that a coder makes smaller.

    ``tables`` are the encodings of layers that can read their weights from a table. A C function is
    not used if the arrays that need it save fewer bytes than the function, and than the other
    functions that only these arrays need.
    """
    encodings = list_all(arrays, tables)
    while True:
        chosen = {name: each[-1] for name, each in encodings.items() if each}
        wasted = find_wasted(chosen.values())
        if wasted is None:
            return chosen
        encodings = {
            n: [e for e in each if wasted not in e.functions] for n, each in encodings.items()
        }


def find_wasted(chosen: Collection[Encoded]) -> str | None:
    """Return the first C function that is larger than the bytes that it saves, or None."""
    sizes = {name: size for each in chosen for name, size in each.functions.items()}
    for name in sorted(sizes):
        users = [each for each in chosen if name in each.functions]
        rest = (each for each in chosen if name not in each.functions)
        others = {other for each in rest for other in each.functions}
        only_here = {other for each in users for other in each.functions} - others
        needed = sum(sizes[other] for other in only_here)
        if sum(each.saved for each in users) <= needed:
            return name
    return None


def list_all(arrays: Mapping[str, Array], tables: Encodings) -> dict[str, list[Encoded]]:
    return {
        name: list_encoded(arrays[name], [tables[name]] if name in tables else [])
        for name in sorted(arrays)
    }


def choose_for_limit(
    arrays: Mapping[str, Array], excess: int, tables: Encodings = NO_TABLES
) -> Encodings:
    """Return encodings that save at least ``excess`` bytes.

    Each step replaces the encoding of one array by a smaller encoding. The chosen step saves the
    most bytes per instruction. A step without additional instructions is the best step. The array's
    name decides between equal steps. The number of instructions is not always minimal. Raises
    LimitError if all steps together save fewer bytes.
    """
    encodings = list_all(arrays, tables)
    chosen = dict[str, Encoded]()

    def rate(step: tuple[str, Encoded]) -> float:
        name, encoded = step
        before = chosen.get(name)
        saved, instructions = (before.saved, before.instructions) if before else (0, 0)
        added = encoded.instructions - instructions
        return (encoded.saved - saved) / added if added > 0 else inf

    while excess > sum(each.saved for each in chosen.values()):
        steps = [
            (name, encoded)
            for name, each in encodings.items()
            for encoded in each
            if name not in chosen or encoded.saved > chosen[name].saved
        ]
        if not steps:
            raise LimitError(excess - sum(each.saved for each in chosen.values()))
        name, best = max(steps, key=rate)
        chosen[name] = best
    return chosen
