"""Compresses the constants of a network in memory."""

from __future__ import annotations

from dataclasses import replace

from firmwright.compression.choice import choose_smallest
from firmwright.compression.decoding import decode_in_kernel, encode_arrays
from firmwright.ir.kernels import Kernels
from firmwright.planning import make_plan
from firmwright.project.network import Network


def compress(network: Network) -> Network:
    """Return the network with the smallest code of each constant."""
    encodings = choose_smallest(network.weights)
    kernels = Kernels(tuple(decode_in_kernel(k, encodings) for k in network.kernels.kernels))
    return replace(
        network,
        kernels=kernels,
        weights=encode_arrays(network.weights, encodings),
        plan=make_plan(network.partition, kernels),
    )
