"""Runs the commands that have bundles as arguments."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from firmwright.bundle.bundle import read_bundle
from firmwright.bundle.inspect import compare_bundles, inspect_file
from firmwright.bundle.mcuboot_signing import ImageLayout, make_mcuboot_image
from firmwright.bundle.policy import verify_bundle
from firmwright.bundle.registry import parse_reference
from firmwright.bundle.reports import render_bundles
from firmwright.bundle.shipping import pull_bundle, push_bundle
from firmwright.bundle.signing import (
    KEY_VARIABLE,
    UntrustedBundleError,
    envelope_path,
    prepare_envelope,
    sign_bundle,
)
from firmwright.documents.sizes import parse_size
from firmwright.documents.whole_file import write_whole
from firmwright.errors import UserError
from firmwright.ir.records import format_record
from firmwright.pipeline.command_line import NO_USER_CODE, add_no_user_code
from firmwright.rebuild.bundle import rebuild, search_in
from firmwright.rebuild.revisions import open_bundle
from firmwright.report.difference import format_difference, format_markdown
from firmwright.report.inspection import format_inspection

SAME, DIFFERS, BROKEN = 0, 1, 2
"""Exit codes of ``diff`` and ``rebuild``, equal to those of the program ``diff``."""
TRUSTED, UNTRUSTED = 0, 1
"""Exit codes of ``verify-bundle``, next to ``BROKEN``; other commands return 0 or ``BROKEN``."""


def add_commands(commands: Any) -> None:
    """Add the parsers of these commands to the command line's parser."""
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
    for parser in (inspect, forms):
        parser.add_argument("--json", action="store_true", help="print JSON")
    sentence = "sign the provenance of a bundle, or add a signature with a second key"
    sign = commands.add_parser("sign", help=sentence, description=sentence)
    sign.add_argument(
        "--key", type=Path, help=f"private key, ed25519 in PEM (default: ${KEY_VARIABLE})"
    )
    add_image(commands)
    sentence = "check digests, signatures and provenance of a bundle against a policy"
    codes = "exit code: 0 accepted, 1 rejected, 2 unreadable bundle or invalid policy"
    verify = commands.add_parser("verify-bundle", help=sentence, description=sentence, epilog=codes)
    verify.add_argument("--policy", type=Path, required=True, help="a YAML file with requirements")
    sentence = "build a bundle again from its recipe, and compare the digests"
    codes = "exit code: 0 equal, 1 different, 2 the bundle cannot be read or built"
    again = commands.add_parser("rebuild", help=sentence, description=sentence, epilog=codes)
    again.add_argument(
        "--files",
        metavar="FOLDER",
        type=Path,
        help="folder of the files outside the bundle",
    )
    again.add_argument("--attest", metavar="KEY", type=Path, help="sign if both are equal")
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
    place = "HOST/NAME:TAG, such as registry.example/team/digits:1.2"
    push.add_argument("reference", metavar="PLACE", help=place)
    pull.add_argument("reference", metavar="PLACE", help=f"{place}, or HOST/NAME@sha256:DIGEST")
    pull.add_argument(
        "folder", metavar="FOLDER", type=Path, nargs="?", default=".", help="default: ."
    )


def add_image(commands: Any) -> None:
    """Add the parser of the command that makes images for MCUboot."""
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
        "--key", type=Path, help=f"private key, ed25519 in PEM (default: ${KEY_VARIABLE})"
    )
    image.add_argument(
        "--output", type=Path, help="the image to write (default: next to the bundle, .signed.bin)"
    )


def run_command(options: argparse.Namespace) -> int:
    """Run one of these commands; return its exit code."""
    try:
        return COMMANDS[options.command](options)
    except UserError as error:
        print(error, file=sys.stderr)
        verified = options.command == "verify-bundle"
        return UNTRUSTED if verified and isinstance(error, UntrustedBundleError) else BROKEN


def run_inspect(options: argparse.Namespace) -> int:
    found = inspect_file(options.file)
    if options.json:
        print(format_record(found, "inspection.schema.json"), end="")
    else:
        print(format_inspection(found))
    return 0


