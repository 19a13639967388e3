"""A float network with `quantize:` is built, compared and cached, and rejected if necessary."""

from __future__ import annotations

import json
import shutil
import tarfile
from pathlib import Path

import numpy as np
import onnx
import pytest

from ..quantize.networks import graph_of, residual_network, samples
from .conftest import ALL_STAGES, Repository, ran
from .test_user_errors import fail

FIRST_STAGES = ["model", "calibration", "quantized", *ALL_STAGES[1:4], "accuracy"]
QUANTIZED_STAGES = [*FIRST_STAGES, *ALL_STAGES[4:]]
RECIPE = """\
model: float.onnx
platform: rv32-bare
quantize:
  calibration: {inputs: calibration.npy}
evaluate:
  inputs: test.npz
  labels: labels.npy
  thresholds: {top1_loss: 10, cosine: 0.99, snr: 20}
run: {samples: 4, tolerance: {absolute: 1}}
"""


def float_repository(folder: Path) -> Repository:
    folder.mkdir(parents=True)
    repository = Repository(folder)
    repository.write("dodo.py", "from firmwright.tasks.dodo import *\n")
    repository.write("r.yaml", RECIPE)
    data = residual_network()
    (folder / "float.onnx").write_bytes(data)
    np.save(folder / "calibration.npy", np.stack([s["x"] for s in samples(24)]))
    test = samples(40, seed=7)
    np.savez(folder / "test.npz", x=np.stack([s["x"] for s in test]))
    found = [np.argmax(list(o)) for o in evaluated(data, test)]
    np.save(folder / "labels.npy", np.array(found))
    return repository


def evaluated(data: bytes, given: list[dict[str, np.ndarray]]) -> list[np.ndarray]:
    from onnx.reference import ReferenceEvaluator

    network = ReferenceEvaluator(onnx.load_model_from_string(data))
    results = [network.run(None, s) for s in given]
    return [np.asarray(y)[0] for (y,) in results]


