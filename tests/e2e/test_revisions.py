"""Two revisions of a recipe are built and compared."""

from __future__ import annotations

from .conftest import Repository
from .test_trust import firmwright


def test_diff_builds_a_revision_and_what_is_there_now(copy_of_built: Repository) -> None:
    git = ("git", "-c", "user.name=a", "-c", "user.email=a@example.org")
    tracked = ("digits.yaml", "digits.onnx", "inputs.npz")
    for words in (("init", "-q"), ("add", *tracked), ("commit", "-qm", "Begin")):
        assert copy_of_built.run(*git, *words).returncode == 0
    recipe = copy_of_built.folder / "digits.yaml"
    recipe.write_text(recipe.read_text().replace("samples: 3", "samples: 2"))
    code, text = firmwright(copy_of_built, "diff", "HEAD:digits.yaml", "digits.yaml")
    lines = [line.split() for line in text.splitlines()]
    assert code == 1, text
    assert ["run.samples", "3", "→", "2", "-33.3", "%"] in lines
    assert "build_id" not in text  # the firmware is the same
    code, text = firmwright(copy_of_built, "diff", "none:digits.yaml", "digits.yaml")
    assert (code, ": git: fatal: " in text) == (2, True)


def test_diff_refuses_code_of_a_recipe(repository: Repository) -> None:
    repository.write("net.py", "open('mark', 'w').close()\n")
    repository.write("net.yaml", "model: {python: 'net:make'}\n")
    code, text = firmwright(repository, "diff", "net.yaml", "net.yaml", "--no-user-code")
    assert (code, "a Python function; not allowed with" in text) == (2, True), text
    assert not (repository.folder / "mark").exists()
