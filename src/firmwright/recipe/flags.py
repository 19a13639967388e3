"""Rejects compiler flags of a recipe that read files which the build does not know."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from firmwright.documents.schema_check import Finding

READING = (
    "@", "-B", "-I", "-L", "-T", "-Wl,-T", "-Wl,@", "--include", "--specs", "--sysroot",
    "-fpass-plugin", "-fplugin", "-fprofile-instr-use", "-fprofile-use", "-idirafter", "-imacros",
    "-include", "-iprefix", "-iquote", "-isysroot", "-isystem", "-iwithprefix", "-specs",
)  # fmt: skip
"""The prefixes of flags that read files (manuals of GCC and Clang)."""


def find_flag_errors(data: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield flags that read files. The build misses their changes, and bundles lack the files."""
    flags = data.get("cflags")
    for number, flag in enumerate(flags if isinstance(flags, list) else ()):
        if isinstance(flag, str) and flag.startswith(READING):
            yield Finding(
                ("cflags", number),
                f"with '{flag}', the compiler reads files that the build does not know; list "
                "headers and sources under `libraries`",
            )
