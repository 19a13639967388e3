"""Reads the descriptions of the build systems in ``templates/exports``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.resources import files
from typing import Any

import msgspec

from firmwright.documents.schema_check import Finding, quote
from firmwright.recipe.schema import load_schema
from firmwright.toolchain import Platform, load_platform, platform_names
from firmwright.toolchain.descriptions import read_builtin_yaml
from firmwright.toolchain.families import find_family


class SampleKind(msgspec.Struct, frozen=True):
    """The meaning of a sample's bytes, for networks with these numbers of elements."""

    kind: str
    inputs: int
    outputs: int


class Export(msgspec.Struct, frozen=True):
    """The description of a package, which is next to its templates.

    ``network`` is the folder of the C files. ``reserved`` are names that the package cannot have,
    because they have another meaning in the build system. ``families`` are the supported families
    of cores, or empty for all families. ``archive`` is the file in which all other files are also
    packed, or ''. ``samples`` lists networks whose samples have another form than the input.
    ``several`` states whether a package can contain several networks.
    """

    network: str
    several: bool = True
    families: tuple[str, ...] = ()
    reserved: tuple[str, ...] = ()
    archive: str = ""
    samples: tuple[SampleKind, ...] = ()


def load_export(name: str) -> Export:
    folder = files("firmwright.templates").joinpath("exports", name)
    text = folder.joinpath("export.yaml").read_text(encoding="utf-8")
    return msgspec.convert(read_builtin_yaml(text), Export)


def find_export_errors(data: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield an error for a prefix that a package cannot have as its name."""
    prefix = data.get("c_prefix", load_schema()["properties"]["c_prefix"]["default"])
    for name in _list_known(data.get("export")):
        if prefix in load_export(name).reserved:
            message = f"{name} reserves the name {quote(prefix)}; choose another prefix"
            yield Finding(("c_prefix",), message)


def find_joint_export_errors(stated: Any, prefix: str) -> Iterator[Finding]:
    """Yield the errors of ``export`` in a recipe of several networks with a common prefix."""
    for name in _list_known(stated):
        export = load_export(name)
        if not export.several:
            message = f"{name} supports one network; state it in the recipe of one network"
            yield Finding(("export",), message)
        elif prefix in export.reserved:
            message = f"{name} reserves the name {quote(prefix)}; choose another `name`"
            yield Finding(("export",), message)


def find_unfit_exports(names: Iterable[str], platform: Platform) -> Iterator[str]:
    """Yield an error for each build system that does not support the platform's core."""
    family = find_family(platform.architecture)
    for name in names:
        fitting = load_export(name).families
        if fitting and family and family not in fitting:
            platforms = list_plain_platforms(fitting)
            yield (
                f"{name} does not build for {family}, the core of the platform "
                f"'{platform.name}'; choose one of these platforms: {', '.join(platforms)}"
            )


def list_plain_platforms(families: Sequence[str]) -> list[str]:
    """Return the platforms with cores of these families, without accelerators.

    Cores with a vendor's instructions are not included. In RISC-V, their architecture contains the
    name of an extension that begins with x.
    """
    known = [p for p in map(load_platform, platform_names()) if "_x" not in p.architecture]
    plain = (p for p in known if not p.accelerators or p.architecture == "native")
    return [p.name for p in plain if find_family(p.architecture) in families]


def _list_known(stated: Any) -> list[str]:
    """Return the build systems that a recipe names under ``export`` in any of its forms.

    Wrong values are skipped, because the schema has reported them.
    """
    named = stated.get("to") if isinstance(stated, Mapping) else stated
    known = load_schema()["$defs"]["build-system"]["enum"]
    names = named if isinstance(named, list) else [named]
    return [name for name in names if isinstance(name, str) and name in known]
