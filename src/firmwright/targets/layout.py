"""How the tensors of a device's regions lie in memory, where that is not the plain way."""

from __future__ import annotations

from typing import Protocol

from firmwright.ir.nodes import Function
from firmwright.ir.tensors import Storage


class Layout(Protocol):
    """How tensors lie in memory that a device reads and writes; its functions return tuples."""

    @property
    def allows_transforms(self) -> bool:
        """Whether tensors may change their layout inside the network."""

    def storage(self, shape: tuple[int, ...]) -> Storage:
        """Return how a tensor of this shape lies in memory."""

    def convert_function(self, function: Function) -> Function | None:
        """Return a region's function on tensors in this layout; None if it needs plain ones."""

    def make_transform(self, shape: tuple[int, ...], dtype: str, inward: bool) -> Function:
        """Return the function from the plain layout to this one, or back."""
