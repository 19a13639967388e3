"""The folder of artifacts: each region's files, and calibration tensors of the whole network."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from tvm import relax

from firmwright.devices.tidl.artifacts import TidlNetwork, write_artifacts
from firmwright.devices.tidl.options import read_options
from firmwright.models.relax.importer import import_model
from firmwright.partition.outline import partition_module
from firmwright.quantize.float_graph import session_options
from firmwright.recipe.target import parse_target
from firmwright.targets.load_devices import load_mix
from firmwright.toolchain import load_platform
from firmwright.transforms import canonicalize

from .networks import network, saved, values, vm_outputs

op = relax.op
IMAGE = (1, 4, 8, 8)


def branches(builder: relax.BlockBuilder, x: relax.Var) -> list[relax.Expr]:
    """A convolution, an operator that TIDL does not have, and the sum of both."""
    a = builder.emit(op.nn.conv2d(x, values(4, 4, 3, 3), padding=1), "a")
    odd = builder.emit(op.sign(a), "odd")
    b = builder.emit(op.nn.max_pool2d(a, [2, 2], [2, 2]), "b")
    c = builder.emit(op.nn.max_pool2d(op.nn.relu(op.add(a, odd)), [2, 2], [2, 2]), "c")
    return [op.add(b, c), op.nn.softmax(b, -1)]


def partitioned(
    module: Any, target: str = "tidl -tensor_bits=32 -min_macs=0, c", platform: str = "am62a"
) -> TidlNetwork:
    module, interface = import_model(saved(module), "test", {})
    mix = load_mix(parse_target(target), load_platform(platform), "onnx")
    module, partition = partition_module(canonicalize(module), interface, mix)
    generator = np.random.default_rng(4)  # small whole numbers: every sum is exact
    (x,) = interface.inputs
    samples = [{"x": generator.integers(-4, 5, IMAGE).astype(x.dtype)} for _ in range(3)]
    return TidlNetwork(module, partition, samples, read_options(mix[0].context))


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, TidlNetwork, list[Any]]:
    folder = tmp_path_factory.mktemp("artifacts")
    found = partitioned(network(branches))
    return folder, found, write_artifacts(found, folder)


def frames_of(folder: Path, region: Any) -> list[list[np.ndarray[Any, Any]]]:
    """Read a region's calibration tensors: frame by frame, and the inputs in each frame."""
    data = (folder / f"calib_raw_data{region.number}.bin").read_bytes()
    frames: list[list[np.ndarray[Any, Any]]] = []
    while data:
        frames.append([])
        for tensor in region.inputs:
            size = int(np.prod(tensor.shape))
            kind = np.dtype(tensor.dtype)
            array = np.frombuffer(data, kind, size).reshape(tensor.shape)
            frames[-1].append(array)
            data = data[size * kind.itemsize :]
    return frames


def test_a_sub_model_on_its_calibration_tensors_gives_those_of_the_next(
    written: tuple[Path, TidlNetwork, list[Any]],
) -> None:
    folder, whole, (first, second) = written
    for index, sample in enumerate(whole.samples):
        tensors = {"input_0": sample["x"]}
        for region in (first, second):
            given = frames_of(folder, region)[index]
            for described, array in zip(region.inputs, given, strict=True):
                if described.tensor in tensors:
                    np.testing.assert_array_equal(array, tensors[described.tensor])
            session = onnxruntime.InferenceSession(
                folder / f"subgraph{region.number}.onnx", session_options()
            )
            names = [t.name for t in region.inputs]
            results = session.run(None, dict(zip(names, given, strict=True)))
            tensors |= {t.tensor: r for t, r in zip(region.outputs, results, strict=True)}
        ends = [tensors[name] for name in whole.partition.outputs]
        for ours, theirs in zip(ends, vm_outputs(network(branches), sample["x"]), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-6)


def test_the_second_region_reads_what_the_first_and_the_processor_made(
    written: tuple[Path, TidlNetwork, list[Any]],
) -> None:
    _, whole, (first, second) = written
    made = {t.tensor for t in first.outputs}
    read = {t.tensor for t in second.inputs}
    assert made & read
    assert read - made  # the result of sign
    assert len(whole.partition.regions) == 3


def test_every_file_is_there_and_says_what_it_is_of(
    written: tuple[Path, TidlNetwork, list[Any]],
) -> None:
    folder, whole, regions = written
    names = {p.name for p in folder.iterdir()}
    per_region = ("subgraph{}.onnx", "tidl_import_subgraph{}.txt", "calib_raw_data{}.bin",
                  "subgraph{}.layer_info.txt")  # fmt: skip
    common = {"relay.nfo", "allowedNode.txt", "import.sh"}
    assert names == {*common, *(n.format(i) for n in per_region for i in (0, 1))}
    for region in regions:
        data = (folder / f"calib_raw_data{region.number}.bin").read_bytes()
        assert region.calibration_sha256 == hashlib.sha256(data).hexdigest()
        assert len(frames_of(folder, region)) == len(whole.samples)
    nodes = (folder / "allowedNode.txt").read_text().splitlines()
    assert "subgraph0 conv2d a" in nodes
    assert "c sign odd" in nodes
    assert "subgraph1 max_pool2d c" in nodes
    nfo = json.loads((folder / "relay.nfo").read_text())
    assert nfo["tvm"] == {"is_nchw": 1, "macs": 0, "nodes": {"sign": 1}}
    assert [s["macs"] for s in nfo["subgraphs"]] == [r.macs for r in regions]
    assert [s["is_nchw"] for s in nfo["subgraphs"]] == [1, 1]
    assert nfo["subgraphs"][1]["ninputs"] == len(regions[1].inputs)
    assert nfo["subgraphs"][1]["nodes"]["max_pool2d"] == 1


def test_the_same_network_gives_the_same_bytes(
    written: tuple[Path, TidlNetwork, list[Any]], tmp_path: Path
) -> None:
    folder, _, regions = written
    assert write_artifacts(partitioned(network(branches)), tmp_path) == regions
    for path in folder.iterdir():
        assert (tmp_path / path.name).read_bytes() == path.read_bytes()
        assert str(folder).encode() not in path.read_bytes()
