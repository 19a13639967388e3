"""Lists the differences between two configurations as texts such as ``samples: 8 → 3``."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from difflib import SequenceMatcher
from functools import partial
from typing import Any

import msgspec

LONGEST_VALUE = 40
RECIPE_KEY = re.compile(r"^options\.recipe\.(\*\.)?")
"""The start of a reason about a key that the stage names, or about any key (``*``)."""


def list_reasons(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Return the differences between two configurations, beginning with the recipe's keys."""
    reasons = list(list_differences(before, now))
    reasons.sort(key=lambda reason: not RECIPE_KEY.match(reason))
    return list(dict.fromkeys(RECIPE_KEY.sub("", reason) for reason in reasons))


def list_differences(before: Any, now: Any, name: str = "") -> Iterator[str]:
    """Yield a text such as ``samples: 8 → 3`` for each entry of nested data that differs."""
    if is_equal(before, now):
        return
    if isinstance(before, dict) and isinstance(now, dict):
        for key in dict.fromkeys((*before, *now)):
            yield from list_differences(before.get(key), now.get(key), f"{name}.{key}".strip("."))
    elif isinstance(before, list) and isinstance(now, list):
        yield from list_item_differences(before, now, name)
    else:
        yield f"{name}: {' → '.join(shorten_pair(before, now))}"


def is_equal(before: Any, now: Any) -> bool:
    """Return whether the JSON texts of two values are equal.

    Python's comparison is not sufficient, because 1 equals 1.0 and True.
    """
    return before == now and (isinstance(now, str) or encode(before) == encode(now))


encode = partial(msgspec.json.encode, order="sorted")
"""Return the JSON text of a value. Equal values have equal texts."""


def list_item_differences(before: list[Any], now: list[Any], name: str) -> Iterator[str]:
    texts = [[*map(encode, each)] for each in (before, now)]
    for kind, i, j, k, m in SequenceMatcher(None, texts[0], texts[1], autojunk=False).get_opcodes():
        if kind == "replace" and j - i == m - k:
            for old, new in zip(range(i, j), range(k, m), strict=True):
                yield from list_differences(before[old], now[new], f"{name}[{new}]")
        elif kind != "equal":
            yield from (f"{name}[{n}]: {shorten(before[n])} removed" for n in range(i, j))
            yield from (f"{name}[{n}]: {shorten(now[n])} added" for n in range(k, m))


def shorten_pair(before: Any, now: Any) -> list[str]:
    """Return two values as short texts that show the difference."""
    texts = [json.dumps(value) for value in (before, now)]
    pairs = zip(*texts, strict=False)
    same = next((i for i, (a, b) in enumerate(pairs) if a != b), min(map(len, texts)))
    cut = same - LONGEST_VALUE // 4 if max(map(len, texts)) > LONGEST_VALUE else 0
    return [cut_text(f"…{text[cut:]}" if cut > 0 else text) for text in texts]


def shorten(value: Any) -> str:
    return cut_text(json.dumps(value))


def cut_text(text: str) -> str:
    return text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE - 1]}…"
