"""Shortens the names of layers for readers."""

from __future__ import annotations

ROOM = 48
"""The maximum number of characters of a name on a page."""


def shorten_name(name: str, room: int = ROOM) -> str:
    """Return at most about ``room`` characters of a name.

    TFLite joins the names of fused operators with ";". The first name represents all names. The
    number of the other names follows. Names are paths, so a long name is cut at its beginning.
    """
    first, *others = name.split(";")
    if len(first) > room:
        end = first[1 - room :]
        first = f"…{end[max(end.find('/'), 0) :]}"
    return f"{first} +{len(others)}" if others else first
