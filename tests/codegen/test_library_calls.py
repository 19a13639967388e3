"""Calls of a user's functions: DLPack's layout, and tensors of any size, in strict C99."""

from __future__ import annotations

import shutil
import subprocess
from math import prod
from pathlib import Path

import pytest
import tvm
from tvm import te
from tvm_ffi.libinfo import find_dlpack_include_path

from firmwright.codegen.c_source import CFunction, print_c
from firmwright.codegen.templates import make_environment, render
from firmwright.ir.kernels import LibraryFunction
from firmwright.ir.library_call import library_call, unwrap_library_calls
from firmwright.lowering.loop_structure import schedule_region
from firmwright.project.project_files import place_library_files

STRICT = ("-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror")
FIELDS = {
    "DLTensor": "data device ndim dtype shape strides byte_offset",
    "DLDevice": "device_type device_id",
    "DLDataType": "code bits lanes",
}
CONSTANTS = "kDLCPU kDLInt kDLUInt kDLFloat kDLBfloat kDLBool".split()


def run(folder: Path, source: str, *flags: str, compiler: str = "gcc") -> str:
    """Compile strictly and run a program; return its output."""
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    (folder / "program.c").write_text(source)
    command = [compiler, *STRICT, *flags, "program.c", "-o", "program"]
    subprocess.run(command, cwd=folder, check=True)
    return subprocess.run(
        ["./program"], cwd=folder, check=True, capture_output=True, text=True
    ).stdout


def headers(folder: Path, *functions: LibraryFunction) -> None:
    env = make_environment()
    given = {"network": {"name": "test"}, "library_functions": functions, "prefix": "test"}
    for template, place in place_library_files("test").items():
        (folder / Path(place).name).write_text(render(env, template, given))


def test_the_tensor_is_laid_out_as_in_dlpack_s_own_header(tmp_path: Path) -> None:
    headers(tmp_path)
    lines = [f'printf("%d\\n", (int){name});' for name in CONSTANTS]
    for struct, fields in FIELDS.items():
        lines.append(f'printf("%zu\\n", sizeof({struct}));')
        lines += [f'printf("%zu\\n", offsetof({struct}, {name}));' for name in fields.split()]
    body = "#include <stddef.h>\n#include <stdio.h>\nint main(void) {" + "".join(lines) + "}"
    ours = run(tmp_path, '#include "fw_dltensor.h"\n' + body)
    flag = f"-I{find_dlpack_include_path()}"
    assert ours == run(tmp_path, "#include <dlpack/dlpack.h>\n" + body, flag)
    both = '#include <dlpack/dlpack.h>\n#include "fw_dltensor.h"\n'
    assert ours == run(tmp_path, both + body, flag)


def called(shape: tuple[int, ...]) -> CFunction:
    """Return the C of add_one(data - 0.5) + (data - 0.5), with tensors in addition to the call."""
    data = te.placeholder([tvm.tirx.const(n, "int64") for n in shape], "float32", "data")
    lower = te.compute(data.shape, lambda *i: data(*i) - tvm.tirx.const(0.5), "lower")
    higher = library_call("add_one", shape, "float32", lower)
    result = te.compute(data.shape, lambda *i: higher(*i) + lower(*i), "result")
    scheduled = schedule_region(unwrap_library_calls(te.create_prim_func([data, result])))
    return print_c(scheduled.function, ["input", "output"])


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("shape", [(), (1,), (2, 3), (4, 2, 5, 3)])
def test_the_function_reads_and_writes_whole_tensors(
    tmp_path: Path, shape: tuple[int, ...], compiler: str
) -> None:
    function = called(shape)
    headers(tmp_path, *function.library_functions)
    pointers = [f"float *restrict {name}" for name, _, _ in function.scratch]
    parameters = ", ".join(["const float *restrict input", "float *restrict output", *pointers])
    memory = "".join(f", scratch[{i}]" for i in range(len(pointers)))
    source = f"""
#include <stdio.h>
#include "fw_libraries.h"
void add_one(DLTensor *in, DLTensor *out)
{{
    int64_t count = 1;
    for (int32_t axis = in->ndim - 1; axis >= 0; --axis) {{
        if (in->strides[axis] != count || out->shape[axis] != in->shape[axis]) {{
            return;
        }}
        count *= in->shape[axis];
    }}
    for (int64_t i = 0; i < count; ++i) {{
        ((float *)out->data)[i] = ((float *)in->data)[i] + 1.0f;
    }}
}}
static void region({parameters})
{{
{function.body}
}}
int main(void)
{{
    static float input[120], output[120], scratch[2][120];
    for (int i = 0; i < 120; ++i) {{
        input[i] = (float)i;
        scratch[0][i] = scratch[1][i] = 0.0f;
    }}
    region(input, output{memory});
    for (int i = 0; i < 120; ++i) {{
        printf("%g ", (double)output[i]);
    }}
}}
"""
    elements = prod(shape)
    expected = [2 * i if i < elements else 0 for i in range(120)]
    assert run(tmp_path, source, compiler=compiler).split() == [str(n) for n in expected]