def run_diff(options: argparse.Namespace) -> int:
    with TemporaryDirectory(prefix="firmwright-diff-") as folder:
        words = list_refusals(options)
        before = open_bundle(options.before, Path(folder, "before"), words)
        after = open_bundle(options.after, Path(folder, "after"), words)
    found = compare_bundles(before, after)
    if options.json:
        print(format_record(found, "difference.schema.json"), end="")
    elif options.html:
        write_page(options.html, render_bundles(before, after, found))
        print(f"wrote {options.html}")
    else:
        text = format_markdown(found) if options.markdown else format_difference(found)
        print(text)
    return SAME if found.is_same else DIFFERS


def list_refusals(options: argparse.Namespace) -> list[str]:
    """Return the argument with which a build rejects user code, if the command line has it."""
    return [f"{NO_USER_CODE}=1"] if options.no_user_code else []


def write_page(path: Path, text: str) -> None:
    """Write a page; raise UserError on failure."""
    try:
        path.write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise UserError(f"{path}: cannot be written: {error.strerror}") from error


def run_sign(options: argparse.Namespace) -> int:
    envelope = options.envelope or envelope_path(options.bundle)
    key = sign_bundle(read_bundle(options.bundle), options.key, envelope)
    print(f"wrote {envelope}, signed by {key}")
    return 0


def run_image(options: argparse.Namespace) -> int:
    layout = ImageLayout(
        version=options.image_version,
        slot=read_size("slot", options.slot),
        header=read_size("header", options.header),
        align=options.align,
    )
    name = f"{options.bundle.name.removesuffix('.tar.gz')}.signed.bin"
    output = options.output or options.bundle.with_name(name)
    content = make_mcuboot_image(read_bundle(options.bundle), options.key, layout)
    write_whole(output, content)
    print(f"wrote {output} ({len(content):,} bytes)")
    return 0


def read_size(name: str, text: str) -> int:
    """Return the size in bytes of an option; raise UserError if the text is not a size."""
    try:
        return parse_size(int(text) if text.isdecimal() else text)
    except ValueError:
        raise UserError(f"--{name} {text}: not a size, as 512 or 256KiB") from None


def run_verify(options: argparse.Namespace) -> int:
    envelope = options.envelope or envelope_path(options.bundle)
    bundle = verify_bundle(options.bundle, options.policy, envelope)
    print(f"{options.bundle}: trusted, sha256 {bundle.sha256}")
    return TRUSTED


def run_rebuild(options: argparse.Namespace) -> int:
    bundle = read_bundle(options.bundle)
    envelope = options.envelope or envelope_path(options.bundle)
    if options.attest:
        prepare_envelope(bundle, options.attest, envelope)  # before the build, which takes long
    if options.files:
        search_in(options.files)
    rebuilt = rebuild(bundle, list_refusals(options))
    if not rebuilt.is_same(bundle):
        from firmwright.bundle.first_difference import find_first  # it imports numpy

        print(format_difference(compare_bundles(bundle, rebuilt.bundle)))
        first = find_first(bundle.files, rebuilt.bundle.files)
        print(f"\nfirst: {first}\nthe build is kept in {rebuilt.place}")
        return DIFFERS
    rebuilt.remove()
    print(f"{bundle.path}: the same, sha256 {bundle.sha256}")
    if options.attest:
        key = sign_bundle(bundle, options.attest, envelope)
        print(f"wrote {envelope}, signed by {key}")
    return SAME


def run_push(options: argparse.Namespace) -> int:
    envelope = options.envelope or envelope_path(options.bundle)
    reference = parse_reference(options.reference)
    for line in push_bundle(options.bundle, envelope, reference):
        print(line, flush=True)
    return 0


def run_pull(options: argparse.Namespace) -> int:
    for line in pull_bundle(parse_reference(options.reference), options.folder):
        print(line, flush=True)
    return 0


COMMANDS: dict[str, Callable[[argparse.Namespace], int]] = {
    "inspect": run_inspect,
    "diff": run_diff,
    "sign": run_sign,
    "image": run_image,
    "verify-bundle": run_verify,
    "rebuild": run_rebuild,
    "push": run_push,
    "pull": run_pull,
}

ONLINE = ("push", "pull")
"""Commands that have to report a broken connection, and must not end without a message."""
