"""A repository as a reader of the pages has it."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from platformdirs import user_cache_path

from tests.e2e.conftest import EXAMPLE, ROOT, Repository
from tests.networks.tflite_models import ModelBuilder, Quantization

DIGITS = "model: {0}digits.onnx\nrun: {{inputs: {0}inputs.npz, samples: 2}}\n"
STAND_INS = {
    "ad": "",
    "kws": "",
    "kws-diana": "platform: diana\ntarget: soma_dory, c\n",
}
"""Recipes of networks that a reader downloads: here, all of the digits network."""

OWN = {
    "my": "platform: host\ntoolchain: gcc\ndemo: {compare: true}\n",
    "net": "platform: host\ntoolchain: gcc\n",
    "recipe": "platform: cortex-m4-bare\n",
}
"""Recipes that a page takes for the reader's own, at the top of the repository."""

APP = """\
#include "network.h"

static network_inputs inputs;
static network_outputs outputs;

int main(void) { return network_run(&inputs, &outputs) == 0; }
"""

SETUP = """\
git init -q && git config user.name reader && git config user.email reader@example.org
git add -A && git commit -qm first
sed -i 's/samples: 2/samples: 1/' recipes/kws.yaml && git commit -qam second
doit build recipe=recipes/digits.yaml,my
doit build recipe=digits samples=2 outdir=earlier
for name in net new after; do cp build/digits/digits-rv32-bare.tar.gz $name.tar.gz; done
for name in old before last-week; do cp earlier/digits-rv32-bare.tar.gz $name.tar.gz; done
cp build/digits/rv32-bare/firmware/firmware.elf .
tar -xzf build/my/my-host.tar.gz && cp -r my-host/src/network .
openssl genpkey -algorithm ed25519 -out key.pem && chmod 600 key.pem
openssl pkey -in key.pem -pubout -out key.pub && echo 'keys: [key.pub]' > policy.yaml
"""


def make_repository(folder: Path) -> Repository:
    """Return a repository with recipes, a model, two commits, bundles and a key."""
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    home = {"HOME": str(folder.parent), "XDG_CACHE_HOME": str(user_cache_path())}
    repository = Repository(folder, {**os.environ, **home, "PATH": programs})
    left_out = shutil.ignore_patterns("__pycache__", "build")
    shutil.copytree(ROOT / "examples", folder / "examples", ignore=left_out)
    shutil.copytree(EXAMPLE, folder / "models", ignore=left_out)
    (folder / "recipes").mkdir()
    shutil.copy(ROOT / "recipes" / "digits.yaml", folder / "recipes")
    for name, text in STAND_INS.items():
        repository.write(f"recipes/{name}.yaml", DIGITS.format("../models/") + text)
    for name, text in OWN.items():
        repository.write(f"{name}.yaml", DIGITS.format("models/") + text)
    repository.write("dodo.py", "from firmwright.tasks.dodo import *\n")
    repository.write("app.c", APP)
    (folder / "model.tflite").write_bytes(make_model())
    done = repository.run("sh", "-ec", SETUP)
    assert done.returncode == 0, done.stdout + done.stderr
    return repository


def make_model() -> bytes:
    """Return a TFLite model of one addition."""
    model, grid = ModelBuilder(), Quantization(0.5)
    terms = [model.input((1, 4), "int8", grid) for _ in range(2)]
    model.operator("ADD", terms, [model.output((1, 4), "int8", grid)], "AddOptions")
    return model.build()
