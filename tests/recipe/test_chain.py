"""Recipes that extend other recipes: bases, overlays and values of the command line."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from firmwright.documents.chain import Layers, read_chain
from firmwright.errors import Diagnostic, DiagnosticError
from firmwright.pipeline.command_line import make_catalog
from firmwright.recipe.catalog import Catalog
from firmwright.recipe.load_recipe import load_recipe
from firmwright.recipe.networks_file import load_networks, names_networks
from firmwright.recipe.overrides import is_key, list_keys
from firmwright.recipe.value_origins import (
    format_difference,
    format_history,
    format_recipe,
    read_origins,
)

RECIPES = Path(__file__).parents[2] / "recipes"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("net.onnx").touch()
    return tmp_path


def write(name: str, text: str) -> Path:
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def read(*files: str, **words: str) -> Any:
    """Return the merged data of a file and its overlays."""
    first, *overlays = map(Path, files)
    chain = read_chain(Layers(first, tuple(overlays), words))
    assert not chain.findings
    return chain.document.data


def test_mappings_merge_and_other_values_replace() -> None:
    write(
        "base.yaml", "run: {samples: 2, seed: 1}\ncflags: [-O1]\nmodel: {path: a, format: onnx}\n"
    )
    write("net.yaml", "extends: base.yaml\nrun: {samples: 3}\ncflags: [-O2]\nmodel: b\n")
    assert read("net.yaml") == {
        "run": {"samples": 3, "seed": 1},
        "cflags": ["-O2"],
        "model": "b",
    }


def test_lists_grow_at_both_ends_and_null_removes() -> None:
    write("base.yaml", "cflags: [-A]\nrun: {samples: 2}\nx-flags: &f [-B]\nextensions+: [m:f]\n")
    write("net.yaml", "extends: base.yaml\n+cflags: [-Z]\ncflags+: [-C]\nrun: null\ndemo: null\n")
    assert read("net.yaml") == {"cflags": ["-Z", "-A", "-C"], "extensions": ["m:f"]}


def test_a_removed_value_makes_room_for_one_of_another_kind() -> None:
    write("base.yaml", "target: [{c: {}}]\n")
    write("between.yaml", "extends: base.yaml\ntarget: null\n")
    write("net.yaml", "extends: between.yaml\ntarget: {c: {}}\n")
    assert read("net.yaml") == {"target": {"c": {}}}


def test_overlays_and_values_follow_the_recipe() -> None:
    write("net.yaml", "run: {samples: 2, seed: 1}\ncflags: [-A]\n")
    write("small.yaml", "run: {samples: 1}\ncflags+: [-B]\n")
    words = {"run.seed": "7", "cflags+": "[-C]", "inputs['a.b'].shape": "[1, 2]"}
    assert read("net.yaml", "small.yaml", **words) == {
        "run": {"samples": 1, "seed": 7},
        "cflags": ["-A", "-B", "-C"],
        "inputs": {"a.b": {"shape": [1, 2]}},
    }


def test_a_file_that_two_bases_extend_counts_once_and_first() -> None:
    write("all.yaml", "run: {samples: 1, seed: 1}\n")
    write("model.yaml", "extends: all.yaml\nrun: {samples: 2}\n")
    write("board.yaml", "extends: all.yaml\nrun: {seed: 3}\n")
    write("net.yaml", "extends: [model.yaml, board.yaml]\n")
    assert read("net.yaml") == {"run": {"samples": 2, "seed": 3}}


def test_an_overlay_that_is_a_base_counts_at_its_position() -> None:
    write("board.yaml", "platform: host\n")
    write("net.yaml", "extends: board.yaml\nplatform: rv32-bare\n")
    write("other.yaml", "extends: net.yaml\nplatform: cortex-m4-bare\n")
    assert read("net.yaml", "board.yaml") == {"platform": "host"}
    assert read("net.yaml", "other.yaml") == {"platform": "cortex-m4-bare"}
    assert read("net.yaml", "other.yaml", "net.yaml") == {"platform": "rv32-bare"}


def test_an_overlay_that_is_also_a_base_merges_once(folder: Path) -> None:
    write("base.yaml", "cflags+: [-A]\nplatform: host\n")
    write("a.yaml", "extends: base.yaml\nplatform: rv32-bare\n")
    assert read("a.yaml", "base.yaml") == {"cflags": ["-A"], "platform": "host"}
    # Another spelling of the path is also the same file.
    assert read("a.yaml", str(folder / "base.yaml"))["cflags"] == ["-A"]
    chain = read_chain(Layers(Path("a.yaml"), (Path("base.yaml"),)))
    assert [*map(str, chain.files)] == ["a.yaml", "base.yaml"]
    write("base.yaml", "cflags+: -A\n")
    assert len(read_chain(Layers(Path("a.yaml"), (Path("base.yaml"),))).findings) == 1


def test_paths_start_at_the_file_that_states_them(catalogue: Catalog) -> None:
    write("common/nets/net.onnx", "")
    write("common/base.yaml", "model: nets/net.onnx\nrun: {inputs: {x: {pictures: [a.png]}}}\n")
    write("common/a.png", "")
    write("common/libs/f.c", "")
    write("common/board.yaml", "libraries: [{name: f, sources: [libs/f.c]}]\n")
    recipe = load_recipe(
        Layers(
            write("products/net.yaml", "extends: ../common/base.yaml\n"),
            (Path("common/board.yaml"),),
        ),
        {},
        catalogue,
    )
    assert recipe.model.path == "../common/nets/net.onnx"
    files = {os.path.normpath(path) for path in recipe.list_files()}
    assert files == {"common/nets/net.onnx", "common/a.png", "common/libs/f.c"}
    assert [*map(str, recipe.bases)] == ["common/base.yaml", "common/board.yaml"]


def test_a_function_stays_in_the_folder_of_the_recipe(catalogue: Catalog) -> None:
    write("common/nets.py", "")
    write("common/base.yaml", "model: {python: 'nets:make'}\n")
    recipe = write("net.yaml", "extends: common/base.yaml\n")
    with pytest.raises(
        DiagnosticError, match=r"common/base.yaml:1:17: model.python: the module is"
    ):
        load_recipe(recipe, {}, catalogue)


def test_a_recipe_of_an_installed_package_is_a_base() -> None:
    recipe = write("mine.yaml", "extends: firmwright:recipes/kws.yaml\nrun: {samples: 9}\n")
    ours, theirs = (
        load_recipe(path, {}, make_catalog()) for path in (recipe, RECIPES / "kws.yaml")
    )
    assert ours.run.samples == 9
    assert ours.model == theirs.model
    assert len(ours.bases) == len(theirs.bases) + 1


def test_a_changed_base_is_noticed_by_the_cache(catalogue: Catalog, tmp_path: Path) -> None:
    base = write("base.yaml", "run: {samples: 2}\n")
    recipe = write("net.yaml", "extends: base.yaml\nmodel: net.onnx\n")
    for samples in (2, 2, 5):
        base.write_text(f"run: {{samples: {samples}}}\n")
        assert load_recipe(recipe, {}, catalogue, tmp_path / "cache").run.samples == samples
    base.unlink()
    with pytest.raises(DiagnosticError, match="no such file"):
        load_recipe(recipe, {}, catalogue, tmp_path / "cache")


def test_fifty_files_in_a_circle_and_a_thousand_overlays() -> None:
    for number in range(50):
        write(f"{number}.yaml", f"extends: {(number + 1) % 50}.yaml\n")
    with pytest.raises(DiagnosticError, match=r"49\.yaml:1:10: .* in a circle"):
        read("0.yaml")
    for number in range(100):
        write(f"deep{number}.yaml", f"extends: deep{number + 1}.yaml\n")
    with pytest.raises(DiagnosticError, match="more than 64 files extend one another"):
        read("deep0.yaml")
    overlays = [str(write(f"o{n}.yaml", f"cflags+: [-D{n}]\n")) for n in range(1000)]
    assert len(read("o0.yaml", *overlays[1:])["cflags"]) == 1000


def test_a_base_that_cannot_be_read() -> None:
    write("net.yaml", "extends: base.yaml\n")
    Path("base.yaml").write_bytes(b"\x7fELF\xff\x00")
    with pytest.raises(DiagnosticError, match=r"net\.yaml:1:10: .*base\.yaml: this is a binary"):
        read("net.yaml")
    write("odd.yaml", 'extends: "a\\0b"\n')
    with pytest.raises(DiagnosticError, match=r"odd\.yaml:1:10: .* expected the name of a file"):
        read("odd.yaml")
    write("base.yaml", "x-a: &a [1,1,1,1,1,1,1,1]\n" + "".join(
        f"x-{n}: &{n} [{', '.join([f'*{chr(ord(n) - 1)}'] * 8)}]\n" for n in "bcdefgh"
    ))  # fmt: skip
    with pytest.raises(DiagnosticError, match=r"base\.yaml:\d+:\d+: too much data"):
        read("net.yaml")


def test_origins_of_values(catalogue: Catalog) -> None:
    write("base.yaml", "model: net.onnx\nrun:\n  samples: 2\n")
    recipe = write("net.yaml", "extends: base.yaml\nrun: {samples: 3}\n")
    loaded = load_recipe(recipe, {"samples": "5"}, catalogue)
    shown = read_origins(loaded.layers, loaded.data)
    assert format_history(shown, ("run", "samples")).splitlines() == [
        "run.samples: 5",
        "  base.yaml:3   2",
        "  net.yaml:2    3",
        "  command line  5",
    ]
    text = format_recipe(shown)
    assert re.search(r"^  path: net\.onnx +# base\.yaml:1$", text, re.M)
    assert re.search(r"^platform: \S+ +# default$", text, re.M)
    other = load_recipe(recipe, {"run.seed": "8"}, catalogue)
    assert format_difference(shown, read_origins(other.layers, other.data)) == [
        "run.samples: 5 (command line) -> 3 (net.yaml:2)",
        "run.seed: 0 (default) -> 8 (command line)",
    ]


def test_the_history_of_a_key_has_the_null_that_removed_it(catalogue: Catalog) -> None:
    write("base.yaml", "model: net.onnx\nrun: {samples: 2, seed: 1}\nclock: 1 MHz\n")
    write("between.yaml", "run: null\nclock: null\n")
    recipe = Layers(Path("base.yaml"), (Path("between.yaml"), write("b.yaml", "run: {seed: 7}\n")))
    loaded = load_recipe(recipe, {}, catalogue)
    shown = read_origins(loaded.layers, loaded.data)
    assert shown.list_history(("clock",)) == [("base.yaml:3", "1 MHz"), ("between.yaml:2", None)]
    assert shown.list_history(("counter",)) == []
    assert {*format_history(shown, ("run",)).splitlines()} >= {
        "run.samples: 1",
        "  base.yaml:2     2",
        "  between.yaml:1  null",
        "  default         1",
        "run.seed: 7",
        "  b.yaml:1        7",
    }


def test_the_history_of_a_model_has_the_files_that_state_it_as_a_path(
    catalogue: Catalog,
) -> None:
    write("base.yaml", "model: {path: old.onnx}\n")
    write("between.yaml", "extends: base.yaml\nmodel: null\n")
    recipe = write("net.yaml", "extends: between.yaml\nmodel: other.onnx\n")
    loaded = load_recipe(Layers(recipe, (write("o.yaml", "model: net.onnx\n"),)), {}, catalogue)
    shown = read_origins(loaded.layers, loaded.data)
    assert shown.list_history(("model", "path")) == [
        ("base.yaml:1", {"path": "old.onnx"}),
        ("between.yaml:2", None),
        ("net.yaml:2", "other.onnx"),
        ("o.yaml:1", "net.onnx"),
    ]


@pytest.mark.parametrize("name", sorted(path.name for path in RECIPES.glob("*.yaml")))
def test_a_shown_recipe_is_the_same_recipe(name: str, folder: Path) -> None:
    catalog = make_catalog()
    recipe = load_recipe(RECIPES / name, {}, catalog)
    text = format_recipe(read_origins(recipe.layers, recipe.data))
    shutil.copytree(RECIPES, folder / "recipes")
    shutil.copytree(RECIPES.parent / "examples/digits", folder / "examples/digits")
    again = load_recipe(write("recipes/shown.yaml", text), {}, catalog)
    assert again.canonical == recipe.canonical
    shown = format_recipe(read_origins(again.layers, again.data))
    assert yaml.safe_load(shown) == yaml.safe_load(text)


def test_keys_of_the_command_line() -> None:
    assert {"budget.flash", "quantize.scheme", "model.sha256", "c_prefix"} <= {*list_keys()}
    known = ("budget.flash", "samples", "cflags+", "+cflags", "inputs['a.b'].shape", "memory.arena")
    assert all(map(is_key, known))
    assert not any(
        map(is_key, ("budget.flsh", "budget.flash.x", "", "+", "model..path", "x-a", "extends"))
    )


KEYS = ("run.samples", "run.seed", "cflags", "inputs.x.shape", "model", "budget", "c_prefix")
VALUES: tuple[Any, ...] = (
    None,
    3,
    "text",
    [1],
    ["-a", "-b"],
    {"flash": 3},
    {"a": {"b": None}},
    {},
    [],
)


def make_layer(chance: random.Random) -> dict[str, Any]:
    layer: dict[str, Any] = {}
    for key in chance.sample(KEYS, chance.randint(0, 4)):
        *parents, last = key.split(".")
        holder = layer
        for parent in parents:
            holder = holder.setdefault(parent, {})
        sign = chance.choice(("", "", "", "+", "-"))
        last = {"": last, "+": f"{last}+", "-": f"+{last}"}[sign]
        holder[last] = chance.choice(VALUES[3:5] if sign else VALUES)
    return layer


def tell(finding: Diagnostic) -> str:
    """Return an error of a merge without the list of all files."""
    return str(finding).partition("; the files merge")[0]


def group(names: list[str], chance: random.Random, made: list[int]) -> str:
    """Return a file that extends files in their order, in random groups."""
    if len(names) == 1:
        return names[0]
    cut = chance.randint(1, len(names) - 1)
    halves = [group(part, chance, made) for part in (names[:cut], names[cut:])]
    made.append(len(made))
    return str(write(f"group{len(made)}.yaml", json.dumps({"extends": halves})))


@pytest.mark.parametrize("seed", range(60))
def test_chains_by_chance(seed: int, catalogue: Catalog) -> None:
    """Grouping does not matter, the resolved recipe is stable, and each error has a location."""
    chance = random.Random(seed)
    for _ in range(int(os.environ.get("FIRMWRIGHT_RANDOM_CHAINS", "1"))):
        names = [f"layer{n}.yaml" for n in range(chance.randint(1, 6))]
        for name in names:
            write(name, json.dumps(make_layer(chance)))
        flat = read_chain(Layers(Path(names[0]), tuple(map(Path, names[1:]))))
        grouped = read_chain(Layers(Path(group(names, chance, []))))
        assert grouped.document.data == flat.document.data
        assert [*map(tell, grouped.findings)] == [*map(tell, flat.findings)]
        if not flat.findings:
            resolved = write("resolved.yaml", json.dumps(flat.document.data))
            assert read_chain(Layers(resolved)).document.data == flat.document.data
        try:
            load_recipe(Path(names[-1]), {"budget.flash": "1 KiB"}, catalogue)
        except DiagnosticError as error:
            assert all(d.line or d.path == "command line" for d in error.diagnostics)


def test_the_file_of_several_networks_has_bases_and_overlays(catalogue: Catalog) -> None:
    for name in ("parts/kws.yaml", "vww.yaml"):
        write(name, "model: net.onnx\n")
    write("parts/all.yaml", "networks: {kws: kws.yaml}\nplatform: host\nconcurrent: true\n")
    write("small.yaml", "target: c\n")
    write("door.yaml", "extends: parts/all.yaml\nnetworks: {vww: 'vww.yaml:small.yaml'}\n")
    assert names_networks(Layers(Path("door.yaml")))
    networks = load_networks(Layers(Path("door.yaml")), catalogue)
    assert {name: str(layers) for name, layers in networks.recipes.items()} == {
        "kws": "parts/kws.yaml",
        "vww": "vww.yaml:small.yaml",
    }
    assert networks.concurrent
    assert [*map(str, networks.files)] == ["parts/all.yaml", "door.yaml"]
