"""Random samples are in the range of the model; a run reports samples that prove little."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.hammer.networks import MADE
from tests.networks.onnx_models import quantized
from tests.networks.whole_floats import WholeFloats

from .conftest import new_repository

REMARK = "all samples have equal outputs; use real samples (`run.inputs`)"


def test_random_samples_are_of_the_models_range(tmp_path: Path) -> None:
    repository = new_repository(tmp_path / "r")
    repository.write("r.yaml", "model: net.onnx\nplatform: rv32-bare\nrun: {samples: 3}\n")
    (repository.folder / "net.onnx").write_bytes(quantized(1.0).SerializeToString())
    done = repository.doit("build", "recipe=r.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    assert REMARK not in done.stdout
    assert repository.manifest("build/r/r-rv32-bare.tar.gz")["run"]["drawn"] == {"x": [-131, 124]}
    with np.load(repository.folder / "build/r/rv32-bare/run/outputs.npz") as outputs:
        assert np.ptp(outputs["firmware_0"]) > 100  # samples from 0 to 1 would result in at most 1

    np.savez(repository.folder / "same.npz", x=np.zeros((3, 2, 3), "float32"))
    repository.write(
        "r.yaml", "model: net.onnx\nplatform: rv32-bare\nrun: {inputs: same.npz, samples: 3}\n"
    )
    done = repository.doit("build", "recipe=r.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    assert REMARK in " ".join(done.stdout.split())
    assert repository.manifest("build/r/r-rv32-bare.tar.gz")["run"]["drawn"] == {}


def test_whole_numbers_that_a_recipe_states_are_drawn_and_proven(tmp_path: Path) -> None:
    repository = new_repository(tmp_path / "r")
    network = WholeFloats((1, 3, 8, 8), bounded=False).conv(4).shift(2.0**9, (0, 127))
    (repository.folder / "net.onnx").write_bytes(network.model().SerializeToString())
    recipe = "model: net.onnx\nplatform: rv32-bare\ninputs:\n  {}\nrun: {{{}}}\n"

    def refuse(stated: str, run: str = "samples: 3") -> str:
        repository.write("r.yaml", recipe.format(stated, run))
        done = repository.doit("build", "recipe=r.yaml")
        assert done.returncode == 1
        return done.stdout + done.stderr

    assert "r.yaml:4:18: inputs.in.integers: the model has no input 'in'" in refuse(
        "in: {integers: [0, 9]}"
    )
    assert "expected the smaller number first" in refuse("input: {integers: [9, 0]}")
    np.savez(repository.folder / "halves.npz", input=np.full((3, 3, 8, 8), 2.5, "float32"))
    assert "the first 2.5 (input 'input', whole numbers from 0 to 9)" in refuse(
        "input: {integers: [0, 9]}", "inputs: halves.npz"
    )

    repository.write("r.yaml", recipe.format("input: {integers: [3, 9]}", "samples: 3"))
    done = repository.doit("build", "recipe=r.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "float32" not in done.stdout
    assert repository.manifest("build/r/r-rv32-bare.tar.gz")["run"]["drawn"] == {"input": [3, 9]}


@pytest.mark.parametrize("name", ["scatter_elements add", "gather_nd"])
def test_random_indices_are_within_their_axis(name: str, tmp_path: Path) -> None:
    repository = new_repository(tmp_path / "r")
    repository.write("r.yaml", "model: net.onnx\nplatform: rv32-bare\nrun: {samples: 3}\n")
    (repository.folder / "net.onnx").write_bytes(MADE[name].load())
    done = repository.doit("build", "recipe=r.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    drawn = repository.manifest("build/r/r-rv32-bare.tar.gz")["run"]["drawn"]
    assert drawn["i"] == ([0, 4] if "scatter" in name else [0, 2])


def test_a_step_of_float16_is_within_the_default_tolerance(tmp_path: Path) -> None:
    """ONNX Runtime adds in another order, so a sum near a half step may be rounded differently."""
    repository = new_repository(tmp_path / "r")
    repository.write("r.yaml", "model: net.onnx\nplatform: rv32-bare\nrun: {samples: 16}\n")
    (repository.folder / "net.onnx").write_bytes(MADE["float16"].load())
    done = repository.doit("build", "recipe=r.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    with np.load(repository.folder / "build/r/rv32-bare/run/outputs.npz") as outputs:
        apart = np.abs(outputs["firmware_0"].astype(float) - outputs["reference_0"].astype(float))
    assert 0 < apart.max() <= 2**-11


def test_tokens_beyond_the_table_are_told_at_the_samples(tmp_path: Path) -> None:
    repository = new_repository(tmp_path / "r")
    table = numpy_helper.from_array(np.arange(20, dtype="float32").reshape(10, 2), "table")
    tokens = helper.make_tensor_value_info("tokens", TensorProto.INT64, [1, 3])
    rows = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 3, 2])
    gather = helper.make_node("Gather", ["table", "tokens"], ["y"])
    graph = helper.make_graph([gather], "g", [tokens], [rows], [table])
    onnx.save(helper.make_model(graph), repository.folder / "net.onnx")
    recipe = (
        "model: net.onnx\nplatform: rv32-bare\nrun: {inputs: {tokens: tokens.npy}, samples: 2}\n"
    )
    repository.write("r.yaml", recipe)
    np.save(repository.folder / "tokens.npy", np.array([[[1, 2, 3]], [[4, 10, -11]]]))
    done = repository.doit("build", "recipe=r.yaml")
    assert (done.returncode, done.stderr) == (
        1,
        "r.yaml:3:15: run.inputs: samples that are not indices of their axis:\n  tokens.npy[1]: 2 "
        "of 3 values, the first 10 (input 'tokens', whole numbers from -10 to 9)\n",
    )
    np.save(repository.folder / "tokens.npy", np.array([[[1, 2, 3]], [[4, 9, -10]]]))
    assert "bundle" in repository.build("recipe=r.yaml")


def test_a_network_may_hand_on_its_input(tmp_path: Path) -> None:
    repository = new_repository(tmp_path)
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 4]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "same", [x], [y])
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=10), tmp_path / "same.onnx")
    repository.write("same.yaml", "model: same.onnx\ntarget: c\nrun: {samples: 1}\n")
    done = repository.doit("build", "recipe=same.yaml")
    assert (done.returncode, done.stderr) == (0, "")
    assert "1 of 1 samples exact" in done.stdout


def test_more_samples_than_memory_are_told(tmp_path: Path) -> None:
    repository = new_repository(tmp_path)
    repository.write("digits.yaml", "model: digits.onnx\ntarget: c\nrun: {samples: 1000000000}\n")
    done = repository.doit("build", "recipe=digits.yaml")
    assert done.returncode == 1
    assert ": out of memory: Unable to allocate" in done.stderr
