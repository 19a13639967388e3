"""What several networks of a firmware have in common: stored once, by the first of them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import TYPE_CHECKING

from firmwright.project.files import network_file

if TYPE_CHECKING:
    from firmwright.project.write import Network


@dataclass(frozen=True)
class SharedParts:
    """What a network has of networks before it.

    ``weights`` have the C names of those networks' arrays, by their own names, and ``headers``
    declare them. ``helpers`` are the stems of files that kernels bring along, with the prefix
    of the network that has them.
    """

    weights: Mapping[str, str] = field(default_factory=dict)
    headers: tuple[str, ...] = ()
    helpers: Mapping[str, str] = field(default_factory=dict)


NOTHING_SHARED = SharedParts()


def share_parts(networks: Sequence[Network]) -> list[Network]:
    """Return the networks, each with what those before it have too.

    Equal are weights of one type and the same bytes, and helpers of one name: it has a digest of
    what they do.
    """
    arrays: dict[tuple[str, str], tuple[str, str]] = {}
    owners: dict[str, str] = {}
    found = []
    for network in networks:
        prefix, weights, headers, helpers = network.c_prefix, {}, set(), {}
        for name, array in sorted(network.weights.items()):
            key = array.dtype.name, hashlib.sha256(array.tobytes()).hexdigest()
            owner, constant = arrays.setdefault(key, (prefix, f"{prefix}_{name}"))
            if owner != prefix:
                weights[name] = constant
                headers.add(network_file(owner, "weights.h"))
        files = (file for kernel in network.kernels.kernels for file in kernel.files)
        for stem in sorted({PurePath(file.name).stem for file in files}):
            owner = owners.setdefault(stem, prefix)
            if owner != prefix:
                helpers[stem] = owner
        shared = SharedParts(weights, tuple(sorted(headers)), helpers)
        found.append(replace(network, shared=shared))
    return found
