"""Exported PyTorch programs: the generated C on this machine equals torch."""

from __future__ import annotations

import gc
import io
import pickle
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from firmwright.errors import UserError
from firmwright.models import FORMATS
from tests.networks.firmware import lowered, run_generated

torch = pytest.importorskip("torch", reason="torch is not installed: pip install torch")
# This import defines the operators of quantized programs.
pytest.importorskip("torch.ao.quantization.fx._decomposed")
nn = torch.nn

from tests.networks.torch_programs import Call, exported, samples  # noqa: E402 (needs torch)


class Residual(nn.Module):  # type: ignore[misc,name-defined]
    """Convolutions, batch norm, hard-swish, a residual sum, adaptive pooling, a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8))
        self.act = nn.Hardswish()
        self.body = nn.Conv2d(8, 8, 3, padding=1, groups=4)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(8, 5)

    def forward(self, image: Any) -> Any:
        x = self.act(self.stem(image))
        x = x + self.body(x)
        return self.head(torch.flatten(self.pool(x), 1))


class Recurrent(nn.Module):  # type: ignore[misc,name-defined]
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(4, 6, batch_first=True)
        self.head = nn.Linear(6, 3)

    def forward(self, sequence: Any) -> Any:
        found, _ = self.lstm(sequence)
        return self.head(found[:, -1])


class TwoInTwoOut(nn.Module):  # type: ignore[misc,name-defined]
    def forward(self, left: Any, right: Any) -> Any:
        return {"sum": left + right, "angle": torch.atan2(left, right.abs() + 1).sin()}


CNN = nn.Sequential(
    nn.Conv2d(1, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 6, 3, padding=1), nn.SiLU(),
    nn.AvgPool2d(2), nn.Flatten(), nn.Linear(54, 10), nn.Softmax(1),
)  # fmt: skip
MLP = nn.Sequential(
    nn.Linear(12, 16), nn.LayerNorm(16), nn.GELU(), nn.Linear(16, 8), nn.LeakyReLU(0.1),
    nn.Linear(8, 4), nn.Sigmoid(),
)  # fmt: skip


@pytest.mark.parametrize(
    ("model", "shapes"),
    [
        (CNN, [(1, 1, 16, 16)]),
        (MLP, [(1, 12)]),
        (Residual(), [(1, 3, 20, 20)]),
        (Recurrent(), [(1, 5, 4)]),
        (TwoInTwoOut(), [(2, 3), (2, 3)]),
    ],
    ids=["cnn", "mlp", "residual", "lstm", "two-in-two-out"],
)
def test_generated_c_equals_torch(
    model: Any, shapes: list[tuple[int, ...]], tmp_path: Path
) -> None:
    data = exported(model, *(torch.zeros(s) for s in shapes))
    given = samples(data, 3)
    found = run_generated(data, given, tmp_path, format_name="pt2")
    wanted = FORMATS["pt2"].load().run_reference(data, given)
    assert wanted.runtime.startswith("torch ")
    for ours, theirs in zip(found, wanted.outputs, strict=True):
        for mine, reference in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(mine, reference, rtol=1e-5, atol=1e-6)


class Quantized(nn.Module):  # type: ignore[misc,name-defined]
    """Return torch's quantized convolution, ReLU and linear layer, with QDQ around each."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(3)
        for name, shape in (("kernel", (6, 3, 3, 3)), ("matrix", (4, 54))):
            values = torch.randint(-127, 128, shape, dtype=torch.int8, generator=generator)
            self.register_buffer(name, values)
            self.register_buffer(f"{name}_scales", torch.rand(shape[0], generator=generator) / 99)
        self.register_buffer("zeros", torch.zeros(6, dtype=torch.int64))

    def grid(self, x: Any, scale: float, zero_point: int) -> Any:
        operators = torch.ops.quantized_decomposed
        limits = (scale, zero_point, -128, 127, torch.int8)
        return operators.dequantize_per_tensor(operators.quantize_per_tensor(x, *limits), *limits)

    def forward(self, image: Any) -> Any:
        weights = torch.ops.quantized_decomposed.dequantize_per_channel
        x = self.grid(image, 0.02, -3)
        kernel = weights(self.kernel, self.kernel_scales, self.zeros, 0, -127, 127, torch.int8)
        x = self.grid(nn.functional.relu(nn.functional.conv2d(x, kernel)), 0.15, -128)
        matrix = weights(self.matrix, self.matrix_scales, None, 0, -127, 127, torch.int8)
        x = nn.functional.linear(x.flatten(1), matrix)
        return torch.ops.quantized_decomposed.quantize_per_tensor(x, 0.1, 5, -100, 100, torch.int8)


def test_quantized_programs_run_on_integers(tmp_path: Path) -> None:
    data = exported(Quantized(), torch.zeros(1, 3, 5, 5))
    regions = lowered(data, "pt2").partition.regions
    assert [r.operators[-1] for r in regions if r.macs] == ["quantize", "clip"]
    given = samples(data, 20)
    found = run_generated(data, given, tmp_path, format_name="pt2")
    wanted = FORMATS["pt2"].load().run_reference(data, given).outputs
    difference = np.abs(np.array(found, "int32") - np.array(wanted, "int32"))
    assert len(np.unique(wanted)) > 20
    assert difference.max() <= 1
    assert (difference > 0).mean() < 0.02


