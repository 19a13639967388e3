"""A float network for TIDL: the recipe quantizes TIDL's regions, and also their stand-ins."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from tests.networks.onnx_models import graph, node, value

from .conftest import Repository, copy_of

RECIPE = """\
model: net.onnx
platform: am62a
compile_for_device: false
target: tidl, c
calibration: {inputs: calibration.npz}
evaluate: {inputs: test.npz}
run: {samples: 4}
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Repository, str]:
    """Two convolutions around an operator that TIDL does not have, and their build's output."""
    repository = Repository(tmp_path_factory.mktemp("float"))
    numbers = np.random.default_rng(5)
    weights = {
        name: numbers.normal(0, 0.3, shape).astype("float32")
        for name, shape in {"a": (4, 2, 3, 3), "bias": (4,), "b": (4, 4, 3, 3)}.items()
    }
    model = graph(
        [
            node("Conv", ["x", "a", "bias"], ["c"], name="first", pads=[1, 1, 1, 1]),
            node("Relu", ["c"], ["d"]),
            node("Sign", ["d"], ["s"], name="sign"),
            node("Add", ["d", "s"], ["f"]),
            node("Conv", ["f", "b"], ["y"], name="second", strides=[2, 2]),
        ],
        [value("x", [1, 2, 10, 10])],
        [value("y", [1, 4, 4, 4])],
        weights,
    )
    (repository.folder / "net.onnx").write_bytes(model.SerializeToString())
    for name, count in (("calibration", 6), ("test", 4)):
        x = numbers.normal(0, 1, (count, 1, 2, 10, 10)).astype("float32")
        np.savez(repository.folder / f"{name}.npz", x=x)
    repository.write("dodo.py", "from firmwright.tasks.dodo import *\n")
    repository.write("net.yaml", RECIPE)
    done = repository.doit("build", "recipe=net.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    return repository, done.stdout


def test_tidl_is_asked_to_quantize_both_regions_by_the_calibration(
    built: tuple[Repository, str],
) -> None:
    repository, _ = built
    (folder,) = (repository.folder / "build/net/am62a-host/artifacts").glob("*/tempDir")
    for number, floats in ((0, 200), (1, 400 + 400)):
        text = (folder / f"tidl_import_subgraph{number}.txt").read_text()
        found = dict(line.split(" = ") for line in text.splitlines())
        wanted = {"preQuantizedModel": "0", "numParamBits": "8", "calibrationOption": "7"}
        assert wanted.items() <= found.items()
        assert found["numFrames"] == "6"
        assert set(found["rawDataInElementType"].split()) == {"6"}
        size = (folder / f"calib_raw_data{number}.bin").stat().st_size
        assert size == 6 * floats * 4


def test_what_stands_in_is_quantized_and_says_so(built: tuple[Repository, str]) -> None:
    repository, found = built
    said = (
        "TIDL quantizes float networks itself; this C has firmwright's quantization by the same "
        "samples"
    )
    assert f"region_000_tidl_subgraph, region_002_tidl_subgraph: a stand-in for {said}" in found
    manifest = repository.manifest("build/net/net-am62a-host.tar.gz")
    assert [said in text for text in manifest["stand_ins"].values()] == [True, True]
    (source,) = repository.folder.glob("build/net/am62a-host/sources/network/*000_tidl*.c")
    assert said in " ".join(source.read_text().replace("*", " ").split())
    assert "int32_t" in source.read_text()


def test_the_firmware_agrees_with_the_stand_ins_and_the_accuracy_with_the_float_network(
    built: tuple[Repository, str],
) -> None:
    repository, found = built
    run = repository.manifest("build/net/net-am62a-host.tar.gz")["run"]
    assert run["mismatches"] == 0
    assert run["reference"].endswith("on the stand-ins of its devices")
    snr = re.search(r"SNR of output 'y': firmware ([0-9.]+) dB", found)
    assert snr
    assert 15 < float(snr[1]) < 40  # eight bits, not floats


def test_other_samples_quantize_the_stand_ins_anew(
    built: tuple[Repository, str], tmp_path: Path
) -> None:
    repository = copy_of(built[0], tmp_path)
    assert repository.build("recipe=net.yaml") == []
    x = np.random.default_rng(6).normal(0, 3, (2, 1, 2, 10, 10)).astype("float32")
    np.savez(repository.folder / "calibration.npz", x=x)
    stages = repository.build("recipe=net.yaml")
    assert {"stand_in", "artifacts", "kernels", "run"} <= set(stages)
    assert "partition" not in stages


def test_keys_without_effect_on_another_target_are_notes(
    built: tuple[Repository, str], tmp_path: Path
) -> None:
    changed = copy_of(built[0], tmp_path)
    changed.write("net.yaml", f"{RECIPE}allow_fallback: false\nrequire_offload: 1 %\n")
    done = changed.doit("build", "recipe=net.yaml", "target=c")
    assert done.returncode == 0, done.stdout + done.stderr
    one_device = "the target has one device, so this requirement cannot fail; add a device before"
    assert "net.yaml:5:14: calibration: note: no effect: no device of the target" in done.stderr
    assert f"net.yaml:8:17: allow_fallback: note: {one_device}" in done.stderr
    assert f"net.yaml:9:18: require_offload: note: {one_device}" in done.stderr


def test_floats_for_the_chip_are_a_note(built: tuple[Repository, str], tmp_path: Path) -> None:
    changed = copy_of(built[0], tmp_path)
    note = "tensor_bits=32 keeps floats, which TI's tools run only on a PC; add"
    for device, said in (("true", True), ("false", False)):
        recipe = RECIPE.replace("calibration: {inputs: calibration.npz}\n", "")
        recipe = recipe.replace("device: false", f"device: {device}")
        changed.write("net.yaml", recipe.replace("tidl, c", "tidl -tensor_bits=32, c"))
        done = changed.doit("artifacts", "recipe=net.yaml")
        assert done.returncode == 0, done.stdout + done.stderr
        assert (note in " ".join(done.stdout.split())) == said, done.stdout
