"""The stages of the pipeline, one a module: what each reads, what it writes, and what runs."""

from __future__ import annotations

from . import (
    accuracy,
    batch,
    bundle,
    calibration,
    comparison,
    demo,
    firmware,
    kernels,
    mapping,
    model,
    module,
    objects,
    partition,
    plan,
    quantized,
    run,
    sources,
    stats,
)

MODULES = (
    model, calibration, quantized, batch, partition, kernels, accuracy, plan, sources,
    module, objects, firmware, run, stats, comparison, mapping, demo, bundle,
)  # fmt: skip
PIPELINE = tuple(module.STAGE for module in MODULES)
