"""The interface of devices."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

if TYPE_CHECKING:
    import tvm

    from firmwright.ir.kernels import LoweredRegion
    from firmwright.ir.regions import Change, Region, Suggestion
    from firmwright.lowering.strategies import Strategy
    from firmwright.targets.device_options import OptionValues
    from firmwright.targets.layout import Layout
    from firmwright.targets.placement import Placement
    from firmwright.toolchain import Platform


class DeviceSpec(msgspec.Struct, frozen=True):
    """One device of the target mix; options by name, sorted, values as text."""

    name: str = msgspec.field(name="device")
    options: dict[str, str] = {}

    def __str__(self) -> str:
        """Return the device in TVM's notation: ``npu -fast=1``."""
        return " ".join([self.name, *(f"-{name}={value}" for name, value in self.options.items())])


@dataclass(frozen=True)
class Context:
    """What a device knows beside the network.

    ``rounding`` names the rules by which real values become integers, "tflite" or "onnx";
    ``options`` are the device's own, from the target string; without ``fuse_layers`` every
    operator is a function of its own. ``fallback`` is the device of the mix that runs the operators
    that no other device takes; None for that device itself. ``batch`` is the number of samples of
    one inference. ``strategies`` are the recipe's for this device. ``ways`` has the ways of the
    tuned regions, by their names.
    """

    platform: Platform
    rounding: str
    options: Mapping[str, str]
    fuse_layers: bool = True
    fallback: Device | None = None
    batch: int = 1
    strategies: Sequence[Strategy] = ()
    ways: Mapping[str, str] = field(default_factory=dict)


class Target(Protocol):
    """What a device's package offers. Importing it imports neither tvm nor numpy.

    A class derived from this one states only what differs from the defaults.
    """

    name: str
    reason: str
    """Why an operator is placed here, as the explain table says it."""
    is_fallback: bool = False
    """Whether it takes whatever it is given; such a device ends a mix, and no other does."""
    quantizes: bool = False
    """Whether it quantizes float layers itself, by the samples of a recipe's ``calibration``."""
    rewrites: Sequence[str] = ()
    """Names of :data:`firmwright.transforms.optional.OPTIONAL`: what helps it take more, or, of a
    fallback that has the network for itself, what saves it work."""
    packages: Sequence[str] = ()
    """Python packages beside firmwright's own that decide about what it makes; a lock has them."""
    core: str = ""
    """The core that its regions run on, '' for the processor. The last device's runs the network;
    what runs elsewhere is called from there."""
    copies: bool = False
    """Whether it copies tensors from one memory to another, such as a DMA engine. ``lower`` gets
    these regions, ``copy``; others go to the mix's last device."""
    keeps_states: bool = True
    """Whether a network with states between runs may have regions on it. Not where a core runs the
    whole network, or where stages of its own run it on samples that do not follow each other."""
    machines: Mapping[str, str] = MappingProxyType({})
    """Machines that it adds to the emulator, as "module:Class" by board; installed devices only."""
    is_portable: bool = False
    """Whether its regions and C are the same on every platform, which has to have nothing for it
    but a processor."""
    stages: Sequence[str] = ()
    """Stages that it adds to the pipeline, as "module:NAME"; installed devices only."""
    libraries_variable: str = ""
    """The environment variable that names archives to link to a network with this device, as in
    ``-l one.lib -l /path/two.lib``; those for the machine of a core are linked to what runs there.
    """

    @property
    def operators(self) -> Collection[str]:
        """Kinds of operators that it takes, as far as it says: advice puts them for others."""
        return ()

    @property
    def options(self) -> Mapping[str, OptionValues]:
        """What the target string may set for this device, and the values that it takes."""
        return {}

    def prepare(self, module: tvm.IRModule, _context: Context, /) -> tvm.IRModule:
        """Return the module after the device's own exact rewrites.

        Convolutions and products stay in their order: by it the model's own multiply-accumulates
        are counted.
        """
        return module

    @abstractmethod
    def place(self, module: tvm.IRModule, context: Context, /) -> Placement:
        """Choose what runs here of ``main``, and say why the rest does not.

        The last device of a mix is not asked.
        """

    def layout(self, _context: Context, /) -> Layout | None:
        """Return how the tensors of its regions lie in memory, None if plainly."""
        return None

    @abstractmethod
    def lower(self, region: Region, module: tvm.IRModule, context: Context, /) -> LoweredRegion:
        """Turn a region into C and the constants that it reads.

        ``module`` holds the region's function, and the TIR functions that it may call.
        """

    def list_ways(
        self, _region: Region, _module: tvm.IRModule, _context: Context, /
    ) -> Sequence[str]:
        """Return the names of the ways in which a region's C can be written, first the usual one.

        All give the same bits. ``lower`` takes the one that ``Context.ways`` has for the region.
        """
        return ()

    def describe_kernel(self, _region: Region, _module: tvm.IRModule, _context: Context, /) -> str:
        """Say in a few words how a region's C will compute; '' if there is but one way."""
        return ""

    def estimate_cycles(
        self,
        _region: Region,
        _module: tvm.IRModule,
        _context: Context,
        _changes: Sequence[Change] = (),
        /,
    ) -> int | None:
        """Return about how many cycles a region takes here, None if that is not known.

        ``changes`` are those of a region of another device that let this one take it.
        """
        return None

    def suggest(
        self, _region: Region, _module: tvm.IRModule, _context: Context, /
    ) -> Sequence[Suggestion]:
        """Return what would let a region that runs here take fewer cycles."""
        return ()

    def extend_project(
        self, _project: Path, _variables: Mapping[str, Any], _context: Context, /
    ) -> None:
        """Add files of the device's own to a generated project, which is written.

        ``variables`` are those of the project's templates.
        """
        return


@dataclass(frozen=True)
class Device:
    """A device as one of a mix."""

    target: Target
    context: Context

    @property
    def name(self) -> str:
        return self.target.name

    def lower(self, region: Region, module: tvm.IRModule) -> LoweredRegion:
        return self.target.lower(region, module, self.context)

    def list_ways(self, region: Region, module: tvm.IRModule) -> Sequence[str]:
        return self.target.list_ways(region, module, self.context)

    def describe_kernel(self, region: Region, module: tvm.IRModule) -> str:
        return self.target.describe_kernel(region, module, self.context)

    def estimate_cycles(
        self, region: Region, module: tvm.IRModule, changes: Sequence[Change] = ()
    ) -> int | None:
        return self.target.estimate_cycles(region, module, self.context, changes)

    def suggest(self, region: Region, module: tvm.IRModule) -> Sequence[Suggestion]:
        return self.target.suggest(region, module, self.context)

    def extend_project(self, project: Path, variables: Mapping[str, Any]) -> None:
        self.target.extend_project(project, variables, self.context)


def find_rewrites(mix: Sequence[Device]) -> set[str]:
    """Return the names of the rewrites that the devices ask for.

    The last one has a say only where it is alone: the others' rules know the model's own layers.
    """
    asking = mix[:-1] or mix
    return {name for device in asking for name in device.target.rewrites}
