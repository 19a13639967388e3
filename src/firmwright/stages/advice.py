"""Runs the stage ``advice``: finds changes that would make the network faster."""

from __future__ import annotations

from pathlib import Path

from firmwright.pipeline.artifacts import ADVICE
from firmwright.pipeline.explain import advise_job
from firmwright.pipeline.job import Job
from firmwright.report.advice import AdviceRecord


def run(job: Job, folder: Path) -> None:
    ADVICE.write(folder, AdviceRecord(advise_job(job)))
