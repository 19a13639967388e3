"""The output of the commands for a bundle, and for a changed bundle."""

from __future__ import annotations

import base64
import hashlib
import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from firmwright.bundle.archive import write_archive
from firmwright.bundle.bundle import read_bundle
from firmwright.bundle.inspect import inspect_file, inspect_image
from firmwright.bundle.policy import verify_bundle
from firmwright.bundle.signing import sign_bundle
from firmwright.errors import UserError
from firmwright.report.inspection import format_inspection
from tests.hammer import bundles as hammer
from tests.hammer.bundles import write_keys

from .conftest import ALL_STAGES, Repository

pytestmark = pytest.mark.fresh

BUNDLE = "build/digits/digits-rv32-bare.tar.gz"


def firmwright(repository: Repository, *arguments: str) -> tuple[int, str]:
    """Return the exit code and the output of the command."""
    done = repository.firmwright(*arguments)
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout + done.stderr


def load_schema(name: str) -> Any:
    return json.loads(files("firmwright.report").joinpath(name).read_text("utf-8"))


def repack(
    bundle: Path, path: Path, edit: Callable[[dict[str, Any], dict[str, bytes]], object]
) -> Path:
    """Write a bundle with an edited manifest and edited files, packed as firmwright packs it."""
    found = read_bundle(bundle)
    manifest: dict[str, Any] = json.loads(found.files["manifest.json"])
    contents = dict(found.files)
    edit(manifest, contents)
    if "manifest.json" in contents:
        contents["manifest.json"] = json.dumps(manifest).encode()
    write_archive(path, found.folder, contents)
    return path


def test_inspect_tells_what_is_in_a_bundle(built: Repository) -> None:
    code, text = firmwright(built, "inspect", BUNDLE)
    assert code == 0
    lines = {line.split()[0]: line for line in text.splitlines() if line}
    manifest = built.manifest(BUNDLE)
    assert text.count(manifest["build_id"]) == 2  # in the manifest, and in the image
    assert lines["flash"].split()[1] == f"{manifest['memory']['flash_bytes']:,}"
    assert lines["batch"].endswith("1 (the recipe has no `batch`)")
    assert "zig 0.17.0" in lines["made"]
    assert lines[".text"].endswith("stored")
    assert lines[".bss"].endswith("written")
    assert lines["c"].split() == ["c", "6", "54,624"]
    assert lines["region_000_conv2d"].endswith("stem, stem_out_QuantizeLinear")
    assert manifest["files"][0]["sha256"] in text


def test_inspect_prints_json_of_its_schema(built: Repository) -> None:
    elf = built.folder / "build/digits/rv32-bare/firmware/firmware.elf"
    images = []
    for path in (BUNDLE, str(elf)):
        code, text = firmwright(built, "inspect", "--json", path)
        found = json.loads(text)
        assert code == 0
        assert found["$schema"] == "inspection.schema.json"
        jsonschema.validate(found, load_schema("inspection.schema.json"))
        images += found["images"]
    in_bundle, alone = images
    assert in_bundle["sections"] == alone["sections"]
    manifest = built.manifest(BUNDLE)
    flash = sum(section["bytes"] for section in alone["sections"] if section["stored"])
    assert flash == manifest["memory"]["flash_bytes"]


