"""Defines the commands that have bundles as arguments.

Each start of firmwright imports this module, so it has few imports.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from firmwright.pipeline.command_line import add_no_user_code

COMMANDS = (
    *("inspect", "diff", "sign", "image", "verify-bundle", "rebuild", "push", "pull", "measure"),
)

ONLINE = ("push", "pull")
"""Commands that report a broken connection. Other commands end without a message."""


def add_commands(commands: Any) -> None:
    sentence = "print the contents of a bundle or of an image: ELF, MCUboot, or a network's image"
    inspect = commands.add_parser("inspect", help=sentence, description=sentence)
    inspect.add_argument("file", metavar="FILE", type=Path, help="a bundle (.tar.gz) or an image")
    sentence = "print the changes from one bundle to another"
    codes = "exit code: 0 equal, 1 different, 2 a bundle cannot be read or built"
    diff = commands.add_parser("diff", help=sentence, description=sentence, epilog=codes)
    operand = "a bundle (.tar.gz), or a recipe to build: net.yaml, or HEAD~1:net.yaml from git"
    diff.add_argument("before", metavar="BEFORE", help=operand)
    diff.add_argument("after", metavar="AFTER", help="a second bundle, or a second recipe")
    forms = diff.add_mutually_exclusive_group()
    forms.add_argument("--markdown", action="store_true", help="print tables for a pull request")
    forms.add_argument(
        "--html", metavar="FILE", type=Path, help="write an HTML page with both builds side by side"
    )
    sentence = "sign the provenance of a bundle, or add a signature with a second key"
    sign = commands.add_parser("sign", help=sentence, description=sentence)
    sign.add_argument(
        "--key", type=Path, help="private key, ed25519 in PEM (default: $FIRMWRIGHT_SIGNING_KEY)"
    )
    add_image(commands)
    sentence = "check digests, signatures and provenance of a bundle against a policy"
    codes = "exit code: 0 accepted, 1 rejected, 2 unreadable bundle or invalid policy"
    verify = commands.add_parser("verify-bundle", help=sentence, description=sentence, epilog=codes)
    verify.add_argument("--policy", type=Path, required=True, help="a YAML file with requirements")
    for parser in (inspect, forms, verify):
        parser.add_argument("--json", action="store_true", help="print JSON")
    sentence = "build a bundle again from its recipe, and compare the digests"
    codes = "exit code: 0 equal, 1 different, 2 the bundle cannot be read or built"
    again = commands.add_parser("rebuild", help=sentence, description=sentence, epilog=codes)
    again.add_argument(
        "--files",
        metavar="FOLDER",
        type=Path,
        help="folder of the files outside the bundle",
    )
    again.add_argument("--attest", metavar="KEY", type=Path, help="sign if both bundles are equal")
    sentence = "upload a bundle to a registry, with its SBOM and its signatures"
    push = commands.add_parser("push", help=sentence, description=sentence)
    for parser in (diff, again):
        add_no_user_code(parser)
    for parser in (sign, verify, again, push):
        parser.add_argument("bundle", metavar="BUNDLE", type=Path, help="a bundle (.tar.gz)")
        parser.add_argument(
            "--envelope", type=Path, help="the signed provenance (default: next to the bundle)"
        )
    sentence = "download a bundle and its signatures from a registry, and check them"
    pull = commands.add_parser("pull", help=sentence, description=sentence)
    example = "HOST/NAME:TAG, such as registry.example/team/digits:1.2"
    push.add_argument("reference", metavar="ADDRESS", help=example)
    pull.add_argument("reference", metavar="ADDRESS", help=f"{example}, or HOST/NAME@sha256:DIGEST")
    pull.add_argument(
        "folder", metavar="FOLDER", type=Path, nargs="?", default=".", help="default: ."
    )
    add_measure(commands)


def add_measure(commands: Any) -> None:
    sentence = "read the cycles of each layer from the log of a board, and check the log"
    measure = commands.add_parser("measure", help=sentence, description=sentence)
    log = "the console output of the bundle's demo, with `profile: individual`"
    measure.add_argument("log", metavar="LOG", type=Path, help=log)
    measure.add_argument("bundle", metavar="BUNDLE", type=Path, help="a bundle (.tar.gz)")
    board = "board, chip and memory settings, such as 'NUCLEO-F446RE, 5 wait states, ART on'"
    measure.add_argument("--board", required=True, metavar="TEXT", help=board)
    measure.add_argument("--clock", help="the clock of the core, such as 168MHz")
    measure.add_argument("--output", type=Path, help="a YAML file to write")


def add_image(commands: Any) -> None:
    sentence = "sign a bundle's firmware as an image for the boot loader MCUboot"
    image = commands.add_parser("image", help=sentence, description=sentence)
    image.add_argument("bundle", metavar="BUNDLE", type=Path, help="a bundle (.tar.gz)")
    image.add_argument("--image-version", required=True, help="major.minor.revision, or 1.2.3+4")
    image.add_argument("--slot", required=True, help="size of the slot, such as 256KiB")
    image.add_argument("--header", default="512", help="bytes before the firmware (default: 512)")
    image.add_argument(
        "--align", type=int, choices=(1, 2, 4, 8, 16, 32), default=8,
        help="size of a flash write in bytes (default: 8)",
    )  # fmt: skip
    image.add_argument(
        "--key", type=Path, help="private key, ed25519 in PEM (default: $FIRMWRIGHT_SIGNING_KEY)"
    )
    image.add_argument(
        "--output", type=Path, help="the image to write (default: next to the bundle, .signed.bin)"
    )
