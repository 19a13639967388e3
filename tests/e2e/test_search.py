"""The search for the types of weights, and builds that read its result."""

from __future__ import annotations

import os

import numpy as np
import onnx
import pytest

from firmwright.recipe.precision import read_precision
from tests.quantize.networks import residual_network, samples

from .conftest import Repository, new_repository
from .test_user_errors import fail

RECIPE = """\
model: net.onnx
platform: host
quantize:
  calibration: {inputs: inputs.npz}
  compensate_rounding: true
  search: {flash: LIMIT, accuracy: 100 points}
compress: true
evaluate: {inputs: inputs.npz, labels: labels.npy, thresholds: {top1: 100}}
run: {samples: 1}
"""
GENEROUS = RECIPE.replace("LIMIT", "1 MiB")


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """A repository whose recipe was searched within a generous limit."""
    repository = new_repository(tmp_path_factory.mktemp("searched"))
    onnx.save(onnx.load_model_from_string(residual_network()), repository.folder / "net.onnx")
    x = np.concatenate([one["x"] for one in samples(4)])
    np.savez(repository.folder / "inputs.npz", x=x[:, None])
    np.save(repository.folder / "labels.npy", np.zeros(4, "int64"))
    repository.write("net.yaml", GENEROUS)
    done = repository.firmwright("search", "net.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "net.precision: written" in done.stdout and "trial 1: " in done.stdout
    return repository


def test_a_generous_limit_selects_the_least_error(searched: Repository) -> None:
    _, found = read_precision(searched.folder / "net.precision")
    assert [layer.weights for layer in found.layers.values()] == ["int8"] * 4
    assert found.flash == 1 << 20 and found.firmware > 0 and found.loss is not None


def test_a_search_on_one_core_writes_the_same_file(searched: Repository) -> None:
    """The first search used all cores. A recipe of another name has its own measurements."""
    searched.write("again.yaml", GENEROUS)
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    try:
        done = searched.firmwright("search", "-n", "1", "again.yaml")
    finally:
        os.sched_setaffinity(0, cores)
    assert done.returncode == 0, done.stdout + done.stderr
    first, again = (searched.folder / f"{n}.precision" for n in ("net", "again"))
    assert again.read_bytes() == first.read_bytes()


def test_a_build_reads_the_types(searched: Repository) -> None:
    path = searched.folder / "net.precision"
    before = path.read_text()
    path.write_text(before.replace("weights: int8", "weights: int2", 1))
    done = searched.doit("run", "quantized:net", "recipe=net.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    values = onnx.load(searched.folder / "build/net/quantized/model.onnx")
    arrays = {i.name: onnx.numpy_helper.to_array(i) for i in values.graph.initializer}
    assert np.abs(arrays["stem_w_quantized"]).max() <= 2
    assert np.abs(arrays["dense_w_quantized"]).max() > 8
    path.write_text(before)


def test_a_file_for_other_limits_or_weights_is_rejected(searched: Repository) -> None:
    searched.write("net.yaml", GENEROUS.replace("1 MiB", "2 MiB"))
    said = fail(searched, "recipe=net.yaml")
    assert "net.precision:4:8: flash: searched for 1048576; the recipe states 2097152; " in said
    assert "search again with `firmwright search net.yaml`, or remove the file" in said
    searched.write("net.yaml", GENEROUS)
    found = (searched.folder / "net.precision").read_text()
    searched.write("net.precision", found.replace('"stem"', '"stam"').replace("int8", "int16"))
    said = fail(searched, "recipe=net.yaml")
    assert "layers.stam: the network has no layer 'stam' whose weights have a type; " in said
    assert "layers.dense.weights: the recipe's search tries only " in said
    searched.write("net.precision", found)
    kept = (searched.folder / "net.onnx").read_bytes()
    onnx.save(onnx.load_model_from_string(residual_network(1)), searched.folder / "net.onnx")
    said = fail(searched, "recipe=net.yaml")
    assert "net.precision:3:10: network: searched for another network; " in said
    (searched.folder / "net.onnx").write_bytes(kept)


def test_a_limit_that_no_types_meet_names_the_smallest_firmware(searched: Repository) -> None:
    searched.write("net.yaml", RECIPE.replace("LIMIT", "16 B"))
    done = searched.firmwright("search", "net.yaml")
    assert done.returncode == 1
    assert "net.yaml:6:19: quantize.search.flash: the smallest firmware that was built needs " in (
        done.stdout + done.stderr
    )
    searched.write("net.yaml", GENEROUS)


def test_a_recipe_without_limits_is_not_searched(searched: Repository) -> None:
    without = "\n".join(line for line in GENEROUS.splitlines() if "search" not in line)
    searched.write("other.yaml", without + "\n")
    done = searched.firmwright("search", "other.yaml")
    assert done.returncode == 1
    assert "the recipe states no limits; add `quantize: {search: " in done.stdout + done.stderr
