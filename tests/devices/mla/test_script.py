"""The inputs of SiMa's compiler: the graph, the samples, and the script, which runs."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from shutil import copytree
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from firmwright.devices.mla.afe_settings import make_settings
from firmwright.devices.mla.build_archive import write_script
from firmwright.devices.mla.compiled import describe_archive, read_compiled
from firmwright.devices.mla.compiler_input import export_network, order_samples
from firmwright.devices.mla.options import MlaOptions, read_options
from firmwright.devices.mla.sdk import InstalledSdk, find_sdk, read_version, run_script
from firmwright.errors import UserError
from firmwright.ir.tensors import ModelInterface, Tensor
from firmwright.recipe.quantize_keys import QuantizeOptions
from firmwright.report.manifest import ArtifactsReport
from firmwright.targets import Context
from firmwright.toolchain import load_platform
from tests.devices.tidl.networks import network, values, vm_outputs
from tests.quantize.networks import options as quantize_options

from .afe_recorded.afe.apis import defines
from .sdk import RECORDED, install_sdk


def mla_options(platform: str = "modalix", **options: str) -> MlaOptions:
    return read_options(Context(load_platform(platform), "onnx", options))


def channels_last() -> tuple[Any, ModelInterface]:
    """Return a float convolution of a channels-last image, and its ports."""
    from tvm import relax

    def build(builder: relax.BlockBuilder, x: relax.Var) -> list[relax.Expr]:
        conv = relax.op.nn.conv2d(
            x, values(3, 3, 4, 5), padding=[1, 1], data_layout="NHWC", kernel_layout="HWIO"
        )
        return [relax.op.nn.relu(builder.emit(conv, "conv"))]

    ports = (Tensor("x", (1, 8, 6, 4), "float32"),), (Tensor("y", (1, 8, 6, 5), "float32"),)
    return network(build, (1, 8, 6, 4)), ModelInterface("tflite", "", *ports, ())


def test_the_graph_has_its_channels_first_and_the_samples_last() -> None:
    module, interface = channels_last()
    made = export_network(module, interface)
    graph = onnx.load_from_string(made.data).graph
    assert "Transpose" not in [node.op_type for node in graph.node]
    assert (made.inputs[0].shape, made.outputs[0].shape) == ((1, 4, 8, 6), (1, 5, 8, 6))
    image = np.random.default_rng(0).normal(size=(1, 8, 6, 4)).astype("float32")
    session = onnxruntime.InferenceSession(made.data)
    (found,) = session.run(None, {"x": image.transpose(0, 3, 1, 2)})
    (expected,) = vm_outputs(module, image)
    np.testing.assert_allclose(found.transpose(0, 2, 3, 1), expected, rtol=1e-5, atol=1e-5)
    assert order_samples([image, image], "NHWC").shape == (2, 1, 8, 6, 4)
    np.testing.assert_array_equal(
        order_samples([image.transpose(0, 3, 1, 2)], "NCHW"), image[np.newaxis]
    )


METHODS = {
    "minmax": "MinMaxMethod()",
    "moving_average": "MovingAverageMinMaxMethod()",
    "mse": "HistogramMSEMethod(num_bins=2048)",
    "entropy": "HistogramEntropyMethod(num_bins=2048)",
    "percentile": "HistogramPercentileMethod(percentile_value=99.99, num_bins=2048)",
}


def written(tmp_path: Path, quantize: QuantizeOptions | None, batch: int, **options: str) -> str:
    """Write graph, samples and script; return the script."""
    module, interface = channels_last()
    made = export_network(module, interface)
    (tmp_path / "net.onnx").write_bytes(made.data)
    np.savez(tmp_path / "calibration.npz", input_0=np.zeros((3, 1, 8, 6, 4), "float32"))
    settings = make_settings(mla_options(**options), quantize, batch)
    samples = "" if options.get("arm_only") == "1" else "calibration.npz"
    evaluation = "evaluation.npz" if "target_accuracy" in options else ""
    script = write_script("net", "net.onnx", made.inputs, samples, settings, evaluation)
    (tmp_path / "compile.py").write_text(script)
    return script


@pytest.mark.parametrize("method", METHODS)
def test_the_recipes_calibration_has_a_method_of_the_sdk(method: str) -> None:
    calibration = {"inputs": "x.npy", "method": method, "percentile": 99.99}
    settings = make_settings(mla_options(), quantize_options(calibration=calibration), 1)
    assert dict(settings.quantization)["calibration_method"] == METHODS[method]
    assert METHODS[method].partition("(")[0] in settings.names
    assert eval(METHODS[method], vars(defines))


def test_the_recipes_quantization_reaches_the_sdk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calibration = {"inputs": "x.npy", "method": "percentile", "percentile": 99.5}
    recipe = quantize_options(calibration=calibration, equalize=True, symmetric=True)
    script = written(tmp_path, recipe, 16)
    assert '"batch_size": (16, 1),' in script
    config = run_recorded(tmp_path, monkeypatch)["config"]
    assert "HistogramPercentileMethod(percentile_value=99.5, num_bins=2048)" in config
    assert "activation_quantization_scheme=QuantizationScheme(asymmetric=False, " in config
    assert "weight_quantization_scheme=QuantizationScheme(asymmetric=False, " in config
    assert "channel_equalization=True" in config


def run_recorded(folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Run the script with the recorded SDK; return the calls that the SDK received."""
    monkeypatch.setenv("AFE_PYTHON", str(install_sdk(folder / "sdk")))
    sdk = find_sdk()
    assert sdk is not None
    assert run_script(sdk, folder, folder / "log") == "2.1.0"
    result: dict[str, Any] = json.loads((folder / "quantized/net.sima.json").read_text())
    return result


