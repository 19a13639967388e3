"""examples/arm_dsp_dla: a chip whose devices are defined next to the recipe."""

from __future__ import annotations

import json
import os
import re
import runpy
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from tvm import relax

from firmwright.builder import Graph
from firmwright.ir.array_files import read_arrays
from firmwright.ir.records import read_record
from firmwright.ir.regions import COPY, Partition
from firmwright.models.relax.importer import import_model
from firmwright.models.relax.python_call import portable_json
from firmwright.partition.by_cost import partition_by_cost
from firmwright.partition.outline import partition_module
from firmwright.partition.prices import PriceList
from firmwright.recipe.target import parse_target
from firmwright.report.timeline import TimedLayer, Timeline
from firmwright.targets import Context
from firmwright.targets.custom import load_custom_target
from firmwright.targets.load_devices import load_mix
from firmwright.toolchain import load_platform
from firmwright.transforms import canonicalize

from ..e2e.conftest import ROOT, Repository, ran

EXAMPLE = ROOT / "examples" / "arm_dsp_dla"
CONTEXT = Context(load_platform("shared.yaml", EXAMPLE), "onnx", {})


@pytest.fixture(scope="module")
def chip(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """A copy of the example, built for its chip, and for its processor alone."""
    folder = tmp_path_factory.mktemp("chip") / "example"
    shutil.copytree(EXAMPLE, folder)
    repository = Repository(folder)
    repository.write("dodo.py", "from firmwright.tasks.dodo import *\n")
    repository.build("recipe=detector.yaml", "compare=c")
    return repository


def outputs(folder: Path) -> dict[str, npt.NDArray[Any]]:
    return read_arrays(folder / "run" / "outputs.npz")


def test_every_operator_is_on_its_device(chip: Repository) -> None:
    partition = read_record(
        chip.folder / "build/detector/shared/partition/partition.json", Partition
    )
    placed = [(r.device, r.anchor) for r in partition.regions]
    assert placed.count(("dla", "conv2d")) == 6
    assert placed.count(("dsp", "program")) == 2
    assert {anchor for device, anchor in placed if device == "c"} == {
        "copy",
        "max_pool2d",
        "concat",
    }
    explained = chip.firmwright("explain", "detector.yaml").stdout
    assert "dsp: operator: the DSP's library has no max_pool2d" in explained


def test_all_mixes_and_platforms_compute_the_same(chip: Repository) -> None:
    chip.build("recipe=detector.yaml", "platform=host.yaml")
    built = chip.folder / "build/detector"
    own = outputs(built / "shared")
    for others in (outputs(built / "compared/shared"), outputs(built / "host")):
        assert [name for name in own if not np.array_equal(own[name], others[name])] == []
    scores = own["firmware_0"]
    assert scores.min() == -128 < len(np.unique(scores)), "no box covers another"


def test_every_region_has_its_own_parameters(chip: Repository) -> None:
    weights = read_arrays(chip.folder / "build/detector/shared/kernels/weights.npz")
    offsets = {name: array for name, array in weights.items() if name.endswith("_offsets")}
    assert len({array.tobytes() for array in offsets.values()}) == len(offsets) == 6


def test_nothing_runs_again_until_a_file_of_a_device_changes(chip: Repository) -> None:
    assert chip.build("recipe=detector.yaml", "compare=c") == []
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
    assert overlap(post, deep) == post.length
    assert overlap(pool, fine) == fine.length
    assert stats.total < stats.modelled + stats.counted
    assert layers["coarse_flat"].start > layers["coarse_convolution"].end


def test_a_tensor_passes_between_devices_without_a_copy_where_they_share_a_memory(
    chip: Repository,
) -> None:
    chip.build("recipe=detector.yaml", "platform=private.yaml")
    found = {
        name: read_record(
            chip.folder / f"build/detector/{name}/partition/partition.json", Partition
        )
        for name in ("shared", "private")
    }
    crossing = {
        name: [(r.inputs[0], r.reason) for r in partition.regions if r.anchor == COPY]
        for name, partition in found.items()
    }
    image = ("input_0", "dla does not reach ram: 3,072 bytes to")
    assert crossing["shared"] == [(image[0], f"{image[1]} l2")]
    assert crossing["private"] == [
        (image[0], f"{image[1]} dla_memory"),
        ("region_002_conv2d_result", "dsp does not reach dla_memory: 1,280 bytes to dsp_memory"),
        ("region_006_conv2d_result", "dsp does not reach dla_memory: 320 bytes to dsp_memory"),
    ]
    memory = chip.manifest("build/detector/detector-private.tar.gz")["memory"]
    assert memory["copied_bytes"] == 3072 + 1280 + 320
    assert set(memory["other_memories"]) == {"dla_memory", "dsp_memory"}
    explained = chip.firmwright("explain", "detector.yaml", "platform=private.yaml").stdout
    assert "4,672 bytes copied" in explained
    assert "c: dsp does not reach dla_memory: 320 bytes to dsp_memory" in explained


def test_the_dla_has_the_next_image_while_the_dsp_finds_boxes_in_one(chip: Repository) -> None:
    chip.build("recipe=two_images.yaml")
    stats = read_record(chip.folder / "build/two_images/shared/stats/stats.json", Timeline)
    post = [x for x in stats.layers if x.device == "dsp" and "_0_" in x.sources[0]]
    next_image = [x for x in stats.layers if x.device == "dla" and "_1_" in x.sources[0]]
    assert len(post) == 2 and len(next_image) == 6
    assert [sum(overlap(x, job) for job in next_image) == x.length for x in post] == [True, True]


def overlap(one: TimedLayer, other: TimedLayer) -> int:
    last = min(one.end, other.end)
    return max(0, last - max(one.start, other.start) + 1)


def test_results_are_wrong_where_a_wait_is_missing(chip: Repository) -> None:
    template = chip.folder / "templates/dla/posix/fw_dla.c.j2"
    text = template.read_text()
    template.write_text(text.replace("while (waiting > pending)", "while (waiting > pending + 1u)"))
    failed = chip.doit("build", "recipe=detector.yaml", "platform=host.yaml")
    template.write_text(text)
    assert failed.returncode != 0 and "differ" in failed.stdout + failed.stderr


def test_a_mailbox_starts_the_dsp_without_the_processor(chip: Repository) -> None:
    chip.build("recipe=detector.yaml", "platform=mailbox.yaml")
    built = chip.folder / "build/detector"
    assert np.array_equal(
        outputs(built / "mailbox")["firmware_0"], outputs(built / "shared")["firmware_0"]
    )
    calls = re.findall(
        r"fw_(?:dla|dsp)_(?:wait|after_dla)\(.*\)",
        (built / "mailbox/sources/network/network.c").read_text(),
    )
    assert calls == [
        *("fw_dsp_after_dla(0u)", "fw_dla_wait(1u)", "fw_dsp_after_dla(0u)", "fw_dsp_wait(0u)")
    ]
    times = {
        name: read_record(built / name / "stats/stats.json", Timeline)
        for name in ("shared", "mailbox")
    }
    assert times["mailbox"].total < times["shared"].total
    layers = {layer.sources[0]: layer for layer in times["mailbox"].layers if layer.sources}
    assert layers["fine_flat"].start > layers["fine_convolution"].end


def test_results_are_wrong_where_the_mailbox_is_empty(chip: Repository) -> None:
    template = chip.folder / "templates/dsp/posix/fw_dsp.c.j2"
    text = template.read_text()
    template.write_text(text.replace("= next_after_{{ other }};", "= 0;"))
    failed = chip.doit("build", "recipe=detector.yaml", "platform=mailbox.yaml")
    template.write_text(text)
    assert failed.returncode != 0 and "differ" in failed.stdout + failed.stderr


def test_an_engine_copies_between_private_memories_without_the_processor(chip: Repository) -> None:
    done = chip.doit("build", "recipe=dma.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    built = chip.folder / "build/dma/private_dma"
    own = outputs(built)
    others = outputs(chip.folder / "build/detector/shared")
    assert [name for name in own if not np.array_equal(own[name], others[name])] == []
    partition = read_record(built / "partition/partition.json", Partition)
    assert {r.device for r in partition.regions if r.anchor == COPY} == {"dma"}
    calls = re.findall(
        r"fw_\w+_(?:wait|after_\w+)\(.*\)", (built / "sources/network/network.c").read_text()
    )
    between = ["fw_dma_after_dla(0u)", "fw_dsp_after_dma(0u)"]
    assert calls == ["fw_dma_wait(0u)", *between, "fw_dla_wait(1u)", *between, "fw_dsp_wait(0u)"]
    assert "no operator runs on dma" not in done.stdout
    assert re.search(r"\n  dma  [.#]{64}\n  dla  [.#]{64}\n  dsp  ", done.stdout)


def test_each_device_says_what_it_does_not_take() -> None:
    graph = Graph()
    x = graph.input("x", (1, 4, 20, 20))
    taken = graph.conv2d(x, "taken", np.ones((4, 4, 3, 3), "int8"), act=True)
    apart = graph.depthwise_conv2d(taken, "apart", np.ones((4, 1, 3, 3), "int8"))
    wide = graph.conv2d(apart, "wide", np.ones((4, 4, 9, 9), "int8"), strides=(3, 3))
    real = graph.emit(relax.op.astype(wide, "float32"), "real")
    module = graph.output(graph.emit(relax.op.argsort(real), "order")).module()
    dla, dsp = (
        load_custom_target(name, f"{name}:{name.upper()}", EXAMPLE).place(module, CONTEXT)
        for name in ("dla", "dsp")
    )
    assert [len(composite.variables) for composite in dla.composites] == [5]
    assert {o.sentence for found in dla.violations.values() for o in found} == {
        "it has 4 groups, dilation [1, 1], layout NCHW; the DLA supports 1, 1, NCHW",
        "its kernel is [9, 9]; the DLA supports sides up to 7",
        "its strides are [3, 3]; the DLA supports [1, 1] and [2, 2]",
    }
    sentences = {o.sentence for found in dsp.violations.values() for o in found}
    assert "it computes float32; the DSP supports integers of up to 32 bits" in sentences


def test_a_device_that_another_package_installs_brings_its_templates(tmp_path: Path) -> None:
    site, folder = tmp_path / "site", tmp_path / "recipes"
    shutil.copytree(EXAMPLE, site)
    folder.mkdir()
    for name in ("network.py", "shared.yaml"):
        (site / name).rename(folder / name)
    info = site / "chip-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: chip\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[firmwright.targets]\ndla = installed:DLA\n")
    (site / "installed.py").write_text("import dla\n\nDLA = dla.DLA()\n")
    paths = filter(None, [str(site), os.environ.get("PYTHONPATH")])
    repository = Repository(folder, {**os.environ, "PYTHONPATH": os.pathsep.join(paths)})
    repository.write("dodo.py", "from firmwright.tasks.dodo import *\n")
    recipe = (EXAMPLE / "detector.yaml").read_text().replace('"dla, dsp, c"', '"dla, c"')
    lines = [line for line in recipe.splitlines() if not line.startswith("devices")]
    repository.write("detector.yaml", "\n".join(lines))
    done = repository.doit("sources", "recipe=detector.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    assert (folder / "build/detector/shared/sources/board/fw_dla.c").is_file()
    template = site / "templates/dla/fw_dla.h.j2"
    template.write_text(template.read_text().replace("The DLA as", "The accelerator as"))
    assert "sources" in ran(repository.doit("sources", "recipe=detector.yaml").stdout)
    locked = repository.firmwright("lock", "detector.yaml")
    assert locked.returncode == 0, locked.stdout + locked.stderr
    lock = json.loads((folder / "detector.lock").read_text())
    assert lock["versions"]["chip"] == "1"
    assert {"chip/dla.py", "chip/templates/dla/fw_dla.h.j2", "network.py"} <= {*lock["files"]}


@pytest.mark.parametrize(
    ("platform", "target"), [("shared", "dla, dsp, c"), ("private_dma", "dla, dsp, dma, c")]
)
def test_a_choice_by_cost_never_costs_more_than_the_order(platform: str, target: str) -> None:
    names = target.removesuffix(", c").split(", ")
    own = {n: load_custom_target(n, f"{n}:{n.upper()}", EXAMPLE) for n in names}
    chip = load_platform(f"{platform}.yaml", EXAMPLE)
    mix = load_mix(parse_target(target), chip, "onnx", custom=own)
    detector = runpy.run_path(str(EXAMPLE / "network.py"))["detector"]()
    module, interface = import_model(portable_json(detector), "detector", {})
    module = canonicalize(module)
    by_order = partition_module(module, interface, mix)
    by_cost = partition_by_cost(module, interface, mix)
    order, cost = (PriceList(mix, m).price_partition(m, p)[1] for m, p in (by_order, by_cost))
    assert 0 < cost <= order
    reasons = [r.reason for r in by_cost[1].regions if r.sources[:1] == ("stem_convolution",)]
    assert "; compared: dla 1,828 cycles (its kernel's cycles), c 552,960 cycles" in reasons[0]
