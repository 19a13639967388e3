"""Inspects a bundle or an image, and compares two bundles and their reports."""

from __future__ import annotations

import hashlib
import io
import struct
from importlib import import_module
from pathlib import Path

import msgspec
from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import NoteSection

from firmwright.bundle import mcuboot
from firmwright.bundle.archive import BrokenBundleError, read_capped
from firmwright.bundle.bundle import Bundle, parse_any_bundle, read_json
from firmwright.report.difference import Difference, find_changes, make_verdict
from firmwright.report.inspection import InspectedArchive, InspectedImage, Inspection
from firmwright.report.report import REPORT_VERSION, Report
from firmwright.report.two_builds import render_comparison
from firmwright.targets.load_devices import load_target, target_names
from firmwright.toolchain import network_image
from firmwright.toolchain.flash_images import read_sections
from firmwright.toolchain.network_image import NetworkImage

ELF_MAGIC = b"\x7fELF"
REPORT = "report/report.json"
MEMORY_SUFFIX = ".bin"
"""The suffix of memory contents.

The memory of a Linux program begins with an ELF header, but is not inspected as an ELF file.
"""


def inspect_file(path: Path) -> Inspection:
    """Return the contents of a bundle, an ELF file, an MCUboot image or a network's image.

    Archives of the compilers of firmwright's devices are also supported. Raises BrokenBundleError
    for other files.
    """
    content = read_capped(path)
    digest = hashlib.sha256(content).hexdigest()
    if content.startswith(ELF_MAGIC):
        image = inspect_image(content, path.name)
        return Inspection(path.name, "elf", len(content), digest, (image,), None)
    if content.startswith(mcuboot.MAGIC):
        boot_image = mcuboot.read_mcuboot_image(content, path.name)
        return Inspection(path.name, "mcuboot", len(content), digest, (), None, boot_image)
    if content.startswith(network_image.MAGIC):
        network = inspect_network(content, path.name)
        return Inspection(path.name, "network", len(content), digest, (), None, network=network)
    try:
        bundle = parse_any_bundle(content, path)
    except BrokenBundleError:
        if archive := inspect_archive(content, path):
            return Inspection(path.name, "archive", len(content), digest, (), None, archive=archive)
        raise
    images = tuple(
        inspect_image(data, name)
        for name, data in sorted(bundle.files.items())
        if data.startswith(ELF_MAGIC) and not name.endswith(MEMORY_SUFFIX)
    )
    return Inspection(
        path.name, "bundle", bundle.packed_bytes, bundle.sha256, images, dict(bundle.manifest)
    )


def inspect_archive(content: bytes, path: Path) -> InspectedArchive | None:
    """Return the contents of an archive of a device's compiler, or None for other files.

    Raises UserError if the archive is damaged.
    """
    for name in target_names():
        module, _, function = load_target(name).archive_reader.partition(":")
        if module:
            archive: InspectedArchive | None = getattr(import_module(module), function)(
                content, path
            )
            if archive:
                return archive
    return None


def inspect_network(content: bytes, name: str) -> NetworkImage:
    """Return the header of a network's image. Raises BrokenBundleError if the image is damaged."""
    try:
        return network_image.read_image(content)
    except (struct.error, ValueError) as error:
        raise BrokenBundleError(
            f"{name}: a damaged image of a network: {error}; build it again"
        ) from None


def inspect_image(content: bytes, name: str) -> InspectedImage:
    """Return the facts of an ELF image. Raises BrokenBundleError if the image is damaged."""
    try:
        image = ELFFile(io.BytesIO(content))
        order = "little" if image.little_endian else "big"
        machine = f"{image.get_machine_arch()}, {image.elfclass} bits, {order}-endian"
        return InspectedImage(name, machine, find_build_id(image), read_sections(image))
    # pyelftools trusts the tables of a file. Damaged tables raise any of these errors.
    except (ELFError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise BrokenBundleError(f"{name}: a damaged ELF image: {error}; build it again") from None


def find_build_id(image: ELFFile) -> str | None:
    """Return the linker's build id (a note of type GNU), or None if the image has no build id."""
    notes = (s for s in image.iter_sections() if isinstance(s, NoteSection))
    for note in (note for section in notes for note in section.iter_notes()):
        if note["n_type"] == "NT_GNU_BUILD_ID":
            return str(note["n_desc"])
    return None


def compare_bundles(before: Bundle, after: Bundle) -> Difference:
    changes = tuple(find_changes(before.manifest, after.manifest))
    names = before.path.name, after.path.name
    verdict = make_verdict(before.manifest, after.manifest)
    return Difference(*names, before.sha256, after.sha256, verdict, changes)


def render_bundles(before: Bundle, after: Bundle, difference: Difference) -> str:
    """Return the page that compares two bundles.

    Raises BrokenBundleError if a report cannot be read.
    """
    return render_comparison(read_report(before), read_report(after), difference)


def read_report(bundle: Bundle) -> Report:
    """Return a bundle's report.

    Raises BrokenBundleError if the report is missing, has another version or does not fit its
    schema.
    """
    if REPORT not in bundle.files:
        raise BrokenBundleError(
            f"{bundle.path}: the bundle has no {REPORT}; build the bundle with this firmwright"
        )
    content = read_json(bundle.files[REPORT], f"{bundle.path}: {REPORT}")
    version = content.get("report_version") if isinstance(content, dict) else None
    if version != REPORT_VERSION:
        raise BrokenBundleError(
            f"{bundle.path}: {REPORT} has version {version}; expected {REPORT_VERSION}: build the "
            "bundle with this firmwright"
        )
    try:
        return msgspec.convert(content, Report)
    except msgspec.ValidationError as error:
        raise BrokenBundleError(
            f"{bundle.path}: {REPORT} does not fit its schema: {error}; build the bundle again"
        ) from None
