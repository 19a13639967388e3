"""``model: {python: "module:function"}``: the location of the module, and possible errors."""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from firmwright.custom.source_files import list_source_files
from firmwright.errors import UserError
from firmwright.models.relax.importer import import_model, run_reference
from firmwright.models.relax.python_call import call_model

NETWORK = """
    import tvm
    from tvm import relax
    from tvm.script import ir as I, relax as R

    @I.ir_module
    class Network:
        @R.function
        def main(x: R.Tensor((1, 4), "float32")) -> R.Tensor((1, 4), "float32"):
            y = R.nn.relu(x)
            z = R.add(y, R.const(1.0, "float32"))
            return z

    def network():
        return Network
"""

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write modules into a folder that is not the current folder; return the folder."""

    def write_modules(**modules: str) -> Path:
        for name, text in modules.items():
            path = tmp_path / f"{name.replace('__', '/')}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(textwrap.dedent(text), encoding="utf-8")
        return tmp_path

    return write_modules


def call(reference: str, folder: Path, *files: str) -> bytes:
    known = [*list_source_files(reference.partition(":")[0], folder), *(folder / f for f in files)]
    return call_model(reference, folder, known)


def failure(reference: str, folder: Path) -> str:
    with pytest.raises(UserError) as raised:
        call(reference, folder)
    return str(raised.value)


def test_module_of_the_recipes_folder(write: Write) -> None:
    data = call("own_net:network", write(own_net=NETWORK))
    _, interface = import_model(data, "own_net:network", {})
    assert [(t.name, t.shape, t.dtype) for t in interface.inputs] == [("x", (1, 4), "float32")]
    assert [t.name for t in interface.outputs] == ["z"]
    assert [(o.name, o.kind) for o in interface.operators] == [("y", "relu"), ("z", "add")]
    reference = run_reference(data, [{"x": np.array([[-1, 0, 1, 2]], "float32")}])
    assert reference.outputs[0][0].tolist() == [[1, 1, 2, 3]]
    assert "Relax virtual machine" in reference.runtime


def test_dotted_module_with_relative_and_late_imports(write: Write) -> None:
    folder = write(
        nets__first="from .parts import two\ndef network():\n    return two()",
        nets__parts="def two():\n    import late\n    return late.network()",
        late=NETWORK,
    )
    assert call("nets.first:network", folder) == call("late:network", folder)


def test_nothing_is_left_behind(write: Write) -> None:
    folder = write(own_net="import own_sibling\n" + textwrap.dedent(NETWORK), own_sibling="")
    before = list(sys.path), set(sys.modules)
    call("own_net:network", folder)
    assert list(sys.path) == before[0]
    assert {"own_net", "own_sibling"}.isdisjoint(sys.modules)
    assert sorted(p.name for p in folder.iterdir()) == ["own_net.py", "own_sibling.py"]


def test_the_folder_is_not_in_the_bytes(write: Write, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    data = call("own_net:network", write(own_net=NETWORK))
    (elsewhere / "own_net.py").write_text("# moved\n" + (tmp_path / "own_net.py").read_text())
    assert call("own_net:network", elsewhere) == data
    assert str(tmp_path).encode() not in data


def test_a_changed_module_is_read_anew_within_the_same_second(write: Write) -> None:
    folder = write(own_net=NETWORK)
    stamp = (folder / "own_net.py").stat().st_mtime_ns
    first = call("own_net:network", folder)
    write(own_net=NETWORK.replace("1.0", "2.0"))
    os.utime(folder / "own_net.py", ns=(stamp, stamp))
    assert call("own_net:network", folder) != first


def test_installed_module(write: Write) -> None:
    assert "returned a str; expected a Relax IRModule" in failure("platform:machine", write())


def test_missing_module_and_function(write: Write) -> None:
    folder = write(own_net=NETWORK, broken="import own_missing\ndef network(): ...")
    assert failure("own_nets:network", folder) == (
        f"own_nets:network: no module 'own_nets': neither in {folder}, the recipe's folder, "
        "nor installed"
    )
    assert "has no function 'netwrok'; did you mean 'network'?" in failure(
        "own_net:netwrok", folder
    )
    assert failure("broken:network", folder) == (
        f"{folder}/broken.py:1: ModuleNotFoundError: No module named 'own_missing' (broken:network)"
    )


@pytest.mark.parametrize(
    ("body", "place"),
    [
        ("def network():\n    return 1 / 0", ":2: ZeroDivisionError: division by zero"),
        ("def network(:\n    pass", ":1: invalid syntax"),
        ("import sys\ndef network():\n    sys.exit(3)", ":3: SystemExit: 3"),
        ("import numpy\ndef network():\n    numpy.zeros(-1)", ":3: ValueError: negative"),
        ("def network(size):\n    pass", "missing 1 required positional argument: 'size'"),
    ],
)
def test_the_users_own_error_with_its_place(write: Write, body: str, place: str) -> None:
    text = failure("own_net:network", write(own_net=body))
    assert place in text
    assert "Traceback" not in text


def test_name_of_a_loaded_module(write: Write) -> None:
    assert "json.py: a module named 'json' is loaded already; rename the file" in failure(
        "json:network", write(json="def network(): ...")
    )


def test_random_numbers_without_a_seed(write: Write) -> None:
    folder = write(own_net=NETWORK.replace("1.0", "float(rng.random())"))
    text = (folder / "own_net.py").read_text()
    (folder / "own_net.py").write_text("import numpy\nrng = numpy.random.default_rng()\n" + text)
    assert "returns a different network at each call" in failure("own_net:network", folder)
    (folder / "own_net.py").write_text("import numpy\nrng = numpy.random.default_rng(1)\n" + text)
    call("own_net:network", folder)


def test_files_that_the_function_reads_have_to_be_named(write: Write) -> None:
    folder = write(own_net="import numpy\nnumpy.load('FOLDER/w.npy')\n" + textwrap.dedent(NETWORK))
    module = folder / "own_net.py"
    module.write_text(module.read_text().replace("FOLDER", str(folder)))
    np.save(folder / "w.npy", np.zeros(2))
    text = failure("own_net:network", folder)
    assert "reads w.npy, which the recipe does not list" in text
    assert "add `files: [w.npy]` to `model:`" in text
    call("own_net:network", folder, "w.npy")


def test_import_that_the_source_does_not_tell(write: Write) -> None:
    loader = (
        "import importlib\ndef network():\n    return importlib.import_module('o' + 'wn').network()"
    )
    folder = write(own_net=loader, own=NETWORK)
    assert "reads own.py, which the recipe does not list" in failure("own_net:network", folder)
    call("own_net:network", folder, "own.py")


MAIN = """
    import tvm
    from tvm.script import ir as I, relax as R

    @I.ir_module
    class Network:
{functions}
    def network():
        return Network
