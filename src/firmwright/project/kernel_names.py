"""The network's prefix in the names of the sources that kernels bring along."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import PurePath

from firmwright.ir.kernels import Kernel


def add_prefix(kernel: Kernel, prefix: str) -> Kernel:
    """Return a kernel whose files, and what they define, have the prefix in their names.

    A file is named like the function or the type that it defines, and a header's guard like it.
    """
    stems = sorted({PurePath(file.name).stem for file in kernel.files})
    if not stems:
        return kernel
    rename = make_rename(stems, prefix)
    return replace(
        kernel,
        body=rename(kernel.body),
        definitions=rename(kernel.definitions) if kernel.definitions else None,
        headers=tuple(rename(header) for header in kernel.headers),
        files=tuple(replace(f, name=rename(f.name), text=rename(f.text)) for f in kernel.files),
    )


def make_rename(stems: list[str], prefix: str) -> Callable[[str], str]:
    """Return what puts the prefix before each of the names in a text, wherever it is a word."""
    guards = [f"{stem.upper()}_H" for stem in stems]
    words = re.compile(rf"\b(?:({'|'.join(guards)})|(?:{'|'.join(stems)}))\b")

    def replace_word(found: re.Match[str]) -> str:
        return f"{prefix.upper() if found[1] else prefix}_{found[0]}"

    return lambda text: words.sub(replace_word, text)
