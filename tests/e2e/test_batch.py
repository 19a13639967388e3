"""A batch, from the recipe to the bundle."""

from __future__ import annotations

import json

import numpy as np
import pytest
import yaml

from .conftest import ROOT, Repository
from .test_user_errors import fail

PLATFORM = yaml.safe_load((ROOT / "toolchains" / "platforms" / "rv32-bare.yaml").read_text())


def small(repository: Repository, ram: str) -> None:
    """Write a platform with less memory."""
    memories = {**PLATFORM["memories"], "ram": {"origin": 0x80400000, "size": ram}}
    text = yaml.safe_dump({**PLATFORM, "name": "small", "memories": memories})
    repository.write("small.yaml", text)


def test_what_fits_is_built_and_one_more_does_not_fit(repository: Repository) -> None:
    small(repository, "24 KiB")
    repository.write("batch.yaml", "model: digits.onnx\nplatform: small.yaml\nbatch: 16\n")
    done = repository.doit("build", "recipe=batch.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "batch 16 wanted, 6 fits (ram: " in done.stdout

    manifest = repository.manifest("build/batch/batch-small.tar.gz")
    batch, memory = manifest["batch"], manifest["memory"]
    assert (batch["desired_batch_size"], batch["actual_batch_size"]) == (16, 6)
    assert manifest["run"]["differences"] == 0
    assert manifest["run"]["values"] == 6 * 10
    # The linker places the planned memory, and in addition a few bytes of the console.
    assert 0 <= memory["ram_bytes"] - batch["needs"] <= 64
    assert batch["needs"] <= batch["capacity"] == 24 * 1024 < batch["next_needs"]


def test_require_is_a_gate(repository: Repository) -> None:
    small(repository, "24 KiB")
    text = "model: digits.onnx\nplatform: small.yaml\nbatch: {size: 16, require: true}\n"
    repository.write("batch.yaml", text)
    done = repository.doit("build", "recipe=batch.yaml")
    assert done.returncode != 0
    assert "batch 16 wanted, 6 fits" in done.stderr
    assert "requires all 16" in done.stderr


def test_not_even_one_sample_fits(repository: Repository) -> None:
    small(repository, "17 KiB")
    repository.write("batch.yaml", "model: digits.onnx\nplatform: small.yaml\nbatch: 16\n")
    text = fail(repository, "recipe=batch.yaml")
    assert "batch.yaml:3:8: batch: the network does not fit small: it needs " in text
    assert text.count(" bytes  ") == 5


def test_a_batch_on_the_command_line(repository: Repository) -> None:
    """The 64 samples do not fill two batches of 40; the second batch repeats samples."""
    done = repository.doit("build", "recipe=digits.yaml", "samples=2", "batch=40")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "64 samples in turn fill the batches" in done.stdout
    record = json.loads(
        (repository.folder / "build" / "digits" / "rv32-bare" / "run" / "run.json").read_text()
    )
    assert (record["samples"], record["batch"]) == (2, 40)
    assert record["inputs"][64:] == record["inputs"][:16]
    assert record["differences"] == 0


def test_equal_samples_without_a_batch_fill_none(repository: Repository) -> None:
    np.savez(repository.folder / "inputs.npz", image=np.zeros((3, 1, 8, 8), "int8"))
    done = repository.doit("build", "recipe=digits.yaml", "platform=host")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "all samples have equal outputs" in done.stdout
    assert "fill the batches" not in done.stdout


@pytest.mark.parametrize("given", ["0", "-1", "99999999999", "many"])
def test_a_batch_that_is_none(repository: Repository, given: str) -> None:
    done = repository.doit("build", "recipe=digits.yaml", f"batch={given}")
    assert done.returncode != 0
    assert "command line: batch: " in done.stderr
    assert "Traceback" not in done.stderr


def test_a_build_without_a_batch_is_what_it_was_before_one(copy_of_built: Repository) -> None:
    bundle = copy_of_built.folder / "build" / "digits" / "digits-rv32-bare.tar.gz"
    before = bundle.read_bytes()
    copy_of_built.build("recipe=digits.yaml", "batch=3")
    assert bundle.read_bytes() != before
    copy_of_built.build("recipe=digits.yaml")
    assert bundle.read_bytes() == before
