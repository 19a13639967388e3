"""A recipe with the target `ethos_u, c` builds, and its firmware computes LiteRT's outputs."""

import json
from pathlib import Path

from small import build

RECIPE = """\
platform: host-u55-128
toolchain: gcc
target: "ethos_u -accelerator=ethos-u55-64, c"
"""


def test_recipe(tmp_path: Path) -> None:
    done = build(tmp_path, RECIPE)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 of 1 samples exact, largest difference 0" in done.stdout
    assert "100.0 % on ethos_u" in done.stdout
    (file,) = tmp_path.glob("build/*/*/partition/partition.json")
    devices = [region["device"] for region in json.loads(file.read_text())["regions"]]
    assert devices.count("ethos_u") == 1
