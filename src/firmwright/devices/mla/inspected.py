"""Describes an archive of SiMa's compiler, or its stand-in, for ``firmwright inspect``."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Mapping
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any

from firmwright.bundle.archive import BrokenBundleError, read_tar, unpack_gzip
from firmwright.devices.mla.compiled import NOTICE_FILE, make_record
from firmwright.devices.mla.mpk import Pipeline, find_program, read_pipeline
from firmwright.devices.mla.mpk_archive import (
    BUILD_AGAIN,
    MAX_MEMBERS,
    is_description,
    parse_archive,
    read_description,
)
from firmwright.errors import UserError
from firmwright.report.inspection import ArchiveStep, InspectedArchive

COMPILER = "SiMa's Model SDK"


def inspect_archive(content: bytes, path: Path) -> InspectedArchive | None:
    """Return the description of an archive, or None if the file has no ``*_mpk.json``.

    Raises UserError if the archive is damaged, or if its parts contradict each other.
    """
    try:
        unpacked = unpack_gzip(content)
        names = list_names(unpacked)
    except (BrokenBundleError, tarfile.TarError, ValueError, OverflowError):
        return None
    if not any(map(is_description, names)):
        return None
    stand_in = NOTICE_FILE in names
    try:
        files = read_tar(unpacked) if stand_in else parse_archive(unpacked)
        description = read_description(files)
        pipeline = read_pipeline(*description, list(files))
        return describe(path.name, files, description[1], pipeline, stand_in)
    except BrokenBundleError as error:
        raise UserError(f"{path}: {error}; {BUILD_AGAIN}") from None
    except UserError as error:  # the message contains its remedy
        raise UserError(f"{path}: {error}") from None


def list_names(content: bytes) -> set[str]:
    with tarfile.open(fileobj=io.BytesIO(content), mode="r:", errors="strict") as archive:
        return {PurePosixPath(entry.name).name for entry in islice(archive, MAX_MEMBERS)}


def describe(
    file: str, files: Mapping[str, bytes], content: Any, pipeline: Pipeline, stand_in: bool
) -> InspectedArchive:
    version = content.get("model_sdk_version", "of an unknown version")
    steps = sorted(content["plugins"], key=lambda step: step["sequence"])
    return InspectedArchive(
        name=content.get("name"),
        made_by=f"firmwright, without {COMPILER}" if stand_in else f"{COMPILER} {version}",
        steps=tuple(ArchiveStep(s["name"], s["processor"], find_program(s)) for s in steps),
        remarks=pipeline.remarks,
        contents=make_record(file, files, pipeline, stand_in),
    )
