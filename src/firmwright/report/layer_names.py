"""Names of layers as people read them."""

from __future__ import annotations

ROOM = 48
"""Characters of a name on a page."""


def shorten_name(name: str, room: int = ROOM) -> str:
    """Return at most about ``room`` characters of a name.

    TFLite joins the names of fused operators by ";": the first one stands for all, with the number
    of the others. Names are paths, so that of a long one the last parts tell more.
    """
    first, *others = name.split(";")
    if len(first) > room:
        end = first[1 - room :]
        first = f"…{end[max(end.find('/'), 0) :]}"
    return f"{first} +{len(others)}" if others else first
