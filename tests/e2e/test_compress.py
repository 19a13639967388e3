"""The key `compress`, from the recipe to the firmware."""

from __future__ import annotations

import csv
import io
import tarfile

import numpy as np
import onnx
from onnx import numpy_helper

from .conftest import Repository
from .test_mistakes import fail

RECIPE = "model: coarse.onnx\nplatform: cortex-m4-bare\nrun: {inputs: inputs.npz, samples: 2}\n"


def write_recipe(repository: Repository, compress: str) -> None:
    """Write a recipe and its model: digits, with weights that are multiples of 16."""
    model = onnx.load(repository.folder / "digits.onnx")
    for constant in model.graph.initializer:
        array = numpy_helper.to_array(constant)
        if array.dtype == np.int8 and array.ndim > 1:
            coarse = (array // 16 * 16).astype("int8")
            constant.CopyFrom(numpy_helper.from_array(coarse, constant.name))
    onnx.save(model, repository.folder / "coarse.onnx")
    repository.write("small.yaml", f"{RECIPE}compress: {compress}\n")


def test_compressed_constants_give_the_same_outputs(repository: Repository) -> None:
    write_recipe(repository, "true")
    done = repository.doit("build", "recipe=small.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "constants are encoded; constants need " in done.stdout
    manifest = repository.manifest("build/small/small-cortex-m4-bare.tar.gz")
    assert manifest["run"]["differences"] == 0
    with tarfile.open(repository.folder / "build/small/small-cortex-m4-bare.tar.gz") as archive:
        table = archive.extractfile("small-cortex-m4-bare/report/layers.csv")
        assert table is not None
        rows = [*csv.DictReader(io.TextIOWrapper(table, "utf-8"))]
    bits = [float(row["weight_bits"]) for row in rows if row["macs"] != "0"]
    assert len(bits) == 5 and 3 < min(bits) < 5
    sources = repository.folder / "build/small/cortex-m4-bare/sources/network"
    assert " bytes by a Huffman code, about " in (sources / "network_regions.c").read_text()


def test_a_limit_or_a_pattern_that_fits_no_layer_is_rejected(repository: Repository) -> None:
    write_recipe(repository, "{flash: 1 KiB}")
    text = fail(repository, "recipe=small.yaml")
    assert "small.yaml:4:19: compress.flash: the constants need " in text
    assert " bytes (limit 1,024); raise the limit, or use weights of fewer bits" in text
    write_recipe(repository, "{layers: [x]}")
    text = fail(repository, "recipe=small.yaml")
    assert "small.yaml:4:21: compress.layers[0]: no layer named 'x'; known: " in text
