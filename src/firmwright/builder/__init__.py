"""Build small integer networks in Python, in the arithmetic of DIANA's accelerators.

The graph's functions take names and arguments after the Relay helpers with which such networks
used to be written (``relay_soma_conv2d(x, name, shape, weights, bias, strides, act, shift_bits)``).
"""

from __future__ import annotations

from firmwright.builder.graph import Graph
from firmwright.builder.random_array import random_array

__all__ = ["Graph", "random_array"]
