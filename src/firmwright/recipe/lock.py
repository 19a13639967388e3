"""Reads, writes and compares the lock of a recipe.

The lock records the inputs that the recipe does not fix. The file ``<recipe>.lock`` is next to the
recipe, for version control. The published schema is ``lock.schema.json``. If the inputs differ from
the lock, a build fails and lists the differences.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec

from firmwright.documents.whole_file import write_whole
from firmwright.errors import UserError
from firmwright.plugins import read_version
from firmwright.recipe.recipe import lock_path

LOCK_VERSION = 2

CORE_PACKAGES = (
    *("apache-tvm", "apache-tvm-ffi", "firmwright", "jinja2", "markupsafe", "ml-dtypes", "msgspec"),
    *("numpy", "perfetto", "protobuf", "pyelftools", "pyyaml"),
)
"""Packages that compute or write the content of every bundle."""
QUANTIZATION_PACKAGES = ("onnx", "onnxruntime")
PICTURE_PACKAGES = ("pillow",)

SampleDigests = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Lock:
    """The digests and versions of a build's inputs.

    ``files`` maps the path of each file, relative to the recipe's folder, to its SHA-256.
    ``samples`` contains the digests of the samples that the network reads, in order, under
    ``calibration``, ``evaluate`` and ``run``. ``versions`` maps the packages, toolchains and
    emulators that affect the bytes to versions. ``programs`` maps each compiler and processor to
    the SHA-256 of all files that the compiler opens: programs, headers, libraries and start-up
    files. ``bases`` are the recipe's overlays and the files that it extends. ``values`` maps keys
    to the values of the command line. A bundle's lock has no bases and no values, because the
    bundle's recipe is complete.
    """

    lock_version: int
    files: dict[str, str]
    samples: dict[str, tuple[str, ...]]
    versions: dict[str, str]
    programs: dict[str, str] = field(default_factory=dict)
    bases: dict[str, str] | msgspec.UnsetType = msgspec.UNSET
    values: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET


def find_package_versions(names: Iterable[str]) -> dict[str, str]:
    """Return the versions of the installed packages among ``names``, sorted."""
    versions = {}
    for name in sorted(names):
        with suppress(PackageNotFoundError):  # the stage reports a missing package
            versions[name] = read_version(name)
    return versions


def name_files(
    files: Iterable[Path], folder: Path, packages: Mapping[str, Path] = MappingProxyType({})
) -> dict[str, Path]:
    """Return a mapping from paths relative to ``folder`` to files.

    The key of a file in another folder is only the file's name, because other folders differ
    between machines. The key of a file in the folder of an installed package begins with the
    package's name. A number is added to a key that already exists.
    """
    roots = [(folder.absolute(), ""), *((f.absolute(), f"{n}/") for n, f in packages.items())]
    named_files: dict[str, Path] = {}
    for path in dict.fromkeys(p.absolute() for p in files):
        held = ((root, prefix) for root, prefix in roots if path.is_relative_to(root))
        root, prefix = next(held, (path.parent, ""))
        name = prefix + path.relative_to(root).as_posix()
        same = sum(n == name or n.startswith(f"{name} (") for n in named_files)
        named_files[f"{name} ({same + 1})" if same else name] = path
    return named_files


def read_lock(recipe: Path) -> Lock | None:
    """Return a recipe's lock, or None if there is no lock.

    Raises UserError if the lock cannot be read.
    """
    path = lock_path(recipe)
    try:
        lock = msgspec.json.decode(path.read_bytes(), type=Lock)
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError, msgspec.DecodeError) as error:
        raise UserError(
            f"{path}: not a lock: {error}; write it again with `firmwright lock {recipe}`"
        ) from None
    if lock.lock_version != LOCK_VERSION:
        raise UserError(
            f"{path}: has version {lock.lock_version}; expected {LOCK_VERSION}: write it again "
            f"with `firmwright lock {recipe}`"
        )
    return lock


def write_lock(recipe: Path, lock: Lock) -> bool:
    """Write a recipe's lock completely or not at all, and return whether the lock has changed."""
    from firmwright.ir.records import encode_record

    return write_whole(lock_path(recipe), encode_record(lock))