def test_names_are_those_of_the_modules_and_the_signature() -> None:
    data = exported(Residual(), torch.zeros(1, 3, 20, 20))
    module, interface = FORMATS["pt2"].load().import_model(data, "m.pt2", {})
    assert [t.name for t in interface.inputs] == ["image"]
    assert interface.inputs[0].shape == (1, 3, 20, 20)
    assert [t.name for t in interface.outputs] == ["linear"]
    variables = {str(b.var.name) for block in module["main"].body.blocks for b in block.bindings}
    assert {"stem.0", "stem.1", "act", "body", "add_1", "pool", "head"} <= variables


def test_dynamic_shapes_are_refused_or_fixed_by_the_recipe() -> None:
    rows = torch.export.Dim("rows", min=1, max=64)
    data = exported(MLP, torch.zeros(3, 12), dynamic_shapes=({0: rows},))
    importer = FORMATS["pt2"].load()
    with pytest.raises(UserError, match=r"m.pt2: dynamic input shapes.*\n  input: \['s\d+', 12\]"):
        importer.import_model(data, "m.pt2", {})
    with pytest.raises(UserError, match=r"shape \[4, 13\] does not fit the model's \[s\d+, 12\]"):
        importer.import_model(data, "m.pt2", {"input": (4, 13)})
    with pytest.raises(UserError, match="the model has no input 'inptu'; did you mean 'input'"):
        importer.import_model(data, "m.pt2", {"inptu": (4, 12)})
    _, interface = importer.import_model(data, "m.pt2", {"input": (4, 12)})
    assert interface.inputs[0].shape == (4, 12)
    assert interface.outputs[0].shape == (4, 4)


class Bomb:
    """An object that an attacker would pickle."""

    def __reduce__(self) -> Any:
        return (print, ("executed",))


def pickled(payload: Any) -> bytes:
    stream = io.BytesIO()
    torch.save(payload, stream)
    return stream.getvalue()


def scripted() -> bytes:
    stream = io.BytesIO()
    torch.jit.save(torch.jit.trace(MLP, torch.zeros(1, 12)), stream)
    return stream.getvalue()


def archive(data: bytes, **members: bytes) -> bytes:
    """Return the program with members of the archive replaced or added."""
    stream = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(stream, "w") as new:
        for item in old.namelist():
            if not any(item.endswith(name) for name in members):
                new.writestr(item, old.read(item))
        for name, content in members.items():
            new.writestr(f"archive/{name}", content)
    return stream.getvalue()


def add_outside(data: bytes) -> bytes:
    """Return the archive with a member that is not in the folder of the other members."""
    stream = io.BytesIO(data)
    with zipfile.ZipFile(stream, "a") as opened:
        opened.writestr("../outside", b"")
    return stream.getvalue()


def damaged(data: bytes, place: bytes, content: bytes) -> bytes:
    """Return the archive with some bytes replaced, which its checksums notice."""
    first = data.index(place)
    return data[:first] + content + data[first + len(content) :]


@pytest.fixture(scope="module")
def whole() -> bytes:
    return exported(MLP, torch.zeros(1, 12))


def drop_graph(data: bytes) -> bytes:
    return archive(data, **{"models/model.json": b'{"graph_module": 3}'})


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda _: b"hello", "m.pt2: not an exported program but a damaged file; save it as a"),
        (lambda _: pickle.dumps({"a": 1}), "an exported program but weights or a module, pickled"),
        (lambda _: pickled({"w": torch.zeros(2)}), "not an exported program but pickled weights"),
        (lambda _: scripted(), "not an exported program but TorchScript"),
        (lambda data: data[:2000], "not an exported program but a damaged file"),
        (lambda data: data.replace(b"archive/", b"\x80rchive/"), "program but a damaged file"),
        (
            lambda data: damaged(data, b'"graph_module"', b"?"),
            "a damaged archive: .*; fetch the file again",
        ),
        (
            add_outside,
            "its archive lacks a member of an exported program, or has a member outside",
        ),
        (
            drop_graph,
            r"is damaged, or from another version of torch \(\w+: .*; fetch the file again",
        ),
    ],
    ids=[
        "text",
        "pickle",
        "weights",
        "torchscript",
        "truncated",
        "name",
        "checksum",
        "member outside",
        "description",
    ],
)
def test_what_is_no_exported_program(
    write: Callable[[bytes], bytes], message: str, whole: bytes
) -> None:
    data = write(whole)
    with pytest.raises(UserError, match=message):
        FORMATS["pt2"].load().import_model(data, "m.pt2", {})


