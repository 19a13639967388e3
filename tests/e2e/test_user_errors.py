"""A user's error results in one clear message without a traceback, and keeps the last bundle."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from .conftest import ROOT, Repository, ran

FLOAT = TensorProto.FLOAT


def save(
    path: Path, nodes: list[onnx.NodeProto], shape: Sequence[int | str], out: list[int]
) -> None:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", FLOAT, shape)],
        [helper.make_tensor_value_info("y", FLOAT, out)],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("acme", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)


def fail(repository: Repository, *arguments: str) -> str:
    """Build, check that it fails without a traceback, and return the output."""
    done = repository.doit("build", *arguments)
    text = done.stdout + done.stderr
    assert done.returncode == 1, text
    assert "Traceback" not in text
    return text


def fail_with(repository: Repository, recipe: str, *arguments: str) -> str:
    repository.write("r.yaml", recipe)
    return fail(repository, "recipe=r.yaml", *arguments)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("m.onnx", b"hello", "not an ONNX model, or a truncated one; fetch or export it again"),
        ("m.onnx", b"", "not an ONNX model: it has no graph; "),
        ("m.tflite", b"hello", "not a TFLite model (no 'TFL3' mark at byte 4); export it again"),
        ("m.tflite", b"\x1c\0\0\0TFL3" + b"\xff" * 64, "a damaged TFLite model: "),
    ],
)
def test_file_that_is_no_model(
    repository: Repository, name: str, content: bytes, message: str
) -> None:
    (repository.folder / name).write_bytes(content)
    text = fail_with(repository, f"model: {name}\n")
    assert f"r.yaml:1:8: model: {name}: {message}" in text
    assert text.endswith(("export it again\n", "fetch it again\n"))


def test_truncated_model(repository: Repository) -> None:
    whole = (repository.folder / "digits.onnx").read_bytes()
    (repository.folder / "m.onnx").write_bytes(whole[: len(whole) // 2])
    assert "m.onnx: not an ONNX model, or a truncated one" in fail_with(
        repository, "model: m.onnx\n"
    )


def test_names_in_a_model_do_not_control_the_terminal(repository: Repository) -> None:
    model = onnx.load(repository.folder / "digits.onnx")
    model.graph.node[3].op_type = "No\x1b[2JSuch\u202e"
    onnx.save(model, repository.folder / "m.onnx")
    text = fail_with(repository, "model: m.onnx\n")
    assert r"No Op registered for No\u001b[2JSuch\u202e" in text
    assert "\x1b" not in text


def test_wrong_digest_shows_both(repository: Repository) -> None:
    text = fail_with(repository, f"model: {{path: digits.onnx, sha256: '{'a' * 64}'}}\n")
    assert text.startswith("r.yaml:1:36: model.sha256: digits.onnx: wrong digest")
    assert f"expected sha256 {'a' * 64}" in text
    assert "found    sha256 6b26fd07" in text
    assert "if it is the right one, state the digest that was found" in text


def test_download_that_fails_names_the_mirror(repository: Repository) -> None:
    url = "http://127.0.0.1:9/m.onnx"
    text = fail_with(repository, f"model: {{url: '{url}', sha256: '{'a' * 64}'}}\n")
    failure = "the server does not answer (Connection refused)"
    assert f"r.yaml:1:8: model: {url}: cannot download the model: {failure}; try again, or " in text
    assert "FIRMWRIGHT_MIRROR" in text


def test_mirror_serves_by_content_not_by_name(repository: Repository) -> None:
    mirror = repository.folder / "mirror"
    mirror.mkdir()
    (mirror / "m.onnx").write_bytes(b"another file of that name")
    (repository.folder / "digits.onnx").rename(mirror / "renamed.bin")
    repository.environment["FIRMWRIGHT_MIRROR"] = f"{repository.folder / 'none'}:{mirror}"
    (repository.folder / "none").mkdir()
    digest = "6b26fd07cdeec490db7a151fe8c2b9bd5fcd0d8d3fb16415422ea5d11ee92c26"
    recipe = f"model: {{url: 'http://127.0.0.1:9/m.onnx', sha256: '{digest}'}}\n"
    repository.write("r.yaml", recipe)
    assert "bundle" in repository.build("recipe=r.yaml", "platform=host")


def test_dynamic_shapes_ask_for_fixed_ones(repository: Repository) -> None:
    save(repository.folder / "m.onnx", [helper.make_node("Relu", ["x"], ["y"])], ["N", 3], [1, 3])
    text = fail_with(repository, "model: m.onnx\n")
    assert "dynamic input shapes" in text
    assert "x: ['N', 3]" in text
    assert "state them in the recipe, e.g. `inputs: {x: {shape: [1, …]}}`" in text
    repository.write("r.yaml", "model: m.onnx\ninputs: {x: {shape: [1, 3]}}\n")
    assert "bundle" in repository.build("recipe=r.yaml", "platform=host")


def test_unsupported_operators_are_named_all_at_once(repository: Repository) -> None:
    nodes = [
        helper.make_node("Foo", ["x"], ["a"], name="first", domain="acme"),
        helper.make_node("Bar", ["a"], ["y"], name="second", domain="acme"),
    ]
    save(repository.folder / "m.onnx", nodes, [1, 3], [1, 3])
    text = fail_with(repository, "model: m.onnx\n")
    assert "r.yaml:1:8: model: m.onnx: operators that cannot be compiled:\n" in text
    assert "acme.Foo (node 'first')" in text
    assert "acme.Bar (node 'second')" in text
    assert "export the model with other operators, or end it before these operators" in text


def test_an_output_whose_size_depends_on_the_data_is_refused(repository: Repository) -> None:
    nodes = [helper.make_node("NonZero", ["x"], ["i"], name="where")]
    nodes += [helper.make_node("Cast", ["i"], ["y"], to=FLOAT)]
    save(repository.folder / "m.onnx", nodes, [1, 3], [2, 3])
    text = fail_with(repository, "model: m.onnx\n")
    sentence = (
        "r.yaml:1:8: model: m.onnx: output 'y' has no static shape; firmware needs fixed shapes: "
    )
    assert f"{sentence}end the model before NonZero (node 'where')\n" in text


def test_arena_larger_than_ram_names_the_largest_buffers(repository: Repository) -> None:
    nodes = [
        helper.make_node("MaxPool", ["x"], ["a"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        helper.make_node("MaxPool", ["a"], ["b"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        helper.make_node("MaxPool", ["b"], ["y"], kernel_shape=[256, 256]),
    ]
    save(repository.folder / "m.onnx", nodes, [1, 4, 256, 256], [1, 4, 1, 1])
    text = fail_with(repository, "model: m.onnx\n")
    # Two buffers of 1 MiB in the arena, the input, four output floats, and the stack.
    needed = 2 * 1048576 + 1048576 + 16 + 16384
    assert f"does not fit rv32-bare: it needs {needed:,} bytes of RAM" in text
    assert f"1,048,576 are available, {needed - 1048576:,} too few" in text
    assert "1,048,576 bytes  input 'x'" in text
    assert text.count(" bytes  ") == 5


def test_model_of_several_samples_is_told_how_many_fit(repository: Repository) -> None:
    nodes = [helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[4, 4], strides=[4, 4])]
    save(repository.folder / "m.onnx", nodes, [8, 4, 256, 256], [8, 4, 64, 64])
    text = fail_with(repository, "model: m.onnx\n")
    # A sample needs 1 MiB + 64 KiB, in addition to the stack.
    assert "the model computes 8 samples at once, and about 0 would fit" in text
    save(repository.folder / "m.onnx", nodes, [8, 1, 256, 256], [8, 1, 64, 64])
    text = fail_with(repository, "model: m.onnx\n")
    assert "about 3 would fit: export it with a batch of 3" in text


def test_weights_larger_than_flash_are_named(repository: Repository) -> None:
    platform = (ROOT / "toolchains/platforms/rv32-bare.yaml").read_text(encoding="utf-8")
    platform = platform.replace("size: 4 MiB", "size: 2 KiB").replace("rv32-bare", "small", 1)
    repository.write("small.yaml", platform)
    text = fail_with(repository, "model: digits.onnx\nplatform: small.yaml\n")
    assert "does not fit small: its weights need " in text
    assert " bytes of flash; 2,048 are available; the largest:" in text
    assert text.count(" bytes  weights of region_") == 5


def test_arena_larger_than_addresses_is_refused_where_memory_has_no_end(
    repository: Repository,
) -> None:
    shape = [1, 1, 16384, 12288]
    nodes = [
        helper.make_node("Abs", ["x"], ["a"]),
        helper.make_node("Sqrt", ["a"], ["b"]),
        helper.make_node("GlobalMaxPool", ["b"], ["c"]),
        helper.make_node("Sub", ["a", "c"], ["d"]),
        helper.make_node("GlobalMaxPool", ["d"], ["y"]),
    ]
    save(repository.folder / "m.onnx", nodes, shape, [1, 1, 1, 1])
    text = fail_with(repository, "model: m.onnx\n", "platform=host")
    assert "does not fit host: it needs " in text
    assert "2,147,483,647 are available" in text
    assert "805,306,368 bytes  input 'x'" in text


def test_mismatch_names_output_index_and_both_values(repository: Repository) -> None:
    # The compiler flag replaces a function in the firmware, so its result is not the reference.
    save(repository.folder / "m.onnx", [helper.make_node("Floor", ["x"], ["y"])], [1, 4], [1, 4])
    text = fail_with(
        repository,
        "model: m.onnx\nrun: {samples: 1, tolerance: {absolute: 0}}\ncflags: ['-Dfloorf=ceilf']\n",
        "platform=host",
    )
    assert "beyond the recipe's tolerance (none)" in text
    assert "the largest difference is 1, more than rounding explains" in text
    assert "sample 0, output 'y', index [0, " in text
    assert "firmware " in text
    assert "reference " in text
    assert "differs from float64 in 0 values, by up to 0 of the range; the firmware in 4" in text
    kept = re.search(r"samples and outputs: (.+\.npz)", text)
    assert kept
    with np.load(repository.folder / kept[1]) as arrays:
        assert np.array_equal(np.floor(arrays["input_0"]), arrays["reference_0"])
        assert np.array_equal(np.ceil(arrays["input_0"]), arrays["firmware_0"])


def test_failed_build_leaves_the_last_bundle_alone(copy_of_built: Repository) -> None:
    bundle = copy_of_built.folder / "build/digits/digits-rv32-bare.tar.gz"
    before = bundle.read_bytes()
    (copy_of_built.folder / "digits.onnx").write_bytes(b"broken")
    fail(copy_of_built, "recipe=digits.yaml")
    assert bundle.read_bytes() == before
    copy_of_built.write("digits.yaml", "model: digits.onnx\nplatform: nowhere\n")
    fail(copy_of_built, "recipe=digits.yaml")
    assert bundle.read_bytes() == before


MISSING_GCC = "arm-none-eabi-gcc is not installed; get it by 'apt-get install gcc-arm-none-eabi "
MISSING_QEMU = "qemu-system-arm is not installed; it is in the Debian package qemu-system-arm"
OWN = """\
name: own
description: a board
stack: 16 KiB
board: mps2-an386
architecture: cortex-m4
toolchains: [arm-none-eabi-gcc, zig]
memories: {flash: {size: 1 MiB, origin: 0}, ram: {size: 1 MiB, origin: 0x20000000}}
emulators: """


def test_missing_programs_are_told_at_their_words_before_any_stage(repository: Repository) -> None:
    repository.environment["PATH"] = str(repository.folder)
    recipe = "model: digits.onnx\nplatform: cortex-m4-bare\ntoolchain: arm-none-eabi-gcc\n"
    repository.write("both.yaml", recipe + "run: {emulator: qemu}\n")
    refused = repository.doit("-n", "1", "build", "recipe=digits.yaml,both.yaml")
    assert refused.returncode == 1
    assert not ran(refused.stdout), "digits could be built"
    assert refused.stderr.splitlines() == [
        f"both.yaml:3:12: toolchain: {MISSING_GCC}libnewlib-arm-none-eabi'; present instead, as "
        "'toolchain:' in the recipe: zig",
        f"both.yaml:4:17: run.emulator: {MISSING_QEMU} (the emulator 'unicorn' needs no "
        "installation)",
    ]
    assert repository.doit("run", "model:both", "recipe=both.yaml").returncode == 0


def test_missing_programs_are_told_at_the_platform_that_asks(repository: Repository) -> None:
    repository.environment["PATH"] = str(repository.folder)
    text = fail_with(repository, "model: digits.onnx\nplatform: cortex-m55-bare\n")
    assert text == f"r.yaml:2:11: platform: {MISSING_QEMU}\n"
    qemu = "qemu: {program: qemu-system-arm, arguments: []}\n"
    repository.write("own.yaml", OWN + "[qemu]\n" + qemu)
    text = fail_with(repository, "model: digits.onnx\nplatform: own.yaml\n", "toolchain=zig")
    assert text == f"own.yaml:8:13: emulators[0]: {MISSING_QEMU}\n"
    repository.write("own.yaml", OWN + "[]\n")  # needs no program
    text = fail(repository, "recipe=r.yaml")
    assert text.startswith(f"own.yaml:6:14: toolchains[0]: {MISSING_GCC}")
    assert len(text.splitlines()) == 1


def test_compiler_refusal_is_shown(repository: Repository) -> None:
    text = fail_with(repository, "model: digits.onnx\ncflags: [-Wno-such-warning]\n")
    assert "-Wno-such-warning" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["recipe=missing.yaml"], "recipe=missing.yaml: no such recipe"),
        (["recipe=."], "recipe=.: is a folder; for all its recipes, write ./*.yaml"),
        (["recipe=digits.yaml", "platfrm=host"], "did you mean 'platform'?"),
        (["recipee=digits.yaml"], "unknown variable or key 'recipee'; did you mean 'recipe'?"),
        (
            ["recipe=digits.yaml", "platform=mine/board.yaml"],
            "platform=mine/board.yaml: no such file; its path is relative to the current folder",
        ),
        (["recipe=digits.yaml", "platform=hst"], "unknown platform 'hst'; did you mean 'host'?"),
        (["recipe=digits.yaml", "samples=0"], "command line: run.samples: expected at least 1"),
        (["recipe=digits.yaml", "target=c -fast=1"], "device 'c' has no option 'fast'"),
        (
            ["recipe=digits.yaml", "platform=rv32-bare", "target=soma_dory, c"],
            "command line: target: the platform 'rv32-bare' has no 'soma_dory'; platforms that",
        ),
        (["recipe=digits.yaml", "outdir=digits.yaml/x"], "cannot create the build folder"),
        (["recipe=digits.yaml", "outdir=."], "outdir=.: is the folder of digits.yaml; choose"),
        (["recipe="], "recipe=: a value is missing"),
        (["recipe=digits.yaml", "profile=maybe"], "profile=maybe: expected 1 or 0\n"),
        (["recipe=digits.yaml", "no_user_code=no"], "no_user_code=no: expected 1 or 0\n"),
        (
            ["recipe=digits.yaml", "samples=3", "samples=4"],
            "samples=: is set 2 times; remove one\n",
        ),
        (
            ["recipe=digits.yaml", "recipe=a.yaml"],
            "recipe=: is set 2 times; join the values with commas\n",
        ),
        (["recipe=digits.yaml", "samples=65"], "has 64 samples; the recipe needs 65"),
    ],
)
def test_mistake_on_the_command_line(
    repository: Repository, arguments: list[str], message: str
) -> None:
    assert message in fail(repository, *arguments)


def test_a_device_that_the_platform_lacks(repository: Repository) -> None:
    message = "the platform 'rv32-bare' has no 'soma_dory'; platforms that have it: diana, "
    recipe = "model: digits.onnx\nplatform: rv32-bare\n"
    text = fail_with(repository, f"{recipe}target: soma_dory, c\n")
    assert f"r.yaml:3:9: target: {message}" in text
    text = fail_with(repository, f"{recipe}compare: soma_dory, c\n")
    assert f"r.yaml:3:10: compare: {message}" in text


def test_every_mistake_of_every_recipe_in_one_go(repository: Repository) -> None:
    repository.write("a.yaml", "model: digits.onnx\nplatform: nowhere\n")
    repository.write("b.yaml", "model: digits.onnx\ntarget: nothing\n")
    text = fail(repository, "recipe=a.yaml,b.yaml")
    assert "a.yaml:2:11: platform: unknown platform 'nowhere'" in text
    assert "b.yaml:2:9: target: unknown device 'nothing'" in text


def test_recipes_of_one_name_are_refused(repository: Repository) -> None:
    repository.write("other.yaml", "name: digits\nmodel: digits.onnx\n")
    text = fail(repository, "recipe=digits.yaml,other.yaml")
    assert "are both named 'digits'" in text


def test_a_build_of_the_same_name_is_not_replaced(copy_of_built: Repository) -> None:
    copy_of_built.write("other.yaml", "name: digits\nmodel: digits.onnx\n")
    text = fail(copy_of_built, "recipe=other.yaml")
    assert text.startswith("other.yaml:1:1: name: 'digits' is also the name of digits.yaml, whose ")
    copy_of_built.write("digits.yaml", "name: mine\nmodel: digits.onnx\n")
    listed = copy_of_built.doit("list", "recipe=other.yaml")
    assert (listed.returncode, listed.stderr) == (0, "")


def test_no_recipe_at_all(repository: Repository) -> None:
    assert "no recipe: name one" in (printed := fail(repository))
    assert printed.endswith("put some into recipes/; here are: digits\n")
    assert "optional arguments: recipe= " in repository.doit("help", "build").stdout
    assert "run `firmwright watch`, which builds" in repository.doit("auto").stderr
    piped = repository.run("bash", "-c", "set -o pipefail; firmwright platforms | true")
    assert piped.stderr == ""


def test_samples_of_wrong_type_or_shape(repository: Repository) -> None:
    import numpy as np

    np.savez(repository.folder / "f.npz", image=np.zeros((2, 1, 8, 8), "float64"))
    np.savez(repository.folder / "s.npz", image=np.zeros((2, 1, 8, 7), "int8"))
    np.savez(repository.folder / "n.npz", picture=np.zeros((2, 1, 8, 8), "int8"))
    (repository.folder / "b.npz").write_bytes(b"PK nothing")
    for file, message in (
        ("f", "r.yaml:3:15: run.inputs: "),
        ("f", "is float64; the input 'image' is int8: save it with .astype('int8')"),
        ("s", "expected a leading sample axis and then [1, 1, 8, 8]"),
        ("n", "no array for the network's input 'image' (it has: picture)"),
        ("b", "not an .npz of plain arrays"),
    ):
        recipe = f"model: digits.onnx\nplatform: host\nrun: {{inputs: {file}.npz}}\n"
        text = fail_with(repository, recipe)
        assert message in text
        assert "kernels" not in text  # this recipe was not compiled before


def test_operator_without_c_is_named(repository: Repository) -> None:
    nodes = [
        helper.make_node("RandomNormalLike", ["x"], ["a"], name="noise"),
        helper.make_node("Relu", ["a"], ["y"], name="after"),
    ]
    save(repository.folder / "m.onnx", nodes, [2, 2], [2, 2])
    text = fail_with(repository, "model: m.onnx\n")
    assert "operators that cannot be compiled:" in text
    assert "RandomNormalLike (node 'noise')" in text


def test_importer_that_fails_says_so_once(repository: Repository) -> None:
    nodes = [helper.make_node("Conv", ["x", "x"], ["y"], name="in four dimensions")]
    save(repository.folder / "m.onnx", nodes, [1, 1, 2, 2, 2, 2], [1, 1, 1, 1, 1, 1])
    text = fail_with(repository, "model: m.onnx\n")
    assert text.strip().splitlines()[2:] == [
        "r.yaml:1:8: model: m.onnx: cannot import operator Conv (node 'in four dimensions'): "
        "Ndim > 5 not supported for convolution; replace the operator, or end the model before the "
        "operator"
    ]
