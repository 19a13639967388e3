"""The JSON of commands has a published schema, and no other text is on stdout."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import firmwright

from .conftest import Repository

pytestmark = pytest.mark.fresh

RECIPE = "digits.yaml"
SCHEMAS = Path(firmwright.__file__).with_name("report")


def read(repository: Repository, code: int, *words: str) -> Any:
    """Return the record that a command prints, which fits the schema that it names."""
    done = repository.firmwright(*words, "--json")
    assert done.returncode == code, done.stdout + done.stderr
    found = json.loads(done.stdout)
    schema = json.loads((SCHEMAS / found["$schema"]).read_text("utf-8"))
    jsonschema.validate(found, schema)
    return found


def test_a_build_prints_its_outcome(built: Repository) -> None:
    (outcome,) = read(built, 0, "build", RECIPE)["outcomes"]
    bundle = built.folder / outcome["bundle"]
    assert outcome["flash"] == built.manifest(str(bundle))["memory"]["flash_bytes"]
    assert (outcome["exact"], outcome["failure"]) == ("exact", "")
    assert read(built, 0, "build", RECIPE, "-q")["outcomes"] == [outcome]


def test_a_failed_build_prints_its_message(copy_of_built: Repository) -> None:
    (outcome,) = read(copy_of_built, 1, "build", RECIPE, "cflags=[-O9z]")["outcomes"]
    assert "the compiler rejected it" in outcome["failure"]
    assert not outcome["bundle"]


def test_info_prints_files_and_reasons(built: Repository) -> None:
    found = read(built, 0, "info", RECIPE)
    assert found["task"] == "bundle:digits-rv32-bare"
    assert not found["reasons"]
    assert "build/digits/digits-rv32-bare.tar.gz" in found["results"]
    changed = read(built, 1, "info", RECIPE, "samples=2")
    assert any("run.samples" in reason for reason in changed["reasons"])


def test_a_lock_prints_its_state(copy_of_built: Repository) -> None:
    (missing,) = read(copy_of_built, 1, "lock", RECIPE, "--check")["locks"]
    assert "digits.lock: no such file" in missing["failure"]
    (written,) = read(copy_of_built, 0, "lock", RECIPE)["locks"]
    assert written == {
        "recipe": RECIPE,
        "platform": "rv32-bare",
        "lock": "digits.lock",
        "failure": "",
    }
