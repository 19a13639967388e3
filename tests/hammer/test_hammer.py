"""A short run of each hammer; hypothesis draws the cases, and reduces each finding."""

from __future__ import annotations

import random
import signal
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.hammer.campaign import FindingError, run_campaign
from tests.hammer.edits import EditHammer
from tests.hammer.environments import SHORT, Case, EnvironmentHammer, list_cases
from tests.hammer.faults import FaultHammer
from tests.hammer.formats import FormatHammer
from tests.hammer.kills import BuildFolder, KillHammer
from tests.hammer.models import ModelHammer
from tests.hammer.recipes import RecipeHammer
from tests.hammer.user_files import UserFilesHammer

short = settings(
    deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow]
)
draws = st.randoms(use_true_random=False)


@pytest.fixture(scope="module")
def recipes(tmp_path_factory: pytest.TempPathFactory) -> RecipeHammer:
    return RecipeHammer(tmp_path_factory.mktemp("recipes"))


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> ModelHammer:
    return ModelHammer(tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="module")
def builds(tmp_path_factory: pytest.TempPathFactory) -> BuildFolder:
    return BuildFolder(tmp_path_factory.mktemp("builds"))


@pytest.fixture(scope="module")
def environments(builds: BuildFolder) -> EnvironmentHammer:
    return EnvironmentHammer(builds)


@pytest.fixture(scope="module")
def formats(builds: BuildFolder, tmp_path_factory: pytest.TempPathFactory) -> FormatHammer:
    (bundle,) = builds.folder.glob("build/tiny/*.tar.gz")
    return FormatHammer(tmp_path_factory.mktemp("formats"), bundle)


@settings(short, max_examples=60)
@given(draw=draws)
def test_recipes(recipes: RecipeHammer, draw: random.Random) -> None:
    recipes.try_case(draw)


@settings(short, max_examples=20)
@given(draw=draws)
def test_models(models: ModelHammer, draw: random.Random) -> None:
    models.try_case(draw)


@pytest.mark.needs("gcc")
def test_formats_are_read_unchanged(formats: FormatHammer) -> None:
    """The unchanged input must be valid, or it would be rejected for another reason."""
    unread = {target.name for target in formats.targets}
    for target in formats.targets:
        for name, content in target.bases:
            path = Path(tempfile.mkdtemp(dir=formats.folder), name)
            path.write_bytes(content)
            if formats.read(target, path, UnchangedDraws()) == "read":
                unread.discard(target.name)
    assert not unread


class UnchangedDraws(random.Random):
    """A source of random numbers that changes no answer."""

    def randrange(self, start: int, stop: int | None = None, step: int = 1) -> int:
        del start, stop, step
        return 1

    def choice(self, seq: Any) -> Any:
        return seq[0]


@pytest.mark.needs("gcc")
@settings(short, max_examples=120)
@given(draw=draws)
def test_formats(formats: FormatHammer, draw: random.Random) -> None:
    formats.try_case(draw)


@pytest.mark.needs("gcc")
def test_a_kill(builds: BuildFolder) -> None:
    KillHammer(builds, kills=1).try_case(random.Random(0))


@pytest.mark.needs("gcc")
def test_a_full_disk(builds: BuildFolder) -> None:
    FaultHammer(builds).fill_disk(random.Random(0))


@pytest.mark.needs("gcc")
def test_builds_among_files_of_the_user(tmp_path: Path) -> None:
    hammer = UserFilesHammer(tmp_path)
    try:
        for number in range(4):
            hammer.try_case(random.Random(f"0/{number}"))
    finally:
        hammer.close()


@pytest.mark.needs("cc", "unshare")
@pytest.mark.parametrize(
    "case", list_cases(SHORT), ids=lambda c: f"{c.fault.name}, {' '.join(c.command)}"
)
def test_an_environment(environments: EnvironmentHammer, case: Case) -> None:
    environments.try_case(case)


def test_builds_can_be_interrupted_from_a_shells_background() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        run_campaign("here", lambda _: "stood", [], 1)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_finding_is_told_with_what_repeats_it(capsys: pytest.CaptureFixture[str]) -> None:
    def try_case(draw: random.Random) -> str:
        if draw.randrange(4) == 0:
            raise FindingError("it fell over")
        return "stood"

    assert run_campaign("here", try_case, ["--count", "9", "--seed", "3"], 1) == 1
    printed = capsys.readouterr().out
    again = next(
        line.split("python -m here ")[1] for line in printed.splitlines() if "again" in line
    )
    assert run_campaign("here", try_case, again.split(), 1) == 1
    assert "it fell over" in capsys.readouterr().out


def test_edits_give_the_bundles_of_clean_builds(tmp_path: Path) -> None:
    hammer = EditHammer(tmp_path)
    words = ["--seed", "1172", "--count", "3"]
    assert run_campaign("tests.hammer.edits", hammer.try_edit, words, 3) == 0
    template = "templates/dla/posix/fw_dla.c.j2 of number 1"
    edits = [template, "compare: None", "dla_jobs.py of number 1"]
    assert hammer.edits == edits
