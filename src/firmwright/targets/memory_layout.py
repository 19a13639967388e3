"""Defines the interface of memory layouts, for devices whose tensors have a special layout."""

from __future__ import annotations

from typing import Protocol

from firmwright.ir.nodes import Function
from firmwright.ir.tensors import Storage


class Layout(Protocol):
    """The memory layout of the tensors of a device.

    A function of a layout returns a tuple with one tensor per result. Shapes are the shapes in the
    network, without the padding of the layout.
    """

    @property
    def allows_transforms(self) -> bool:
        """Whether tensors may change their layout inside the network."""

    def storage(self, shape: tuple[int, ...]) -> Storage:
        """Return the storage of a tensor of this shape."""

    def convert_function(self, function: Function) -> Function | None:
        """Return a region's function on tensors in this layout, or None if unsupported."""

    def make_transform(self, shape: tuple[int, ...], dtype: str, inward: bool) -> Function:
        """Return the function from the plain layout to this layout, or back if not ``inward``."""