def begin_memory_with_the_header(manifest: dict[str, Any], contents: dict[str, bytes]) -> None:
    """Let the memory's content begin like a program for Linux."""
    contents["firmware.bin"] = data = contents["firmware.elf"][:4096]
    (listed,) = (entry for entry in manifest["files"] if entry["path"] == "firmware.bin")
    listed |= {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def test_inspect_takes_the_memory_of_a_linux_program_for_no_image(
    built: Repository, tmp_path: Path
) -> None:
    path = tmp_path / "linux.tar.gz"
    other = repack(built.folder / BUNDLE, path, begin_memory_with_the_header)
    assert [image.file for image in inspect_file(other).images] == ["firmware.elf"]


def test_a_description_adds_no_line_to_what_inspect_prints(
    built: Repository, tmp_path: Path
) -> None:
    def describe(manifest: dict[str, Any], _: Mapping[str, bytes]) -> None:
        manifest["recipe"]["description"] = "A doorbell.\nbuild id  0"

    other = repack(built.folder / BUNDLE, tmp_path / "other.tar.gz", describe)
    text = format_inspection(inspect_file(other))
    assert "A doorbell. build id 0" in text
    assert text.count("\nbuild id ") == 1


def test_a_damaged_image_is_no_traceback(built: Repository) -> None:
    elf = (built.folder / "build/digits/rv32-bare/firmware/firmware.elf").read_bytes()
    draw = random.Random(17)
    refused = 0
    for _ in range(500):
        damaged = bytearray(elf)
        for _ in range(3):  # the header, or the section table at the end
            damaged[draw.choice([draw.randrange(64), -draw.randrange(1, 640)])] = draw.randrange(
                256
            )
        try:
            inspect_image(bytes(damaged), "firmware.elf")
        except UserError:
            refused += 1
    assert 0 < refused < 500


def change_digest(manifest: dict[str, Any]) -> None:
    text = json.dumps(manifest["recipe"]["resolved"], sort_keys=True, separators=(",", ":"))
    manifest["recipe"]["sha256"] = hashlib.sha256(text.encode()).hexdigest()


def change_manifest(manifest: dict[str, Any], _: Mapping[str, bytes]) -> None:
    manifest["recipe"]["resolved"]["fuse_layers"] = False
    change_digest(manifest)
    manifest["layers"][0]["device"] = "npu"
    manifest["memory"]["flash_bytes"] += round(manifest["memory"]["flash_bytes"] / 10)
    manifest["versions"]["numpy"] = "9.9 | `x`\x1b[2J"


def test_diff_tells_what_changed_area_by_area(built: Repository, tmp_path: Path) -> None:
    code, text = firmwright(built, "diff", BUNDLE, BUNDLE)
    assert (code, text.split()[0]) == (0, "same:")
    other = str(repack(built.folder / BUNDLE, tmp_path / "other.tar.gz", change_manifest))
    code, text = firmwright(built, "diff", BUNDLE, other)
    assert code == 1
    lines = [line.split() for line in text.splitlines()]
    assert lines[:2] == [["verdict"], ["outputs", "exact", "→", "exact", "="]]
    assert ["operators", "on", "npu", "-", "→", "2"] in lines
    assert [line[0] for line in lines[-2:]] == ["before", "after"]  # the digests
    assert ["fuse_layers", "true", "→", "false"] in lines
    assert ["stem", "c", "→", "npu"] in lines
    assert ["+10.0", "%"] in [line[-2:] for line in lines if "flash_bytes" in " ".join(line)]
    assert "\x1b" not in text

    code, text = firmwright(built, "diff", "--markdown", BUNDLE, other)
    rows = [line.strip("|").split("|") for line in text.splitlines() if "numpy" in line]
    assert code == 1
    assert r"9.9 \| \`x\`" in text
    assert len(rows) == 1

    code, text = firmwright(built, "diff", "--json", BUNDLE, other)
    jsonschema.validate(json.loads(text), load_schema("difference.schema.json"))
    areas = {change["area"] for change in json.loads(text)["changes"]}
    assert areas == {"recipe", "device of an operator", "memory", "packages and tools"}


def add_file(_: Mapping[str, Any], contents: dict[str, bytes]) -> None:
    contents["src/extra.c"] = b""


def change_file(_: Mapping[str, Any], contents: dict[str, bytes]) -> None:
    contents["firmware.bin"] += b"\0"


@pytest.mark.parametrize("edit", [add_file, change_file])
def test_a_broken_bundle_is_neither_the_same_nor_another(
    edit: Callable[..., None], built: Repository, tmp_path: Path
) -> None:
    other = str(repack(built.folder / BUNDLE, tmp_path / "other.tar.gz", edit))
    code, text = firmwright(built, "diff", BUNDLE, other)
    assert code == 2
    assert text.startswith(f"{other}: the files differ from the list in manifest.json:")
    assert firmwright(built, "inspect", other)[0] == 2


def test_a_budget_that_is_exceeded_names_what_takes_most(copy_of_built: Repository) -> None:
    recipe = copy_of_built.folder / "digits.yaml"
    budget = "budget: {flash: 10 KiB, ram: 16 KiB, instructions: 100_000, stack: 128}\n"
    recipe.write_text(recipe.read_text() + budget)
    code, text = firmwright(copy_of_built, "build", "digits.yaml")
    assert code == 1
    recorded = [line.split() for line in text.splitlines()]
    keys = ("17: budget.flash", "30: budget.ram", "52: budget.instructions", "68: budget.stack")
    assert all(f"digits.yaml:4:{key}: " in text for key in keys)
    names = [words[-1] for words in recorded if words[1:2] == ["%"]]
    assert "region_001_conv2d" in names  # the slowest layer
    assert "network_region_001_conv2d_weights" in names
    assert ["89.8", "%", "16,384", ".stack,", "without", "a", "symbol"] in recorded

    more = recipe.read_text().replace("10 KiB", "1 MiB").replace("16 KiB", "1 MiB")
    recipe.write_text(more.replace("100_000", "20_000_000").replace("stack: 128", "stack: 352"))
    assert firmwright(copy_of_built, "build", "digits.yaml")[0] == 0

    code, text = firmwright(copy_of_built, "build", "digits.yaml", "platform=host")
    assert code == 1
    assert "budget.instructions: the emulator 'native' does not count instructions" in text


@pytest.mark.needs("qemu-system-arm")
def test_a_budget_holds_for_instructions_that_qemu_counts(repository: Repository) -> None:
    repository.write("digits.yaml", "model: digits.onnx\ntarget: c\nbudget: {instructions: 100}\n")
    code, text = firmwright(repository, "build", "digits.yaml", "platform=cortex-m33-bare")
    assert code == 1
    assert "digits.yaml:3:24: budget.instructions: " in text
    assert "region_001_conv2d" in text


@dataclass(frozen=True)
class Signed:
    """A signed bundle, its envelope, and a policy that trusts the keys ``first`` and ``second``."""

    folder: Path
    bundle: Path
    envelope: Path
    policy: Path

    def verify(self, bundle: Path | None = None, **keys: object) -> str:
        """Return the error of a check against a policy with more keys, or '' if it is trusted."""
        stated = {"keys": ["first.pub", "second.pub"], **keys}
        self.policy.write_text(json.dumps(stated))
        try:
            verify_bundle(bundle or self.bundle, self.policy, self.envelope)
        except UserError as error:
            return f"{type(error).__name__}: {error}"
        return ""


@pytest.fixture
def signed(built: Repository, tmp_path: Path) -> Signed:
    for number, name in enumerate(("first", "second"), 1):
        write_keys(tmp_path, name, number)
    envelope = tmp_path / "digits.intoto.json"
    sign_bundle(read_bundle(built.folder / BUNDLE), tmp_path / "first.pem", envelope)
    return Signed(tmp_path, built.folder / BUNDLE, envelope, tmp_path / "policy.yaml")


def test_a_signed_bundle_is_trusted_by_the_command(built: Repository, signed: Signed) -> None:
    verify = ("verify-bundle", str(signed.bundle), "--envelope", str(signed.envelope), "--policy")
    signed.policy.write_text("keys: [first.pub]\nname: digits\nplatform: rv32-bare\n")
    assert "trusted, sha256" in firmwright(built, *verify, str(signed.policy))[1]
    found = json.loads(firmwright(built, *verify, str(signed.policy), "--json")[1])
    jsonschema.validate(found, load_schema("verification.schema.json"))
    assert found["trusted"]
    signed.policy.write_text("keys: [first.pub]\nname: keywords\n")
    code, text = firmwright(built, *verify, str(signed.policy))
    assert (code, f"policy.yaml:2:7: name: {signed.bundle} has digits" in text) == (1, True)
    for keys, expected in (("keys: [second.pub]", 1), ("key: [first.pub]", 2)):
        signed.policy.write_text(keys)
        assert firmwright(built, *verify, str(signed.policy))[0] == expected


def test_a_second_key_adds_its_signature_and_the_same_key_the_same_bytes(signed: Signed) -> None:
    before = signed.envelope.read_bytes()
    bundle = read_bundle(signed.bundle)
    sign_bundle(bundle, signed.folder / "first.pem", signed.envelope)
    assert signed.envelope.read_bytes() == before
    assert "fewer than 2 of the policy's 2 keys" in signed.verify(signatures=2)
    sign_bundle(bundle, signed.folder / "second.pem", signed.envelope)
    assert signed.verify(signatures=2) == ""
    assert "2 signatures are required, but the policy has 1 keys" in signed.verify(
        keys=["first.pub"], signatures=2
    )


def test_a_policy_limits_licenses_and_the_counter(signed: Signed) -> None:
    printed = signed.verify(licenses=["Apache-2.0"])
    assert "digits.onnx (NOASSERTION), zig-runtime (NOASSERTION)" in printed
    assert "templates" not in printed
    assert signed.verify(licenses=["Apache-2.0", "NOASSERTION"], counter=0) == ""
    assert "counter: " in signed.verify(counter=1)
    assert "has 0, which is lower" in signed.verify(counter=1)


def state_counter(manifest: dict[str, Any], _: Mapping[str, bytes]) -> None:
    manifest["recipe"]["resolved"]["counter"] = 8
    change_digest(manifest)


def drop_sbom(manifest: dict[str, Any], contents: dict[str, bytes]) -> None:
    del contents["sbom/firmware.cdx.json"]
    manifest["files"] = [f for f in manifest["files"] if f["path"] in contents]


@pytest.mark.parametrize(
    ("edit", "keys", "rule"),
    [
        (state_counter, {"counter": 8}, ""),
        (state_counter, {"counter": 9}, "has 8, which is lower"),
        (drop_sbom, {"licenses": ["NOASSERTION"]}, "BrokenBundleError"),
    ],
)
def test_a_policy_reads_what_the_signed_bundle_says(
    edit: Callable[..., None], keys: dict[str, Any], rule: str, signed: Signed
) -> None:
    other = repack(signed.bundle, signed.folder / "other.tar.gz", edit)
    signed.envelope.unlink()
    sign_bundle(read_bundle(other), signed.folder / "first.pem", signed.envelope)
    printed = signed.verify(other, **keys)
    assert rule in printed if rule else printed == ""


def test_the_provenance_names_all_that_the_manifest_has(signed: Signed) -> None:
    statement = json.loads(base64.b64decode(json.loads(signed.envelope.read_text())["payload"]))
    digest = hashlib.sha256(signed.bundle.read_bytes()).hexdigest()
    manifest = read_bundle(signed.bundle).manifest
    assert statement["subject"] == [
        {"name": "digits-rv32-bare.tar.gz", "digest": {"sha256": digest}}
    ]
    definition = statement["predicate"]["buildDefinition"]
    named = {entry["name"]: entry for entry in definition["resolvedDependencies"]}
    assert named["model"]["digest"]["sha256"] == manifest["model"]["sha256"]
    assert named["numpy"]["annotations"]["version"] == manifest["versions"]["numpy"]
    assert {"digits.onnx", "inputs.npz", "run sample 2", "zig"} <= {*named}
    assert definition["externalParameters"]["recipe"]["name"] == "digits"
    assert definition["internalParameters"]["buildId"] == manifest["build_id"]
    assert [s["name"] for s in definition["internalParameters"]["stages"]] == ALL_STAGES


def test_a_good_signature_of_another_bundle_is_not_trusted(signed: Signed, tmp_path: Path) -> None:
    other = repack(signed.bundle, tmp_path / "other.tar.gz", change_manifest)
    assert "UntrustedBundleError" in signed.verify(other)
    assert "belong to another bundle" in signed.verify(other)
    with pytest.raises(UserError, match="signed for another bundle"):
        sign_bundle(read_bundle(other), signed.folder / "first.pem", signed.envelope)


def test_changes_of_a_signed_bundle_are_detected(built: Repository) -> None:
    """``python -m tests.hammer.bundles`` tries all cases."""
    path = built.folder / BUNDLE
    for change in (hammer.flip_byte, hammer.repack):
        recorded = [*hammer.find_undetected(path, change, 20, seed=1)]
        assert len(recorded) == 20
        assert all(recorded)


@pytest.mark.parametrize(
    ("content", "rule"),
    [
        ("", "not JSON"),
        ("[]", "not an envelope"),
        ('{"signatures": []}', "not an envelope"),
        ('{"payload": 1, "payloadType": "", "signatures": []}', "not an envelope"),
        ('{"payload": "", "payloadType": "", "signatures": [1]}', "not an envelope"),
        ('{"payload": "", "payloadType": [], "signatures": []}', "not an envelope"),
        ('{"payload": "", "payload": "", "payloadType": "", "signatures": []}', "duplicate key"),
        ('{"payload": "", "payloadType": "", "signatures": []}', "fewer than 1"),
    ],
)
def test_an_envelope_from_outside_is_read_strictly(content: str, rule: str, signed: Signed) -> None:
    signed.envelope.write_text(content)
    assert rule in signed.verify()
    signed.envelope.unlink()
    assert "no such file" in signed.verify()


def test_keys_that_are_not_fit_are_refused(signed: Signed, monkeypatch: pytest.MonkeyPatch) -> None:
    bundle, key = read_bundle(signed.bundle), signed.folder / "first.pem"

    def refusal(path: Path | None) -> str:
        with pytest.raises(UserError) as raised:
            sign_bundle(bundle, path, signed.folder / "new.intoto.json")
        assert "PRIVATE" not in str(raised.value)
        return str(raised.value)

    monkeypatch.delenv("FIRMWRIGHT_SIGNING_KEY", raising=False)
    assert "no key to sign with" in refusal(None)
    key.chmod(0o644)
    assert "other users can read this key" in refusal(key)
    assert "no such file" in refusal(signed.folder / "missing.pem")
    monkeypatch.setenv("FIRMWRIGHT_SIGNING_KEY", "secret words")
    assert "encrypted or not a private key" in refusal(None)
    assert "secret" not in refusal(None)
    elliptic = ec.generate_private_key(ec.SECP256R1())
    pem = elliptic.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    monkeypatch.setenv("FIRMWRIGHT_SIGNING_KEY", pem.decode())
    assert "not an ed25519 key" in refusal(None)
    assert not (signed.folder / "new.intoto.json").exists()
    assert "not a public key" in signed.verify(keys=["first.pem"])