def test_no_pickle_of_the_file_is_executed(capfd: pytest.CaptureFixture[str], whole: bytes) -> None:
    (inputs,) = [n for n in zipfile.ZipFile(io.BytesIO(whole)).namelist() if "sample_inputs" in n]
    bomb = archive(whole, **{inputs.partition("/")[2]: pickled((Bomb(),))})
    with pytest.raises(UserError, match="cannot read the program"):
        FORMATS["pt2"].load().import_model(bomb, "m.pt2", {})
    assert "executed" not in capfd.readouterr().out
    hidden = archive(whole, **{"data/constants/opaque_obj_0": pickle.dumps(Bomb())})
    with pytest.raises(UserError, match="pickled objects or compiled code"):
        FORMATS["pt2"].load().import_model(hidden, "m.pt2", {})


def test_operators_that_torch_does_not_have_are_named(whole: bytes) -> None:
    (program,) = [n for n in zipfile.ZipFile(io.BytesIO(whole)).namelist() if "models/" in n]
    text = zipfile.ZipFile(io.BytesIO(whole)).read(program)
    assert b"torch.ops.aten.linear.default" in text
    other = text.replace(
        b"torch.ops.aten.linear.default", b"torch.ops.torchao.pack_weights.default"
    )
    data = archive(whole, **{program.partition("/")[2]: other})
    with pytest.raises(UserError, match=r"does not have .*: torchao\.pack_weights; export the"):
        FORMATS["pt2"].load().import_model(data, "m.pt2", {})


def test_training_mode_is_refused() -> None:
    stream = io.BytesIO()
    program = torch.export.export(Residual().train(), (torch.zeros(2, 3, 8, 8),))
    torch.export.save(program, stream)
    with pytest.raises(UserError, match=r"changes its state .* model.eval\(\)"):
        FORMATS["pt2"].load().import_model(stream.getvalue(), "m.pt2", {})


class Stream(nn.Module):  # type: ignore[misc,name-defined]
    """Keeps a GRU's state, the last frames, and in an unsaved buffer the number of runs."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(4, 4)
        self.register_buffer("hidden", torch.full((1, 4), 0.25))
        self.register_buffer("frames", torch.zeros(1, 3, 4))
        self.register_buffer("runs", torch.zeros(1), persistent=False)

    def forward(self, frame: Any) -> Any:
        self.frames.copy_(torch.cat([self.frames[:, 1:], frame[:, None]], 1))
        self.hidden.copy_(self.cell(frame, self.hidden))
        self.runs += 1
        return self.hidden + self.frames.sum(1), self.runs * 2


def test_buffers_that_a_program_changes_are_states(tmp_path: Path) -> None:
    data = exported(Stream(), torch.zeros(1, 4))
    importer = FORMATS["pt2"].load()
    _, interface = importer.import_model(data, "m.pt2", {})
    kept = {s.tensor.name: s.initial for s in interface.states}
    assert kept.keys() == {"hidden", "frames", "runs"}
    assert kept["hidden"] == np.full(4, 0.25, "<f4").tobytes()
    given = [{"frame": np.full((1, 4), np.sin(step), "float32")} for step in range(100)]
    found = run_generated(data, given, tmp_path, format_name="pt2")
    wanted = importer.run_reference(data, given, interface.states).outputs
    assert float(wanted[-1][1][0]) == 200
    for ours, theirs in zip(found, wanted, strict=True):
        for mine, reference in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(mine, reference, rtol=1e-5, atol=1e-5)


def test_unknown_operator_is_named() -> None:
    data = exported(Call(torch.linalg.eigvalsh), torch.zeros(3, 3))
    with pytest.raises(UserError, match=r"cannot be compiled:\n  aten._linalg_eigh"):
        FORMATS["pt2"].load().import_model(data, "m.pt2", {})


def test_without_torch_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "firmwright.models.pytorch.importer", raising=False)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(
        UserError, match=r"needs the package torch: pip install 'firmwright\[torch\]'"
    ):
        FORMATS["pt2"].load()


def test_importing_prints_nothing(
    capfd: pytest.CaptureFixture[str], recwarn: pytest.WarningsRecorder
) -> None:
    FORMATS["pt2"].load().import_model(exported(CNN, torch.zeros(1, 1, 16, 16)), "m.pt2", {})
    recwarn.clear()
    powers = exported(Call(lambda x: 2 ** x.int()), torch.zeros(1, 4))
    with pytest.raises(UserError, match="powers of integers") as raised:
        FORMATS["pt2"].load().import_model(powers, "m.pt2", {})
    del raised
    gc.collect()
    assert capfd.readouterr() == ("", "")
    assert not recwarn.list


def test_batch_norm_takes_no_memory() -> None:
    """Its constants are computed at build time; otherwise the convolution's sums stay in memory."""
    image = torch.randn(1, 3, 64)
    convolution = nn.Conv1d(3, 8, 5, padding=2)
    rest = (nn.ReLU(), nn.Flatten(), nn.Linear(8 * 64, 4))
    plain = lowered(exported(nn.Sequential(convolution, *rest), image), "pt2")
    normed = nn.Sequential(convolution, nn.BatchNorm1d(8), *rest)
    assert lowered(exported(normed, image), "pt2").plan.arena_bytes == plain.plan.arena_bytes
