"""The files that a recipe's Python code reads are inputs of the build, or rejected."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from .conftest import Repository, new_repository, ran

RECIPE = """\
model: digits.onnx
platform: host
run: {samples: 1, inputs: {image: {python: "samples:read"}}}
"""
SAMPLES = """\
from pathlib import Path
import numpy as np

def read():
    return np.load(Path(__file__).with_name("data.npy"))
"""
SHAPE = (1, 1, 8, 8)


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    repository = new_repository(tmp_path)
    repository.write("samples.py", SAMPLES)
    write_data(repository, 0)
    return repository


def write_data(repository: Repository, value: int) -> None:
    np.save(repository.folder / "data.npy", np.full((1, *SHAPE), value, np.float32))


def test_what_is_named_runs_the_stages_again(repository: Repository) -> None:
    repository.write("own.yaml", f"{RECIPE}files: [data.npy]\n")
    assert "run" in repository.build("recipe=own.yaml")
    assert repository.build("recipe=own.yaml") == []
    write_data(repository, 1)
    stages = repository.build("recipe=own.yaml")
    assert "run" in stages
    assert "objects" not in stages


def test_what_is_not_named_is_refused(repository: Repository) -> None:
    repository.write("own.yaml", RECIPE)
    failed = repository.doit("build", "recipe=own.yaml")
    assert failed.returncode == 1
    assert "Python code reads data.npy, which the recipe does not list; " in failed.stderr
    assert "add `files: [data.npy]`" in failed.stderr


def test_a_module_by_a_computed_name_is_refused_until_it_is_named(repository: Repository) -> None:
    repository.write(
        "samples.py", f"import importlib\nimportlib.import_module('mo' + 're')\n{SAMPLES}"
    )
    repository.write("more.py", "")
    repository.write("own.yaml", f"{RECIPE}files: [data.npy]\n")
    failed = repository.doit("build", "recipe=own.yaml")
    assert "the recipe's Python code reads more.py, which" in failed.stderr
    repository.write("own.yaml", f"{RECIPE}files: [data.npy, more.py]\n")
    assert "run" in ran(repository.doit("build", "recipe=own.yaml").stdout)


def test_a_module_lies_in_a_folder_that_is_no_package(repository: Repository) -> None:
    (repository.folder / "a/b").mkdir(parents=True)
    repository.write(
        "a/b/samples.py", SAMPLES.replace('with_name("data.npy")', 'parents[2] / "data.npy"')
    )
    recipe = RECIPE.replace("samples:read", "a.b.samples:read")
    repository.write("own.yaml", f"{recipe}files: [data.npy]\n")
    assert "run" in repository.build("recipe=own.yaml")


MODEL = """\
import numpy as np
from pathlib import Path
from firmwright.builder import Graph

def net():
    np.load(Path(__file__).with_name("data.npy"))
    graph = Graph()
    return graph.output(graph.max_pool2d(graph.input("x", (1, 16, 4, 4)), "pool", (2, 2)))
"""


def test_files_that_the_models_function_does_not_open_are_notes(repository: Repository) -> None:
    repository.write("network.py", MODEL)
    repository.write("idle.txt", "")
    model = 'model: {python: "network:net", files: [data.npy, idle.txt]}'
    repository.write("own.yaml", f"{model}\nplatform: host\nrun: {{samples: 1}}\n")
    done = repository.doit("model", "recipe=own.yaml")
    assert done.returncode == 0, done.stderr
    assert "model.files: no effect: the function opened no 'idle.txt'\n" in done.stdout
    assert "data.npy" not in done.stdout