"""


def with_functions(*functions: str) -> str:
    indented = (textwrap.indent(textwrap.dedent(f), " " * 8) for f in functions)
    return MAIN.format(functions="\n".join(indented))


@pytest.mark.parametrize(
    ("functions", "message"),
    [
        (
            ['@R.function\ndef net(x: R.Tensor((2,), "int8")):\n    return R.abs(x)\n'],
            r"no Relax function 'main' \(it has: net\)",
        ),
        (
            [
                '@R.function\ndef main(x: R.Tensor((2,), "int8")):\n    return R.abs(x)\n',
                '@R.function\ndef other(x: R.Tensor((2,), "int8")):\n    return R.abs(x)\n',
            ],
            "Relax functions in addition to 'main': other",
        ),
        (
            ['@R.function\ndef main(x: R.Tensor(("n", 2), "int8")):\n    return R.abs(x)\n'],
            r"'x' has the dynamic shape \[n, 2\]; firmware needs a fixed shape",
        ),
        (
            [
                '@R.function\ndef main(x: R.Tensor((2,), "int8")):\n'
                '    y = R.call_dps_packed("mine", (x,), R.Tensor((2,), "int8"))\n    return y\n'
            ],
            r"operators that cannot be compiled:\n  call_dps_packed \('y'\)",
        ),
        (
            [
                '@R.function\ndef main(x: R.Tensor((2,), "int8"), w: R.Tensor((2,), "int8")):\n'
                '    R.func_attr({"num_input": 1})\n    return R.add(x, w)\n'
            ],
            r"has its weights as parameters \(w\); bind them",
        ),
        (
            ['@R.function\ndef main(x: R.Tensor((2,), "float8_e4m3fn")):\n    return R.abs(x)\n'],
            "'x' is float8_e4m3fn, which is not supported; expected",
        ),
    ],
)
def test_modules_that_cannot_be_firmware(write: Write, functions: list[str], message: str) -> None:
    data = call("own_net:network", write(own_net=with_functions(*functions)))
    with pytest.raises(UserError, match=message):
        import_model(data, "own_net:network", {})


def test_shapes_of_the_recipe_fix_a_dynamic_model(write: Write) -> None:
    function = (
        '@R.function\ndef main(x: R.Tensor(("n", 2), "int8"), y: R.Tensor(("n", 2), "int8")):\n'
        "    return R.add(x, y)\n"
    )
    data = call("own_net:network", write(own_net=with_functions(function)))
    _, interface = import_model(data, "n", {"x": (3, 2)})
    assert [t.shape for t in (*interface.inputs, *interface.outputs)] == [(3, 2)] * 3
    with pytest.raises(UserError, match=r"y: shape \[4, 2\] does not fit the model's \[n, 2\]"):
        import_model(data, "n", {"x": (3, 2), "y": (4, 2)})
    with pytest.raises(UserError, match=r"x: shape \[3, 3\] does not fit the model's \[n, 2\]"):
        import_model(data, "n", {"x": (3, 3)})
    samples = [{"x": np.full((3, 2), 100, "int8"), "y": np.full((3, 2), 27, "int8")}]
    assert run_reference(data, samples).outputs[0][0].tolist() == [[127, 127]] * 3
