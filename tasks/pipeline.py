"""Lists all stages in the order in which they run."""

from __future__ import annotations

from . import (
    accuracy,
    advice,
    batch,
    bundle,
    calibration,
    comparison,
    demo,
    demo_run,
    exports,
    firmware,
    kernels,
    mapping,
    model,
    networks,
    objects,
    partition,
    plan,
    quantized,
    reference,
    run,
    samples,
    selftest,
    sources,
    stats,
)

MODULES = (
    model, calibration, quantized, samples, batch, partition, kernels, accuracy, advice, plan,
    selftest, sources, objects, firmware, reference, run, stats, comparison, mapping, demo,
    demo_run, exports, bundle,
)  # fmt: skip
PIPELINE = tuple(stage.STAGE for stage in MODULES)

NETWORKS_PIPELINE = (
    networks.SOURCES, objects.STAGE, firmware.STAGE, networks.RUN, networks.EXPORTS,
    networks.BUNDLE,
)  # fmt: skip
"""The stages of a firmware with several networks, which run after each network's stages."""
