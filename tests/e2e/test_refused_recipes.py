"""Recipes that are rejected: keys that exclude each other, and errors in the files they name."""

from __future__ import annotations

import pytest

from .conftest import ROOT, Repository
from .test_user_errors import fail, fail_with


def test_a_recipe_of_the_name_of_a_comparison_is_refused(repository: Repository) -> None:
    recipe = "model: digits.onnx\nplatform: host\n"
    repository.write("a.yaml", f"{recipe}name: p\ncompare: c\n")
    repository.write("b.yaml", f"{recipe}name: p-compared\n")
    text = fail(repository, "recipe=a.yaml,b.yaml")
    assert text.startswith("a.yaml on host and b.yaml on host would both have a stage 'partition:p")
    assert text.endswith("; change the `name:` of a recipe or a platform\n")


def test_a_recipe_of_the_name_of_a_platform_s_build_is_refused(repository: Repository) -> None:
    board = (ROOT / "toolchains/platforms/rv32-bare.yaml").read_text(encoding="utf-8")
    for recipe, name, platform in (("a", "p", "a-small"), ("b", "p-a", "small")):
        repository.write(f"{platform}.yaml", board.replace("rv32-bare", platform, 1))
        repository.write(
            f"{recipe}.yaml", f"model: digits.onnx\nname: {name}\nplatform: {platform}.yaml\n"
        )
    text = fail(repository, "recipe=a.yaml,b.yaml")
    assert "a.yaml on a-small and b.yaml on small would both have a stage " in text


BOARD = "description: mine\nserial: {port: /dev/null}\nflash: ['true', 'put {nope} and {elf}']\n"


@pytest.mark.parametrize(
    ("board", "platform", "message"),
    [
        (BOARD, "cortex-m4-bare", "b.yaml:3:17: flash[1]: '{nope}' stands for no image of this "
         "firmware; there are: {elf}, {bin}, {hex}; braces for the command itself get spaces: "
         "{ nope }\n"),
        (BOARD.replace("nope", "bin"), "host", "'{bin}' stands for no image of this firmware; there"
         " are: {elf};"),
        ("description: mine\nserial: {prt: 3}\n", "host", "b.yaml:2:10: serial.prt: unknown key"),
    ],
)  # fmt: skip
def test_the_file_of_a_board_is_checked_before_any_stage(
    repository: Repository, board: str, platform: str, message: str
) -> None:
    repository.write("b.yaml", board)
    recipe = f"model: digits.onnx\nplatform: {platform}\nrun: {{board: b.yaml}}\n"
    text = fail_with(repository, recipe)
    assert message in text
    assert "✓" not in text
    repository.write("b.yaml", BOARD.replace("{nope}", "{ nope }"))
    assert repository.doit("list", "recipe=r.yaml").returncode == 0


def test_an_accelerator_in_the_caller_s_arena(repository: Repository) -> None:
    recipe = "model: digits.onnx\ntarget: tidl, c\nplatform: am62a\narena: caller\n"
    printed = fail_with(repository, recipe + "run: {inputs: inputs.npz, samples: 1}\n")
    assert "r.yaml:4:8: arena: `arena: caller` allows several instances" in printed


def test_a_detection_that_does_not_fit_is_told_at_its_key(repository: Repository) -> None:
    detection = (
        "picture: [8, 8], classes: 4, box: {encoding: tanh-sigmoid, channel: 1}, "
        "objectness: {channel: 0}, class_scores: {channel: 5}"
    )
    recipe = "model: digits.onnx\nplatform: host\npostprocess:\n  detection: "
    text = fail_with(repository, f"{recipe}{{{detection}}}\n")
    assert "r.yaml:4:14: postprocess.detection: the detection does not fit the network's o" in text
