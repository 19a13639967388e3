"""Builds small integer networks in Python, with layers whose sums are shifted."""

from __future__ import annotations

from firmwright.builder.graph import Graph
from firmwright.builder.random_array import random_array

__all__ = ["Graph", "random_array"]
