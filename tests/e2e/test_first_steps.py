"""A model alone becomes firmware: ``firmwright init``, and then a build."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

import numpy as np
import onnx
import pytest
import yaml
from onnx import TensorProto, helper, numpy_helper

from firmwright import __version__
from firmwright.models.formats import OpenShapesError
from firmwright.project.new_repository import choose_one_sample
from tests.models.test_signatures import write_two_networks

from .conftest import EXAMPLE, ROOT, Repository


@pytest.fixture
def folder(tmp_path: Path) -> Repository:
    """A folder that contains only a model."""
    shutil.copy(EXAMPLE / "digits.onnx", tmp_path / "digits.onnx")
    return Repository(tmp_path)


def test_init_writes_what_builds(folder: Repository) -> None:
    done = folder.firmwright("init", "digits.onnx", "--platform", "host")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "wrote digits.yaml",
        "wrote samples.py",
        "wrote dodo.py",
        "wrote .github/workflows/firmware.yml",
        "wrote constraints.txt",
        "wrote recipe.schema.json",
        "wrote .vscode/tasks.json",
        "wrote .gitignore",
        "Build with: firmwright build digits.yaml",
    ]
    install, *steps = read_steps(folder)
    pins = (folder.folder / "constraints.txt").read_text().splitlines()
    arguments = f"firmwright=={__version__} --find-links wheels --constraint constraints.txt"
    assert install == f"python -m pip install {arguments}"
    assert f"numpy=={version('numpy')}" in pins
    assert not any(pin.startswith(("firmwright==", "pytest==")) for pin in pins)

    assert folder.firmwright("lock", "digits").returncode == 0
    who = "-c user.name=a -c user.email=a@example.org"
    base = f"git init -q; git add .; git {who} commit -qm a; git branch origin/main"
    path = f"PATH={Path(sys.executable).parent}:{os.environ['PATH']}"
    variables = path, "GITHUB_BASE_REF=main", "GITHUB_STEP_SUMMARY=s.md"
    for step in (base, *steps):
        done = folder.run("env", *variables, "bash", "-ec", step)
        assert done.returncode == 0, (step, done.stdout + done.stderr)
    assert "**Same bundle:**" in (folder.folder / "s.md").read_text()
    run = folder.manifest("build/digits/digits-host.tar.gz")["run"]
    assert (run["samples"], run["mismatches"]) == (2, 0)
    check_other_services(folder, path)


def check_other_services(folder: Repository, path: str) -> None:
    """Run the steps of the action and of the workflows of GitLab and Azure, after a build."""
    action = yaml.safe_load((ROOT / "action.yml").read_text())["runs"]["steps"]
    workflows = {"action": [step.get("run", "") for step in action]}
    for service, file in (("gitlab", ".gitlab-ci.yml"), ("azure", "azure-pipelines.yml")):
        (folder.folder / "digits.yaml").unlink()
        done = folder.firmwright("init", "digits.onnx", "--platform", "host", "--ci", service)
        assert f"wrote {file}" in done.stdout.splitlines(), done.stderr
        known = yaml.safe_load((folder.folder / file).read_text())
        steps = known["steps"] if service == "azure" else known["firmware"]["script"]
        workflows[service] = [s if isinstance(s, str) else s.get("script", "") for s in steps]
    variables = [path, "RECIPES=digits.yaml", "GITHUB_BASE_REF=main", "GITHUB_STEP_SUMMARY=a.md"]
    variables += ["CI_MERGE_REQUEST_DIFF_BASE_SHA=HEAD", "SYSTEM_PULLREQUEST_TARGETBRANCHNAME=main"]
    for service, steps in workflows.items():
        run = [step for step in steps if step and "apt-get" not in step and "pip " not in step]
        assert [step.count("firmwright ") for step in run] == [1, 1, 1], service
        for step in run:
            done = folder.run("env", *variables, "bash", "-ec", step)
            assert done.returncode == 0, (service, step, done.stdout + done.stderr)
        shown = folder.folder / ("a.md" if service == "action" else "build/digits/diff.md")
        assert "**Same bundle:**" in shown.read_text()
        shown.unlink()


def read_steps(folder: Repository) -> list[str]:
    """Return the commands of the workflow that ``init`` wrote."""
    workflow = yaml.safe_load((folder.folder / ".github/workflows/firmware.yml").read_text())
    return [step["run"] for step in workflow["jobs"]["build"]["steps"] if "run" in step]


def test_init_for_a_board_of_ones_own_and_any_number_of_samples(folder: Repository) -> None:
    assert folder.firmwright("new", "board", "acme", "--like", "host").returncode == 0
    save_relu(folder.folder / "open.onnx", ["N", 3])
    done = folder.firmwright("init", "open.onnx", "--platform", "acme.yaml")
    assert done.returncode == 0, done.stderr
    assert '\ninputs:\n  "x": {shape: [1, 3]}\n' in (folder.folder / "open.yaml").read_text()
    listed = folder.firmwright("list", "open")
    assert (listed.returncode, "bundle:open-acme" in listed.stdout) == (0, True), listed.stderr


def test_init_tells_the_accelerators_of_a_platform(folder: Repository) -> None:
    words = ("firmwright", "init", "digits.onnx", "--platform", "am62a")
    recipe = folder.folder / "digits.yaml"
    assert folder.run(*words).returncode == 0
    sentence = "# The platform also has tidl and c7x: `target: tidl, c` prefers it.\ntarget: c\n"
    assert sentence in recipe.read_text()
    recipe.unlink()
    assert folder.run(*words, "--target", "tidl, c").returncode == 0
    assert "list the possible values.\nplatform: am62a\ntarget: tidl, c\n" in recipe.read_text()


def test_only_the_number_of_samples_is_chosen() -> None:
    shapes: dict[str, list[int | str]] = {"x": ["N", 3, 8], "y": ["?"]}
    assert choose_one_sample(OpenShapesError("m", shapes)) == {"x": (1, 3, 8), "y": (1,)}
    wrong: tuple[list[int | str], ...] = (["N", "width"], [1, "width"])
    for shape in wrong:
        with pytest.raises(OpenShapesError):
            choose_one_sample(OpenShapesError("m", {"y": ["N"], "x": shape}))


def save_relu(path: Path, shape: Sequence[int | str]) -> None:
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", values[:1], values[1:])
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)


def test_init_fixes_shapes_and_values(folder: Repository) -> None:
    values = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", "time"]),
              helper.make_tensor_value_info("rate", TensorProto.FLOAT, [])]  # fmt: skip
    nodes = [helper.make_node("Mul", ["x", "rate"], ["y"])]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", "time"])
    opsets = [helper.make_opsetid("", 17)]
    graph = helper.make_graph(nodes, "g", values, [output])
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    onnx.save(model, folder.folder / "scaled.onnx")
    begin = ("firmwright", "init", "scaled.onnx", "--platform", "host", "--value", "rate=2.5")
    recipe = folder.folder / "scaled.yaml"
    done = folder.run(*begin)
    last = "The recipe does not build yet: state the shape of x in scaled.yaml"
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, last), done.stderr
    assert '\n  "x": {shape: ["N", "time"]}\n' in recipe.read_text()
    listed = folder.firmwright("list", "scaled")
    found = "scaled.yaml:8:17: inputs.x.shape[0]: expected a whole number, found the text 'N'"
    assert found in listed.stderr
    recipe.unlink()
    done = folder.run(*begin, "--shape", "x=1,8")
    assert done.stdout.splitlines()[-1] == "Build with: firmwright build scaled.yaml", done.stderr
    stated = '  "x": {shape: [1, 8]}\n  "rate": {value: 2.5}\n'
    assert stated in recipe.read_text()
    assert folder.firmwright("list", "scaled").returncode == 0


def test_init_gives_the_recipe_a_name_that_is_fit(folder: Repository) -> None:
    (folder.folder / "größe 1 (neu).onnx").write_bytes((EXAMPLE / "digits.onnx").read_bytes())
    done = folder.firmwright("init", "größe 1 (neu).onnx")
    assert done.stdout.splitlines()[-1] == "Build with: firmwright build gr-e-1-neu.yaml"
    listed = folder.firmwright("list", "gr-e-1-neu.yaml")
    assert (listed.returncode, "model:gr-e-1-neu" in listed.stdout) == (0, True), listed.stderr


def test_init_for_a_second_model_writes_what_builds(folder: Repository) -> None:
    assert folder.firmwright("init", "digits.onnx", "--platform", "host").returncode == 0
    save_relu(folder.folder / "my-relu.onnx", [1, 3])
    done = folder.firmwright("init", "my-relu.onnx", "--platform", "host")
    assert {"wrote samples_my_relu.py", "kept: dodo.py"} < {*done.stdout.splitlines()}
    assert "\n      - run: firmwright build my-relu.yaml\n" in done.stderr
    assert "\nand build/my-relu/*.tar.gz to the paths that are uploaded\n" in done.stderr
    built = folder.firmwright("build", "my-relu.yaml")
    assert built.returncode == 0, built.stdout + built.stderr
    (folder.folder / "digits.yaml").unlink()
    again = folder.firmwright("init", "digits.onnx", "--platform", "host")
    assert "kept: samples.py\n" in again.stdout
    assert not again.stderr


def test_the_samples_of_init_are_indices_of_an_embedding(folder: Repository) -> None:
    tokens = helper.make_tensor_value_info("tokens", TensorProto.INT32, [1, 6])
    rows = numpy_helper.from_array(np.eye(9, 4, dtype="float32"), "rows")
    node = helper.make_node("Gather", ["rows", "tokens"], ["y"])
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 6, 4])
    graph = helper.make_graph([node], "g", [tokens], [result], [rows])
    onnx.save(helper.make_model(graph), folder.folder / "words.onnx")
    assert folder.firmwright("init", "words.onnx", "--platform", "host").returncode == 0
    assert "RANDOM.integers(0, 8, shape" in (folder.folder / "samples.py").read_text()
    built = folder.firmwright("build", "words.yaml")
    assert built.returncode == 0, built.stdout + built.stderr


def test_init_leaves_what_is_there(folder: Repository) -> None:
    folder.write("dodo.py", "# mine\n")
    done = folder.firmwright("init", "digits.onnx")
    assert "kept: dodo.py" in done.stdout
    assert (folder.folder / "dodo.py").read_text() == "# mine\n"
    recipe = (folder.folder / "digits.yaml").read_text()
    again = folder.firmwright("init", "digits.onnx", "--platform", "host")
    assert again.returncode == 1
    assert again.stderr.startswith("digits.yaml: already exists; ")
    assert (folder.folder / "digits.yaml").read_text() == recipe


def test_init_and_build_select_one_network_of_a_file(folder: Repository) -> None:
    (folder.folder / "two.tflite").write_bytes(write_two_networks().build())
    refused = folder.firmwright("init", "two.tflite", "--platform", "host")
    assert "several networks, one per signature ('negate', 'step')" in refused.stderr
    done = folder.firmwright("init", "two.tflite", "--platform", "host", "--signature-name", "step")
    assert done.returncode == 0, done.stderr
    built = folder.firmwright("build", "two")
    assert built.returncode == 0, built.stdout + built.stderr
    recipe = folder.folder / "two.yaml"
    recipe.write_text(recipe.read_text().replace('"step"', "stepp"))
    failed = folder.firmwright("build", "two")
    assert "model.signature_name: the model has no signature 'stepp'; did you mean 'step'?" in (
        failed.stdout + failed.stderr
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("missing.onnx",), "missing.onnx: cannot read the model: No such file or directory"),
        (("net.h5",), "net.h5: a Keras model is not supported; convert it: python -c"),
        (
            ("net.bin",),
            "net.bin: the suffix '.bin' does not identify a model format; expected .lite, ",
        ),
        (("digits.onnx", "--signature-name", "step"), "the model is onnx; only TFLite models have"),
        (("digits.onnx", "--shape", "x=1,-3"), "init: --shape x=1,-3: expected INPUT=LENGTH"),
        (("digits.onnx", "--value", "x=high"), "init: --value x=high: expected INPUT=NUMBER"),
        (("digits.onnx", "--value", "rate=1"), "digits.onnx: inputs: the model has no input"),
        (("digits.onnx", "--platform", "hots"), "unknown platform 'hots'; did you mean 'host'?"),
        (("digits.onnx", "--target", "tidel, c"), "target: unknown device 'tidel'; did you mean"),
    ],
)
def test_init_refuses_and_writes_nothing(
    folder: Repository, words: tuple[str, ...], message: str
) -> None:
    done = folder.firmwright("init", *words)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(message)
    assert len([*folder.folder.iterdir()]) == 1
