"""The energy per cycle of a platform gives the energy of an inference, in a budget and a bundle."""

from __future__ import annotations

from .conftest import ROOT, Repository


def test_a_platform_states_the_energy_of_a_cycle(copy_of_built: Repository) -> None:
    repository = copy_of_built
    recipe = (repository.folder / "digits.yaml").read_text()
    repository.write("digits.yaml", f"{recipe}budget: {{energy: 1 nJ}}\n")
    refused = repository.doit("list", "recipe=digits.yaml", "platform=rv32-bare")
    message = "budget.energy: the platform 'rv32-bare' states no energy; add `energy`, the pJ per"
    assert message in refused.stderr

    platform = (ROOT / "toolchains/platforms/rv32-bare.yaml").read_text()
    platform = platform.replace("name: rv32-bare", "name: mine\nenergy: 20", 1)
    repository.write("mine.yaml", platform)
    done = repository.doit("build", "recipe=digits.yaml", "platform=mine.yaml")
    assert done.returncode == 1
    assert " µJ (by the table of CV32E40P, zero wait states), " in done.stdout + done.stderr
    assert "µJ more than the limit of 0.001 µJ; the largest:" in done.stdout + done.stderr

    repository.write("digits.yaml", recipe)
    done = repository.doit("build", "recipe=digits.yaml", "platform=mine.yaml")
    timeline = repository.manifest("build/digits/digits-mine.tar.gz")["timeline"]
    assert timeline["microjoules"] == round(timeline["total"] * 20 / 1e6, 3)
    assert f"about {timeline['total']:,} cycles" in done.stdout
    assert " µJ (by the table" in done.stdout
    page = (repository.folder / "build/digits/digits-mine.html").read_text()
    assert "µJ, by the energy per cycle of the platform" in page

    bundle = repository.folder / "build/digits/digits-mine.tar.gz"
    bundle.rename(repository.folder / "old.tar.gz")
    repository.write("mine.yaml", platform.replace("energy: 20", "energy: 40"))
    repository.build("recipe=digits.yaml", "platform=mine.yaml")
    energies = [f"{round(timeline['total'] * each / 1e6, 3)}" for each in (20, 40)]
    found = repository.firmwright("diff", "old.tar.gz", str(bundle)).stdout.splitlines()
    shown = [line.split() for line in found if line.startswith("  microjoules ")]
    expected = ["microjoules", energies[0], "→", energies[1], "+100.0", "%"]
    assert shown == [expected, expected]  # in the verdict, and in the table of times
