"""Rejects C names of inputs and outputs that C reserves, or that two of them share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from firmwright.codegen.names import is_reserved
from firmwright.documents.schema_check import Finding, quote


def find_c_name_errors(data: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield an error for each reserved or shared name. Values of the wrong type are skipped.

    The header has macros in capitals, so two names that differ only in case collide.
    """
    for key in ("inputs", "outputs"):
        entries, taken = data.get(key), dict[str, str]()
        for name, entry in entries.items() if isinstance(entries, dict) else ():
            chosen = entry.get("c_name") if isinstance(entry, dict) else None
            if not isinstance(chosen, str):
                continue
            pointer = (key, name, "c_name")
            other = taken.setdefault(chosen.lower(), name)
            if is_reserved(chosen):
                reason = "is a keyword of C or C++, or a macro of the C library or Arduino"
                yield Finding(pointer, f"{quote(chosen)} {reason}; choose another name")
            elif other != name:
                message = f"{quote(chosen)} is also the C name of {quote(other)}"
                yield Finding(pointer, f"{message}; choose another name")
