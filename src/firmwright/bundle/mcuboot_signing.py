"""Signs the firmware of a bundle as an image for MCUboot, with MCUboot's program imgtool."""

from __future__ import annotations

import io
import tempfile
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from firmwright.bundle.bundle import Bundle
from firmwright.bundle.signing import load_private_key, read_private_key
from firmwright.errors import UserError, first_line

FIRMWARE = "firmware.bin"
NO_IMGTOOL = "images for MCUboot need imgtool: python -m pip install 'firmwright[mcuboot]'"


@dataclass(frozen=True)
class ImageLayout:
    """The boot loader's requirements: ``slot`` and ``header`` in bytes, ``align`` of its flash."""

    version: str
    slot: int
    header: int
    align: int


def make_mcuboot_image(bundle: Bundle, key: Path | None, layout: ImageLayout) -> bytes:
    """Return the image; its bytes depend only on the bundle, the key and the layout.

    The security counter is the ``counter`` of the bundle's recipe, if it has one. Raises UserError
    for a bundle without bare-metal firmware, a key that is not an ed25519 key, a wrong version, and
    too small a slot.
    """
    firmware = bundle.files.get(FIRMWARE)
    if firmware is None:
        raise UserError(
            f"{bundle.path}: has no firmware for a boot loader; build it for a bare-metal platform"
        )
    private = load_private_key(read_private_key(key))
    try:
        import click
        from imgtool.image import Image
        from imgtool.keys import Ed25519
        from imgtool.version import decode_version
    except ImportError:
        raise UserError(NO_IMGTOOL) from None
    try:
        version = decode_version(layout.version)
    except ValueError:
        raise UserError(
            f"version {layout.version}: not a version of MCUboot; expected "
            "major.minor.revision or major.minor.revision+build, such as 1.2.3+4"
        ) from None
    image: Any = Image(
        version=version, header_size=layout.header, pad_header=True, slot_size=layout.slot,
        align=layout.align, security_counter=read_counter(bundle),
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, FIRMWARE), Path(folder, "signed.bin")
        source.write_bytes(firmware)
        try:
            with redirect_stdout(io.StringIO()):  # imgtool prints its steps
                image.load(str(source))
                image.create(Ed25519(private), "hash", None)
                image.save(str(target))
        except click.UsageError as error:
            raise UserError(f"{bundle.path}: {first_line(error)}") from None
        return target.read_bytes()


def read_counter(bundle: Bundle) -> int | None:
    counter: int | None = bundle.manifest["recipe"]["resolved"].get("counter")
    return counter
