"""Puts code into a folder in every known way, and checks whether a command runs it.

``python -m tests.hammer.foreign_code [COMMAND ...]`` tries all commands, or the named ones. Each
command runs in a new folder that contains code in all ways. The code writes a file, the mark, when
it runs. A command must succeed; a failure could hide the other ways.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import onnx
from onnx import TensorProto, helper

from firmwright.bundle.archive import write_archive
from firmwright.bundle.bundle import read_bundle
from firmwright.created_folders import mark_all, mark_folder
from firmwright.emulator import block_counter
from firmwright.toolchain.built_files import name_result
from tests.hammer.campaign import FindingError

RECIPE = "model: tiny.onnx\nplatform: {platform}\nrun: {{samples: 1}}\n"
PYTHON = sys.executable
FIRMWRIGHT = str(Path(PYTHON).with_name("firmwright"))
LIMIT = 600
"""Maximum seconds of a command."""


@dataclass(frozen=True)
class Trap:
    """A folder of another person, and the mark that its code writes."""

    folder: Path
    mark: Path

    @property
    def python(self) -> str:
        """A line of Python that writes the mark."""
        return f"open({str(self.mark)!r}, 'a').write(__name__ + chr(10))\n"

    @property
    def shell(self) -> str:
        """A shell command that writes the mark."""
        return f"touch {shlex.quote(str(self.mark))}"

    def write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def git(self, *words: str, folder: str = ".") -> None:
        who = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        command = ("git", *who, "-C", folder, *words)
        subprocess.run(command, cwd=self.folder, check=True, capture_output=True)

    def run(self, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, cwd=self.folder, env={**os.environ, **variables}, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, errors="replace", timeout=LIMIT, check=False,
        )  # fmt: skip


def name_modules() -> list[str]:
    """Return the names of all Python modules and of the installed packages."""
    installed = (n for d in importlib.metadata.distributions() for n in list_top_level(d))
    return sorted(name for name in {*sys.stdlib_module_names, *installed} if name.isidentifier())


def list_top_level(distribution: importlib.metadata.Distribution) -> set[str]:
    files = distribution.files or ()
    return {file.parts[0].removesuffix(".py") for file in files if file.suffix == ".py"}


def lay_modules(trap: Trap) -> None:
    for name in name_modules():
        trap.write(f"{name}.py", trap.python)


def lay_site(trap: Trap) -> None:
    for name in ("sitecustomize", "usercustomize"):
        trap.write(f"{name}.py", trap.python)


def lay_pth(trap: Trap) -> None:
    trap.write("evil.pth", f"import sys; {trap.python}")


def lay_task_file(trap: Trap) -> None:
    trap.write("dodo.py", trap.python)


def lay_tests(trap: Trap) -> None:
    trap.write("conftest.py", trap.python)


def lay_doit(trap: Trap) -> None:
    """Configure doit with plug-ins and a file that each command writes."""
    trap.write("evil.py", f"{trap.python}class Evil: pass\n")
    kinds = {"command": "evil", "loader": "module", "backend": "firmwright", "reporter": "console"}
    plugins = "".join(f"[tool.doit.plugins.{k}]\n{n} = 'evil:Evil'\n" for k, n in kinds.items())
    commands = ("run", "list", "info", "clean", "forget")
    output = "".join(f"[tool.doit.commands.{c}]\noutfile = '{trap.mark}'\n" for c in commands)
    trap.write("pyproject.toml", plugins + output)
    trap.write("doit.cfg", "[COMMAND]\nrun = evil:Evil\nlist = evil:Evil\n")


def lay_entry_points(trap: Trap) -> None:
    trap.write("evil.py", f"{trap.python}class Evil: pass\n")
    groups = ("doit.COMMAND", "doit.BACKEND", "doit.LOADER", "doit.REPORTER", "firmwright.targets",
              "distributed.preload", "pytest11", "onnxruntime", "dask.array.backends")  # fmt: skip
    text = "".join(f"[{group}]\nrun = evil:Evil\n" for group in groups)
    trap.write("evil-1.0.dist-info/entry_points.txt", text)
    trap.write("evil-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: evil\nVersion: 1.0\n")


def lay_texts(trap: Trap) -> None:
    """Put Jinja and shell code into the texts of the recipes."""
    jinja = f"{{{{ cycler.__init__.__globals__.os.system('{trap.shell}') }}}}"
    for name in ("clean", "rv32"):
        recipe = trap.folder / f"{name}.yaml"
        text = json.dumps(f"{jinja} $({trap.shell}) `{trap.shell}`")
        recipe.write_text(f"{recipe.read_text()}description: {text}\n")


def lay_repository(trap: Trap) -> None:
    """Configure a git repository with hooks, filters, a monitor and an upload program."""
    trap.write(".gitattributes", "* filter=evil diff=evil\n")
    trap.git("init", "--quiet")
    trap.git("add", "--force", "--", "*.yaml", "*.onnx", ".gitattributes")
    trap.git("commit", "--quiet", "--message=Begin")
    program = f"{trap.shell}; cat"
    keys = ("filter.evil.smudge", "filter.evil.clean", "diff.evil.textconv", "core.fsmonitor",
            "core.sshCommand", "remote.origin.uploadpack", "diff.external")  # fmt: skip
    for key in keys:
        trap.git("config", key, program)
    for key, value in (("remote.origin.url", "."), ("protocol.ext.allow", "always")):
        trap.git("config", key, value)
    hooks = trap.folder / ".git/hooks"
    for name in ("post-checkout", "post-index-change", "reference-transaction", "pre-commit"):
        (hooks / name).write_text(f"#!/bin/sh\n{trap.shell}\n")
        (hooks / name).chmod(0o755)


def lay_file_names(trap: Trap) -> None:
    """Name a recipe like a command, without a slash or a space."""
    name = f"$(cd${{IFS}}..;touch${{IFS}}{trap.mark.name})"
    trap.write(f"recipes/{name}.yaml", RECIPE.format(platform="host"))


def lay_library(trap: Trap) -> None:
    """Put a machine-code library into the build folder, as earlier versions did for emulators."""
    name = Path(block_counter.load_library()._name).name.rpartition("-")[0]
    source = trap.folder / "evil.c"
    source.write_text(
        "#include <stdio.h>\n__attribute__((constructor)) static void run(void)\n"
        f'{{ FILE *f = fopen("{trap.mark}", "a"); fputs("library", f); fclose(f); }}\n'
    )
    made = trap.folder / "evil.so"
    zig = (PYTHON, "-m", "ziglang", "cc", "-shared", "-fPIC", "-o", str(made), str(source))
    subprocess.run(zig, check=True, capture_output=True)
    for folder in ("build", "build/rv32"):  # an attacker with these files can also forge markers
        mark_folder(trap.folder / folder)
        kept = trap.folder / folder / ".cache"
        mark_all(kept)
        shutil.copyfile(made, name_result(made, kept, name, ".so"))


@dataclass(frozen=True)
class Way:
    """A way in which a folder contains code, and a control command that runs this code."""

    lay: Callable[[Trap], None]
    control: Sequence[str]


LOAD = (
    "import importlib.metadata as m; [e.load() for e in m.entry_points(group='firmwright.targets')]"
)
FILL = "import jinja2; jinja2.Environment().from_string(open('clean.yaml').read()).render()"
WAYS = {
    "modules": Way(lay_modules, (PYTHON, "-m", "json.tool", "--help")),
    "sitecustomize, usercustomize": Way(lay_site, ("env", "PYTHONPATH=.", PYTHON, "-c", "pass")),
    ".pth": Way(lay_pth, (PYTHON, "-c", "import site; site.addsitedir('.')")),
    "dodo.py": Way(lay_task_file, (PYTHON, "-m", "doit", "list")),
    "conftest.py": Way(lay_tests, (PYTHON, "-m", "pytest", "--collect-only")),
    "configuration of doit": Way(lay_doit, (PYTHON, "-m", "doit", "evil")),
    "entry points": Way(lay_entry_points, (PYTHON, "-c", LOAD)),
    "texts of a recipe": Way(lay_texts, (PYTHON, "-c", FILL)),
    "repository of git": Way(lay_repository, ("git", "archive", "--output=/dev/null", "HEAD")),
    "names of files": Way(
        lay_file_names, ("bash", "-c", 'compgen -W "$(cd recipes && printf "%s " *.yaml)"')
    ),
    "machine code in the build folder": Way(
        lay_library, (PYTHON, "-c", "import ctypes; ctypes.CDLL('./evil.so')")
    ),
}

COMPLETE = """\
source <(firmwright completion bash)
COMP_WORDS=(firmwright build '') COMP_CWORD=2
_firmwright
COMP_WORDS=(firmwright build recipe = '') COMP_CWORD=4
_firmwright
"""
WATCH = """\
firmwright watch clean.yaml >log 2>&1 &
for built in 1 2; do
    until [ "$(grep -c waiting log)" -ge $built ]; do kill -0 $! && sleep 0.1 || exit 1; done
    echo >>clean.yaml
