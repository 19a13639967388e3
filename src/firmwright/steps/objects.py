"""objects: every source compiled, those that did not change taken over."""

from __future__ import annotations

import hashlib
import shutil
from dataclasses import dataclass
from pathlib import Path

from firmwright.ir.records import read_record, write_record
from firmwright.pipeline.artifacts import OBJECTS, PROJECT
from firmwright.pipeline.freshness import file_digest
from firmwright.pipeline.job import Job
from firmwright.pipeline.tools import stamp_compiler
from firmwright.toolchain import compile_object, find_compiler
from firmwright.toolchain.build import compile_each


@dataclass(frozen=True)
class CompiledObject:
    """``key`` digests all that decides about an object, ``sha256`` the object itself."""

    key: str
    sha256: str


@dataclass(frozen=True)
class Objects:
    """Objects by their source's name (file ``objects/objects.json``)."""

    objects: dict[str, CompiledObject]


def digest_sources(project: Path, settings: str) -> dict[str, str]:
    """Digest each source with every header and the compiler's settings."""
    common = hashlib.sha256(settings.encode())
    for header in sorted(project.rglob("*.h")):
        common.update(header.relative_to(project).as_posix().encode() + header.read_bytes())
    keys = {}
    for source in sorted(p for p in project.iterdir() if p.suffix in (".c", ".S")):
        own = common.copy()
        own.update(source.name.encode() + source.read_bytes())
        keys[source.name] = own.hexdigest()
    return keys


def run(job: Job, folder: Path) -> None:
    """Write one object a source and ``objects.json``."""
    project = PROJECT.read(job)
    compiler = find_compiler(job.build.toolchain, job.platform.architecture)
    decisive = [compiler.version, stamp_compiler(job.build), job.build_settings]
    keys = digest_sources(project, str(decisive))
    last = OBJECTS.read(job)
    listed = last / "objects.json"
    known = read_record(listed, Objects).objects if listed.exists() else {}

    def compile_one(name: str) -> CompiledObject:
        target = folder / f"{Path(name).stem}.o"
        before, kept = known.get(name), last / target.name
        if (
            before
            and before.key == keys[name]
            and kept.exists()
            and file_digest(kept) == before.sha256
        ):
            shutil.copyfile(kept, target)
        else:
            compile_object(job.build, compiler, project / name, target, job.cache)
        return CompiledObject(keys[name], file_digest(target))

    compiled = compile_each(compile_one, keys)
    write_record(folder / "objects.json", Objects(dict(zip(keys, compiled, strict=True))))
