"""Defines the interface of devices: the class ``Target``, its context, and a device of a mix."""

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
    from firmwright.ir.regions import Change, Region, RuleViolation, Suggestion
    from firmwright.lowering.strategies import Strategy
    from firmwright.targets.device_options import OptionValues
    from firmwright.targets.memory_layout import Layout
    from firmwright.targets.placement import Placement
    from firmwright.toolchain import Platform


class DeviceSpec(msgspec.Struct, frozen=True):
    """A device in the target mix. ``options`` maps sorted names to values as text."""

    name: str = msgspec.field(name="device")
    options: dict[str, str] = {}

    def __str__(self) -> str:
        """Return the device in TVM's notation, such as ``npu -fast=1``."""
        return " ".join([self.name, *(f"-{name}={value}" for name, value in self.options.items())])


@dataclass(frozen=True)
class Context:
    """The information that a device gets in addition to the network.

    ``rounding`` names the conversion of real values to integers, "tflite" or "onnx". ``options``
    are the options of this device in the target string. Every operator is a separate function if
    ``fuse_layers`` is false. ``fallback`` is the device of the mix that runs the operators that no
    other device accepts. ``fallback`` is None for the fallback device. ``batch`` is the number of
    samples per inference. ``strategies`` are the recipe's strategies for this device. ``variants``
    maps the name of each tuned region to the name of its variant. If ``decodes`` is true, layers
    may decode their weights, so a layer with many weights is computed in parts.
    """

    platform: Platform
    rounding: str
    options: Mapping[str, str]
    fuse_layers: bool = True
    fallback: Device | None = None
    batch: int = 1
    strategies: Sequence[Strategy] = ()
    variants: Mapping[str, str] = field(default_factory=dict)
    decodes: bool = False


class Target(Protocol):
    """The interface of a device. The import of its package must not import tvm or numpy.

    A derived class states only the members that differ from the defaults.
    """

    name: str
    reason: str
    """The reason why an operator runs on this device, as the explain table shows it."""
    is_fallback: bool = False
    """Whether the device accepts every operator.

    Only the last device of a mix accepts every operator.
    """
    quantizes: bool = False
    """Whether the device itself quantizes float layers, with samples of the key ``calibration``."""
    rewrites: Sequence[str] = ()
    """Names of rewrites in :data:`firmwright.transforms.optional.OPTIONAL`.

    The device accepts more operators after these rewrites. The rewrites reduce the work if a
    fallback is the only device.
    """
    packages: Sequence[str] = ()
    """Python packages that affect the device's output, in addition to firmwright's packages. A
    lock lists these packages.
    """
    core: str = ""
    """The core that runs the device's regions; '' is the processor. The core of the last device
    runs the network, and calls the regions on other cores.
    """
    copies: bool = False
    """Whether the device copies tensors between memories, such as a DMA engine.

    ``lower`` then gets the regions with the anchor ``copy``. The last device of the mix copies if
    no copying device reaches both memories.
    """
    keeps_states: bool = True
    """Whether the device may run regions of a network with states between runs.

    The value is false if a core runs the whole network, or if the device's stages run the network
    on samples that are not consecutive.
    """
    machines: Mapping[str, str] = MappingProxyType({})
    """Maps boards to machines that the device adds to the emulator, as "module:Class".

    Only installed devices may add machines.
    """
    is_portable: bool = False
    """Whether the device's regions and C code are equal on every platform. The platform then
    needs only a processor.
    """
    stages: Sequence[str] = ()
    """Stages that the device adds to the pipeline, as "module:NAME". Only installed devices may
    add stages.
    """
    archive_reader: str = ""
    """The function that describes archives of the device's compiler for ``firmwright inspect``,
    as "module:name"; '' if there are no archives. Only firmwright's devices have this function.
    """
    libraries_variable: str = ""
    """The environment variable with archives to link to a network on this device, such as ``-l
    one.lib -l /path/two.lib``. Archives for the machine of a core are linked to the code that
    runs on the core.
    """

    @property
    def operators(self) -> Collection[str]:
        """Return the kinds of operators that the device is known to run, for use in advice."""
        return ()

    @property
    def options(self) -> Mapping[str, OptionValues]:
        """Return the options that the target string may set for this device, with their values."""
        return {}

    def prepare(self, module: tvm.IRModule, _context: Context, /) -> tvm.IRModule:
        """Return the module after the exact rewrites that only this device needs.

        Convolutions and products keep their order, because the multiply-accumulates of the model's
        operators are counted in this order.
        """
        return module

    @abstractmethod
    def place(self, module: tvm.IRModule, context: Context, /) -> Placement:
        """Return the operators that run on this device, and the reasons against other operators.

        This method is not called for the last device of a mix.
        """

    def layout(self, _context: Context, /) -> Layout | None:
        """Return the memory layout of the tensors of the device's regions, or None if plain."""
        return None

    @abstractmethod
    def lower(self, region: Region, module: tvm.IRModule, context: Context, /) -> LoweredRegion:
        """Return the C code of a region and the constants that the code reads.

        ``module`` contains the region's function, and the TIR functions that it may call.
        """

    def list_variants(
        self, _region: Region, _module: tvm.IRModule, _context: Context, /
    ) -> Sequence[str]:
        """Return the names of the variants of a region's C code. The default is first.

        All variants return equal bits. ``lower`` uses the variant of the region in
        ``Context.variants``.
        """
        return ()

    def describe_kernel(self, _region: Region, _module: tvm.IRModule, _context: Context, /) -> str:
        """Return a short name of the method of a region's C code, or '' for a single method."""
        return ""

    def estimate_cycles(
        self,
        _region: Region,
        _module: tvm.IRModule,
        _context: Context,
        _changes: Sequence[Change] = (),
        /,
    ) -> int | None:
        """Return the approximate number of cycles of a region on this device, or None.

        ``changes`` are the changes to a region of another device after which this device accepts
        it.
        """
        return None

    def complete_changes(
        self,
        _region: Region,
        _module: tvm.IRModule,
        _context: Context,
        changes: Sequence[Change],
        /,
    ) -> Sequence[Change] | RuleViolation:
        """Return all changes after which this device accepts a region of another device.

        ``changes`` fulfill the rules that the region breaks. After them, further rules may apply.
        The result is the rule that no known change fulfills if the device still rejects the region.
        """
        return changes

    def suggest(
        self, _region: Region, _module: tvm.IRModule, _context: Context, /
    ) -> Sequence[Suggestion]:
        """Return changes after which a region that runs on this device needs fewer cycles."""
        return ()

    def list_idle_options(
        self, _regions: Sequence[Region], _module: tvm.IRModule, _context: Context, /
    ) -> Sequence[str]:
        """Return a note for each stated option of this device that does not affect the network.

        ``module`` is the network before :meth:`prepare`, and ``regions`` are all its regions.
        """
        return ()

    def extend_project(
        self, _project: Path, _variables: Mapping[str, Any], _context: Context, /
    ) -> None:
        """Write the device's additional files to a generated project that is complete.

        ``variables`` are the variables of the project's templates.
        """
        return