def compare_locks(lock: Lock, inputs: Lock, alternatives: Collection[str]) -> list[str]:
    """Return a sentence for each difference between ``inputs``, the build's inputs, and the lock.

    A lock may contain ``alternatives``, toolchains and emulators, that the build does not use.
    """
    return [
        *compare_files(lock.files, inputs.files),
        *compare_samples(lock.samples, inputs.samples),
        *compare_versions(lock.versions, inputs.versions, alternatives),
        *compare_programs(lock.programs, inputs.programs),
        *compare_bases(lock.bases or {}, inputs.bases or {}),
        *compare_values(lock.values or {}, inputs.values or {}),
    ]


def compare_files(locked: Mapping[str, str], inputs: Mapping[str, str]) -> Iterator[str]:
    for name in sorted({*locked, *inputs}):
        if name not in inputs:
            yield f"{name} is locked, but no longer read"
        elif name not in locked:
            yield f"{name} is not in the lock"
        elif locked[name] != inputs[name]:
            yield f"{name} has changed"


def compare_samples(locked: SampleDigests, inputs: SampleDigests) -> Iterator[str]:
    """Yield the differences of samples. A run may use fewer samples than the lock contains."""
    for purpose in sorted({*locked, *inputs}):
        ours, theirs = inputs.get(purpose, ()), locked.get(purpose, ())
        if len(ours) > len(theirs) or (len(ours) < len(theirs) and purpose != "run"):
            yield f"{purpose}: {len(ours)} samples; {len(theirs)} are locked"
            continue
        other = [str(i) for i, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b]
        if other:
            listed = ", ".join(other[:10]) + (", …" if len(other) > 10 else "")
            yield f"{purpose}: {len(other)} of {len(ours)} samples differ (sample {listed})"


def compare_versions(
    locked: Mapping[str, str], inputs: Mapping[str, str], alternatives: Collection[str]
) -> Iterator[str]:
    for name in sorted({*locked, *inputs}):
        ours, theirs = inputs.get(name), locked.get(name)
        if ours is None and name not in alternatives:
            yield f"{name} ({theirs}) is locked, but no longer used"
        elif theirs is None:
            yield f"{name} ({ours}) is not in the lock"
        elif ours is not None and ours != theirs:
            yield f"{name} is {ours}; the lock has {theirs}"


def compare_programs(locked: Mapping[str, str], inputs: Mapping[str, str]) -> Iterator[str]:
    """Yield the compilers whose files differ.

    A lock may contain compilers that the build does not use.
    """
    for name, digest in sorted(inputs.items()):
        if name not in locked:
            yield f"the files that {name} opens are not in the lock"
        elif locked[name] != digest:
            yield (
                f"the files that {name} opens (libraries, headers, programs) have changed: sha256 "
                f"{digest[:16]}; the lock has {locked[name][:16]}"
            )


def compare_bases(locked: Mapping[str, str], inputs: Mapping[str, str]) -> Iterator[str]:
    """Yield the files of the recipe that differ.

    A lock may contain bases that the recipe no longer extends, because the recipe is not locked.
    """
    for name, digest in sorted(inputs.items()):
        if name not in locked:
            yield f"{name}, which the recipe builds on, is not in the lock"
        elif locked[name] != digest:
            yield f"{name}, which the recipe builds on, has changed"


def is_locked(key: str) -> bool:
    """Return whether a lock has a key of the command line.

    CI states the facts of each release. They do not change the firmware.
    """
    return key.partition(".")[0] != "release"


def compare_values(locked: Mapping[str, Any], inputs: Mapping[str, Any]) -> Iterator[str]:
    for key in sorted(filter(is_locked, {*locked, *inputs})):
        if key not in locked:
            yield f"command line: {key} is not in the lock"
            continue
        ours, theirs = (json.dumps(each.get(key), sort_keys=True) for each in (inputs, locked))
        if ours != theirs:  # texts, because 1 equals 1.0 and True in Python
            yield f"{key} is {ours}; the lock has {theirs}"
