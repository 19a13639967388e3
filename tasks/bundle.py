"""bundle: one deterministic archive with its manifest."""

from __future__ import annotations

from firmwright.pipeline.inputs import user_files
from firmwright.pipeline.stage import Stage

STAGE = Stage(
    name="bundle",
    sentence="pack firmware, sources and manifest",
    run="firmwright.steps.bundle:run",
    reads_all=True,
    options=lambda job: job.recipe.sha256,
    inputs=lambda job: [*user_files(job), *job.lock_files],
    applies=lambda job: job.has_firmware and not job.origin,
    publish=lambda job: [job.bundle, *job.box_pictures.values()],
)