@dataclass(frozen=True)
class Device:
    """A device in a mix, with its context."""

    target: Target
    context: Context

    @property
    def name(self) -> str:
        return self.target.name

    def lower(self, region: Region, module: tvm.IRModule) -> LoweredRegion:
        return self.target.lower(region, module, self.context)

    def list_variants(self, region: Region, module: tvm.IRModule) -> Sequence[str]:
        return self.target.list_variants(region, module, self.context)

    def describe_kernel(self, region: Region, module: tvm.IRModule) -> str:
        return self.target.describe_kernel(region, module, self.context)

    def estimate_cycles(
        self, region: Region, module: tvm.IRModule, changes: Sequence[Change] = ()
    ) -> int | None:
        return self.target.estimate_cycles(region, module, self.context, changes)

    def complete_changes(
        self, region: Region, module: tvm.IRModule, changes: Sequence[Change]
    ) -> Sequence[Change] | RuleViolation:
        return self.target.complete_changes(region, module, self.context, changes)

    def suggest(self, region: Region, module: tvm.IRModule) -> Sequence[Suggestion]:
        return self.target.suggest(region, module, self.context)

    def list_idle_options(self, regions: Sequence[Region], module: tvm.IRModule) -> Sequence[str]:
        return self.target.list_idle_options(regions, module, self.context)

    def extend_project(self, project: Path, variables: Mapping[str, Any]) -> None:
        self.target.extend_project(project, variables, self.context)


def find_rewrites(mix: Sequence[Device]) -> set[str]:
    """Return the names of the rewrites that the devices need.

    The last device's rewrites are used only if the mix has no other device, because the rules of
    other devices expect the model's original layers.
    """
    asking = mix[:-1] or mix
    return {name for device in asking for name in device.target.rewrites}
