"""The device on the page about devices works without a change."""

from __future__ import annotations

import re

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from tests.e2e.conftest import ROOT, Repository

PAGE = ROOT / "docs" / "howto" / "own-device.md"
FILE = re.compile(r"```\w+\n(?:# |/\* )([\w/.-]+\.\w+)(?: \*/)?\n(.*?)```", re.DOTALL)
SHAPE = [1, 2, 5, 6]


def quantized_sums() -> bytes:
    """Return two sums of tensors: one with one scale, the other with two."""
    scales = {"one": 0.05, "two": 0.1}
    nodes, names = [], iter(f"t{n}" for n in range(20))

    def dequantized(stored: str, scale: str, zero: str) -> str:
        real = next(names)
        nodes.append(helper.make_node("DequantizeLinear", [stored, scale, zero], [real]))
        return real

    for result, scale in (("sum", "one"), ("other", "two")):
        real = next(names)
        read = [dequantized("a", "one", "zero_a"), dequantized("b", scale, "zero_b")]
        nodes.append(helper.make_node("Add", read, [real], name=f"{result}_add"))
        nodes.append(helper.make_node("QuantizeLinear", [real, "one", "zero_b"], [result]))
    constants = [numpy_helper.from_array(np.array(s, "float32"), n) for n, s in scales.items()]
    zeros = {"zero_a": -7, "zero_b": 11}
    constants += [numpy_helper.from_array(np.array(z, "int8"), n) for n, z in zeros.items()]
    tensors = {
        name: helper.make_tensor_value_info(name, onnx.TensorProto.INT8, SHAPE)
        for name in ("a", "b", "sum", "other")
    }
    inputs, outputs = [tensors["a"], tensors["b"]], [tensors["sum"], tensors["other"]]
    made = helper.make_graph(nodes, "sums", inputs, outputs, constants)
    opsets = [helper.make_opsetid("", 13)]
    return bytes(helper.make_model(made, opset_imports=opsets, ir_version=8).SerializeToString())


@pytest.fixture(scope="module")
def chip(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """The files of the page, and a network for them."""
    repository = Repository(tmp_path_factory.mktemp("chip"))
    for name, text in FILE.findall(PAGE.read_text("utf-8")):
        (repository.folder / name).parent.mkdir(parents=True, exist_ok=True)
        repository.write(name, text)
    repository.write("dodo.py", "from firmwright.tasks.dodo import *\n")
    (repository.folder / "net.onnx").write_bytes(quantized_sums())
    return repository


def test_the_device_takes_one_sum_says_why_not_the_other_and_computes_it(chip: Repository) -> None:
    explained = chip.firmwright("explain", "net.yaml").stdout
    assert "npu: a sum of two tensors of one scale is one job of the NPU" in explained
    assert "npu: scale: its tensors have 2 scales; the NPU takes one for both and" in explained
    done = chip.doit("build", "recipe=net.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    run = chip.manifest("build/net/net-board.tar.gz")["run"]
    assert run["differences"] == 0
    (source,) = chip.folder.glob("build/net/board/sources/network/network.c")
    assert "fw_npu_wait(0u)" in source.read_text()


def test_its_results_are_wrong_without_the_wait(chip: Repository) -> None:
    jobs = chip.folder / "npu_jobs.py"
    text = jobs.read_text()
    chip.write("npu_jobs.py", text.replace('wait_function="fw_npu_wait"', "wait_function=None"))
    failed = chip.doit("build", "recipe=net.yaml")
    chip.write("npu_jobs.py", text)
    assert failed.returncode == 1
    assert "differ from the reference" in failed.stdout + failed.stderr


def test_a_mistake_is_told_as_the_page_says(chip: Repository) -> None:
    npu = chip.folder / "npu.py"
    text = npu.read_text()
    chip.write("npu.py", text.replace("place_sums(module)", "[place_sums(module)]"))
    failed = chip.firmwright("explain", "net.yaml")
    chip.write("npu.py", text)
    assert failed.returncode == 1
    assert "npu.py:8: place: returned a list; expected a Placement (npu:NPU)" in failed.stderr
