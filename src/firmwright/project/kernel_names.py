"""The network's prefix in the names of the sources that kernels bring along."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import PurePath
from types import MappingProxyType

from firmwright.ir.kernels import Kernel

NO_OWNERS: Mapping[str, str] = MappingProxyType({})


def add_prefix(kernel: Kernel, prefix: str, owners: Mapping[str, str] = NO_OWNERS) -> Kernel:
    """Return a kernel whose files, and what they define, have the prefix in their names.

    A file is named like the function or the type that it defines, and a header's guard like it.
    Those of other ``owners``, prefixes by stem, have their prefix, and are not brought again.
    """
    stems = {PurePath(file.name).stem: prefix for file in kernel.files}
    if not stems:
        return kernel
    stems |= {stem: owner for stem, owner in owners.items() if stem in stems}
    rename = make_rename(stems)
    own = (file for file in kernel.files if PurePath(file.name).stem not in owners)
    return replace(
        kernel,
        body=rename(kernel.body),
        definitions=rename(kernel.definitions) if kernel.definitions else None,
        headers=tuple(rename(header) for header in kernel.headers),
        files=tuple(replace(f, name=rename(f.name), text=rename(f.text)) for f in own),
    )


def make_rename(prefixes: Mapping[str, str]) -> Callable[[str], str]:
    """Return what puts its prefix before each of the names in a text, wherever it is a word."""
    guards = {f"{stem.upper()}_H": prefix.upper() for stem, prefix in prefixes.items()}
    named = {**prefixes, **guards}
    words = re.compile(rf"\b(?:{'|'.join(sorted(named))})\b")
    return lambda text: words.sub(lambda found: f"{named[found[0]]}_{found[0]}", text)
