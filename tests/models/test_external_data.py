"""Weights in files next to an ONNX model are read only from the model's folder."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.external_data_helper import convert_model_to_external_data

from firmwright.errors import UserError
from firmwright.models.onnx.external_data import (
    embed_external_data,
    external_files,
    external_locations,
)
from firmwright.models.onnx.importer import import_model

WEIGHTS = np.arange(4, dtype="float32")


def saved(folder: Path, location: str = "weights.bin") -> Path:
    """Save a model whose two constants are in one file next to it."""
    names = ("a", "b")
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "a"], ["t"]), helper.make_node("Mul", ["t", "b"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4])],
        [numpy_helper.from_array(WEIGHTS + i, n) for i, n in enumerate(names)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    convert_model_to_external_data(model, location="weights.bin", size_threshold=0)
    path = folder / "model.onnx"
    onnx.save(model, path)
    if location != "weights.bin":
        stored = onnx.load(path, load_external_data=False)
        for tensor in stored.graph.initializer:
            tensor.external_data[0].value = location
        path.write_bytes(stored.SerializeToString())
    return path


def load(path: Path) -> bytes:
    return embed_external_data(path.read_bytes(), path, "model.onnx")


def test_data_is_embedded_and_imported(tmp_path: Path) -> None:
    path = saved(tmp_path)
    assert external_files(path) == [tmp_path / "weights.bin"]
    data = load(path)
    model = onnx.load_model_from_string(data)
    found = [numpy_helper.to_array(t).tolist() for t in model.graph.initializer]
    assert found == [WEIGHTS.tolist(), (WEIGHTS + 1).tolist()]
    import_model(data, "model.onnx", {})


def test_constants_may_share_bytes_of_the_file(tmp_path: Path) -> None:
    path = saved(tmp_path)
    stored = onnx.load(path, load_external_data=False)
    for tensor in stored.graph.initializer:
        numbers = {entry.key: entry for entry in tensor.external_data}
        numbers["offset"].value = "0"
    path.write_bytes(stored.SerializeToString())
    model = onnx.load_model_from_string(load(path))
    found = [numpy_helper.to_array(t).tolist() for t in model.graph.initializer]
    assert found == [WEIGHTS.tolist(), WEIGHTS.tolist()]


def test_data_in_a_folder_below(tmp_path: Path) -> None:
    path = saved(tmp_path, "data/weights.bin")
    (tmp_path / "data").mkdir()
    (tmp_path / "weights.bin").rename(tmp_path / "data" / "weights.bin")
    assert external_files(path) == [tmp_path / "data" / "weights.bin"]
    assert load(path) == load(saved(tmp_path))


def test_changed_data_is_another_model(tmp_path: Path) -> None:
    path = saved(tmp_path)
    before = import_model(load(path), "model.onnx", {})[1].sha256
    (tmp_path / "weights.bin").write_bytes((WEIGHTS * 2).tobytes() * 2)
    assert import_model(load(path), "model.onnx", {})[1].sha256 != before


def test_model_in_one_file_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(load(saved(tmp_path)))
    assert external_locations(path) == ()
    assert load(path) == path.read_bytes()


@pytest.mark.parametrize(
    "location", ["/etc/passwd", "../weights.bin", "data/../../weights.bin", "", "a\0b"]
)
def test_outside_the_folder(location: str, tmp_path: Path) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    path = saved(folder, location)
    (tmp_path / "weights.bin").write_bytes(bytes(64))
    with pytest.raises(UserError, match=r"'a': its data is expected in '.*', outside the"):
        load(path)


def test_link_to_the_outside(tmp_path: Path) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    path = saved(folder)
    (folder / "weights.bin").rename(tmp_path / "secret")
    (folder / "weights.bin").symlink_to(tmp_path / "secret")
    with pytest.raises(UserError, match="outside the model's folder"):
        load(path)


def test_missing_file(tmp_path: Path) -> None:
    path = saved(tmp_path)
    (tmp_path / "weights.bin").unlink()
    assert external_files(path) == []
    with pytest.raises(UserError, match=r"model.onnx: 'a': cannot read its data in 'weights.bin'"):
        load(path)


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    path = saved(tmp_path)
    (tmp_path / "weights.bin").unlink()
    os.mkfifo(tmp_path / "weights.bin")
    with pytest.raises(UserError, match=r"'a': .* in 'weights.bin', which is not a file"):
        load(path)


def test_file_too_short(tmp_path: Path) -> None:
    path = saved(tmp_path)
    (tmp_path / "weights.bin").write_bytes(bytes(3))
    with pytest.raises(UserError, match=r"bytes 0 to 16 of 'weights.bin', which has 3"):
        load(path)


def test_model_from_elsewhere_cannot_have_it(tmp_path: Path) -> None:
    data = saved(tmp_path).read_bytes()
    with pytest.raises(UserError, match=r"'a': its data is in another file, 'weights.bin'"):
        import_model(data, "model.onnx", {})


@pytest.mark.parametrize(
    "content", [b"", b"\x3a", b"\x3a\xff\xff\xff\xff\x7f", b"\xff" * 99, b"TFL3"]
)
def test_what_is_no_model_has_no_external_data(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    assert external_locations(path) == ()


def make_branch(tensor: TensorProto) -> onnx.GraphProto:
    value = helper.make_tensor_value_info("r", TensorProto.FLOAT, [4])
    return helper.make_graph(
        [helper.make_node("Constant", [], ["r"], value=tensor)], "b", [], [value]
    )


def test_data_of_nested_graphs_and_functions_is_not_read_from_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cw.bin").write_bytes(WEIGHTS.tobytes())
    outside = numpy_helper.from_array(WEIGHTS, "outside")
    onnx.external_data_helper.set_external_data(outside, "cw.bin")
    outside.ClearField("raw_data")
    x = helper.make_tensor_value_info("x", TensorProto.BOOL, [])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [4])
    branches = {"then_branch": make_branch(outside), "else_branch": make_branch(outside)}
    nested = helper.make_graph([helper.make_node("If", ["x"], ["y"], **branches)], "g", [x], [y])
    opset = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    constant = helper.make_node("Constant", [], ["y"], value=outside)
    function = helper.make_function("own", "Weights", [], ["y"], [constant], opset[:1])
    called = helper.make_node("Weights", [], ["y"], domain="own")
    calling = helper.make_graph([called], "g", [], [y])
    for graph, functions in ((nested, []), (calling, [function])):
        model = helper.make_model(graph, opset_imports=opset, ir_version=8, functions=functions)
        with pytest.raises(UserError, match=r"'outside': its data is in .* 'cw\.bin'"):
            import_model(model.SerializeToString(), "model.onnx", {})
