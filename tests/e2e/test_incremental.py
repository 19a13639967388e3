"""A change runs the stages that depend on it, and no others."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import onnx
import pytest
from onnx import numpy_helper

from firmwright.ir.records import read_record
from firmwright.stages.objects import Objects
from tests.package_copy import copy_package

from .conftest import ALL_STAGES, ROOT, Repository, ran

pytestmark = pytest.mark.fresh

RECIPE = "recipe=digits.yaml"
PROBE = """
import sys
from doit.doit_cmd import DoitMain
code = DoitMain().run(["build", "recipe=digits.yaml"])
heavy = {"tvm", "onnx", "jsonschema", "jinja2", "unicorn", "numpy"}
print("loaded", sorted(heavy & set(sys.modules)))
sys.exit(code)
"""

LOGGED_IMPORTS = """
import sys
from pathlib import Path

class Log:
    def find_spec(self, name, *_):
        with Path(__file__).with_name("imports.txt").open("a") as log:
            print(name, file=log)

sys.meta_path.insert(0, Log())
"""
"""A module that every Python process imports at its start."""


def test_second_build_runs_nothing_and_loads_nothing_heavy(built: Repository) -> None:
    built.run(sys.executable, "-c", PROBE)  # its sys.path differs from the sys.path of the build
    done = built.run(sys.executable, "-c", PROBE)
    assert done.returncode == 0, done.stderr
    assert "loaded []" in done.stdout
    assert ran(done.stdout) == []


def test_comment_or_order_in_the_recipe_runs_nothing(copy_of_built: Repository) -> None:
    lines = (copy_of_built.folder / "digits.yaml").read_text().splitlines()
    copy_of_built.build(RECIPE)  # this build reads the new files of the copy once
    copy_of_built.write("digits.yaml", "# why\n" + "\n".join(reversed(lines)) + "\n")
    assert copy_of_built.build(RECIPE) == []


def test_copied_build_folder_is_still_good(copy_of_built: Repository) -> None:
    assert copy_of_built.build(RECIPE) == []


def test_compiler_flag_runs_objects_and_later(copy_of_built: Repository) -> None:
    recipe = (copy_of_built.folder / "digits.yaml").read_text()
    copy_of_built.write("digits.yaml", recipe + "cflags: [-Os]\n")
    # The sources contain a Makefile with the flags.
    assert copy_of_built.build(RECIPE) == ["sources", "objects", "firmware", *ALL_STAGES[-3:]]


def test_a_weight_compiles_only_the_files_that_tell_it(copy_of_built: Repository) -> None:
    listed = copy_of_built.folder / "build/digits/rv32-bare/objects/objects.json"
    before = read_record(listed, Objects).objects
    path = copy_of_built.folder / "digits.onnx"
    model = onnx.load(path)
    weight = next(each for each in model.graph.initializer if len(each.dims) == 4)
    values = numpy_helper.to_array(weight).copy()
    values.flat[0] ^= 1
    weight.CopyFrom(numpy_helper.from_array(values, weight.name))
    onnx.save(model, path)
    copy_of_built.build(RECIPE)
    after = read_record(listed, Objects).objects
    changed = {name for name, made in after.items() if made.key != before[name].key}
    network = {"network/network_weights.c", "network/network_info.c"}
    assert changed == {*network, "demo/main.c"}


@pytest.mark.needs("gcc")
def test_an_archive_of_a_toolchain_is_an_input(repository: Repository) -> None:
    archive = repository.folder / "libvalue.a"
    source = repository.write("value.c", "int value = 1;\n")
    words = f'libraries: [-lm, "-Wl,--undefined=value", {archive}]'
    text = (ROOT / "toolchains/gcc.yaml").read_text("utf-8")
    repository.write(
        "own.yaml", text.replace("name: gcc", "name: own").replace("libraries: [-lm]", words)
    )

    def write_archive() -> None:
        for command in ("gcc -c value.c -o value.o", "ar rcs libvalue.a value.o"):
            subprocess.run(command.split(), cwd=repository.folder, check=True)

    write_archive()
    build = (RECIPE, "platform=host", "toolchain=./own.yaml")
    assert "firmware" in repository.build(*build)
    assert repository.build(*build) == []
    source.write_text("int value = 2;\n")
    write_archive()
    assert "firmware" in repository.build(*build)


def test_samples_run_only_the_run(copy_of_built: Repository) -> None:
    stages = ["samples", "reference", "run", "stats", "bundle"]
    assert copy_of_built.build(RECIPE, "samples=2") == stages


def test_application_template_leaves_kernels_alone(
    copy_of_built: Repository, tmp_path: Path
) -> None:
    package = copy_package(tmp_path / "site")
    copy_of_built.environment["PYTHONPATH"] = str(package.parent)
    copy_of_built.build(RECIPE)
    main = package / "templates" / "application" / "main.c.j2"
    assert copy_of_built.build(RECIPE) == []
    text = main.read_text()
    main.write_text(text.replace("demonstration program", "example program"))
    # Even a comment changes the build id, and therefore the firmware.
    assert copy_of_built.build(RECIPE) == ["sources", "objects", "firmware", "run", "bundle"]


@pytest.mark.parametrize(
    ("stage", "name"),
    [
        ("model", "module.json"),
        ("rv32-bare/kernels", "weights.npz"),
        ("rv32-bare/sources", "network/network.c"),
        ("rv32-bare/objects", "network/network.o"),
        ("rv32-bare/firmware", "firmware.elf"),
        (".", "digits-rv32-bare.tar.gz"),
    ],
)
def test_damaged_result_is_made_again(
    copy_of_built: Repository, built: Repository, stage: str, name: str
) -> None:
    damaged = copy_of_built.folder / "build/digits" / stage / name
    status = damaged.stat()
    damaged.write_bytes(bytes(b ^ 1 for b in damaged.read_bytes()))  # same size …
    os.utime(damaged, ns=(status.st_atime_ns, status.st_mtime_ns))  # … same time
    # The damaged stage writes its old result again, so no other stage runs.
    assert copy_of_built.build(RECIPE) == [stage.rsplit("/", 1)[-1].replace(".", "bundle")]
    bundle = "build/digits/digits-rv32-bare.tar.gz"
    assert (copy_of_built.folder / bundle).read_bytes() == (built.folder / bundle).read_bytes()


def test_changed_input_under_an_old_time_is_noticed(copy_of_built: Repository) -> None:
    path = copy_of_built.folder / "digits.onnx"
    copy_of_built.build(RECIPE)
    status = path.stat()
    path.write_bytes(path.read_bytes().replace(b"depthwise", b"depthWISE"))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert copy_of_built.build(RECIPE)[0] == "model"


def test_another_spelling_of_a_path_is_the_same_file(copy_of_built: Repository) -> None:
    assert copy_of_built.build("recipe=./digits.yaml") == []
    recipe = (copy_of_built.folder / "digits.yaml").read_text()
    copy_of_built.write("digits.yaml", recipe.replace("model: digits", "model: ./digits"))
    # The model is the same; only the resolved recipe, and so the manifest, may change.
    assert "model" not in copy_of_built.build(RECIPE)


def test_touched_input_runs_nothing(copy_of_built: Repository) -> None:
    (copy_of_built.folder / "digits.onnx").touch()
    assert copy_of_built.build(RECIPE) == []


def test_forget_runs_everything_and_clean_removes_everything(copy_of_built: Repository) -> None:
    assert copy_of_built.doit("forget", "--all", RECIPE).returncode == 0
    assert copy_of_built.build(RECIPE) == ALL_STAGES
    assert copy_of_built.doit("clean", "--clean-all", RECIPE).returncode == 0
    assert not (copy_of_built.folder / "build/digits").exists()
    assert copy_of_built.build(RECIPE) == ALL_STAGES


@pytest.mark.parametrize("program", ["doit", "firmwright"])
def test_of_the_recipes_that_are_named_every_stage_is_forgotten(
    copy_of_built: Repository, program: str
) -> None:
    words = (RECIPE, "compare=c")
    copy_of_built.write("other.yaml", "model: digits.onnx\nplatform: cortex-m4-bare\n")
    copy_of_built.build("recipe=other.yaml")
    built = copy_of_built.build(*words)
    done = copy_of_built.start(program, "forget", *words)
    assert done.returncode == 0, done.stderr
    assert "forgetting objects:digits-compared-rv32-bare\n" in done.stdout
    assert "forgetting objects:other-cortex-m4-bare\n" not in done.stdout
    assert copy_of_built.build("recipe=other.yaml") == []
    assert {*built, *ALL_STAGES} == {*copy_of_built.build(*words)}


def test_killed_build_keeps_what_is_finished(repository: Repository) -> None:
    command = [sys.executable, "-u", "-m", "doit", "build", RECIPE]
    with subprocess.Popen(
        command, cwd=repository.folder, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if "✓ sources" in line:
                process.kill()
    assert process.returncode == -signal.SIGKILL
    resumed = repository.build(RECIPE)
    assert resumed == ["objects", *ALL_STAGES[-5:]]


@pytest.mark.parametrize(
    ("number", "ending"),
    [
        (signal.SIGINT, "interrupted"),
        (signal.SIGTERM, "ended by SIGTERM"),
        (signal.SIGHUP, "ended by SIGHUP"),
    ],
)
def test_a_signal_ends_a_build_with_one_line(
    repository: Repository, number: signal.Signals, ending: str
) -> None:
    command = [sys.executable, "-u", "-m", "doit", "build", RECIPE]
    with subprocess.Popen(
        command,
        cwd=repository.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if "✓ sources" in line:
                break
        while not any((repository.folder / "build").rglob("*.o")):  # other files are being compiled
            time.sleep(0.001)
        process.send_signal(number)
        _, errors = process.communicate(timeout=120)
    assert process.returncode == 128 + number
    assert errors.strip() == f"{ending}; finished stages are kept"
    assert repository.build(RECIPE)[0] == "objects"


def test_damaged_state_is_started_afresh(copy_of_built: Repository) -> None:
    (copy_of_built.folder / "build/.doit.db").write_bytes(b"no database" * 10)
    done = copy_of_built.doit("build", RECIPE)
    assert (done.returncode, ran(done.stdout)) == (0, ALL_STAGES)
    assert done.stderr.strip() == "build/.doit.db is damaged: all stages run again"


def test_second_build_in_the_same_folder_waits_for_the_first(repository: Repository) -> None:
    command = [sys.executable, "-m", "doit", "build", RECIPE]
    builds = [
        subprocess.Popen(
            command,
            cwd=repository.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    results = [b.communicate(timeout=300) for b in builds]
    assert [b.returncode for b in builds] == [0, 0]
    assert sorted(len(ran(out)) for out, _ in results) == [0, len(ALL_STAGES)]
    assert sorted(err.strip() for _, err in results) == ["", "waiting for another build in build"]


def test_input_edited_during_its_stage_is_not_counted_as_built(tmp_path: Path) -> None:
    from firmwright.errors import UserError
    from firmwright.pipeline.freshness import InputWatch

    path = tmp_path / "input"
    path.write_text("before")
    watched = InputWatch([str(path)])
    watched.check()
    path.write_text("after")
    with pytest.raises(UserError, match="changed while it was being read"):
        watched.check()


def test_platforms_share_what_does_not_depend_on_them(copy_of_built: Repository) -> None:
    stages = copy_of_built.build(RECIPE, "platform=host")
    assert stages == [
        "partition",
        "kernels",
        "advice",
        "plan",
        "sources",
        "objects",
        "firmware",
        "reference",
        "run",
        "bundle",
    ]
    assert copy_of_built.build(RECIPE) == []


def test_outdir_moves_the_build_folder(repository: Repository) -> None:
    assert repository.build(RECIPE, "outdir=elsewhere") == ALL_STAGES
    assert (repository.folder / "elsewhere/digits-rv32-bare.tar.gz").exists()
    assert not (repository.folder / "build").exists()
    assert repository.build(RECIPE, "outdir=elsewhere") == []


def test_two_recipes_in_one_command(repository: Repository) -> None:
    repository.write("other.yaml", (repository.folder / "digits.yaml").read_text())
    stages = repository.build("recipe=digits.yaml,other.yaml")
    assert sorted(stages) == sorted(ALL_STAGES * 2)
    assert (repository.folder / "build/other/other-rv32-bare.tar.gz").exists()


def test_builds_side_by_side_import_tvm_once(repository: Repository) -> None:
    repository.write("other.yaml", (repository.folder / "digits.yaml").read_text())
    repository.write("sitecustomize.py", LOGGED_IMPORTS)
    repository.environment["PYTHONPATH"] = str(repository.folder)
    words = ("-n", "2", "build", "recipe=digits.yaml,other.yaml")
    done = repository.doit(*words)
    assert sorted(ran(done.stdout)) == sorted(ALL_STAGES * 2), done.stderr
    assert (repository.folder / "imports.txt").read_text().split().count("tvm") == 1


def test_command_line_tool_builds_without_a_task_file(repository: Repository) -> None:
    (repository.folder / "dodo.py").unlink()
    tool = str(Path(sys.executable).with_name("firmwright"))
    words = ("digits.yaml", "--platform", "cortex-m4-bare")
    done = repository.run(tool, "build", *words, "-n", "2")
    assert done.returncode == 0, done.stderr
    assert (repository.folder / "build/digits/digits-cortex-m4-bare.tar.gz").exists()
    listed = repository.run(tool, "list", "digits.yaml").stdout
    assert all(f"{stage}:digits" in listed for stage in ALL_STAGES)
    info = repository.run(tool, "info", *words, "--task", "plan")
    assert "up-to-date" in info.stdout


def test_the_command_line_tool_has_an_option_for_every_variable() -> None:
    from firmwright.cli import VARIABLES
    from firmwright.pipeline import command_line
    from firmwright.pipeline.profile import LOG

    single = LOG, command_line.SCHEDULER, command_line.UPDATE
    assert {"recipe", *command_line.SWITCHES, *single, *VARIABLES} == set(command_line.VARIABLES)


def test_a_changed_rule_counts_as_changed_code(tmp_path: Path) -> None:
    from firmwright.pipeline.code_digest import code_digest

    (tmp_path / "rules.yaml").write_text("operators: []\n")
    before = code_digest((tmp_path,))
    code_digest.cache_clear()
    (tmp_path / "notes.txt").write_text("no code\n")
    assert code_digest((tmp_path,)) == before
    code_digest.cache_clear()
    (tmp_path / "rules.yaml").write_text("operators: [1]\n")
    assert code_digest((tmp_path,)) != before


def test_another_version_of_a_library_runs_every_stage_again(
    copy_of_built: Repository, tmp_path: Path
) -> None:
    described = tmp_path / "packages/jinja2-99.0.dist-info/METADATA"
    described.parent.mkdir(parents=True)
    described.write_text("Metadata-Version: 2.1\nName: jinja2\nVersion: 99.0\n")
    copy_of_built.environment["PYTHONPATH"] = str(tmp_path / "packages")
    assert copy_of_built.build(RECIPE) == ALL_STAGES
    manifest = copy_of_built.manifest("build/digits/digits-rv32-bare.tar.gz")
    assert manifest["versions"]["jinja2"] == "99.0"
