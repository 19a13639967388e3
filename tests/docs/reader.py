"""A repository like that of a reader of the pages."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from platformdirs import user_cache_path

from tests.e2e.conftest import EXAMPLE, ROOT
from tests.networks.tflite_models import ModelBuilder, Quantization
from tests.warm import WarmShell

DIGITS = "model: ../models/digits.onnx\nrun: {inputs: ../models/inputs.npz, samples: 2}\n"
SUM = "run: {samples: 2}\nmodel: "
STAND_INS = {
    "recipes/ad": f"{SUM}../model.tflite\n",
    "recipes/kws": f"{SUM}../model.tflite\n",
    "recipes/kws-diana": f"{DIGITS}platform: diana\ntarget: soma_dory, c\n",
}
"""Recipes with small models, in place of recipes whose networks a reader downloads."""

OWN = {
    "my": f"{SUM}model.tflite\nplatform: host\ntoolchain: gcc\ndemo: {{compare: true}}\n",
    "net": f"{SUM}model.tflite\nplatform: host\ntoolchain: gcc\n",
    "small": "run: {samples: 1}\n",
    "recipe": f"{SUM}model.tflite\nplatform: cortex-m4-bare\n",
}
"""Recipes of the reader that a page assumes at the top of the repository."""

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
doit build recipe=recipes/digits.yaml
doit build recipe=my
doit build recipe=digits samples=2 outdir=earlier
for name in net new after; do cp build/digits/digits-rv32-bare.tar.gz $name.tar.gz; done
for name in old before last-week; do cp earlier/digits-rv32-bare.tar.gz $name.tar.gz; done
cp build/digits/rv32-bare/firmware/firmware.elf .
tar -xzf build/my/my-host.tar.gz && cp -r my-host/src/network .
openssl genpkey -algorithm ed25519 -out key.pem && chmod 600 key.pem
openssl pkey -in key.pem -pubout -out key.pub && echo 'keys: [key.pub]' > policy.yaml
"""


def open_shell(home: Path) -> WarmShell:
    """Return a shell with this home folder, and with the programs next to this Python."""
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    own = {"HOME": str(home), "XDG_CACHE_HOME": str(user_cache_path()), "PATH": programs}
    return WarmShell({**os.environ, **own, "FIRMWRIGHT_CACHE": str(home / "cache")})


def make_repository(folder: Path, shell: WarmShell) -> None:
    """Fill a folder with recipes, a model, two commits, bundles and a key."""
    left_out = shutil.ignore_patterns("__pycache__", "build")
    shutil.copytree(ROOT / "examples", folder / "examples", ignore=left_out)
    shutil.copytree(EXAMPLE, folder / "models", ignore=left_out)
    (folder / "recipes").mkdir()
    shutil.copy(ROOT / "recipes" / "digits.yaml", folder / "recipes")
    for name, text in (STAND_INS | OWN).items():
        (folder / f"{name}.yaml").write_text(text)
    (folder / "dodo.py").write_text("from firmwright.tasks.dodo import *\n")
    (folder / "app.c").write_text(APP)
    (folder / "compile.sh").write_text("tvmc compile --target=c keywords.tflite\n")
    (folder / "model.tflite").write_bytes(make_model())
    for line in SETUP.splitlines():
        code, printed = shell.run(line, folder)
        assert code == 0, printed


def make_model() -> bytes:
    """Return a TFLite model of one addition."""
    model, grid = ModelBuilder(), Quantization(0.5)
    terms = [model.input((1, 4), "int8", grid) for _ in range(2)]
    model.operator("ADD", terms, [model.output((1, 4), "int8", grid)], "AddOptions")
    return model.build()
