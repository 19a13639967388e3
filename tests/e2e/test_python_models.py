"""examples/python_models: the three graphs as firmware, and what makes a build of them stale."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from firmwright.builder import random_array
from firmwright.models import Tensor
from firmwright.verify.samples import random_samples

from .conftest import HOST_STAGES, ROOT, Repository

Array = npt.NDArray[Any]


@pytest.fixture
def models(tmp_path: Path) -> Repository:
    folder = tmp_path / "python_models"
    shutil.copytree(ROOT / "examples" / "python_models", folder)
    repository = Repository(folder)
    repository.write("dodo.py", "from firmwright.tasks.dodo import *\n")
    return repository


def conv(x: Array, weights: Array, bias: Array, act: bool, shift_bits: int) -> Array:
    """Convolve in int64 with a border of one zero, shift, clip."""
    padded = np.pad(x.astype("int64"), ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
    total = np.einsum("nchwij,ocij->nohw", windows, weights.astype("int64"))
    shifted = (total + bias.reshape(-1, 1, 1)) >> shift_bits
    return np.clip(shifted, 0 if act else -128, 127).astype("int8")


def one_conv(x: Array) -> Array:
    weights = random_array((5, 3, 3, 3), seed=1, low=-10, high=10)
    bias = random_array((5,), "int32", seed=2, low=-10, high=10)
    return conv(x, weights, bias, True, 0)


def two_convs(x: Array) -> Array:
    x = conv(x, random_array((32, 3, 3, 3), seed=1), np.ones(32, "int32"), True, 4)
    return conv(x, random_array((8, 32, 3, 3), seed=2), np.ones(8, "int32"), False, 4)


def two_convs_with_residual(x: Array) -> Array:
    y = conv(x, random_array((16, 32, 3, 3), seed=1), np.ones(16, "int32"), True, 4)
    y = conv(y, random_array((32, 16, 3, 3), seed=2), np.ones(32, "int32"), False, 4)
    return np.clip(x.astype("int32") + y, -128, 127).astype("int8")


@pytest.mark.parametrize("platform", ["host", "rv32-bare", "cortex-m4-bare"])
def test_the_three_graphs_equal_numpy(models: Repository, platform: str) -> None:
    networks = {
        f.__name__: (f, c)
        for f, c in ((one_conv, 3), (two_convs, 3), (two_convs_with_residual, 32))
    }
    recipes = ",".join(f"{name}.yaml" for name in networks)
    models.build(f"recipe={recipes}", f"platform={platform}")
    for name, (network, channels) in networks.items():
        given = random_samples([Tensor("input", (1, channels, 32, 32), "int8")], 2, 0)
        wanted = np.stack([network(np.asarray(sample["input"])) for sample in given])
        with np.load(models.folder / "build" / name / platform / "run" / "outputs.npz") as found:
            np.testing.assert_array_equal(found["firmware_0"], wanted)
            np.testing.assert_array_equal(found["reference_0"], wanted)
        assert len(np.unique(wanted)) > 10
        run = models.manifest(f"build/{name}/{name}-{platform}.tar.gz")["run"]
        assert "Relax virtual machine" in run["reference"]
        assert run["differences"] == 0


def test_a_build_follows_the_modules_of_the_recipes_folder(models: Repository) -> None:
    build = ("recipe=one_conv.yaml", "platform=host")
    models.write("weights.py", "BITS = 0\n")
    module = models.folder / "networks.py"
    text = module.read_text(encoding="utf-8")
    text = text.replace("import numpy as np", "import numpy as np\nfrom weights import BITS")
    module.write_text(text.replace("shift_bits=0", "shift_bits=BITS"), encoding="utf-8")
    assert models.build(*build) == HOST_STAGES
    assert models.build(*build) == []
    with module.open("a", encoding="utf-8") as stream:
        stream.write("# a remark\n")
    assert models.build(*build) == ["model"]  # the same network: the rebuild stops here
    models.write("weights.py", "BITS = 3\n")
    assert models.build(*build) == HOST_STAGES
    assert sorted(p.name for p in models.folder.iterdir()) == sorted(
        ["README.md", "build", "dodo.py", "networks.py", "weights.py"]
        + [f"{n}.yaml" for n in ("one_conv", "two_convs", "two_convs_with_residual")]
    )


def test_the_users_error_reaches_the_terminal_without_a_traceback(models: Repository) -> None:
    models.write("networks.py", "def one_conv():\n    raise ValueError('no such layer')\n")
    done = models.doit("build", "recipe=one_conv.yaml", "platform=host")
    assert done.returncode == 1
    assert (
        "networks.py:2: ValueError: no such layer (networks:one_conv)" in done.stdout + done.stderr
    )
    assert "Traceback" not in done.stdout + done.stderr
