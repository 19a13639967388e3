"""Bundles are pushed to a registry and pulled; damaged or invented answers are rejected."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from firmwright import web
from firmwright.bundle import cyclonedx, shipping
from firmwright.bundle.bundle import read_bundle
from firmwright.bundle.oci_registry import (
    MAX_MANIFEST_BYTES,
    MAX_PAGES,
    Descriptor,
    OciManifest,
    Reference,
    Registry,
    parse_reference,
)
from firmwright.bundle.policy import verify_bundle
from firmwright.bundle.shipping import pull_bundle, push_bundle
from firmwright.bundle.signing import envelope_path, sign_bundle
from firmwright.cli import main
from firmwright.errors import UserError
from tests.hammer.bundles import write_keys
from tests.test_web import send, serve

from .conftest import Repository
from .referrers import run_listing_registry
from .registry import RunningRegistry, run_registry
from .test_trust import BUNDLE, change_manifest, firmwright, repack
from .tokens import ISSUER, SERVICE, answer_with_tokens

pytestmark = pytest.mark.needs("docker-registry")


@pytest.fixture
def running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunningRegistry]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with run_registry(tmp_path / "registry") as found:
        yield found


@dataclass(frozen=True)
class Sent:
    """A signed bundle in a registry; ``manifest`` is the tag's file in the registry's folder."""

    registry: RunningRegistry
    bundle: Path
    place: str

    @property
    def reference(self) -> Reference:
        return parse_reference(self.place)

    @property
    def described(self) -> tuple[OciManifest, Descriptor]:
        found = Registry(self.reference).get_manifest("1", OciManifest)
        assert found is not None
        return found

    @property
    def manifest(self) -> OciManifest:
        return self.described[0]

    @property
    def digest(self) -> str:
        return self.described[1].digest

    def push(self) -> list[str]:
        return list(push_bundle(self.bundle, envelope_path(self.bundle), self.reference))

    def pull(self, folder: Path) -> list[str]:
        return list(pull_bundle(self.reference, folder))

    def refuse(self, folder: Path) -> str:
        """Return the reason why a pull fails; it must not write a file."""
        with pytest.raises(UserError) as raised:
            self.pull(folder)
        assert not folder.exists()
        return str(raised.value)


@pytest.fixture
def sent(built: Repository, running: RunningRegistry, tmp_path: Path) -> Sent:
    for number, name in enumerate(("first", "second"), 1):
        write_keys(tmp_path, name, number)
    bundle = tmp_path / "digits-rv32-bare.tar.gz"
    bundle.write_bytes((built.folder / BUNDLE).read_bytes())
    sign_bundle(read_bundle(bundle), tmp_path / "first.pem", envelope_path(bundle))
    found = Sent(running, bundle, f"{running.host}/team/digits:1")
    found.push()
    return found


def test_a_bundle_comes_back_with_the_signatures_of_all(
    sent: Sent, built: Repository, tmp_path: Path
) -> None:
    code, text = firmwright(built, "pull", sent.place, str(tmp_path / "second"))
    assert (code, "signed by" in text) == (0, True), text
    pulled = tmp_path / "second" / sent.bundle.name
    assert pulled.read_bytes() == sent.bundle.read_bytes()
    assert envelope_path(pulled).read_bytes() == envelope_path(sent.bundle).read_bytes()

    sign_bundle(read_bundle(pulled), tmp_path / "second.pem", envelope_path(pulled))
    policy = tmp_path / "policy.yaml"
    policy.write_text("keys: [first.pub, second.pub]\nsignatures: 2\n")
    verify_bundle(pulled, policy, envelope_path(pulled))
    for _ in range(2):
        code, text = firmwright(built, "push", str(pulled), sent.place)
        assert (code, text.count("signature by")) == (0, 2), text

    by_digest = f"{sent.registry.host}/team/digits@{sent.digest}"
    third = tmp_path / "third" / sent.bundle.name
    list(pull_bundle(parse_reference(by_digest), third.parent))
    verify_bundle(third, policy, envelope_path(third))


def test_other_programs_find_the_sbom(sent: Sent) -> None:
    found = Registry(sent.reference)
    referrers = found.list_referrers(sent.digest)
    kinds = [referrer.artifact_type for referrer in referrers]
    assert kinds == [*shipping.SBOM_TYPES.values(), shipping.SIGNATURE_TYPE]
    artifact = found.get_manifest(referrers[0].digest, OciManifest)
    assert artifact is not None
    content = found.get_blob(artifact[0].layers[0], 1 << 20)
    assert content == read_bundle(sent.bundle).files[cyclonedx.FILE]


@pytest.mark.parametrize("lists", [True, False])
def test_a_registry_lists_referrers_by_itself_or_not(
    lists: bool, built: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    write_keys(tmp_path, "first", 1)
    bundle = tmp_path / "digits-rv32-bare.tar.gz"
    bundle.write_bytes((built.folder / BUNDLE).read_bytes())
    sign_bundle(read_bundle(bundle), tmp_path / "first.pem", envelope_path(bundle))
    with run_listing_registry(lists) as (host, registry):
        place = parse_reference(f"{host}/team/digits:1")
        list(push_bundle(bundle, envelope_path(bundle), place))
        assert any(name.startswith("sha256-") for name in registry.kept) != lists
        printed = list(pull_bundle(place, tmp_path / "pulled"))
        assert "signed by" in printed[-1]
        for entries in registry.referrers.values():
            entries *= MAX_PAGES
            with pytest.raises(UserError, match="more than 20 pages"):
                list(pull_bundle(place, tmp_path / "new"))


def flip(content: bytes) -> bytes:
    return content[:-1] + bytes([content[-1] ^ 1])


@pytest.mark.parametrize(
    "change", [flip, lambda content: content[:-10], lambda content: content + b"\0", lambda _: b""]
)
def test_a_damaged_blob_is_refused(
    change: Callable[[bytes], bytes], sent: Sent, tmp_path: Path
) -> None:
    path = sent.registry.find_blob(sent.manifest.layers[0].digest)
    path.write_bytes(change(path.read_bytes()))
    assert "blob sha256:" in sent.refuse(tmp_path / "new") or "the server" in sent.refuse(
        tmp_path / "new"
    )


def test_a_damaged_manifest_is_refused(sent: Sent, tmp_path: Path) -> None:
    path = sent.registry.find_blob(sent.digest)
    whole = path.read_bytes()
    by_digest = Sent(sent.registry, sent.bundle, f"{sent.registry.host}/team/digits@{sent.digest}")
    path.write_bytes(whole.replace(b"team", b"Team") + b" ")
    assert "the registry returned another digest" in by_digest.refuse(tmp_path / "new")
    path.write_bytes(whole.replace(b'"size":', b'"size":1,"size":'))
    assert "duplicate key" in sent.refuse(tmp_path / "new")
    path.write_bytes(whole.replace(b'"digest":"sha256:', b'"digest":"sha256:../'))
    assert sent.refuse(tmp_path / "new")


def put_other(sent: Sent, **changes: object) -> None:
    fields = {name: getattr(sent.manifest, name) for name in OciManifest.__struct_fields__}
    Registry(sent.reference).put_manifest(OciManifest(**{**fields, **changes}), "1")


def test_what_is_no_bundle_is_refused(sent: Sent, tmp_path: Path) -> None:
    layer = sent.manifest.layers[0]
    put_other(sent, layers=[])
    assert "expected one application/vnd.firmwright" in sent.refuse(tmp_path / "new")
    put_other(sent, layers=[layer, layer])
    assert "expected one application/vnd.firmwright" in sent.refuse(tmp_path / "new")
    rubbish = Registry(sent.reference).put_blob(b"rubbish", shipping.BUNDLE_TYPE)
    put_other(sent, layers=[rubbish])
    assert "not a .tar.gz archive" in sent.refuse(tmp_path / "new")
    missing = Sent(sent.registry, sent.bundle, f"{sent.registry.host}/team/other:1")
    assert "not found; check the name" in missing.refuse(tmp_path / "new")


def refer(sent: Sent, content: bytes) -> Descriptor:
    """Attach an envelope to a bundle, as anyone with the right to push can do."""
    kinds = (shipping.SIGNATURE_TYPE, shipping.ENVELOPE_TYPE)
    subject = sent.described[1]
    return shipping.put_artifact(Registry(sent.reference), *kinds, "x", content, subject)


def test_statements_of_others_are_passed_over_and_false_ones_refused(
    sent: Sent, tmp_path: Path
) -> None:
    other = repack(sent.bundle, tmp_path / "other.tar.gz", change_manifest)
    sign_bundle(read_bundle(other), tmp_path / "second.pem", envelope_path(other))
    passed = refer(sent, envelope_path(other).read_bytes()).digest
    printed = sent.pull(tmp_path / "pulled")
    assert f"ignored: {passed}, a statement about another bundle" in printed

    envelope = json.loads(envelope_path(sent.bundle).read_bytes())
    envelope["signatures"][0]["sig"] = "AAAA" + envelope["signatures"][0]["sig"][4:]
    refer(sent, json.dumps(envelope).encode())
    assert "two signatures of the key" in sent.refuse(tmp_path / "new")
    refer(sent, b"rubbish")
    assert "not JSON" in sent.refuse(tmp_path / "new")


def test_another_file_is_not_replaced(sent: Sent, tmp_path: Path) -> None:
    place = tmp_path / "here" / sent.bundle.name
    place.parent.mkdir()
    place.write_bytes(b"mine")
    with pytest.raises(UserError, match=r"differs from the bundle of.*remove this file"):
        sent.pull(place.parent)
    assert place.read_bytes() == b"mine"
    place.unlink()
    assert sent.pull(place.parent) == sent.pull(place.parent)


def test_a_registry_asks_for_a_password(
    built: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificates, passwords = tmp_path / "tokens.crt", tmp_path / "netrc"
    monkeypatch.setenv("NETRC", str(passwords))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serve(answer_with_tokens(certificates, "me:secret")) as url:
        asked = {"realm": url, "service": SERVICE, "issuer": ISSUER}
        token = {**asked, "rootcertbundle": str(certificates)}
        with run_registry(tmp_path / "registry", {"auth": {"token": token}}) as running:
            sent = Sent(running, built.folder / BUNDLE, f"{running.host}/team/digits:1")
            for text, printed in (("", "answers 401 Unauthorized"), ("secret", ""), ("no", "401")):
                passwords.write_text(f"machine 127.0.0.1 login me password {text}\n" * bool(text))
                if printed:
                    with pytest.raises(UserError, match=printed):
                        sent.push()
                    assert printed in sent.refuse(tmp_path / "new")
                else:
                    sent.push()
                    assert sent.pull(tmp_path / "pulled")


def say_nothing(_: BaseHTTPRequestHandler) -> None:
    time.sleep(1)


@pytest.mark.parametrize(
    ("answer", "printed"),
    [
        (send(200, b"<html>hello</html>"), "not JSON"),
        (send(200, b'{"schemaVersion": 1}'), "not a valid answer of a registry"),
        (send(200, bytes(MAX_MANIFEST_BYTES + 1)), "sends more than 4,194,304 bytes"),
        (send(500, b'{"errors": [{"code": "UNKNOWN"}]}'), "answers 500 UNKNOWN"),
        (
            send(401, b"", WWW_Authenticate='Bearer realm="http://a.example/t"'),
            "which is not an https address",
        ),
        (send(401, b"", WWW_Authenticate="Basic"), "answers 401 Unauthorized"),
        (say_nothing, "does not answer (ReadTimeout)"),
    ],
)
def test_a_registry_that_is_none_is_told(
    answer: Callable[[BaseHTTPRequestHandler], None],
    printed: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(web, "PACE", web.Pace(next=0.3))
    with serve(answer) as url:
        place = f"{url.removeprefix('http://').partition('/')[0]}/team/digits:1"
        with pytest.raises(UserError) as raised:
            list(pull_bundle(parse_reference(place), tmp_path / "new"))
    assert printed in str(raised.value)
    with pytest.raises(UserError, match="does not answer"):
        list(pull_bundle(parse_reference(place), tmp_path / "new"))


@pytest.mark.parametrize("words", [["push", "x.tar.gz", "localhost:9/x:1"], ["pull", "x/x:"]])
def test_a_connection_that_breaks_does_not_end_the_command(words: list[str]) -> None:
    assert main(words) == 2
    assert signal.getsignal(signal.SIGPIPE) == signal.SIG_IGN
    assert main(["inspect", "x.tar.gz"]) == 2
    assert signal.getsignal(signal.SIGPIPE) == signal.SIG_DFL


@pytest.mark.parametrize(
    "text",
    ["digits", "host/net", "host/Net:1", "https://host/net:1", "host/net@sha256:1", "h/a/:1"],
)
def test_a_place_that_is_none_is_told(text: str) -> None:
    with pytest.raises(UserError, match="expected HOST/NAME:TAG"):
        parse_reference(text)
