"""Networks of one operator, and the rules of SiMa's tables for it."""

from __future__ import annotations

from collections.abc import Callable

from tvm import relax

from firmwright.devices.mla.placing import place_layers
from firmwright.targets import Context
from firmwright.targets.placement import Placement
from firmwright.toolchain import load_platform
from firmwright.transforms import canonicalize
from tests.devices.tidl.networks import network

Build = Callable[[relax.Var], relax.Expr]
SHAPE = (1, 4, 8, 8)


def placed(
    build: Build, shape: tuple[int, ...] = SHAPE, platform: str = "modalix", **options: str
) -> Placement:
    module = network(lambda builder, x: [builder.emit(build(x), "found")], shape)
    return place_layers(canonicalize(module), Context(load_platform(platform), "onnx", options))


def refusals(
    build: Build, shape: tuple[int, ...] = SHAPE, platform: str = "modalix", **options: str
) -> list[str]:
    """Return the rules that the operator breaks; empty if the MLA supports it."""
    violations = placed(build, shape, platform, **options).violations
    return sorted({f"{o.rule}: {o.sentence}" for found in violations.values() for o in found})
