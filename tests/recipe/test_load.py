"""Valid recipes: defaults, overrides, paths, the digest."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from firmwright.data.sample_sources import DataFile, DataSource
from firmwright.errors import DiagnosticError
from firmwright.recipe.catalog import Catalog
from firmwright.recipe.load_recipe import load_recipe
from firmwright.recipe.model_source import ModelSource
from firmwright.recipe.recipe import (
    KEYS_NOT_IN_NETWORK_DIGEST,
    BatchRequest,
    InputOptions,
    Recipe,
    RunOptions,
    Tolerance,
    read_recipe,
)
from firmwright.recipe.schema import load_schema
from firmwright.targets import DeviceSpec

DIGEST = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
Load = Callable[..., Recipe]

FULL = f"""\
name: full
model: {{path: net.bin, sha256: {DIGEST.upper()}, format: tflite}}
inputs: {{b: {{shape: [1, 2]}}, a: {{shape: [3]}}}}
platform: host
target: [soma_dory -layout_transform=0, {{device: tidl, options: {{fast: true}}}}, c]
rounding: tflite
toolchain: clang
c_prefix: tvmgen_default
cflags: [-O3]
batch: {{size: 4, require: true}}
run: {{inputs: {{b: b.npy, a: a.npy}}, samples: 2, seed: 3, tolerance: {{absolute: 1}}}}
"""


@pytest.fixture
def load(tmp_path: Path, catalogue: Catalog) -> Load:
    for name in ("net.onnx", "net.bin", "a.npy", "b.npy"):
        (tmp_path / name).touch()

    def write_and_load(text: str, name: str = "small.yaml", **overrides: str) -> Recipe:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        return load_recipe(path, overrides, catalogue)

    return write_and_load


def test_defaults(load: Load, tmp_path: Path) -> None:
    assert load("model: net.onnx") == Recipe(
        path=tmp_path / "small.yaml",
        name="small",
        model=ModelSource("net.onnx", None, None, "onnx"),
        inputs={},
        platform="rv32-bare",
        target=(DeviceSpec("c"),),
        rounding="onnx",
        toolchain="zig",
        c_prefix="network",
        cflags=(),
        batch=None,
        run=RunOptions(None, 1, 0, "unicorn", Tolerance(0.0, 0.0, 1e-4, 1.0)),
    )


def npy(name: str) -> DataSource:
    return DataSource("arrays", (DataFile(f"{name}.npy"),))


def test_a_recipe_may_be_json(load: Load) -> None:
    text = '{"model": "net.onnx", "run": {"samples": 2}}'
    assert load(text) == load("model: net.onnx\nrun: {samples: 2}\n")


def test_everything_stated(load: Load, tmp_path: Path) -> None:
    assert load(FULL) == Recipe(
        path=tmp_path / "small.yaml",
        name="full",
        model=ModelSource("net.bin", None, DIGEST, "tflite"),
        inputs={"a": InputOptions((3,)), "b": InputOptions((1, 2))},
        platform="host",
        target=(
            DeviceSpec("soma_dory", {"layout_transform": "0"}),
            DeviceSpec("tidl", {"fast": "1"}),
            DeviceSpec("c"),
        ),
        rounding="tflite",
        toolchain="clang",
        c_prefix="tvmgen_default",
        cflags=("-O3",),
        batch=BatchRequest(4, True),
        run=RunOptions({"a": npy("a"), "b": npy("b")}, 2, 3, "native", Tolerance(1.0, 0.0)),
    )


def test_a_value_with_commas_in_a_list(load: Load) -> None:
    recipe = load("model: net.onnx\ntarget: ['c -mattr=+fp,+mul']")
    assert recipe.target == (DeviceSpec("c", {"mattr": "+fp,+mul"}),)


@pytest.mark.parametrize(
    ("model", "rounding"), [("net.onnx", "onnx"), ("{path: net.bin, format: tflite}", "tflite")]
)
def test_rounding_is_the_models_own_unless_stated(load: Load, model: str, rounding: str) -> None:
    assert load(f"model: {model}").rounding == rounding
    assert load(f"model: {model}\nrounding: tflite").rounding == "tflite"


def test_description(load: Load) -> None:
    assert load("model: net.onnx").description is None
    assert load("model: net.onnx\ndescription: A doorbell.").description == "A doorbell."


def test_model_by_url(load: Load) -> None:
    address = "https://models.example/net.tflite?raw=1"
    recipe = load(f"model: {{url: '{address}', sha256: {DIGEST}}}")
    assert recipe.model == ModelSource(None, address, DIGEST, "tflite")


def test_model_by_python_function(load: Load) -> None:
    recipe = load('model: {python: "nets.small:network"}')
    assert recipe.model == ModelSource(None, None, None, "relax", "nets.small:network")


def test_overrides_replace_what_the_recipe_says(load: Load) -> None:
    text = "model: net.onnx\nplatform: no-such\ntarget: no-such\nrun: {samples: 2}"
    recipe = load(text, platform="host", target="tidl -a=1, c", samples="30")
    assert recipe.platform == "host"
    assert recipe.target == (DeviceSpec("tidl", {"a": "1"}), DeviceSpec("c"))
    assert recipe.run.samples == 30
    assert recipe.run.emulator == "native"


@pytest.mark.parametrize(
    ("samples", "expected"),
    [
        *[(text, f"at least 1, found the number {text}") for text in ("0", "-1")],
        ("1e3", "a whole number, found the text '1e3' (YAML reads it as text; write it in full)"),
        ("٣", "a whole number, found the text '٣'"),
        (
            "'3'",
            "a whole number, found the text '3' (a number has neither quotes nor leading zeros)",
        ),
        ("9" * 12, f"at most 4294967295, found the number {'9' * 12}"),
    ],
)
def test_samples_must_be_a_count(load: Load, samples: str, expected: str) -> None:
    with pytest.raises(DiagnosticError) as raised:
        load("model: net.onnx", samples=samples)
    assert str(raised.value) == f"command line: run.samples: expected {expected}"


def test_paths_are_relative_to_the_recipe(load: Load, tmp_path: Path) -> None:
    recipe = load("model: ../net.onnx", name="recipes/small.yaml")
    assert recipe.model.path == "../net.onnx"
    assert recipe.resolve("../net.onnx").resolve() == (tmp_path / "net.onnx").resolve()
    assert recipe.resolve("/elsewhere/net.onnx") == Path("/elsewhere/net.onnx")


def test_an_alias_is_the_platform_that_it_stands_for(load: Load) -> None:
    by_alias = load("{model: net.onnx, platform: M4}")
    assert by_alias == load("{model: net.onnx, platform: cortex-m4-bare}")
    assert (by_alias.platform, by_alias.run.emulator) == ("cortex-m4-bare", "unicorn")
    assert load("model: net.onnx", platform="M4") == by_alias
    with pytest.raises(DiagnosticError, match="the platform 'cortex-m4-bare' does not list"):
        load("{model: net.onnx, platform: M4, toolchain: gcc}")


def test_a_platforms_host_lends_its_toolchains_and_emulators(load: Load) -> None:
    on_host = load("{model: net.onnx, platform: M4, compile_for_device: false, toolchain: gcc}")
    assert (on_host.platform, on_host.compile_for_device) == ("cortex-m4-bare", False)
    assert on_host.run.emulator == "native"
    text = "{model: net.onnx, platform: M4, toolchain: gcc}"
    assert load(text, compile_for_device="false") == on_host
    with pytest.raises(DiagnosticError, match="'cortex-m4-bare' does not list the toolchain 'gcc'"):
        load(text, compile_for_device="true")


def test_a_platform_file_of_the_user(load: Load, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").touch()
    recipe = load("model: net.onnx\nplatform: mine.yaml")
    assert (recipe.platform, recipe.toolchain, recipe.run.emulator) == ("mine.yaml", None, None)
    chosen = load("model: net.onnx\nplatform: mine.yaml\nrun: {emulator: bench}")
    assert chosen.run.emulator == "bench"
    with pytest.raises(DiagnosticError, match="unknown emulator 'banch'; did you mean 'bench'"):
        load("model: net.onnx\nplatform: mine.yaml\nrun: {emulator: banch}")
    with pytest.raises(DiagnosticError, match="'host' does not list the emulator 'bench'"):
        load("model: net.onnx\nplatform: host\nrun: {emulator: bench}")


def test_a_file_name_that_is_no_name(load: Load) -> None:
    with pytest.raises(DiagnosticError, match="name: the file's name 'my net' is not a valid"):
        load("model: net.onnx", name="my net.yaml")
    assert load("model: net.onnx\nname: net", name="my net.yaml").name == "net"


def test_a_path_too_long_for_the_system_is_a_finding(load: Load) -> None:
    with pytest.raises(DiagnosticError, match="model: cannot read"):
        load(f"model: {'x' * 5000}.onnx")


def test_digest_ignores_comments_order_and_spelling(load: Load) -> None:
    first = load("model: net.onnx\nrun: {samples: 2, seed: 0}\ntarget: tidl -fast=1, c\n")
    second = load(
        "# a comment\nrun:\n  samples: 2\nmodel: {path: ./net.onnx, format: onnx}\n"
        "target: [{device: tidl, options: {fast: true}}, c]\nplatform: rv32-bare\n"
    )
    assert first.sha256 == second.sha256


def test_a_list_of_an_option_is_its_entries(load: Load) -> None:
    recipes = [
        load(f"model: net.onnx\ntarget: [{{device: tidl, options: {{a: {written}}}}}, c]\n")
        for written in ("[conv1, conv2]", "'conv1,conv2'")
    ]
    assert recipes[0].target[0].options == {"a": "conv1,conv2"}
    assert recipes[0].sha256 == recipes[1].sha256


def test_digest_ignores_the_folder(load: Load, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "net.onnx").touch()
    assert load("model: net.onnx").sha256 == load("model: net.onnx", name="other/small.yaml").sha256


def test_a_new_key_does_not_change_the_digest_of_a_recipe_without_it(load: Load) -> None:
    assert {"placement", "outputs"}.isdisjoint(load("model: net.onnx").canonical)


def test_canonical_form_has_no_absolute_path(load: Load, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").touch()
    recipe = load(
        f"model: {tmp_path}/net.onnx\nplatform: {tmp_path}/mine.yaml\n"
        f"run: {{inputs: {{a: {tmp_path}/a.npy}}}}"
    )
    text = json.dumps(recipe.canonical)
    assert str(tmp_path) not in text
    assert "net.onnx" in text and "a.npy" in text and "mine.yaml" in text


@pytest.mark.parametrize(
    "change",
    [
        *("name: other", "platform: host", "target: tidl, c", "toolchain: riscv64-unknown-elf-gcc"),
        *("c_prefix: other", "cflags: [-O3]", "inputs: {a: {shape: [1]}}", "run: {samples: 2}"),
        *("run: {seed: 1}", "run: {emulator: qemu}", "run: {tolerance: {relative: 0.5}}"),
        *("run: {inputs: a.npy}", "target: c -a=1", "rounding: tflite"),
        "description: A doorbell.",
    ],
)
def test_digest_covers_every_key(load: Load, change: str) -> None:
    assert load("model: net.onnx").sha256 != load(f"model: net.onnx\n{change}").sha256


@pytest.mark.parametrize(
    "change",
    [
        *("run: {samples: 2, seed: 3, tolerance: {relative: 0.5}}", "run: {inputs: a.npy}"),
        *("evaluate: {inputs: a.npy}", "budget: {flash: 1 KiB}", "compare: c", "export: cmake"),
        *("description: A doorbell.", "counter: 7", "tune: {trials: 4}", "require_offload: 90"),
        "allow_fallback: false",
        "release: {version: '1', supplier: A, time: '2026-11-27T12:00:00Z'}",
    ],
)
def test_what_only_judges_the_network_is_not_in_the_digest_of_it(load: Load, change: str) -> None:
    plain, changed = load("model: net.onnx"), load(f"model: net.onnx\n{change}")
    assert plain.network_sha256 == changed.network_sha256
    assert plain.sha256 != changed.sha256


@pytest.mark.parametrize("change", ["target: tidl, c", "cflags: [-O3]", "hooks: true", "batch: 2"])
def test_what_decides_about_the_network_is_in_the_digest_of_it(load: Load, change: str) -> None:
    changed = load(f"model: net.onnx\n{change}")
    assert load("model: net.onnx").network_sha256 != changed.network_sha256


def test_all_keys_beside_the_network_are_keys() -> None:
    assert load_schema()["properties"].keys() > KEYS_NOT_IN_NETWORK_DIGEST


def test_records_of_a_recipe_hold_what_it_leaves_out(load: Load) -> None:
    recipe = load("model: net.onnx\nevaluate: {inputs: a.npy, thresholds: {boxes: {}}}"
                  "\npostprocess: {detection: {picture: [1, 1], box: {encoding: corners},"
                  " class_scores: {channel: 4}, classes: 1}}")  # fmt: skip
    thresholds = msgspec.to_builtins(recipe.evaluate)["thresholds"]
    assert thresholds["top1"] is None
    assert thresholds["boxes"]["recall"] is None
    assert msgspec.to_builtins(recipe.detection)["heads"][0]["stride"] is None


def test_normal_form_gives_the_same_recipe(load: Load) -> None:
    recipe = load(FULL)
    assert read_recipe(recipe.path, json.loads(json.dumps(recipe.data))) == recipe
