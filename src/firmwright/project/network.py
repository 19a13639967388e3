"""Describes a network of a project: all decisions that determine the rendered files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy.typing as npt

from firmwright.ir.kernels import Kernels
from firmwright.ir.regions import Partition
from firmwright.ir.tensors import BatchLayout, ModelInterface
from firmwright.planning.plan import Plan
from firmwright.postprocess.detector import Detector
from firmwright.project.inter_core_calls import PROCESSOR_ONLY, Cores
from firmwright.project.interface import StatePort, make_state_ports
from firmwright.project.selftest import LayerCheck
from firmwright.project.slot import NetworkSlot
from firmwright.recipe.recipe import DemoOptions


@dataclass(frozen=True)
class SharedParts:
    """The weights and helpers that a network uses from earlier networks of the firmware.

    ``weights`` maps each array of the network to the C name of an equal array. ``headers`` declare
    the equal arrays. ``helpers`` maps the stems of the kernels' helper files to the prefix of the
    network that contains the files.
    """

    weights: Mapping[str, str] = field(default_factory=dict)
    headers: tuple[str, ...] = ()
    helpers: Mapping[str, str] = field(default_factory=dict)


NOTHING_SHARED = SharedParts()


@dataclass(frozen=True)
class Network:
    """All decisions about a network before its project is written.

    ``cores`` states the devices that run on a separate core.
    """

    name: str
    c_prefix: str
    interface: ModelInterface
    partition: Partition
    kernels: Kernels
    plan: Plan
    weights: Mapping[str, npt.NDArray[Any]]
    detector: Detector | None = None
    demo: DemoOptions | None = None
    cores: Cores = PROCESSOR_ONLY
    libraries: tuple[Path, ...] = ()
    """The user's sources, headers and archives that are part of the project."""
    batch: BatchLayout | None = None
    """The layout of the samples, if the recipe requests several samples per inference."""
    class_names: tuple[str, ...] = ()
    """The class names of the recipe's detector, if the recipe states names."""
    caller_arena: bool = False
    """Whether the program provides the working memory, so that several instances are possible."""
    hooks: bool = False
    """Whether functions of the program are called around each layer."""
    measured: bool = False
    """Whether the firmware prints the cycles of each layer; its program has the hooks."""
    checks: tuple[LayerCheck, ...] | None = None
    """The layers whose results have checksums; None if there are no checksums."""
    golden: Mapping[str, npt.NDArray[Any]] | None = None
    """The samples of the self-test (:data:`firmwright.pipeline.artifacts.GOLDEN`)."""
    shared: SharedParts = NOTHING_SHARED
    """The parts that the network shares with other networks of the firmware."""
    slot: NetworkSlot | None = None
    """The location of the network's image, if the image is not part of the firmware."""
    recipe_sha256: str = ""
    """The recipe's ``network_sha256``, or '' if there is no recipe."""
    binary_constants: bool = False
    """Whether the constants are a file of bytes instead of C."""

    @property
    def unshared_weights(self) -> list[tuple[str, npt.NDArray[Any]]]:
        """Return the constants that no other network of the firmware has, sorted by name."""
        return [(n, a) for n, a in sorted(self.weights.items()) if n not in self.shared.weights]

    @property
    def alignments(self) -> dict[str, int]:
        """Return the alignment in bytes of each constant that needs more than its type."""
        weights = (weight for kernel in self.kernels.kernels for weight in kernel.weights)
        return {w.tensor: w.alignment for w in weights if w.alignment}

    @property
    def devices(self) -> frozenset[str]:
        last = [*self.cores.by_device][-1]
        return frozenset({last, *(region.device for region in self.partition.regions)})

    @property
    def states(self) -> list[StatePort]:
        return make_state_ports(self.interface.states, self.plan.states)

    @property
    def calls_libraries(self) -> bool:
        called = any(kernel.library_functions for kernel in self.kernels.kernels)
        return called or bool(self.libraries)

    @property
    def profile(self) -> str:
        """Return the measurement of the demo application; ``none`` if there is no demo."""
        return self.demo.profile if self.demo else "none"
