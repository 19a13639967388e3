"""When each layer of an inference runs, in clock cycles (file ``stats/<name>_stats.yaml``)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path

import msgspec
import yaml

from firmwright.codegen.kernel import Cycles, Kernels
from firmwright.errors import UserError
from firmwright.partition.regions import Partition
from firmwright.verify.record import RunRecord

HEADER = """\
# Clock cycles of one inference of {name} on {platform}, layer by layer in order of execution.
# start_cycle and end_cycle are inclusive: a layer takes end_cycle - start_cycle + 1 cycles.
# modelled: cycles that the cost model of the layer's device gives.
# counted: instructions that the CPU executed in the layer's function and in all that it calls,
#   one cycle each; the mean of {runs} in {emulator}.
# The last entry is the run function itself: what it executes between its calls.
"""


@dataclass(frozen=True)
class Counted:
    """Instructions of the CPU, taken as one cycle each."""

    cpu: int


@dataclass(frozen=True)
class LayerCycles:
    """One region's share of the time; both ends are inclusive.

    ``sources`` are its operators' names in the model, ``operators`` their kinds. ``modelled`` is
    None on a device without a cost model, such as the CPU.
    """

    name: str
    start_cycle: int
    end_cycle: int
    device: str
    sources: tuple[str, ...]
    operators: tuple[str, ...]
    macs: int
    modelled: Cycles | None
    counted: Counted

    @property
    def cycles(self) -> int:
        return self.end_cycle - self.start_cycle + 1


@dataclass(frozen=True)
class Timeline:
    """The layers of one inference, in order of execution; the last entry is the run function.

    ``cycles`` are all of them, the sum of those ``modelled`` and those ``counted``.
    """

    cycles: int
    modelled: int
    counted: int
    layers: tuple[LayerCycles, ...]


def timeline(
    partition: Partition, kernels: Kernels, record: RunRecord, run_function: str
) -> Timeline:
    """Return the timeline of one inference, in which nothing runs beside anything else.

    Raises UserError for a run in which no instructions were counted.
    """
    if record.instructions_total is None:
        raise UserError(f"{record.emulator} counts no instructions")
    regions = [r for r in partition.regions if not r.view]
    executed = [record.instructions_by_region[r.name] for r in regions]
    executed.append(record.instructions_total - sum(executed))
    models = {k.region: k.cycles for k in kernels.kernels}
    modelled = [models[r.name] for r in regions] + [None]
    counted = means(executed, record.samples)
    lengths = [c + (m.total if m else 0) for c, m in zip(counted, modelled, strict=True)]
    ends = list(accumulate(lengths))
    layers = []
    for index, (end, length) in enumerate(zip(ends, lengths, strict=True)):
        region = regions[index] if index < len(regions) else None
        layers.append(
            LayerCycles(
                name=region.name if region else run_function,
                start_cycle=end - length,
                end_cycle=end - 1,
                device=region.device if region else "c",
                sources=region.sources if region else (),
                operators=region.operators if region else (),
                macs=region.macs if region else 0,
                modelled=modelled[index],
                counted=Counted(counted[index]),
            )
        )
    return Timeline(ends[-1], sum(lengths) - sum(counted), sum(counted), tuple(layers))


def means(totals: Sequence[int], samples: int) -> list[int]:
    """Divide totals by the number of samples, rounded so that they add up to the whole's mean."""
    sums = (total // samples for total in accumulate(totals, initial=0))
    return [after - before for before, after in pairwise(sums)]


def write_timeline(path: Path, found: Timeline, header: str) -> None:
    """Write the layers as YAML, numbered from 1; ``header`` is the comment above them."""
    layers = msgspec.to_builtins(dict(enumerate(found.layers, 1)))
    text = yaml.safe_dump(layers, sort_keys=False, default_flow_style=None, width=96)
    path.write_text(header + text, encoding="utf-8", newline="\n")
