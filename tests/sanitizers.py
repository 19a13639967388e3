"""Extra flags of gcc and clang for a host build that stops at the first undefined behavior."""

from __future__ import annotations

SANITIZERS = (
    "-g1",
    "-fno-omit-frame-pointer",
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover=all",
)
