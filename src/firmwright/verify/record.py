"""The run stage's result (file ``run/run.json``)."""

from __future__ import annotations

from dataclasses import dataclass, field

from firmwright.recipe import Tolerance
from firmwright.verify.compare import Agreement


@dataclass(frozen=True)
class RunRecord(Agreement):
    """How the firmware ran, and how its outputs agree with the reference's.

    Each of the ``samples`` is a batch of ``batch``, and takes one inference of ``macs``.
    ``instructions`` were counted inside the network's run function: ``instructions`` is the mean
    of one inference, rounded down, ``instructions_total`` the sum over all samples, by function
    in ``instructions_by_function``. ``instructions_by_region`` has those of a region's function
    and of all that it calls. They are None, or empty, where the emulator cannot count. ``inputs``
    are the digests of the single samples that the recipe names, none of random ones. ``counts``
    are what emulated devices counted in all samples: transfers, calls between cores, their bytes.
    What an emulated device executes while it is waited for is in ``instructions_by_function``
    alone.
    """

    emulator: str
    reference: str
    samples: int
    batch: int
    macs: int
    instructions: int | None
    instructions_total: int | None
    instructions_by_function: dict[str, int]
    instructions_by_region: dict[str, int]
    tolerance: Tolerance
    inputs: tuple[str, ...] = ()
    counts: dict[str, int] = field(default_factory=dict)