@pytest.fixture(scope="session")
def quantized(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """A built repository, for tests that only read."""
    repository = float_repository(tmp_path_factory.mktemp("quantized") / "r")
    done = repository.doit("build", "recipe=r.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(ran(done.stdout)) == sorted(QUANTIZED_STAGES)
    assert "same class as float" in done.stdout
    return repository


@pytest.fixture
def changed(quantized: Repository, tmp_path: Path) -> Repository:
    """A copy of the built repository that a test may change."""
    shutil.copytree(quantized.folder, tmp_path / "copy", copy_function=shutil.copy2)
    return Repository(tmp_path / "copy")


def rewrite(repository: Repository, before: str, after: str) -> list[str]:
    """Change the recipe and build; return the stages that ran."""
    recipe = (repository.folder / "r.yaml").read_text()
    assert before in recipe
    repository.write("r.yaml", recipe.replace(before, after))
    return sorted(repository.build("recipe=r.yaml"))


def test_bundle_tells_what_was_done_and_what_it_cost(quantized: Repository) -> None:
    manifest = quantized.manifest("build/r/r-rv32-bare.tar.gz")
    assert manifest["run"]["mismatches"] == 0
    quantization, accuracy = manifest["quantization"], manifest["accuracy"]
    assert quantization["engine"].startswith("onnxruntime ")
    assert quantization["scheme"] == "affine"
    assert len(set(manifest["inputs"]["samples"]["calibration"])) == 24
    assert len(manifest["inputs"]["samples"]["evaluate"]) == 40
    assert accuracy["calibrated"] == 0
    assert accuracy["top1"]["float32"] == 100
    assert accuracy["top1"]["firmware"] >= 90
    with tarfile.open(quantized.folder / "build/r/r-rv32-bare.tar.gz") as archive:
        member = archive.extractfile("r-rv32-bare/accuracy.json")
        assert member is not None
        record = json.load(member)
    (signals,) = (o["signals"] for o in record["outputs"])
    layers = {layer["layer"]: layer for layer in record["layers"]}
    assert set(layers) >= {"stem_relu", "dw_clip", "pw", "join", "pool", "dense"}
    assert all(layer["signal"]["snr"] > 20 for layer in layers.values())
    assert signals["firmware"] == pytest.approx(signals["quantized"])


def assert_same_c_again(repository: Repository, network: str) -> None:
    """Assert that the bundle's quantized network, as a recipe's model, results in the same C."""
    with tarfile.open(repository.folder / "build/r/r-rv32-bare.tar.gz") as archive:
        member = archive.extractfile(f"r-rv32-bare/quantized/{network}")
        assert member is not None
        (repository.folder / network).write_bytes(member.read())
    repository.write("again.yaml", f"name: r\nmodel: {network}\nplatform: rv32-bare\n")
    done = repository.doit("sources:r-rv32-bare", "recipe=again.yaml", "outdir=again")
    assert done.returncode == 0, done.stderr
    first, second = (repository.folder / p / "rv32-bare/sources" for p in ("build/r", "again"))
    ours, again = ({p.name: p.read_bytes() for p in f.glob("*.[ch]")} for f in (first, second))
    assert ours == again


def test_the_quantized_network_can_be_a_model_again(changed: Repository) -> None:
    assert_same_c_again(changed, "model.onnx")


def test_model_of_the_manifest_is_the_users(quantized: Repository) -> None:
    from firmwright.pipeline.freshness import file_digest

    manifest = quantized.manifest("build/r/r-rv32-bare.tar.gz")
    assert manifest["model"]["sha256"] == file_digest(quantized.folder / "float.onnx")


def test_firmware_takes_and_gives_integers(quantized: Repository) -> None:
    header = (quantized.folder / "build/r/rv32-bare/sources/network/network.h").read_text()
    assert "int8_t" in header
    assert "real value = " in header


def test_threshold_runs_the_gate_alone(changed: Repository) -> None:
    assert rewrite(changed, "top1_loss: 10", "top1_loss: 11") == ["accuracy", "bundle"]


def test_another_grid_does_not_calibrate_again(changed: Repository) -> None:
    again = rewrite(changed, "quantize:\n", "quantize:\n  scheme: pow2\n")
    assert "calibration" not in again
    assert "quantized" in again


def test_shifts_are_one_network_by_definition_and_in_c(changed: Repository) -> None:
    recipe = (changed.folder / "r.yaml").read_text()
    recipe = recipe.replace("quantize:\n", "quantize:\n  scheme: pow2\n  arithmetic: shift\n")
    changed.write(
        "r.yaml", recipe.replace("absolute: 1", "absolute: 0").replace("snr: 20", "snr: 15")
    )
    changed.build("recipe=r.yaml")
    manifest = changed.manifest("build/r/r-rv32-bare.tar.gz")
    assert manifest["run"]["mismatches"] == 0
    top1 = manifest["accuracy"]["top1"]
    assert top1["firmware"] == top1["quantized"] >= 85
    assert_same_c_again(changed, "model.relax")


def test_another_platform_shares_the_network(changed: Repository) -> None:
    again = rewrite(changed, "platform: rv32-bare", "platform: cortex-m4-bare")
    assert again == sorted(
        ["partition", "kernels", "reference", "accuracy", "advice", "plan", "sources", "objects",
         "firmware", "run", "stats", "bundle"]
    )  # fmt: skip


def test_another_sample_calibrates_again(changed: Repository) -> None:
    array = np.load(changed.folder / "calibration.npy")
    np.save(changed.folder / "calibration.npy", array[1:])
    assert set(changed.build("recipe=r.yaml")) >= {"calibration", "quantized", "accuracy"}


def test_same_bytes_in_another_folder(quantized: Repository, tmp_path: Path) -> None:
    other = float_repository(tmp_path / "elsewhere")
    other.environment["FIRMWRIGHT_CACHE"] = ""
    other.build("recipe=r.yaml")
    first, second = (
        (r.folder / "build/r/r-rv32-bare.tar.gz").read_bytes() for r in (quantized, other)
    )
    assert first == second


def test_gate_names_thresholds_and_the_worst_layers(changed: Repository) -> None:
    recipe = (changed.folder / "r.yaml").read_text()
    changed.write("r.yaml", recipe.replace("snr: 20", "snr: 90"))
    bundle = (changed.folder / "build/r/r-rv32-bare.tar.gz").read_bytes()
    text = fail(changed, "recipe=r.yaml")
    assert "the network is less accurate than the recipe requires" in text
    assert "SNR of the quantized output 'y' is " in text
    assert "SNR of the firmware output 'y' is " in text
    assert "thresholds.snr requires 90" in text
    assert text.count(" dB lost, SNR ") == 5
    assert (changed.folder / "build/r/r-rv32-bare.tar.gz").read_bytes() == bundle


def test_batch_is_judged_sample_by_sample(changed: Repository) -> None:
    one = changed.manifest("build/r/r-rv32-bare.tar.gz")["accuracy"]
    rewrite(changed, "platform: rv32-bare\n", "platform: rv32-bare\nbatch: 3\n")
    manifest = changed.manifest("build/r/r-rv32-bare.tar.gz")
    assert manifest["batch"]["actual_batch_size"] == 3
    assert manifest["accuracy"] == one  # 40 samples are not a multiple of 3


def test_metric_of_the_users(changed: Repository) -> None:
    metric = "def largest(outputs, labels):\n    return float(outputs['y'].max()) + len(labels)\n"
    changed.write("metrics.py", metric)
    rewrite(changed, "  labels:", "  metric: metrics:largest\n  labels:")
    found = changed.manifest("build/r/r-rv32-bare.tar.gz")["accuracy"]["metric"]
    assert 40 < found["float32"] < 60
    assert found["firmware"] == pytest.approx(found["float32"], rel=0.02)
    changed.write("metrics.py", metric + "    # the module decides about the result\n")
    assert ran(changed.doit("build", "recipe=r.yaml").stdout) == ["accuracy", "bundle"]
    changed.write("metrics.py", "def largest(outputs, labels):\n    return outputs['z']\n")
    assert "metrics.py:2: KeyError: 'z'" in fail(changed, "recipe=r.yaml")
    changed.write("metrics.py", "def lagest(outputs, labels):\n    return 1\n")
    assert "has no function 'largest'; did you mean 'lagest'?" in fail(changed, "recipe=r.yaml")


def save(folder: Path, array: np.ndarray) -> None:
    np.save(folder / "calibration.npy", array)


def with_nan(folder: Path) -> None:
    array = np.stack([s["x"] for s in samples(5)])
    array[1, 0, 0, 0, 0] = np.nan
    save(folder, array)


def with_infinity(folder: Path) -> None:
    array = np.stack([s["x"] for s in samples(5)])
    array[3, 0, 0, :2, 0] = np.inf
    save(folder, array)


def overflowing(folder: Path) -> None:
    save(folder, np.full((2, 1, 3, 8, 8), 3e38, "float32"))


BAD_DATA = {
    "nan": (with_nan, ["calibration.npy: NaN in 1 of 5 samples (sample 1)"]),
    "infinity": (with_infinity, ["samples with values that are NaN or infinite; ",
                                 "calibration.npy[3]: 2 of 192 values (sample 3, input 'x')"]),
    "overflow": (overflowing, ["has infinite or NaN values for sample 0; check the preprocessing"]),
    "shape": (lambda f: save(f, np.zeros((4, 3, 8, 7), "float32")),
              [" quantize.calibration.inputs: calibration.npy: has shape [4, 3, 8, 7]"]),
    "type": (lambda f: save(f, np.zeros((4, 3, 8, 8))), ["calibration.npy: is float64"]),
    "empty": (lambda f: save(f, np.zeros((0, 3, 8, 8), "float32")), ["has shape [0, 3, 8, 8]"]),
    "damaged": (lambda f: (f / "calibration.npy").write_bytes(b"\x93NUMPY"),
                ["calibration.npy: not an .npy of a plain array"]),
    "missing": (lambda f: (f / "calibration.npy").unlink(), ["no such file"]),
    "labels": (lambda f: np.save(f / "labels.npy", np.zeros(39, "int64")),
               [" evaluate.labels: labels.npy: 39 labels for 40 samples"]),
    "labels-type": (lambda f: np.save(f / "labels.npy", np.zeros(40)),
                    ["labels.npy: expected whole numbers, one label per sample; found float64"]),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD_DATA)
def test_data_that_will_not_do(tmp_path: Path, case: str) -> None:
    spoil, messages = BAD_DATA[case]
    repository = float_repository(tmp_path / "r")
    spoil(repository.folder)
    text = fail(repository, "recipe=r.yaml")
    assert all(message in text for message in messages), text
    assert "kernels" not in text  # this recipe was not compiled before


BAD_RECIPES = {
    "no-data": ("  calibration: {inputs: calibration.npy}", "  scheme: affine",
                "quantize: the key 'calibration' is missing"),
    "random": ("{inputs: calibration.npy}", "{samples: 4}", "the key 'inputs' is missing"),
    "layer": ("quantize:\n", "quantize:\n  layers: [{match: 'sten', weights: int16}]\n",
              "quantize.layers: no layer named 'sten'; did you mean 'stem'?"),
    "kept": ("quantize:\n", "quantize:\n  keep_float: {operators: [Conf]}\n",
             "no operator of the type 'Conf'; did you mean 'Conv'?"),
    "too-many": ("calibration.npy}", "calibration.npy, samples: 25}",
                 "has 24 samples; the recipe needs 25"),
    "method": ("calibration.npy}", "calibration.npy, method: minmx}", "did you mean 'minmax'?"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD_RECIPES)
def test_recipes_that_will_not_do(tmp_path: Path, case: str) -> None:
    before, after, message = BAD_RECIPES[case]
    repository = float_repository(tmp_path / "r")
    assert before in RECIPE
    repository.write("r.yaml", RECIPE.replace(before, after))
    assert message in fail(repository, "recipe=r.yaml")


def test_samples_from_python_and_raw_files(changed: Repository) -> None:
    before = changed.manifest("build/r/r-rv32-bare.tar.gz")["inputs"]["samples"]
    (changed.folder / "raw").mkdir()
    for index, array in enumerate(np.load(changed.folder / "calibration.npy")):
        array.tofile(changed.folder / "raw" / f"{index:03}.bin")
    changed.write(
        "recordings.py",
        "from pathlib import Path\nimport numpy as np\n"
        "def calibration():\n"
        "    return np.load(Path(__file__).parent / 'calibration.npy')\n",
    )
    python = "{x: {python: 'recordings:calibration'}}"
    for source, files in (("{x: {raw: raw/}}", ""), (python, "files: [calibration.npy]\n")):
        recipe = RECIPE.replace("{inputs: calibration.npy}", f"{{inputs: {source}}}")
        changed.write("r.yaml", recipe + files)
        changed.build("recipe=r.yaml")
        assert changed.manifest("build/r/r-rv32-bare.tar.gz")["inputs"]["samples"] == before


def test_pytorch_network(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    network = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, padding=1),
        torch.nn.BatchNorm2d(8),
        torch.nn.ReLU(),
        torch.nn.AdaptiveAvgPool2d(1),
        torch.nn.Flatten(),
        torch.nn.Linear(8, 5),
    ).eval()
    repository = float_repository(tmp_path / "r")
    program = torch.export.export(network, (torch.zeros(1, 3, 8, 8),))
    torch.export.save(program, repository.folder / "float.pt2")
    arrays = np.load(repository.folder / "test.npz")["x"]
    np.save(repository.folder / "test.npy", arrays)
    recipe = RECIPE.replace("float.onnx", "float.pt2").replace("test.npz", "test.npy")
    repository.write("r.yaml", recipe.replace("  labels: labels.npy\n", ""))
    repository.build("recipe=r.yaml")
    manifest = repository.manifest("build/r/r-rv32-bare.tar.gz")
    assert manifest["accuracy"]["top1"]["firmware"] >= 90
    assert manifest["run"]["mismatches"] == 0
    prepared = onnx.load(repository.folder / "build/r/calibration/prepared.onnx")
    kinds = [node.op_type for node in prepared.graph.node]
    assert kinds[:2] == ["Conv", "Relu"]  # the batch normalization is folded


def test_quantized_model_is_not_quantized_again(repository: Repository) -> None:
    np.save(repository.folder / "c.npy", np.zeros((2, 1, 1, 8, 8), "int8"))
    repository.write("r.yaml", "model: digits.onnx\nquantize: {calibration: {inputs: c.npy}}\n")
    assert "the model is already quantized" in fail(repository, "recipe=r.yaml")


def test_sixteen_bit_floats_are_not_quantized(tmp_path: Path) -> None:
    repository = float_repository(tmp_path / "r")
    model = onnx.load(repository.folder / "float.onnx")
    for constant in model.graph.initializer:
        if constant.data_type == onnx.TensorProto.FLOAT:
            half = onnx.numpy_helper.to_array(constant).astype("float16")
            constant.CopyFrom(onnx.numpy_helper.from_array(half, constant.name))
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.elem_type = onnx.TensorProto.FLOAT16
    onnx.save(model, repository.folder / "float.onnx")
    text = fail(repository, "recipe=r.yaml")
    assert "r.yaml:" in text and "the model has 16-bit floats (" in text
    assert "quantization starts from float32" in text


def test_one_sample_will_do_but_is_remarked(tmp_path: Path) -> None:
    repository = float_repository(tmp_path / "r")
    text = RECIPE[: RECIPE.index("evaluate:")].replace(
        "calibration.npy", "calibration.npy, samples: 1"
    )
    repository.write("r.yaml", text)
    done = repository.doit("build", "recipe=r.yaml")
    assert done.returncode == 0, done.stderr
    assert "calibration: the only sample" in done.stdout


def test_constant_tensors_and_outliers_are_remarked_and_built(tmp_path: Path) -> None:
    from onnx import helper

    node = helper.make_node
    dead = np.zeros((4, 3, 1, 1), "float32")
    constants = {
        "w": dead,
        "b": np.array([-1, -2, -3, -4], "float32"),
        "v": np.ones((5, 3, 8, 8), "float32"),
    }
    nodes = [
        node("Conv", ["x", "w", "b"], ["never_sum"], "never"),
        node("Relu", ["never_sum"], ["never_out"], "never_relu"),
        node("ReduceMean", ["never_out"], ["zero"], "mean", axes=[1, 2, 3], keepdims=1),
        node("Add", ["x", "zero"], ["same"], "join"),
        node("Conv", ["same", "v"], ["sum"], "all"),
        node("Flatten", ["sum"], ["y"], "flatten"),
    ]
    repository = float_repository(tmp_path / "r")
    (repository.folder / "float.onnx").write_bytes(graph_of(nodes, constants, 5))
    array = np.load(repository.folder / "calibration.npy")
    array[0, 0, 0, 0, 0] = 1e4
    save(repository.folder, array)
    repository.write("r.yaml", RECIPE[: RECIPE.index("evaluate:")])
    done = repository.doit("build", "recipe=r.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "tensor 'never_out' was 0 in all calibration samples" in done.stdout
    assert "tensor 'x' reaches " in done.stdout
    assert "times as far as 99.9 % of its values" in done.stdout
