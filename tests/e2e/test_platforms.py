"""One command builds recipes for several platforms: its bundles, and its errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from .conftest import ALL_STAGES, DIGITS, HOST_STAGES, ROOT, Repository, new_repository, ran
from .test_user_errors import fail

BOTH = "platform=host,cortex-m4-bare"
BUNDLES = ("build/digits/digits-host.tar.gz", "build/digits/digits-cortex-m4-bare.tar.gz")
SHARED = ("model", "samples")
PLATFORMS = ROOT / "toolchains" / "platforms"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """A repository whose recipe was built for two platforms at once, for tests that only read."""
    repository = new_repository(tmp_path_factory.mktemp("platforms"))
    repository.environment["FIRMWRIGHT_CACHE"] = ""
    done = repository.doit("build", "recipe=digits.yaml", BOTH)
    assert done.returncode == 0, done.stdout + done.stderr
    stages = [*HOST_STAGES, *ALL_STAGES]
    for name in SHARED:
        stages.remove(name)
    assert sorted(ran(done.stdout)) == sorted(stages)
    for bundle in BUNDLES:
        assert f"  bundle     {bundle} (" in done.stdout
    rows = [line.split("  ") for line in done.stdout.splitlines()[-4:-1]]
    assert [row[0] for row in rows] == [
        "2 of 2 built",
        "digits on host",
        "digits on cortex-m4-bare",
    ]
    for row, bundle in zip(rows[1:], BUNDLES, strict=True):
        manifest = repository.manifest(bundle)
        timeline, memory = manifest["timeline"], manifest["memory"]
        assert [cell.strip() for cell in row[1:] if cell] == [
            "exact",
            f"{timeline['milliseconds']:.3g} ms" if timeline else "-",
            f"{memory['flash_bytes']:,}",
            f"{memory['ram_bytes']:,}",
        ]
    return repository


@pytest.fixture
def copies(tmp_path: Path) -> Repository:
    """A repository with a second recipe of the same network."""
    repository = new_repository(tmp_path / "repository")
    repository.write("other.yaml", DIGITS)
    return repository


def test_a_build_for_one_of_them_has_nothing_to_do(built: Repository) -> None:
    for words in (BOTH, "platform=host", "platform=cortex-m4-bare"):
        assert built.build("recipe=digits.yaml", words) == []


def test_the_bytes_are_those_of_a_build_for_one(built: Repository, tmp_path: Path) -> None:
    alone = new_repository(tmp_path / "alone")
    alone.environment["FIRMWRIGHT_CACHE"] = ""
    for platform in ("cortex-m4-bare", "host"):
        alone.build("recipe=digits.yaml", f"platform={platform}")
    for bundle in BUNDLES:
        assert (alone.folder / bundle).read_bytes() == (built.folder / bundle).read_bytes()


def test_other_commands_take_them_too(built: Repository) -> None:
    words = ("digits.yaml", BOTH)
    assert "build:digits-host " in built.firmwright("list", *words).stdout
    assert "\nmodel:digits\n" in built.firmwright("info", *words, "--task", "model").stdout
    refused = built.firmwright("info", *words)
    assert refused.returncode == 2
    tasks = "bundle:digits-host, bundle:digits-cortex-m4-bare"
    assert refused.stderr == f"info supports one recipe and one platform; found: {tasks}\n"
    printed = built.firmwright("explain", *words).stdout
    assert "digits on host\n" in printed and "digits on cortex-m4-bare\n" in printed
    refused = built.firmwright("explain", "--json", *words)
    assert refused.returncode == 2
    assert refused.stderr == "--json supports one recipe and one platform; name one of each\n"


def test_with_an_outdir_they_lie_beside_each_other_and_clean_leaves_nothing(
    repository: Repository,
) -> None:
    words = ("recipe=digits.yaml", BOTH, "outdir=it")
    repository.build(*words)
    assert (repository.folder / "it/digits-host.tar.gz").exists()
    assert repository.build("recipe=digits.yaml", "platform=cortex-m4-bare", "outdir=it") == []
    done = repository.doit("clean", "-a", *words)
    assert done.returncode == 0, done.stderr
    assert [path for path in repository.folder.glob("it/*") if path.name[0] != "."] == []


def test_one_that_fails_stops_the_others_unless_they_are_to_continue(copies: Repository) -> None:
    """A platform whose flash is too small for the firmware."""
    small = (PLATFORMS / "rv32-bare.yaml").read_text().replace("name: rv32-bare", "name: small")
    copies.write("small.yaml", small.replace("size: 4 MiB", "size: 2 KiB"))
    words = ("recipe=digits.yaml,other.yaml", "platform=small.yaml,rv32-bare")
    done = copies.doit("-n", "1", "--continue", "build", *words)
    assert done.returncode == 2  # doit's code for stages that depend on a failed stage
    assert "\n2 of 4 built " in done.stdout
    assert "\ndigits on small      not built\ndigits on rv32-bare  exact " in done.stdout
    assert ":digits-small: " in done.stderr and ":other-small: " in done.stderr
    for name in ("digits", "other"):
        assert (copies.folder / f"build/{name}/{name}-rv32-bare.tar.gz").exists()
        assert not (copies.folder / f"build/{name}/{name}-small.tar.gz").exists()
    assert ":digits-small: " in fail(copies, *words)


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("host,,rv32-bare", "a name is missing next to a comma"),
        ("host,rv32-bare,host", "'host' is listed twice"),
        ("host,hots", "command line: platform: unknown platform 'hots'; did you mean 'host'?"),
        (
            "am62a,AM62A",
            "both platforms are named 'am62a' and would share a build folder; omit one",
        ),
        ("host,none.yaml", "platform=none.yaml: no such file"),
        ("host,rv32-bare", "target: the platform 'rv32-bare' has no 'soma_dory'; platforms that"),
    ],
)
def test_wrong_platforms_are_refused_before_anything_is_built(
    repository: Repository, word: str, message: str
) -> None:
    if "soma_dory" in message:
        repository.write("digits.yaml", DIGITS.replace("target: c", "target: 'soma_dory, c'"))
    said = fail(repository, "recipe=digits.yaml", f"platform={word}")
    assert message in said
    assert not (repository.folder / "build/digits").exists()


def test_a_mistake_of_the_recipe_is_told_once(repository: Repository) -> None:
    repository.write("digits.yaml", DIGITS.replace("target: c", "taget: c"))
    said = fail(repository, "recipe=digits.yaml", BOTH)
    assert said.count("taget") == 1


def test_a_lock_holds_for_all_of_them(repository: Repository) -> None:
    done = repository.doit("lock", "recipe=digits.yaml", "platform=host,cortex-m4-bare")
    assert done.returncode == 0, done.stdout + done.stderr
    assert '"unicorn"' in (repository.folder / "digits.lock").read_text()
    repository.build("recipe=digits.yaml", BOTH)


def test_a_lock_has_the_files_of_one(repository: Repository) -> None:
    own = (PLATFORMS / "rv32-bare.yaml").read_text().replace("name: rv32-bare", "name: own")
    repository.write("own.yaml", own)
    done = repository.doit("lock", "recipe=digits.yaml", "platform=host,own.yaml")
    assert done.returncode == 1
    assert "digits.lock: 'host' and 'own' read different files" in done.stderr
    assert not (repository.folder / "digits.lock").exists()
