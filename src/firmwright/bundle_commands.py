"""Runs the commands that have bundles as arguments."""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from firmwright.bundle.archive import read_capped
from firmwright.bundle.bundle import Bundle, read_bundle
from firmwright.bundle.inspect import compare_bundles, inspect_file, render_bundles
from firmwright.bundle.mcuboot import ImageLayout, make_mcuboot_image
from firmwright.bundle.oci_registry import parse_reference
from firmwright.bundle.policy import verify_bundle
from firmwright.bundle.shipping import pull_bundle, push_bundle
from firmwright.bundle.signing import (
    UntrustedBundleError,
    envelope_path,
    prepare_envelope,
    sign_bundle,
)
from firmwright.documents.quantities import parse_frequency, parse_size
from firmwright.documents.whole_file import write_whole
from firmwright.errors import UserError, explain_failure
from firmwright.hardware.cycle_log import CycleLog
from firmwright.ir.records import format_record
from firmwright.pipeline.command_line import NO_USER_CODE
from firmwright.rebuild.rebuilt_bundle import rebuild, search_in
from firmwright.rebuild.revisions import open_bundle
from firmwright.report.difference import format_difference, format_markdown
from firmwright.report.inspection import format_inspection
from firmwright.report.measurement import Measurement, format_measurement, format_yaml
from firmwright.report.outcomes import Verification

SAME, DIFFERS, BROKEN = 0, 1, 2
"""Exit codes of ``diff`` and ``rebuild``, equal to the codes of the program ``diff``."""
TRUSTED, UNTRUSTED = 0, 1
"""Additional exit codes of ``verify-bundle``. Other commands return 0 or ``BROKEN``."""


def run_command(options: argparse.Namespace) -> int:
    try:
        return COMMANDS[options.command](options)
    except UserError as error:
        print(error, file=sys.stderr)
        verified = options.command == "verify-bundle"
        return UNTRUSTED if verified and isinstance(error, UntrustedBundleError) else BROKEN


def run_inspect(options: argparse.Namespace) -> int:
    inspection = inspect_file(options.file)
    if options.json:
        print(format_record(inspection, "inspection.schema.json"), end="")
    else:
        print(format_inspection(inspection))
    return 0


def run_diff(options: argparse.Namespace) -> int:
    with TemporaryDirectory(prefix="firmwright-diff-") as folder:
        refused = list_refusals(options)
        before = open_bundle(options.before, Path(folder, "before"), refused)
        after = open_bundle(options.after, Path(folder, "after"), refused)
    difference = compare_bundles(before, after)
    if options.json:
        print(format_record(difference, "difference.schema.json"), end="")
    elif options.html:
        write_page(options.html, render_bundles(before, after, difference))
        print(f"wrote {options.html}")
    else:
        text = format_markdown(difference) if options.markdown else format_difference(difference)
        print(text)
    return SAME if difference.is_same else DIFFERS


def list_refusals(options: argparse.Namespace) -> list[str]:
    return [f"{NO_USER_CODE}=1"] if options.no_user_code else []


def write_page(path: Path, text: str) -> None:
    """Write a page. Raises UserError if the page cannot be written."""
    with explain_failure(f"{path}: cannot be written", "choose another file"):
        path.write_text(text, encoding="utf-8", newline="\n")


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
    """Return the number of bytes that an option states.

    Raises UserError if the text is not a size.
    """
    try:
        return parse_size(int(text) if text.isdecimal() else text)
    except ValueError:
        raise UserError(
            f"--{name} {text}: not a size; expected a number of bytes, such as 512 or 256KiB"
        ) from None


def run_verify(options: argparse.Namespace) -> int:
    envelope = options.envelope or envelope_path(options.bundle)
    try:
        bundle = verify_bundle(options.bundle, options.policy, envelope)
    except UntrustedBundleError as error:
        if options.json:
            print_verification(options.bundle, str(error))
        raise
    if options.json:
        print_verification(options.bundle, "")
    else:
        print(f"{options.bundle}: trusted, sha256 {bundle.sha256}")
    return TRUSTED


def print_verification(path: Path, failure: str) -> None:
    verification = Verification(str(path), not failure, read_bundle(path).sha256, failure)
    print(format_record(verification, "verification.schema.json"), end="")


def run_rebuild(options: argparse.Namespace) -> int:
    bundle = read_bundle(options.bundle)
    envelope = options.envelope or envelope_path(options.bundle)
    if options.attest:
        # An error of the envelope is reported before the build, which needs much time.
        prepare_envelope(bundle, options.attest, envelope)
    if options.files:
        search_in(options.files)
    rebuilt = rebuild(bundle, list_refusals(options))
    if not rebuilt.is_same(bundle):
        from firmwright.bundle.first_difference import find_first  # it imports numpy

        print(format_difference(compare_bundles(bundle, rebuilt.bundle)))
        first = find_first(bundle.files, rebuilt.bundle.files)
        print(f"\nfirst: {first}\nthe build is kept in {rebuilt.scratch}")
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


def run_measure(options: argparse.Namespace) -> int:
    bundle = read_bundle(options.bundle)
    content = read_capped(options.log)
    written = options.output
    if written and written.exists() and any(map(written.samefile, (options.log, options.bundle))):
        raise UserError(f"--output: {written} is the log or the bundle; choose another file")
    log = CycleLog(options.log, bundle.manifest["build_id"], *list_measured(bundle))
    measured = log.read(content.decode("utf-8", "replace"))
    measurement = Measurement(
        board=options.board,
        clock=None if options.clock is None else read_clock(options.clock),
        passes=log.passes,
        build_id=bundle.manifest["build_id"],
        bundle_sha256=bundle.sha256,
        log_sha256=hashlib.sha256(content).hexdigest(),
        layers=tuple(measured),
    )
    print(format_measurement(measurement, bundle.manifest))
    if options.output:
        write_page(options.output, format_yaml(measurement))
        print(f"wrote {options.output}")
    return 0


def list_measured(bundle: Bundle) -> tuple[list[str], list[str]]:
    """Return the layers and the outputs that the demo of a bundle prints.

    Raises UserError if the demo of the recipe does not print measurements.
    """
    demo = bundle.manifest["recipe"]["resolved"].get("demo") or {}
    if demo.get("profile") != "individual" or demo.get("compare") is not True:
        raise UserError(
            f"{bundle.path}: the demo of this bundle measures no layers, or compares no outputs; "
            "build with `demo: {profile: individual, compare: true}`"
        )
    interface = next(name for name in bundle.files if name.endswith("_interface.json"))
    outputs = json.loads(bundle.files[interface])["outputs"]
    layers = [layer["name"] for layer in bundle.manifest["layers"]]
    return layers, [output["member"] for output in outputs]


def read_clock(text: str) -> int:
    """Return the clock in Hz of an option. Raises UserError if the text is not a frequency."""
    try:
        return parse_frequency(text)
    except ValueError as error:
        raise UserError(f"--clock: {error}") from None


COMMANDS: dict[str, Callable[[argparse.Namespace], int]] = {
    "inspect": run_inspect,
    "diff": run_diff,
    "sign": run_sign,
    "image": run_image,
    "verify-bundle": run_verify,
    "rebuild": run_rebuild,
    "push": run_push,
    "pull": run_pull,
    "measure": run_measure,
}
