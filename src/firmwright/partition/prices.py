"""Prices the regions of a network on the devices of a mix: work, layout transforms and copies.

Prices are microseconds from the platform's table if the platform has ``timing``. The price of a
region includes a call if the region is not on the last device's core. Without ``timing``, prices
are cycles: the device's ``estimate_cycles``, or the ``cycles`` of the kernel that the device
writes. A cycle is assumed to be equally long on all devices. The prices do not model the overlap of
devices.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from tvm_ffi import StructuralKey

from firmwright.errors import UserError
from firmwright.ir.nodes import Function, IRModule
from firmwright.ir.regions import COPY, TRANSFORM, Partition, Region, make_move_region
from firmwright.ir.relax import list_constants, set_functions
from firmwright.ir.tensors import Tensor
from firmwright.partition.memory_choice import (
    find_copier,
    find_reach,
    list_copiers,
    make_copy_function,
)
from firmwright.partition.outline import cut_region
from firmwright.targets import Device
from firmwright.targets.memory_layout import Layout
from firmwright.targets.timing import estimate_work_us
from firmwright.toolchain.platforms import Timing

MODEL, KERNEL = "its cost model", "its kernel's cycles"


class CostError(UserError):
    """An error in the costs of devices, reported at the position of the recipe's ``placement``."""


@dataclass(frozen=True)
class Price:
    """The cost of a region on a device: cycles or microseconds, and the source of the number."""

    device: str
    amount: float
    unit: str
    source: str

    def __str__(self) -> str:
        """Return a text such as ``c 1,234 cycles (its cost model)``."""
        decimals = 0 if self.unit == "cycles" else 1
        return f"{self.device} {self.amount:,.{decimals}f} {self.unit} ({self.source})"


@dataclass
class PriceList:
    """The prices of regions and moves on the devices of ``mix``. ``module`` has TIR functions."""

    mix: Sequence[Device]
    module: IRModule
    moves: dict[tuple[object, ...], float] = field(default_factory=dict)
    lowered: dict[tuple[str, StructuralKey], int | None] = field(default_factory=dict)

    @property
    def last(self) -> Device:
        return self.mix[-1]

    @property
    def timing(self) -> Timing | None:
        return self.last.context.platform.timing

    def find_device(self, name: str) -> Device:
        return next(device for device in self.mix if device.name == name)

    def price(
        self, region: Region, module: IRModule, tensors: Sequence[Tensor], device: Device
    ) -> Price | None:
        """Return the price of a region on a device, or None if no price is known.

        ``tensors`` includes the region's tensors. Raises CostError if the platform's ``timing``
        does not have the device.
        """
        if self.timing is not None:
            return self.price_by_table(self.timing, region, module, tensors, device)
        cycles, source = device.estimate_cycles(region, module), MODEL
        if cycles is None and device is not self.last:
            key = device.name, StructuralKey(module[region.name])  # type: ignore[call-arg]
            if key not in self.lowered:
                made = device.lower(region, module).kernel.cycles
                self.lowered[key] = made.total if made else None
            cycles, source = self.lowered[key], KERNEL
        if cycles is None:
            return None
        return Price(device.name, cycles, "cycles", source)

    def price_by_table(
        self,
        timing: Timing,
        region: Region,
        module: IRModule,
        tensors: Sequence[Tensor],
        device: Device,
    ) -> Price:
        try:
            engine = timing.find_throughput(device.name)
        except UserError as error:
            raise CostError(str(error)) from error
        ports = [t for t in tensors if t.name in (*region.inputs, *region.outputs)]
        weights = sum(constant.nbytes for constant in list_constants(module[region.name]))
        work = estimate_work_us(region.macs, ports, weights, engine)
        if device.target.core != self.last.target.core:
            work += timing.call_us
        platform = device.context.platform.name
        return Price(device.name, work, "us", f"timing of {platform}")

    def price_in_layers(self, region: Region, module: IRModule, device: Device) -> Price | None:
        """Return the price of a region's operators as separate regions on the last device."""
        inner, partition = cut_region(region, module, device)
        prices = [
            self.price(r, inner, partition.tensors, device) for r in partition.regions if not r.view
        ]
        known = [price for price in prices if price is not None]
        if len(known) < len(prices) or not known:
            return None
        return replace(known[0], amount=sum(price.amount for price in known))

    def price_partition(self, module: IRModule, partition: Partition) -> tuple[int, float]:
        """Return the number of regions without a price, and the sum of the other prices."""
        prices = [
            self.price(r, module, partition.tensors, self.find_device(r.device))
            for r in partition.regions
            if not r.view
        ]
        return prices.count(None), sum(price.amount for price in prices if price is not None)

    def price_transform(self, tensor: Tensor, layout: Layout, inward: bool) -> float:
        key = (TRANSFORM, tensor.shape, tensor.dtype, id(layout), inward)
        return self.price_move(
            key, TRANSFORM, tensor, self.last,
            lambda: layout.make_transform(tensor.shape, tensor.dtype, inward),
        )  # fmt: skip

    def price_copy(self, tensor: Tensor, source: str, memory: str) -> float:
        copier = find_copier(source, memory, find_reach(self.mix), list_copiers(self.mix))
        key = (COPY, tensor.shape, tensor.dtype, copier)
        return self.price_move(
            key, COPY, tensor, self.find_device(copier), lambda: make_copy_function(tensor)
        )

    def price_move(
        self,
        key: tuple[object, ...],
        kind: str,
        tensor: Tensor,
        device: Device,
        make: Callable[[], Function],
    ) -> float:
        """Return the price of a move. ``make`` returns the function of the move.

        Equal moves have equal keys.
        """
        if key not in self.moves:
            result = replace(tensor, name=f"{tensor.name}_moved")
            region = make_move_region(
                f"move_{tensor.name}", device.name, "", kind, tensor.name, result.name
            )
            module = set_functions(self.module, {region.name: make()})
            price = self.price(region, module, (tensor, result), device)
            if price is None:
                raise CostError(
                    f"the device '{device.name}' states no cycles for a {kind}; return them from "
                    "its `estimate_cycles`, or build with `placement: order`"
                )
            self.moves[key] = price.amount
        return self.moves[key]
