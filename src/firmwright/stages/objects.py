"""Runs the stage ``objects``: compiles changed sources, and copies unchanged objects."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path, PurePosixPath

from firmwright.errors import DiagnosticError, UserError
from firmwright.ir.records import read_record, write_record
from firmwright.pipeline.artifacts import OBJECTS, PROJECT
from firmwright.pipeline.freshness import file_digest
from firmwright.pipeline.job import Job
from firmwright.pipeline.linking import is_custom_library, locate_library_error
from firmwright.recipe.recipe import error_at_key
from firmwright.toolchain import compile_object, find_compiler
from firmwright.toolchain.build import compile_each, object_path
from firmwright.toolchain.project_folders import list_sources

INCLUDE = re.compile(rb'^[ \t]*#[ \t]*include\b[ \t]*(?:["<]([^">\n]+)[">]|(\S))', re.M)
"""Matches the name in an include line, or the first letter of the macro that has the name."""


@dataclass(frozen=True, slots=True)
class CompiledObject:
    """The digests of an object: ``key`` is the digest of all inputs, ``sha256`` of the object."""

    key: str
    sha256: str


@dataclass(frozen=True, slots=True)
class Objects:
    """The objects. The keys are the paths of the sources (file ``objects/objects.json``)."""

    objects: dict[str, CompiledObject]


def digest_sources(project: Path, settings: str) -> dict[str, str]:
    """Return a digest of each source, its included headers and the compiler's settings."""
    headers: dict[str, list[Path]] = {}
    for header in sorted(project.rglob("*.h")):
        headers.setdefault(header.name, []).append(header)
    keys = {}
    for source in list_sources(project):
        digest = hashlib.sha256(settings.encode())
        for file in find_included(project / source, headers):
            digest.update(file.relative_to(project).as_posix().encode() + file.read_bytes())
        keys[source] = digest.hexdigest()
    return keys


def find_included(source: Path, headers: Mapping[str, Sequence[Path]]) -> list[Path]:
    """Return a source and all files that it includes. ``headers`` maps names to files.

    The preprocessor does not run. Therefore includes in inactive branches count, and all headers
    with an included name count. All headers are inputs if an include names a macro.
    """
    files = [source]
    for file in files:  # the loop extends the list
        for quoted, computed in INCLUDE.findall(file.read_bytes()):
            named = headers.get(PurePosixPath(os.fsdecode(quoted)).name, ())
            wanted = chain.from_iterable(headers.values()) if computed else named
            files += [header for header in wanted if header not in files]
    return files


@contextmanager
def locate_refusal(job: Job, source: str) -> Iterator[None]:
    """Report a compiler error at the recipe's flag or library that caused the error."""
    try:
        yield
    except UserError as error:
        for index, flag in enumerate(job.recipe.cflags):
            if re.search(rf"(?<![\w-]){re.escape(flag)}(?![\w-])", str(error)):
                diagnostic = job.recipe.make_diagnostic(("cflags", index), str(error))
                raise DiagnosticError([diagnostic]) from None
        name = PurePosixPath(source).name
        if is_custom_library(job, name):
            raise DiagnosticError([locate_library_error(job, name, str(error))]) from None
        raise


def run(job: Job, folder: Path) -> None:
    """Write one object per source, and ``objects.json``."""
    project = PROJECT.read(job)
    with error_at_key(job.recipe, ("toolchain",)):
        compiler = find_compiler(job.build.toolchain, job.platform.architecture)
    decisive = [compiler.version, job.compiler.stamp(), job.build_settings]
    keys = digest_sources(project, str(decisive))
    last = OBJECTS.read(job)
    listed = last / "objects.json"
    known = read_record(listed, Objects).objects if listed.exists() else {}

    def compile_one(name: str) -> CompiledObject:
        target = folder / object_path(name)
        before, kept = known.get(name), last / object_path(name)
        if (
            before
            and before.key == keys[name]
            and kept.is_file()
            and file_digest(kept) == before.sha256
        ):
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(kept, target)
        else:
            with locate_refusal(job, name):
                compile_object(job.build, compiler, project, name, target, job.cache)
        return CompiledObject(keys[name], file_digest(target))

    compiled = compile_each(compile_one, project, keys)
    write_record(folder / "objects.json", Objects(dict(zip(keys, compiled, strict=True))))
