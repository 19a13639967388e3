"""The short run of tests.hammer.pairs: a few groups of pairs."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.hammer.pair_models import CONSUMERS, PRODUCERS
from tests.hammer.pairs import TOLERANCE, main, try_pairs

DRAWN = random.Random(7).choice([(name, kind) for name in PRODUCERS for kind in TOLERANCE])
GROUPS = (("LogSoftmax", "float16"), ("RoiAlign", "float32"), DRAWN)
"""A group with equal names, one with variables that had no value, and one that a seed selects."""


@pytest.mark.needs("gcc", "clang")
@pytest.mark.parametrize(("name", "kind"), GROUPS)
def test_pairs_compile_and_are_right(name: str, kind: str, tmp_path: Path) -> None:
    outcomes = set(try_pairs(name, kind, list(CONSUMERS), tmp_path))
    assert outcomes - {"undefined"} == {"right"}


def test_there_are_as_many_pairs_as_the_documentation_says() -> None:
    assert (len(PRODUCERS), len(CONSUMERS)) == (48, 12)


def test_an_unknown_argument_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["float32", "Lrn"]) == 2
    assert capsys.readouterr().out.startswith("unknown argument 'Lrn'; expected")
