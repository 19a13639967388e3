"""Chooses the coder of each array: the smallest result, or the highest savings per instruction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType

from firmwright.compression.coders import JOIN_BYTES, Array, Encoded, list_encoded

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

    ``tables`` are the encodings of layers that can read their weights from a table. A coder is not
    used if it saves fewer bytes than its C function needs.
    """
    found = list_all(arrays, tables)
    while True:
        chosen = {name: each[-1] for name, each in found.items() if each}
        saved, needed = Counter[str](), dict[str, int]()
        for each in chosen.values():
            coder = each.coder
            saved[coder.name] += each.saved
            joining = JOIN_BYTES if each.joined else 0
            needed[coder.name] = max(needed.get(coder.name, 0), coder.code_bytes + joining)
        wasted = [name for name in sorted(saved) if saved[name] <= needed[name]]
        if not wasted:
            return chosen
        found = {n: [e for e in each if e.coder.name != wasted[0]] for n, each in found.items()}


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
    most bytes per instruction. The array's name decides between equal steps. The number of
    instructions is not always minimal. Raises LimitError if all steps together save fewer bytes.
    """
    found = list_all(arrays, tables)
    chosen = dict[str, Encoded]()

    def rate(step: tuple[str, Encoded]) -> float:
        name, encoded = step
        before = chosen.get(name)
        saved, instructions = (before.saved, before.instructions) if before else (0, 0)
        return (encoded.saved - saved) / (encoded.instructions - instructions)

    while excess > sum(each.saved for each in chosen.values()):
        steps = [
            (name, encoded)
            for name, each in found.items()
            for encoded in each
            if name not in chosen or encoded.saved > chosen[name].saved
        ]
        if not steps:
            raise LimitError(excess - sum(each.saved for each in chosen.values()))
        name, best = max(steps, key=rate)
        chosen[name] = best
    return chosen