done
kill -INT $!
wait $!
"""
API = "import firmwright; print(firmwright.build('clean.yaml').sha256)\n"


@dataclass(frozen=True)
class Command:
    """A command, and its exit codes in case of success."""

    words: Sequence[str]
    codes: Sequence[int] = (0,)


def firmwright(*words: str, codes: Sequence[int] = (0,)) -> Command:
    return Command((FIRMWRIGHT, *words), codes)


COMMANDS = {
    "build": firmwright("build", "clean.yaml"),
    "build -n 2": firmwright("build", "clean.yaml", "rv32.yaml", "-n", "2"),
    "build rv32": firmwright("build", "rv32.yaml"),
    "API": Command((PYTHON, "../api.py")),
    "lock": firmwright("lock", "clean.yaml"),
    "tune": firmwright("tune", "rv32.yaml"),
    "reproduce": firmwright("reproduce", "clean.yaml"),
    "list": firmwright("list", "clean.yaml"),
    "export": firmwright("export", "clean.yaml", "--as", "cmake"),
    "explain": firmwright("explain", "clean.yaml"),
    "info": firmwright("info", "clean.yaml", codes=(1,)),  # it would run
    "clean": firmwright("clean", "clean.yaml"),
    "forget": firmwright("forget", "clean.yaml"),
    "init": firmwright("init", "tiny.onnx", "--platform", "host"),
    "new board": firmwright("new", "board", "acme", "--like", "rv32-bare"),
    "schema": firmwright("schema"),
    "inspect": firmwright("inspect", "../evil.tar.gz"),
    "diff of bundles": firmwright("diff", "../clean.tar.gz", "../evil.tar.gz", codes=(1,)),
    "diff of recipes": firmwright("diff", "clean.yaml", "../clean.tar.gz", codes=(0, 1)),
    "diff of revisions": firmwright("diff", "HEAD:clean.yaml", "HEAD:clean.yaml"),
    "rebuild": firmwright("rebuild", "../evil.tar.gz", "--files", ".", codes=(1,)),
    "image": firmwright(
        *("image", "../clean.tar.gz", "--image-version", "1.0.0", "--slot", "1MiB"), codes=(2,)
    ),
    "sign": firmwright("sign", "../clean.tar.gz", codes=(2,)),
    "verify-bundle": firmwright("verify-bundle", "../evil.tar.gz", "--policy", "x", codes=(2,)),
    "push": firmwright("push", "../clean.tar.gz", "127.0.0.1:9/a:1", codes=(2,)),
    "pull": firmwright("pull", "127.0.0.1:9/a:1", codes=(2,)),
    "fleet": firmwright("fleet"),
    "matrix": firmwright("matrix"),
    "platforms": firmwright("platforms"),
    "targets": firmwright("targets"),
    "toolchains": firmwright("toolchains"),
    "doctor": firmwright("doctor", codes=(0, 1)),
    "watch": Command(("bash", "-c", WATCH)),
    "completion": Command(("bash", "-c", COMPLETE)),
}


class Traps:
    """Folders of another person, an honest bundle, and a bundle that contains modules."""

    def __init__(self, place: Path) -> None:
        self.place, self.mark = place, place / "mark"
        (place / "api.py").write_text(API)
        made = self.new("honest")
        built = made.run(FIRMWRIGHT, "build", "clean.yaml")
        assert built.returncode == 0, built.stdout + built.stderr
        shutil.copyfile(made.folder / "build/clean/clean-host.tar.gz", place / "clean.tar.gz")
        add_modules(place / "clean.tar.gz", place / "evil.tar.gz", made.python)
        self.all = self.new("all", *WAYS)

    def new(self, name: str, *ways: str) -> Trap:
        """Return a folder with two recipes, and code in these ways."""
        trap = Trap(self.place / name, self.mark)
        trap.folder.mkdir()
        write_model(trap.folder / "tiny.onnx")
        trap.write("clean.yaml", RECIPE.format(platform="host"))
        trap.write("rv32.yaml", RECIPE.format(platform="rv32-bare"))
        trap.write("fleet.yaml", "recipes: [clean.yaml]\n")
        for way in ways:
            WAYS[way].lay(trap)
        self.mark.unlink(missing_ok=True)  # git runs hooks and filters during the set-up
        return trap

    def try_command(self, command: Command) -> None:
        """Run a command in a copy of the folder that has code in all ways.

        Raises FindingError if the command runs code of the folder, fails, or does not end.
        """
        self.mark.unlink(missing_ok=True)
        with tempfile.TemporaryDirectory(dir=self.place) as copy:
            shutil.copytree(self.all.folder, copy, dirs_exist_ok=True)
            trap = Trap(Path(copy), self.mark)
            try:
                done = trap.run(*command.words, PATH=f"{Path(PYTHON).parent}:{os.environ['PATH']}")
            except subprocess.TimeoutExpired:
                message = f"{shlex.join(command.words)}: no end after {LIMIT} s"
                raise FindingError(message) from None
        printed = f"{shlex.join(command.words)}: code {done.returncode}\n{done.stdout}{done.stderr}"
        if self.mark.exists():
            raise FindingError(f"ran {self.mark.read_text()!r}: {printed}")
        if done.returncode not in command.codes:
            raise FindingError(printed)


def write_model(path: Path) -> None:
    """Write a network of one small product."""
    weights = helper.make_tensor("w", TensorProto.FLOAT, [8, 4], [i / 32 for i in range(32)])
    shapes = {"x": [1, 8], "y": [1, 4]}
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in shapes.items())
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g", [x], [y],
                              [weights])  # fmt: skip
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=9), path)


def add_modules(honest: Path, path: Path, python: str) -> None:
    """Write a bundle whose manifest lists modules among the inputs of its recipe."""
    bundle = read_bundle(honest)
    manifest, contents = json.loads(bundle.files["manifest.json"]), dict(bundle.files)
    code = python.encode()
    digest = hashlib.sha256(code).hexdigest()
    contents["notes.txt"] = code
    manifest["files"].append({"path": "notes.txt", "bytes": len(code), "sha256": digest})
    manifest["inputs"]["files"] |= {f"{name}.py": digest for name in name_modules()}
    contents["manifest.json"] = json.dumps(manifest).encode()
    write_archive(path, bundle.folder, contents)


def main(names: Sequence[str]) -> int:
    """Try commands; return 1 if one runs code or fails."""
    began, findings = time.monotonic(), 0
    with tempfile.TemporaryDirectory() as place:
        traps = Traps(Path(place))
        for name in names or COMMANDS:
            try:
                traps.try_command(COMMANDS[name])
                print(f"{name}: nothing ran", flush=True)
            except FindingError as finding:
                findings += 1
                print(f"{name}: {finding}\n", flush=True)
    used = time.monotonic() - began
    tried = f"{len(names or COMMANDS)} commands, {len(WAYS)} ways"
    print(f"{tried} in {used:.0f} s: {findings} findings")
    return int(findings > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
