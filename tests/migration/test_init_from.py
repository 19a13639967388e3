"""Settings of other tools become recipes. Errors are one line, and no script runs."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from firmwright import cli
from firmwright.errors import UserError
from firmwright.migration.draft import CONVERTERS, load_rules
from firmwright.migration.recipe_file import write_converted
from firmwright.migration.source_formats import FORMATS
from firmwright.pipeline.command_line import make_catalog

FILES = Path(__file__).parent / "files"
RECIPES = Path(__file__).parent / "recipes"
ROOT = Path(__file__).parents[2]
TFLITE = b"\x1c\0\0\0TFL3" + bytes(range(8))
ARRAY = ", ".join(f"{byte:#04x}" for byte in TFLITE)
SOURCES = {
    "afe": "afe.py",
    "array": "array.cc",
    "deeploy": "deeploy.sh",
    "htvm": "htvm.py",
    "impulse": "impulse",
    "mlconf": "kws.mlconf",
    "onnx2c": "onnx2c.sh",
    "platformio": "platformio.ini",
    "ti": "ti.py",
    "tidl": "options.yaml",
    "tvmc": "compile.sh",
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Copy the files to a folder. A stored script ends in ``.txt``, so that no tool checks it."""
    shutil.copytree(FILES, tmp_path, dirs_exist_ok=True)
    for path in tmp_path.glob("*.py.txt"):
        path.rename(path.with_suffix(""))
    for name in ("array.cc", "impulse/tflite-model/tflite_learn_3.h"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        size = len(TFLITE)
        path.write_text(
            f"/* a model */\nconst unsigned char g_net[] __attribute__((aligned(16))) = {{\n"
            f"{ARRAY} }};\nunsigned int g_net_len = {size};\n"
        )
    monkeypatch.chdir(tmp_path)
    return tmp_path


def convert(source: str, **stated: str) -> str:
    """Return the text of the recipe of a source."""
    return write_converted(source, stated)[0][0].read_text()


def read(source: str, **stated: str) -> Mapping[str, Any]:
    data: Mapping[str, Any] = yaml.safe_load(convert(source, **stated))
    return data


@pytest.mark.parametrize("name", SOURCES)
def test_a_recipe_keeps_all_settings(name: str) -> None:
    """Compare with tests/migration/recipes: each setting is a key or a comment there."""
    stated = {"model": "net.onnx"} if name in ("htvm", "platformio") else {}
    assert convert(SOURCES[name], **stated) == (RECIPES / f"{name}.txt").read_text()


def test_a_model_in_c_is_written_whole(folder: Path) -> None:
    written, errors = write_converted("array.cc", {})
    assert [*map(str, written)] == ["net.yaml", "net.tflite"]
    assert ((folder / "net.tflite").read_bytes(), errors) == (TFLITE, [])


def test_the_last_line_is_the_command_of_the_build(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["init", "--from", "array.cc"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "Build with: firmwright build net.yaml"


def test_errors_of_the_recipe_are_left_for_the_user() -> None:
    _, errors = write_converted("compile.sh", {})
    assert [error.partition(";")[0] for error in errors] == [
        "net.yaml:3:8: model: no such file: '../net.tflite'"
    ]


def test_a_command_names_the_file_of_its_options() -> None:
    Path("cfg.yaml").write_text("compile_options:\n  tensor_bits: 16\n")
    command = "tvmc compile a.onnx --target=tidl --tidl-config cfg.yaml --c7x-codegen 1"
    device = {"device": "tidl", "options": {"tensor_bits": 16}}
    found = {"model": "a.onnx", "target": [device, "c7x"], "c_prefix": "tvmgen_default"}
    assert read(command) == found


def test_values_of_the_command_line_replace_those_of_the_file() -> None:
    assert read("compile.sh", platform="host", model="a.tflite")["platform"] == "host"


def test_a_script_with_several_values_is_not_guessed() -> None:
    Path("a.py").write_text(
        "import afe\nfor size in (1, 2):\n    m.compile(batch_size=size)\nonnx_source('a.onnx')\n"
    )
    text = convert("a.py")
    assert "batch:" not in text
    assert "# a.py:3: compile.batch_size 'size': computed by the script; state `batch`\n" in text


def test_a_model_of_the_command_line_is_the_only_one() -> None:
    Path("given.tflite").write_bytes(TFLITE)
    written, _ = write_converted("array.cc", {"model": "given.tflite"})
    assert [*map(str, written)] == ["given.yaml"]
    assert yaml.safe_load(Path("given.yaml").read_text())["model"] == "given.tflite"


@pytest.mark.parametrize(
    "command",
    ["onnx2c a.onnx;", "onnx2c a.onnx; echo b.onnx", "$ onnx2c a.onnx", "onnx2c \\\n a.onnx"],
)
def test_the_words_of_a_shell_end_a_command(command: str) -> None:
    Path("a.sh").write_text(f"{command}\n")
    assert read("a.sh")["model"] == "a.onnx"


@pytest.mark.parametrize(
    "text",
    [
        "Compile by `tvmc compile --target c a.onnx` or don't.\n",
        "tvmc compile --help\nIf it isn't there: tvmc\n$ tvmc compile a.onnx\n",
        'docker run \\\n image bash -c "tvmc compile \\\n --target \\"c -keys=cpu\\" a.onnx && ls"',
        "MODEL := a.onnx\nout.tar: $(MODEL)\n\ttvmc compile $(MODEL) --output $@\n",
        "onnx2c top level README\n - onnx2c built\n\t../../onnx2c -quantize a.onnx > a.c\n",
    ],
)
def test_a_command_is_found_in_other_text(text: str) -> None:
    Path("a.txt").write_text(text)
    assert {**read("a.txt"), "c_prefix": ""} == {"model": "a.onnx", "c_prefix": ""}


def test_numbers_are_keys_in_labels_of_ti() -> None:
    Path("ti.yaml").write_text(
        "metric:\n  label_offset_pred:\n    -1: 0\nsession:\n"
        "  model_path: a.onnx\n  session_name: onnxrt\n"
    )
    text = convert("ti.yaml")
    assert yaml.safe_load(text)["target"] == "tidl, c"
    assert "# ti.yaml:3: metric.label_offset_pred.-1 '0': " in text


def test_a_model_in_the_arguments_of_an_importer() -> None:
    Path("a.py").write_text(
        "import afe\n\ndef load(*args, **kwargs):\n    return onnx_source(*args, **kwargs)\n\n"
        "args = {'model_path': ''}\nargs['model_path'] = 'a.onnx'\nload_model(load(**args))\n"
    )
    assert read("a.py")["model"] == "a.onnx"


def test_an_export_of_eon_gives_its_other_settings(folder: Path) -> None:
    shutil.rmtree(folder / "impulse/tflite-model")
    with pytest.raises(UserError, match=r"names no model \(impulse\S+: EON compiled the model"):
        convert("impulse")
    (folder / "given.tflite").write_bytes(TFLITE)
    assert read("impulse", model="given.tflite").keys() > {"model", "description"}


def test_a_name_that_is_unpacked_is_no_text() -> None:
    Path("a.py").write_text("import afe\nname, n = 'a.onnx', 4\nonnx_source(name)\n")
    with pytest.raises(UserError, match=r"names no model"):
        convert("a.py")


def test_options_of_htvm_keep_their_names() -> None:
    command = "tvmc compile a.onnx --target 'soma_dory -layout_transform=0, c'"
    device, _ = read(command)["target"]
    assert device["options"].keys() == {"layout_transform"}


def test_the_script_of_the_page_about_afe_is_recognized() -> None:
    page = (ROOT / "docs/migration/sima.md").read_text("utf-8")
    script = page.partition("```python\n")[2].partition("```")[0]
    Path("page.py").write_text(script)
    found = read("page.py")
    assert (found["model"], found["platform"], found["batch"]) == ("net.onnx", "modalix", 16)
    assert not found["quantize"]["bias_correction"]


BAD: Mapping[str, tuple[str, bytes, str]] = {
    "binary": ("a.sh", b"\x7fELF\xff", "a.sh:1: not a text file in UTF-8"),
    "zero byte": ("a.sh", b"x\ny\0", "a.sh:2: not a text file in UTF-8"),
    "unknown": ("a.txt", b"hello\n", "a.txt: unknown format; expected "),
    "no model for HTVM": (
        "a.py", b"tvmc_compile_and_unpack(mod, target='c')\n", "a.py: names no model (a.py:1: a T",
    ),
    "a model": ("a.onnx", b"\0", "a.onnx: this is a model; write `firmwright init a.onnx`"),
    "syntax": ("a.py", b"import afe\nx = = 1\n", "a.py:2: not Python: invalid syntax"),
    "deep": ("a.py", b"import afe\nx = " + b"(" * 5000 + b"1" + b")" * 5000, "a.py:"),
    "zero bytes in Python": ("a.py", b"import afe\n\0", "a.py:2: not a text file"),
    "other YAML": ("a.yaml", b"a: 1\n", "a.yaml: unknown format"),
    "wrong YAML": ("a.yaml", b"compile_options:\n  a: 1\n  a: 2\n", "a.yaml:3: "),
    "list": ("a.mlconf", b"- a\n", "a.mlconf:1: expected a mapping"),
    "no model": ("a.mlconf", b"model:\n", "a.mlconf: names no model; write `firmwright init MODEL"),
    "quotes": ("a.sh", b"x\ntvmc compile 'a.onnx\n", "a.sh:2: not a command: no closing "
    "quotation; check its quotes"),
    "two commands": (
        "a.sh", b"onnx2c a.onnx\nonnx2c b.onnx\n", "a.sh:2: line 1 also has a command of this",
    ),
    "two models": (
        "a.sh", b"tvmc compile \\\n a.onnx \\\n b.onnx\n",
        "a.sh:3: model: 'b.onnx' contradicts 'a.onnx' of a.sh:2; keep one of them",
    ),
    "two cores": (
        "a.sh", b"tvmc compile a.onnx --target-c-mcpu=cortex-m4 --target-x-mcpu=cortex-m7\n",
        "a.sh:1: platform: 'cortex-m7-bare' contradicts 'cortex-m4-bare' of a.sh:1",
    ),
    "on and off": (
        "a.sh", b"tvmc compile a.onnx --target=tidl \\\n --enable-tidl-offload 0\n",
        "a.sh:2: tidl: 'False' contradicts 'True' of a.sh:1; keep one of them",
    ),
    "INI": ("a.ini", b"[env:a]\nboard\n", "a.ini:2: not an INI file"),
    "no TFLite": ("a.h", b"char a[] = {1, 2};\n", "a.h:1: no array of bytes is a TFLite model"),
    "cut": (
        "a.h", f"char a[] = {{{ARRAY}}};\nint a_len = 99;\n".encode(),
        "a.h:1: 'a' has 16 bytes; the file states 99: copy it whole",
    ),
    "no byte": ("a.h", b"char a[] = {1,\n MORE};\n", "a.h:2: expected a byte, found 'MORE'"),
    "zero first": ("a.h", b"char a[] = {010};\n", "a.h:1: expected a byte, found '010'"),
    "too large": ("a.h", b"char a[] = {300};\n", "a.h:1: expected a byte, found '300'"),
    "two arrays": (
        "a.h", f"char a[] = {{{ARRAY}}};\nchar b[] = {{{ARRAY}}};\n".encode(),
        "a.h:2: a second model; the first is 'a'; keep one",
    ),
}  # fmt: skip
"""Files, each with its name, its content and the start of the message."""


@pytest.mark.parametrize("case", BAD)
def test_bad_input_ends_in_one_line(
    case: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name, content, message = BAD[case]
    before = {*folder.iterdir(), folder / name}
    Path(name).write_bytes(content)
    assert cli.main(["init", "--from", name]) == 1
    error = capsys.readouterr().err
    assert re.sub(r"(:\d+):\d+:", r"\1:", error, count=1).startswith(message)
    assert error.count("\n") == 1
    assert {*folder.iterdir()} == before


@pytest.mark.parametrize("command", ["stedgeai generate -m a.onnx", "vela a.tflite"])
def test_commands_of_other_tools_name_their_page(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["init", "--from", command]) == 1
    tool = command.split()[0]
    assert f"; {tool}: `firmwright init MODEL` writes a recipe; see " in capsys.readouterr().err


def test_a_notebook_is_saved_as_a_script_first(capsys: pytest.CaptureFixture[str]) -> None:
    Path("a.ipynb").write_text('{"cells": [], "nbformat": 4}')
    assert cli.main(["init", "--from", "a.ipynb"]) == 1
    assert "jupyter nbconvert --to script" in capsys.readouterr().err


def test_files_that_do_not_fit(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Path("huge.sh").open("wb") as file:
        file.truncate((64 << 20) + 1)
    (folder / "net.yaml").write_text("mine")
    for words, message in (
        (("huge.sh",), "huge.sh: larger than 64 MiB; name a configuration file\n"),
        (("gone.sh",), "gone.sh: cannot be read: No such file or directory; check"),
        (("compile.sh",), "net.yaml: exists already; remove it, or convert in another folder\n"),
    ):
        assert cli.main(["init", "--from", *words]) == 1
        assert capsys.readouterr().err.startswith(message)
    assert (folder / "net.yaml").read_text() == "mine"


def test_init_needs_a_model_or_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["init"]) == 1
    assert capsys.readouterr().err == "init: expected MODEL, or --from FILE\n"


def test_rules_name_what_exists() -> None:
    """Each format has rules, and each rule names a device, a platform and a converter."""
    catalog = make_catalog()
    assert {each.name for each in FORMATS} == {*load_rules()}
    for rules in load_rules().values():
        for rule in rules.values():
            assert rule.reason or rule.key or rule.use or rule.option
            assert not rule.convert or rule.convert in CONVERTERS
            assert {rule.use, rule.option} <= {"", *catalog.devices}
            assert not rule.name or rule.name in catalog.devices[rule.option].options
            if rule.key == "platform" and rule.values:
                assert {*rule.values.values()} <= {*catalog.platforms}


@pytest.mark.parametrize("text", ["", "   ", "tvmc", "onnx2c", "[", "compile_options:", "\\", "'"])
def test_any_short_text_is_a_recipe_or_an_error(text: str) -> None:
    for suffix in (".sh", ".py", ".yaml", ".ini", ".h", ".mlconf"):
        path = Path(f"short{suffix}")
        path.write_text(text)
        with pytest.raises(UserError):
            write_converted(str(path), {})
