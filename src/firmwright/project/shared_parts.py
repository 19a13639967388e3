"""What several networks of a firmware have in common: stored once, by the first of them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import PurePath

from firmwright.project.files import network_file
from firmwright.project.network import Network, SharedParts


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
