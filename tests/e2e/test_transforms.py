"""A recipe's custom rewrites, from the file to the firmware."""

from __future__ import annotations

import re

from .conftest import Repository

RECIPE = """\
model: digits.onnx
platform: host
run: {inputs: inputs.npz, samples: 2}
transforms: {with: [RemoveMultiplyByOne], extra: ["own:rewrite"]}
"""
DOUBLED = """\
from tvm import relax
from firmwright.ir.relax import operator_name, rewrite_calls

def rewrite(module):
    def twice(builder, call):
        kind = "relax.nn.conv2d"
        return relax.op.multiply(call, relax.const(2.0)) if operator_name(call) == kind else call

    return rewrite_calls(module, twice)
"""
UNCHANGED = "def rewrite(module):\n    return module\n"


def test_a_rewrite_that_changes_the_results_fails_the_run(repository: Repository) -> None:
    repository.write("digits.yaml", RECIPE)
    repository.write("own.py", DOUBLED)
    failed = repository.doit("build", "recipe=digits.yaml")
    assert failed.returncode != 0
    said = " ".join((failed.stdout + failed.stderr).split())
    assert re.search(
        r"more than rounding explains.* the first layer that differs: '.*' \(region_", said
    )
    assert "samples and outputs: build/digits" in said
    repository.write("own.py", UNCHANGED)
    assert "partition" in repository.build("recipe=digits.yaml")
    assert repository.build("recipe=digits.yaml") == []


def test_a_rewrite_that_returns_nothing_is_a_users_mistake(repository: Repository) -> None:
    repository.write("digits.yaml", RECIPE)
    repository.write("own.py", "\n\ndef rewrite(module):\n    pass\n")
    failed = repository.doit("build", "recipe=digits.yaml")
    output = failed.stdout + failed.stderr
    message = (
        "digits.yaml:4:51: transforms.extra[0]: own.py:3:1: returned a NoneType; expected a Rel"
    )
    assert message in output
    assert "Traceback" not in output


def test_keys_without_effect_are_notes(repository: Repository) -> None:
    recipe = RECIPE.replace("with:", "without: [UseIntegers, ConvertTakeToSlice], with:")
    recipe = recipe.replace(', extra: ["own:rewrite"]', "")
    repository.write("digits.yaml", f"{recipe}rounding: onnx\n")
    done = repository.doit("partition", "recipe=digits.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    said = " ".join(done.stdout.split())
    assert "no effect: this network has no operators that RemoveMultiplyByOne replaces" in said
    assert "transforms.without: no effect: no device requests ConvertTakeToSlice" in said
    assert "UseIntegers" not in said
    assert "rounding: no effect" not in said, "the network is quantized"
