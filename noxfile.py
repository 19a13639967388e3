"""The checks, by name: ``python -m nox -s fast``. They use the environment that nox runs in."""

import os
import sys
from pathlib import Path
from sysconfig import get_path

import nox

nox.options.default_venv_backend = "none"
nox.options.sessions = ["lint", "types", "fast"]

PYTEST = (sys.executable, "-m", "pytest", "--numprocesses=auto", "--dist=loadfile")
CHECKS = ("test_format", "test_lint", "test_types")
"""Tests of the repository that are sessions here, so that ``nox`` runs them once."""


@nox.session
def lint(session: nox.Session) -> None:
    """Check the format and the lint rules."""
    session.run(sys.executable, "-m", "ruff", "format", "--check", ".")
    session.run(sys.executable, "-m", "ruff", "check", ".")


@nox.session
def types(session: nox.Session) -> None:
    """Check the types."""
    session.run(sys.executable, "-m", "mypy")


@nox.session
def fast(session: nox.Session) -> None:
    """Run most tests of each package, in about a minute; ``tests/slow.txt`` lists the others."""
    others = (f"--deselect=tests/quality/test_repository.py::{name}" for name in CHECKS)
    session.run(*PYTEST, "-m", "not slow", *others, *session.posargs)


@nox.session
def tests(session: nox.Session) -> None:
    """Run all tests."""
    session.run(*PYTEST, *session.posargs)


@nox.session
def docs(session: nox.Session) -> None:
    """Build the pages strictly; `-- linkcheck` follows the links to other sites instead."""
    builder = session.posargs or ["html"]
    strict = ("--fail-on-warning", "--keep-going", "--conf-dir", "docs")
    session.run(sys.executable, "-m", "sphinx", *strict, "--builder", *builder, ".", "build/docs")


@nox.session
def browser(session: nox.Session) -> None:
    """Open reports and the pages of `nox -s docs` in Chromium; `-- --refresh` renews pictures."""
    files = ("tests/e2e/browser.py", "tests/docs/browser.py")
    session.run(sys.executable, "-m", "pytest", *files, *session.posargs)


@nox.session(venv_backend="venv")
def packages(session: nox.Session) -> None:
    """Read packages with ESP-IDF's and PlatformIO's tools, in a separate environment."""
    session.install("idf-component-manager==3.1.2", "platformio==6.2.0")
    tests = "tests/project/package_tools.py"
    session.run(sys.executable, "-m", "pytest", tests, *session.posargs, external=True)


@nox.session(venv_backend="venv")
def s3(session: nox.Session) -> None:
    """Share results in a bucket of a real S3 server, which is in a separate environment."""
    session.install("moto[server]==5.2.5", "s3fs==2026.9.0")
    (packages,) = Path(session.virtualenv.location).glob("lib/python*/site-packages")
    paths = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), str(packages)]))
    tests = "tests/e2e/s3_server.py"
    environment = {"PYTHONPATH": paths}
    command = (sys.executable, "-m", "pytest", tests, *session.posargs)
    session.run(*command, external=True, env=environment)


@nox.session(venv_backend="venv")
def canary(session: nox.Session) -> None:
    """Try the newest TVM in a separate environment: report names that are gone, and build."""
    session.install("apache-tvm", "apache-tvm-ffi")
    # All other packages are from this environment; the new TVM comes first.
    (packages,) = Path(session.virtualenv.location).glob("lib/python*/site-packages")
    (packages / "others.pth").write_text(f"{Path.cwd() / 'src'}\n{get_path('purelib')}\n")
    session.run("python", "-m", "tests.quality.canary")


@nox.session(venv_backend="venv")
def constraints(session: nox.Session) -> None:
    """Write both constraints files from pyproject.toml; `-- --upgrade` uses newer versions."""
    session.install("uv==0.13.9")
    command = ("uv", "pip", "compile", "--quiet", "--universal", "--python-version", "3.10")
    content = ("--generate-hashes", "--no-strip-extras", "--no-annotate", "--no-emit-index-url")
    header = ("--custom-compile-command", f"python -m nox -s {session.name}")
    groups = {"constraints.txt": (), "constraints-test.txt": ("--group", "test", "--group", "docs")}
    for file, chosen in groups.items():
        given = (*content, *header, *chosen, *session.posargs)
        session.run(*command, *given, "pyproject.toml", "--output-file", file)


@nox.session
def refresh(session: nox.Session) -> None:
    """Update generated pages, schemas and expected messages; `git diff` shows the changes."""
    session.run(sys.executable, "-m", "tests.quality.generated")
    session.run(sys.executable, "-m", "pytest", "tests/recipe/test_failing.py", "--refresh")
