"""C identifiers for names that models give their tensors."""

from __future__ import annotations

import re
from collections.abc import Iterable

KEYWORDS = frozenset(
    """
    auto break case char const continue default do double else enum extern float for goto if
    inline int long register restrict return short signed sizeof static struct switch typedef
    union unsigned void volatile while _Bool _Complex _Imaginary
    bool true false class new delete this template private public protected virtual try catch
    throw namespace using operator friend typename explicit export mutable
    """.split()
)
"""C99's keywords, and those of C++ that a header shared with C++ must avoid as well."""

LONGEST = 60
"""Characters; C99 promises 63 significant ones for internal names."""


def c_identifier(name: str) -> str:
    """Return ``name`` with every character that C does not take replaced by an underscore."""
    text = re.sub(r"[^0-9A-Za-z_]+", "_", name).strip("_")[:LONGEST] or "tensor"
    if text[0].isdigit() or text in KEYWORDS:
        text = f"_{text}" if text[0].isdigit() else f"{text}_"
    return text.lstrip("_") if text.startswith("__") else text


def unique_identifiers(names: Iterable[str]) -> list[str]:
    """Return one identifier a name, in order; those that collide get a number."""
    taken: set[str] = set()
    result = []
    for name in names:
        stem = candidate = c_identifier(name)
        number = 1
        while candidate.lower() in taken:
            number += 1
            candidate = f"{stem}_{number}"
        taken.add(candidate.lower())
        result.append(candidate)
    return result


def in_comment(text: str) -> str:
    """Make any text safe between comment marks, on one line."""
    printable = "".join(c if c.isprintable() else " " for c in text)
    return printable.replace("*/", "* /").replace("/*", "/ *").replace("??", "? ?")
