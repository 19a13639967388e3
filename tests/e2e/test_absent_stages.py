"""Commands for stages that a recipe does not have, and for stages that are up to date."""

from __future__ import annotations

import pytest

from .conftest import Repository


@pytest.mark.parametrize(
    ("stage", "message"),
    [
        ("demo", "digits on rv32-bare has no stage 'demo': it needs the key `demo`\n"),
        (
            "mapping",
            "digits on rv32-bare has no stage 'mapping': it needs the key `compare`",
        ),
        (
            "chip-check",
            "no recipe has the stage 'chip-check'; add the device soma_dory to a recipe's "
            "`target`\n",
        ),
        (
            "artifacts",
            "no recipe has the stage 'artifacts'; add the device mla or tidl to a recipe's "
            "`target`\n",
        ),
        (
            "locked-files",
            "digits.lock: no such file; `firmwright lock digits.yaml` writes it\n",
        ),
    ],
)
def test_a_stage_that_does_not_apply_fails_with_the_reason(
    repository: Repository, stage: str, message: str
) -> None:
    done = repository.doit(stage, "recipe=digits.yaml")
    assert done.returncode == 1, done.stdout + done.stderr
    assert done.stderr.startswith(message)


def test_a_single_stage_says_that_it_is_up_to_date(repository: Repository) -> None:
    assert repository.doit("model", "recipe=digits.yaml").returncode == 0
    again = repository.doit("model", "recipe=digits.yaml")
    assert again.returncode == 0
    assert "  up to date  model\n" in again.stdout


def test_an_argument_that_no_stage_of_the_command_reads_is_reported(
    repository: Repository,
) -> None:
    idle = repository.doit("model", "recipe=digits.yaml", "samples=4")
    assert idle.returncode == 0
    assert "samples=4: note: no effect on model\n" in idle.stderr
    read = repository.doit("samples", "recipe=digits.yaml", "samples=4")
    assert read.returncode == 0
    assert "no effect" not in read.stderr


def test_a_list_of_tasks_omits_absent_stages(repository: Repository) -> None:
    listed = repository.doit("list", "recipe=digits.yaml").stdout
    names = {line.split()[0] for line in listed.splitlines()}
    assert {"model", "bundle", "lock"} <= names
    assert names.isdisjoint({"demo", "mapping", "chip-check", "artifacts"})
