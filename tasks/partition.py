"""Declares the stage ``partition``."""

from __future__ import annotations

from firmwright.pipeline import artifacts
from firmwright.pipeline.stage import ALL, Scope, Stage
from firmwright.pipeline.stage_options import MIX, REWRITES

STAGE = Stage(
    name="partition",
    sentence="cut the network into regions, each on one device",
    run="firmwright.stages.partition:run",
    reads=(artifacts.NETWORK_MODULE, artifacts.NETWORK_INTERFACE, artifacts.BATCH),
    writes=(artifacts.PARTITION, artifacts.REGIONS, artifacts.INTERFACE, artifacts.BATCH_LAYOUT),
    keys=(*MIX, *REWRITES, "name"),
    platform=ALL,
    facts={"states rounding": lambda job: job.recipe.states(("rounding",))},
    inputs=lambda job: [*job.recipe.list_files("transforms"), *job.device_files],
    scope=Scope.TARGET,
)