def test_a_conversion_keeps_the_scales_of_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"convert_to_sima_quantization": "1", "requantization_mode": "tflite"}
    script = written(tmp_path, None, 1, **options)
    assert "default_quantization" not in script
    assert run_recorded(tmp_path, monkeypatch)["converted"] == "tflite"
    with pytest.raises(UserError, match="the recipe has `quantize`; remove one of them"):
        make_settings(mla_options(**options), quantize_options(), 1)


def test_an_accuracy_is_measured_on_the_classes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    np.savez(
        tmp_path / "evaluation.npz",
        input_0=np.zeros((2, 1, 8, 6, 4), "float32"), labels=np.array([3, 9]),
    )  # fmt: skip
    written(tmp_path, None, 1, target_accuracy="0.75", max_optimization_steps="4")
    result = run_recorded(tmp_path, monkeypatch)
    assert (result["target"], result["steps"], result["samples"]) == (0.75, 4, 3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_optimization_steps": "4"}, "set target_accuracy"),
        ({"target_accuracy": "0.5", "arm_only": "1"}, "arm_only=1 does not quantize the network"),
        ({"convert_to_sima_quantization": "1", "smooth_quant": "1"}, "supports only requantizat"),
    ],
)
def test_options_that_exclude_each_other_are_rejected(
    options: dict[str, str], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        mla_options(**options)


OPTIONS_AND_WORDS: tuple[tuple[dict[str, str], tuple[str, ...]], ...] = (
    ({}, ("biascorr_type=<BiasCorrectionType.NONE", "node_names={''}")),
    (
        {
            "bias_correction": "iterative",
            "requantization_mode": "tflite",
            "unquantized_nodes": "b, a",
            "smooth_quant": "1",
            "prefer_int8_udf": "0",
        },
        (
            "biascorr_type=<BiasCorrectionType.ITERATIVE",
            "requantization_mode=<RequantizationMode.tflite",
            "smooth_quant=True",
            "prefer_int8_udf=False",
        ),
    ),
    ({"precision": "bf16", "arm_only": "1"}, ("bf16=True", "'samples': 0")),
    (
        {
            "compress": "0",
            "l2_caching_mode": "single_model",
            "any_shape_on_mla": "1",
            "automatic_layout_conversion": "1",
        },
        ("'samples': 3",),
    ),
)


@pytest.mark.parametrize(("options", "words"), OPTIONS_AND_WORDS, ids=str)
def test_every_option_reaches_the_sdk(
    options: dict[str, str],
    words: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    script = written(tmp_path, None, 1, **options)
    result = str(run_recorded(tmp_path, monkeypatch))
    for text in words:
        assert text in result
    for name, text in (
        ("compress", '"compress": (False, True)'),
        ("l2_caching_mode", "(L2CachingMode.SINGLE_MODEL, L2CachingMode.NONE)"),
        ("any_shape_on_mla", '"any_shape_on_mla": (True, False)'),
        ("automatic_layout_conversion", '"automatic_layout_conversion": (True, False)'),
        ("arm_only", '"arm_only": (True, False)'),
        ("unquantized_nodes", "node_names=set(['a', 'b'])"),
    ):
        assert (text in script) == (name in options)


@pytest.mark.parametrize(
    ("stated", "message"),
    [
        ({"scheme": "pow2"}, "quantize.scheme is pow2"),
        ({"activations": "int16"}, "quantize.activations is int16"),
        ({"keep_float": {"operators": ["Softmax"]}}, "quantize.keep_float is not empty"),
        ({"layers": [{"match": "a", "weights": "int8"}]}, "quantize.layers is not empty"),
        ({"compensate_rounding": True}, "quantize.compensate_rounding is true"),
        ({"calibration": {"method": "model", "percentile": 99.99}}, "calibration.method is model"),
    ],
)
def test_a_quantization_that_the_sdk_does_not_have_is_refused(
    stated: dict[str, Any], message: str
) -> None:
    with pytest.raises(UserError) as caught:
        make_settings(mla_options(), quantize_options(**stated), 1)
    assert message in str(caught.value)


def test_bf16_and_a_quantization_to_8_bits_exclude_each_other() -> None:
    with pytest.raises(UserError, match="precision is bf16, and the recipe's `quantize` makes 8"):
        make_settings(mla_options(precision="bf16"), quantize_options(), 1)


def without_compress(text: str) -> str:
    return text.replace("        compress: bool = True,\n", "")


def edited_sdk(folder: Path, file: str, edit: Callable[[str], str]) -> Path:
    """Return an SDK with another content of ``file``."""
    copytree(RECORDED, folder / "afe_recorded")
    path = folder / "afe_recorded" / file
    changed = edit(path.read_text())
    assert changed != path.read_text()
    path.write_text(changed)
    return install_sdk(folder / "sdk", folder / "afe_recorded")


@pytest.mark.parametrize(("compress", "fits"), [("1", True), ("0", False)])
def test_an_older_release_gets_what_it_knows_and_nothing_is_left_out_in_silence(
    compress: str, fits: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path, None, 1, compress=compress)
    program = edited_sdk(tmp_path, "afe/apis/model.py", without_compress)
    monkeypatch.setenv("AFE_PYTHON", str(program))
    sdk = find_sdk()
    assert sdk is not None
    if fits:
        assert run_script(sdk, tmp_path, tmp_path / "log") == "2.1.0"
        return
    with pytest.raises(UserError, match="this release of the Model SDK has no compress in compile"):
        run_script(sdk, tmp_path, tmp_path / "log")


def test_the_sdk_is_found_by_its_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AFE_PYTHON", raising=False)
    monkeypatch.delenv("MODEL_COMPILER_HOME", raising=False)
    assert find_sdk() is None
    monkeypatch.setenv("MODEL_COMPILER_HOME", str(tmp_path))
    with pytest.raises(UserError, match="bin/python is not a program; set MODEL_COMPILER_HOME to"):
        find_sdk()
    install_sdk(tmp_path / "bin")
    found = find_sdk()
    assert found is not None
    assert read_version(found) == "2.1.0"


def test_an_interpreter_without_the_sdk_tells_what_it_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AFE_PYTHON", str(install_sdk(tmp_path, tmp_path)))
    sdk = find_sdk()
    assert sdk is not None
    with pytest.raises(UserError, match=r"exit code 1; it said:[\s\S]*No module named 'afe'"):
        read_version(sdk)


def test_the_script_can_be_parsed_without_the_sdk(tmp_path: Path) -> None:
    script = written(tmp_path, quantize_options(), 2)
    compile(script, "compile.py", "exec")
    checked = subprocess.run(["ruff", "check", "--isolated", "-"], input=script, text=True,
                             capture_output=True, check=False)  # fmt: skip
    assert checked.returncode == 0, checked.stdout


def recorded(
    change: tuple[str, str], folder: Path, monkeypatch: pytest.MonkeyPatch, **options: str
) -> InstalledSdk:
    """Return an SDK whose model has one replaced text, after the script ran with a batch."""
    program = edited_sdk(folder, "afe/apis/model.py", lambda text: text.replace(*change))
    monkeypatch.setenv("AFE_PYTHON", str(program))
    written(folder, None, 16, **options)
    sdk = find_sdk()
    assert sdk is not None
    return sdk


SAME = ("CYCLES = 1000", "CYCLES = 1_000")
"""A change of the recorded SDK without an effect."""


def test_what_the_sdk_made_is_read_and_packed_again_with_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sdk = recorded(SAME, tmp_path, monkeypatch)
    packed = []
    for _ in range(2):
        run_script(sdk, tmp_path, tmp_path / "log")
        archive, remarks = read_compiled(tmp_path, "net", 16, required=False)
        packed.append((tmp_path / "net_mpk.tar.gz").read_bytes())
    assert packed[0] == packed[1]
    assert (archive.desired_batch_size, archive.actual_batch_size) == (16, 12)
    assert [layer.name for layer in archive.static_schedule] == ["MLA_0/conv_0"]
    assert not remarks
    with pytest.raises(UserError, match="the recipe requires 16, and SiMa's archive supports 12"):
        read_compiled(tmp_path, "net", 16, required=True)


def test_a_network_on_the_arm_cores_has_no_batch_of_the_mla(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_script(recorded(SAME, tmp_path, monkeypatch, arm_only="1"), tmp_path, tmp_path / "log")
    archive, _ = read_compiled(tmp_path, "net", 16, required=False)
    assert (archive.processors, archive.programs) == ({"A65": 1}, ("net_stage0_a65.so",))
    assert archive.actual_batch_size is None
    record = ArtifactsReport("f", (), "", 0, (), "2.1.0", archive=archive)
    result = describe_archive(record, archive)
    assert "batch None desired" not in result[0]
    assert result[1] == "warning: the Arm cores run a part of it: net_stage0_a65.so"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (('f"{self.name}_mpk.tar.gz"', '"x.tar.gz"'), "its folder has x.tar.gz"),
        (('b"\\x7fELF recorded"', "bytes(1 << 25)"), "unpack to more than"),
        (("(i + 1) * CYCLES - 1", "-1"), "ends in cycle -1, before it starts in 0"),
        (
            ('"desired_batch_size": batch_size', '"desired_batch_size": 13'),
            "batch: SiMa's archive is for a batch of 13, and the recipe requires 16",
        ),
        (('"MLA_0", {**batch', '"quantization_transform", {**batch'), "appears 2 times"),
        (('{"executable": program},\n            },', '{"executable": "x.elf"}},'), "'x.elf'"),
    ],
    ids=["name", "bomb", "schedule", "batch", "step", "program"],
)
def test_a_wrong_result_of_the_sdk_is_refused(
    change: tuple[str, str], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_script(recorded(change, tmp_path, monkeypatch), tmp_path, tmp_path / "log")
    with pytest.raises(UserError) as caught:
        read_compiled(tmp_path, "net", 16, required=False)
    assert words in str(caught.value)


def test_a_failure_of_the_sdk_shows_the_end_of_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    change = ("self.samples = samples", 'raise ValueError("not today")')
    sdk = recorded(change, tmp_path, monkeypatch)
    with pytest.raises(UserError, match=r"exit code 1; its log, [\s\S]*not today"):
        run_script(sdk, tmp_path, tmp_path / "logs" / "log")
    assert "not today" in (tmp_path / "logs" / "log").read_text()
