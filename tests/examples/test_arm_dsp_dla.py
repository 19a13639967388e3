"""examples/arm_dsp_dla: a chip whose devices are defined beside the recipe."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from firmwright.cycles.timeline import LayerCycles, Timeline
from firmwright.partition import Partition
from firmwright.records import read_arrays, read_record

from ..e2e.conftest import ROOT, Repository

EXAMPLE = ROOT / "examples" / "arm_dsp_dla"


@pytest.fixture(scope="module")
def chip(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """A copy of the example, built for its chip."""
    folder = tmp_path_factory.mktemp("chip") / "example"
    shutil.copytree(EXAMPLE, folder)
    repository = Repository(folder)
    repository.write("dodo.py", "from firmwright.tasks.dodo import *\n")
    repository.build("recipe=detector.yaml")
    return repository


def outputs(folder: Path) -> dict[str, npt.NDArray[Any]]:
    return read_arrays(folder / "run" / "outputs.npz")


def test_every_operator_is_on_its_device(chip: Repository) -> None:
    partition = read_record(
        chip.folder / "build/detector/shared/partition/partition.json", Partition
    )
    placed = [(r.device, r.anchor) for r in partition.regions]
    assert placed.count(("dla", "conv2d")) == 6
    assert placed.count(("dsp", "dsp_program")) == 2
    assert {anchor for device, anchor in placed if device == "c"} == {"max_pool2d", "concat"}
    explained = chip.run("firmwright", "explain", "detector.yaml").stdout
    assert "dsp: operator: the DSP's library has no max_pool2d" in explained


@pytest.mark.parametrize("arguments", [("target=c",), ("platform=host.yaml",)])
def test_all_mixes_compute_the_same(chip: Repository, arguments: tuple[str, ...]) -> None:
    chip.build("recipe=detector.yaml", "outdir=other", *arguments)
    platform = "host" if "platform=host.yaml" in arguments else "shared"
    own, others = (
        outputs(chip.folder / "build/detector/shared"),
        outputs(chip.folder / f"other/{platform}"),
    )
    assert [k for k in own if not np.array_equal(own[k], others[k])] == []
    scores = own["firmware_0"]
    assert scores.min() == -128 < len(np.unique(scores)), "no box covers another"


def test_every_region_has_its_own_parameters(chip: Repository) -> None:
    weights = read_arrays(chip.folder / "build/detector/shared/kernels/weights.npz")
    offsets = {name: array for name, array in weights.items() if name.endswith("_offsets")}
    assert len({array.tobytes() for array in offsets.values()}) == len(offsets) == 6


def test_nothing_runs_again_until_a_file_of_a_device_changes(chip: Repository) -> None:
    assert chip.build("recipe=detector.yaml") == []
    template = chip.folder / "templates/dsp/fw_dsp.h.j2"
    template.write_text(template.read_text().replace("The DSP as", "The signal processor as"))
    ran = chip.build("recipe=detector.yaml")
    assert "sources" in ran and "model" not in ran
    inputs = chip.manifest("build/detector/detector-shared.tar.gz")["inputs"]["files"]
    assert {"dla.py", "dsp.py", "templates/dsp/fw_dsp.h.j2", "network.py"} <= {*inputs}


def test_the_timeline_has_devices_beside_each_other(chip: Repository) -> None:
    stats = read_record(chip.folder / "build/detector/shared/stats/stats.json", Timeline)
    layers = {layer.sources[0]: layer for layer in stats.layers if layer.sources}
    post, pool = layers["fine_flat"], layers["pool"]
    deep, fine = layers["deep_convolution"], layers["fine_convolution"]
    assert (post.device, deep.device, pool.device, fine.device) == ("dsp", "dla", "c", "dla")
    assert overlap(post, deep) == post.cycles
    assert overlap(pool, fine) == fine.cycles
    assert stats.cycles < stats.modelled + stats.counted
    assert layers["coarse_flat"].start_cycle > layers["coarse_convolution"].end_cycle


def overlap(one: LayerCycles, other: LayerCycles) -> int:
    last = min(one.end_cycle, other.end_cycle)
    return max(0, last - max(one.start_cycle, other.start_cycle) + 1)


def test_results_are_wrong_where_a_wait_is_missing(chip: Repository) -> None:
    template = chip.folder / "templates/dla/posix/fw_dla.c.j2"
    text = template.read_text()
    template.write_text(text.replace("while (waiting > pending)", "while (waiting > pending + 1u)"))
    failed = chip.doit("build", "recipe=detector.yaml", "platform=host.yaml", "outdir=other")
    template.write_text(text)
    assert failed.returncode != 0 and "differ" in failed.stdout + failed.stderr
