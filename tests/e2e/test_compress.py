"""The key `compress`, from the recipe to the firmware."""

from __future__ import annotations

import csv
import io
import tarfile

import numpy as np
import onnx
from onnx import numpy_helper

from tests.networks.qdq_graphs import Graph
from tests.networks.qdq_reference import Grid

from .conftest import Repository
from .test_user_errors import fail

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


def test_a_product_reads_16_values_from_a_table_in_its_loop(repository: Repository) -> None:
    """The loop needs fewer instructions than a decoder, and as many bytes as a table."""
    random = np.random.default_rng(0)
    values = random.choice(np.arange(-128, 128), 16, replace=False)
    weights = values[random.integers(0, 16, (64, 32))].astype("int8")
    graph = Graph()
    _, given = graph.input((1, 64), Grid("int8", np.float32(0.02), 3))
    scales = np.full(32, 0.01, "float32")
    product = graph.node("MatMul", [given, graph.weights(weights, scales, 0, axis=1)])
    graph.output(product, Grid("int8", np.float32(2), 0), lambda *_: weights)
    (repository.folder / "product.onnx").write_bytes(graph.build())
    text = "model: product.onnx\nplatform: cortex-m4-bare\ncompress: true\n"
    repository.write("product.yaml", text)
    done = repository.doit("build", "recipe=product.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    manifest = repository.manifest("build/product/product-cortex-m4-bare.tar.gz")
    assert manifest["run"]["differences"] == 0
    sources = repository.folder / "build/product/cortex-m4-bare/sources/network"
    text = " ".join((sources / "network_regions.c").read_text().replace(" *", " ").split())
    assert "1,040 of 2,048 bytes by a table of 16 values in the loop, about 1,229 " in text
