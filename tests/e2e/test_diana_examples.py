"""examples/diana: builds of its graphs, explanations, and changes that make builds stale."""

from __future__ import annotations

import json
import re
import subprocess
import tarfile
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import numpy.typing as npt
import pytest
import yaml

from firmwright.builder import random_array
from firmwright.data.samples import random_samples
from firmwright.ir.tensors import Tensor

from .conftest import HOST_STAGES, Repository, repository_of_example

WITHOUT_SAMPLES = [stage for stage in HOST_STAGES if stage != "samples"]

Array = npt.NDArray[Any]


@pytest.fixture
def models(tmp_path: Path) -> Repository:
    return repository_of_example("diana", tmp_path)


def conv(x: Array, weights: Array, bias: Array, act: bool, shift_bits: int) -> Array:
    """Convolve in int64 with a zero border of one pixel, shift, and clip."""
    padded = np.pad(x.astype("int64"), ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
    total = np.einsum("nchwij,ocij->nohw", windows, weights.astype("int64"))
    shifted = (total + bias.reshape(-1, 1, 1)) >> shift_bits
    return np.asarray(np.clip(shifted, 0 if act else -128, 127), "int8")


def one_conv(x: Array) -> Array:
    weights = random_array((5, 3, 3, 3), seed=1, low=-10, high=10)
    bias = random_array((5,), "int32", seed=2, low=-10, high=10)
    return conv(x, weights, bias, True, 0)


def two_convs(x: Array) -> Array:
    x = conv(x, random_array((32, 3, 3, 3), seed=1), np.ones(32, "int32"), True, 4)
    return conv(x, random_array((8, 32, 3, 3), seed=2), np.ones(8, "int32"), False, 4)


def two_convs_with_strides(x: Array) -> Array:
    return two_convs(x)[..., ::2]


def two_convs_with_residual(x: Array) -> Array:
    y = conv(x, random_array((16, 32, 3, 3), seed=1), np.ones(16, "int32"), True, 4)
    y = conv(y, random_array((32, 16, 3, 3), seed=2), np.ones(32, "int32"), False, 4)
    return np.asarray(np.clip(x.astype("int32") + y, -128, 127), "int8")


NETWORKS = {
    "one_conv": (one_conv, 3),
    "two_convs": (two_convs, 3),
    "two_convs_with_residual": (two_convs_with_residual, 32),
    "two_convs_with_strides": (two_convs_with_strides, 3),
    "two_convs_without_fusion": (two_convs_with_strides, 3),
}


@pytest.mark.parametrize(
    ("names", "platform", "options"),
    [
        (tuple(NETWORKS), "diana", ()),
        (("two_convs_with_residual",), "host", ()),
        (("two_convs",), "cortex-m4-bare", ("target=c",)),
    ],
)
def test_the_graphs_equal_numpy(
    models: Repository, names: tuple[str, ...], platform: str, options: tuple[str, ...]
) -> None:
    recipes = ",".join(f"{name}.yaml" for name in names)
    models.build(f"recipe={recipes}", f"platform={platform}", *options)
    for name in names:
        network, channels = NETWORKS[name]
        given = random_samples([Tensor("input", (1, channels, 32, 32), "int8")], 2, 0)
        wanted = np.stack([network(np.asarray(sample["input"])) for sample in given])
        with np.load(models.folder / "build" / name / platform / "run" / "outputs.npz") as found:
            np.testing.assert_array_equal(found["firmware_0"], wanted)
            np.testing.assert_array_equal(found["reference_0"], wanted)
        assert len(np.unique(wanted)) > 10
        run = models.manifest(f"build/{name}/{name}-{platform}.tar.gz")["run"]
        assert "Relax virtual machine" in run["reference"]
        assert run["differences"] == 0


def test_layers_are_shown_on_the_device_that_executes_them(models: Repository) -> None:
    """The core converts layouts. Only jobs of the accelerator have modelled cycles."""
    models.build("recipe=one_conv.yaml", "platform=diana")
    build = models.folder / "build" / "one_conv"
    stats = yaml.safe_load((build / "diana" / "stats" / "one_conv_stats.yaml").read_text("utf-8"))
    shown = {layer["name"]: layer["device"] for layer in stats.values()}
    assert shown == {
        layer["name"]: "soma_dory" if layer["modelled"] else "c" for layer in stats.values()
    }
    assert sorted(shown.values()) == ["c", "c", "c", "soma_dory"]  # including the run function
    with tarfile.open(build / "one_conv-diana.tar.gz") as bundle:
        for file in ("report/report.json", "manifest.json"):
            text = bundle.extractfile(f"one_conv-diana/{file}")
            assert text is not None
            layers = json.load(text)["layers"]
            assert {layer["name"]: layer["device"] for layer in layers}.items() <= shown.items()


def explain(models: Repository, recipe: str, *options: str) -> subprocess.CompletedProcess[str]:
    return models.firmwright("explain", recipe, *options)


def test_explain_needs_no_compiler_and_names_the_rule(models: Repository) -> None:
    models.environment["PATH"] = ""
    done = explain(models, "two_convs_with_strides.yaml", "--toolchain", "riscv64-unknown-elf-gcc")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    refused = lines.index(
        "    soma_dory: strides: its strides are [1, 2]; the accelerator supports [1, 1] and [2, 2]"
    )
    assert lines[refused - 1].split()[-3:] == ["c", "loops", "conv2"]
    assert lines[-2] == "42.9 % of MACs on soma_dory, 2 boundaries, 1 operator on c"
    assert lines[-1].startswith("advice: strides [1, 2] → [1, 1]: conv2 to soma_dory, saves about ")
    assert not (models.folder / "build" / "two_convs_with_strides" / "diana" / "kernels").exists()

    done = explain(models, "two_convs_with_strides.yaml", "--json")
    explained = json.loads(done.stdout)
    name = "explanation.schema.json"
    schema = json.loads(files("firmwright.report").joinpath(name).read_text())
    jsonschema.validate(explained, schema)
    second = next(o for o in explained["operators"] if o["name"] == "conv2")
    assert (second["kind"], second["device"], second["macs"]) == ("conv2d", "c", 1179648)
    assert [r["rule"] for r in second["refusals"]] == ["strides"]
    summary = explained["summary"]
    assert summary["macs_by_device"] == {"soma_dory": 884736, "c": 1179648}
    assert summary["macs"] == sum(summary["macs_by_device"].values())
    assert summary["operators_by_device"] == {"soma_dory": 1, "c": 1}
    moved = [(o["kind"], o["device"]) for o in explained["operators"] if o["moves"]]
    assert moved == [("layout_transform", "c")] * 2


def test_demands_that_are_not_met_fail_the_build(models: Repository) -> None:
    recipe = models.folder / "two_convs_with_strides.yaml"
    demands = ("allow_fallback: false", "require_offload: 50 %")
    text = "\n".join([recipe.read_text(encoding="utf-8"), *demands, ""])
    recipe.write_text(text, encoding="utf-8")
    explained = explain(models, recipe.name)
    built = models.doit("build", f"recipe={recipe.name}")
    for done in (explained, built):
        assert done.returncode == 1
        for demand in demands:
            place = rf"{recipe.name}:\d+:\d+: {demand}"
            assert re.search(place, done.stderr), done.stderr
        assert "conv2d ('conv2'), 1,179,648 MACs\n    soma_dory: strides: " in done.stderr
        assert "Traceback" not in done.stderr
    assert "42.9 % of MACs on soma_dory" in explained.stdout


def test_a_build_follows_the_modules_of_the_recipes_folder(models: Repository) -> None:
    build = ("recipe=one_conv.yaml", "platform=host", "target=c")
    models.write("weights.py", "BITS = 0\n")
    module = models.folder / "networks.py"
    text = module.read_text(encoding="utf-8")
    text = text.replace("import numpy as np", "import numpy as np\nfrom weights import BITS")
    module.write_text(text.replace("shift_bits=0", "shift_bits=BITS"), encoding="utf-8")
    assert models.build(*build) == WITHOUT_SAMPLES
    assert models.build(*build) == []
    with module.open("a", encoding="utf-8") as stream:
        stream.write("# a remark\n")
    assert models.build(*build) == ["model", "bundle"]  # another file, but the same network
    models.write("weights.py", "BITS = 3\n")
    assert models.build(*build) == WITHOUT_SAMPLES
    byte_code = {p.name.split(".")[0] for p in models.folder.glob("__pycache__/*")}
    assert byte_code <= {"dodo"}  # of doit, if Python writes byte code; not of the user's modules
    assert {p.name for p in models.folder.iterdir()} - {"__pycache__"} == {
        *("README.md", "build", "dodo.py", "networks.py", "trained", "weights.py"),
        *(f"{name}.yaml" for name in NETWORKS),
    }


def test_the_users_error_reaches_the_terminal_without_a_traceback(models: Repository) -> None:
    models.write("networks.py", "def one_conv():\n    raise ValueError('no such layer')\n")
    done = models.doit("build", "recipe=one_conv.yaml", "platform=host")
    assert done.returncode == 1
    assert (
        "networks.py:2: ValueError: no such layer (networks:one_conv)" in done.stdout + done.stderr
    )
    assert "Traceback" not in done.stdout + done.stderr


def test_a_comparison_takes_the_batch_that_fits_both_targets(models: Repository) -> None:
    words = ("recipe=two_convs.yaml", "target=c", "compare=soma_dory, c", "batch=16")
    done = models.doit("batch", *words)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "batch 16 wanted, 9 fits" in done.stdout
    assert "10 would fit without `compare`" in done.stdout
