"""The formats of external data: correct contents, functions that change them, and their readers."""

from __future__ import annotations

import io
import json
import os
import random
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import yaml
from PIL import Image

from firmwright.bundle import oci_registry as oci
from firmwright.bundle.bundle import read_bundle
from firmwright.bundle.inspect import inspect_file
from firmwright.bundle.model_signature import read_model_key, read_sigstore, read_statement
from firmwright.bundle.policy import verify_bundle
from firmwright.bundle.shipping import BUNDLE_TYPE, pull_bundle
from firmwright.bundle.signing import read_public_key, sign_bundle
from firmwright.data.fetch import download
from firmwright.data.pictures import FORMATS as PICTURES
from firmwright.data.pictures import read_picture
from firmwright.data.reading import read_columns
from firmwright.data.sample_sources import DataFile, DataFolders, Preprocess
from firmwright.documents.chain import Layers
from firmwright.documents.schema_check import read_schema
from firmwright.fleet.matrix import read_fleet
from firmwright.hardware.access import check_access, load_access
from firmwright.ir.tensors import Tensor
from firmwright.models import FORMATS
from firmwright.pipeline.command_line import make_catalog
from firmwright.pipeline.label_files import read_box_labels, read_class_labels
from firmwright.postprocess.classes import read_class_names
from firmwright.rebuild.revisions import check_out
from firmwright.recipe import precision
from firmwright.recipe.lock import Lock, read_lock
from firmwright.recipe.networks_file import load_networks
from firmwright.recipe.postprocess import Classes
from firmwright.recipe.schema import load_schema
from firmwright.recipe.tuned import TunedLayer, TunedNetwork, format_tuned, read_tuned
from firmwright.shared_cache.cache import SharedCache
from firmwright.shared_cache.entry import CachedFile, Entry, describe_files, encode
from firmwright.shared_cache.settings import read_file as read_settings
from firmwright.shared_cache.stores import FolderStore, WebStore
from firmwright.toolchain.boards import load_board
from firmwright.toolchain.platforms import load_platform
from firmwright.toolchain.toolchains import load_toolchain
from tests.hammer.answers import Answers
from tests.hammer.bundles import write_keys
from tests.hammer.mutators import (
    Vocabulary,
    collect_words,
    mutate_archive,
    mutate_bytes,
    mutate_json,
    mutate_text,
    mutate_yaml,
)

ROOT = Path(__file__).parents[2]
KEY = "0" * 64
TENSOR = Tensor("x", (1, 3, 8, 8), "float32")
NO_WORDS = Vocabulary((), (), ({},))

Bases = tuple[tuple[str, bytes], ...]


@dataclass(frozen=True)
class Target:
    """A format. ``bases`` are correct contents, each with the name of its file.

    ``goes_out``: the reader starts a program, or connects to a server on this machine.
    ``is_native``: code in C++ reads it, which may crash.
    """

    name: str
    bases: Bases
    mutate: Callable[[bytes, random.Random], bytes]
    read: Callable[[Path, random.Random], object]
    goes_out: bool = False
    is_native: bool = False


def make_targets(folder: Path, bundle: Path) -> tuple[Target, ...]:
    """Return all formats; ``folder`` stores the files that they share."""
    return (
        *make_data_targets(),
        *make_document_targets(),
        *make_bundle_targets(folder, bundle),
        *make_answer_targets(bundle),
        make_revision_target(folder / "repository"),
    )


def make_data_targets() -> tuple[Target, ...]:
    return (
        Target("samples (.npy)", make_arrays(), mutate_bytes, read_samples),
        Target("samples (.npz)", make_archives(), mutate_archive, read_samples),
        Target("pictures", make_pictures(), mutate_bytes, read_sample_picture, is_native=True),
        Target("labels of classes", make_arrays(), mutate_bytes,
               lambda path, _: read_class_labels(path, 2, 10)),
        Target("labels of boxes", (("boxes.json", BOXES),), partial(mutate_json, known=BOX_WORDS),
               lambda path, _: read_box_labels(path, ("cat", "dog"), 2)),
        Target("names of classes", (("names.txt", b"cat\ndog\n"),), as_text, read_names),
        Target(".pt2", make_programs(), mutate_archive, import_program, is_native=True),
    )  # fmt: skip


BOXES = b'[[{"box": [0.1, 0.2, 0.5, 0.6], "class": "cat"}], [{"box": [0, 0, 1, 1], "class": 1}]]'
BOX_WORDS = Vocabulary(("box", "class"), (0.5, "dog"), (json.loads(BOXES),))


def as_text(content: bytes, draw: random.Random) -> bytes:
    return mutate_text(content.decode(), draw)


def make_arrays() -> Bases:
    arrays = [
        np.zeros((2, 3, 8, 8), "float32"), np.asfortranarray(np.ones((2, 192), "int8")),
        np.arange(2), np.zeros((0, 3), "uint8"), np.array(["a", "bc"]), np.array(1.5),
        np.zeros(2, [("a", "int8"), ("b", "float64")]), np.ones((2, 192), ">f4"),
    ]  # fmt: skip
    return tuple((f"{n}.npy", save(np.save, array)) for n, array in enumerate(arrays))


def make_archives() -> Bases:
    array = np.ones((2, 3, 8, 8), "float32")
    return (
        ("plain.npz", save(np.savez, x=array, y=np.arange(3))),
        ("packed.npz", save(np.savez_compressed, x=array)),
    )


def save(write: Callable[..., None], *values: Any, **named: Any) -> bytes:
    stream = io.BytesIO()
    write(stream, *values, **named)
    return stream.getvalue()


def read_samples(path: Path, _draw: random.Random) -> None:
    read_columns((TENSOR,), path.name, DataFolders(path.parent, path.parent), 2)


def make_pictures() -> Bases:
    picture = Image.fromarray(np.arange(192, dtype="uint8").reshape(8, 8, 3))
    bases = {kind.lower(): save(picture.save, format=kind) for kind in PICTURES}
    bases["palette.png"] = save(picture.quantize(16).save, format="PNG")
    return tuple((name, content) for name, content in bases.items())


def read_sample_picture(path: Path, draw: random.Random) -> None:
    read_picture(path, Preprocess(resize=draw.choice((None, 8, (8, 8)))), TENSOR, str(path))


def read_names(path: Path, _draw: random.Random) -> None:
    classes = Classes(names=None, file=DataFile(path.name), count=None)
    read_class_names(classes, DataFolders(path.parent, path.parent))


def make_programs() -> Bases:
    import torch

    from tests.networks.torch_programs import Call, exported

    image, layers = torch.zeros(1, 3, 8, 8), torch.nn
    network = layers.Sequential(
        layers.Conv2d(3, 4, 3), layers.BatchNorm2d(4), layers.ReLU(), layers.Flatten(),
        layers.Linear(144, 5),
    )  # fmt: skip
    return (
        ("network.pt2", exported(network, image)),
        ("function.pt2", exported(Call(lambda x: (x.softmax(1) * 2).sum()), image)),
    )


def import_program(path: Path, _draw: random.Random) -> None:
    FORMATS["pt2"].load().import_model(path.read_bytes(), path.name, {})


def make_document_targets() -> tuple[Target, ...]:
    """Return the YAML and JSON documents, each with the vocabulary of its schema."""
    catalog = make_catalog()
    files = (f"{k}.schema.json" for k in ("platform", "toolchain", "board", "board_access"))
    platform, toolchain, board, access = (read_schema("toolchains", file) for file in files)
    config = json.loads((ROOT / "src/firmwright/shared_cache/config.schema.json").read_text())
    boards = ((path.name, path.read_bytes()) for path in ROOT.glob("templates/boards/*/board.yaml"))
    recipe = ROOT / "recipes/digits.yaml"
    networks = f"networks: {{one: {recipe}, two: {recipe}}}\nplatform: host\n".encode()
    return (
        in_yaml("platform", platform, read_all("toolchains/platforms"),
                lambda path: load_platform(path.name, path.parent)),
        in_yaml("toolchain", toolchain, read_all("toolchains"),
                lambda path: load_toolchain(path.name, path.parent)),
        in_yaml("board", board, boards, lambda path: load_board(str(path.parent))),
        in_yaml("connected board", access, [("board.yaml", text) for text in ACCESSES],
                read_access),
        in_yaml("fleet", load_schema("fleet"), [("fleet.yaml", text) for text in FLEETS],
                read_fleet),
        in_yaml("networks", load_schema("networks"), [("all.yaml", networks)],
                lambda path: load_networks(Layers(path), catalog)),
        in_yaml("tuned", load_schema("tuned"), [("net.tuned", make_tuned())], read_tuned),
        in_yaml("precision", load_schema("precision"), [("net.precision", make_precision())],
                precision.read_precision),
        in_yaml("configuration", config, [("config.yaml", b"cache: folder\ncache_size: 1 GiB\n")],
                read_settings),
        Target("lock", (("net.lock", make_lock()),), partial(mutate_json, known=NO_WORDS),
               lambda path, _: read_lock(path.with_suffix(".yaml"))),
    )  # fmt: skip


def in_yaml(
    name: str, schema: Any, bases: Iterable[tuple[str, bytes]], read: Callable[[Path], object]
) -> Target:
    bases = tuple(bases)
    words = Vocabulary(*collect_words(schema), [yaml.safe_load(text) for _, text in bases])
    return Target(name, bases, partial(mutate_yaml, known=words), lambda path, _: read(path))


def read_all(folder: str) -> Bases:
    return tuple((path.name, path.read_bytes()) for path in sorted((ROOT / folder).glob("*.yaml")))


ACCESSES = (
    b"description: board\nflash: [openocd, -c, 'program {elf}']\n"
    b"serial: {port: /dev/ttyX, baud: 9}\n",
    b"description: board\nssh: {host: me@board, options: [-p, '2']}\nsettle: 1\npatience: 2\n",
)
FLEETS = (
    b"recipes: ['*']\nplatforms: [rv32-bare, host]\noptions: {toolchain: [zig, gcc]}\n"
    b"exclude: [{recipe: '*', toolchain: gcc}]\ninclude: [{recipe: '*', platform: host}]\n",
)


def read_access(path: Path) -> None:
    check_access(path, ("elf", "bin"))
    load_access(path)


def make_tuned() -> bytes:
    layer = TunedLayer("portable", 10, "dsp", 12)
    return format_tuned({"host": TunedNetwork("gcc", "c", KEY, {"layer": layer})}).encode()


def make_precision() -> bytes:
    layers = {"layer": precision.LayerPrecision("int4", 10, 0.5)}
    return precision.format_precision(precision.Precision(KEY, 4096, layers, 8192, 1)).encode()


def make_lock() -> bytes:
    lock = Lock(2, {"net.onnx": KEY}, {"run": (KEY,)}, {"numpy": "2.0"}, {"zig": KEY})
    return msgspec.json.encode(lock)


def make_bundle_targets(folder: Path, bundle: Path) -> tuple[Target, ...]:
    private, public = write_keys(folder, "release", 17)
    envelope = folder / "signed.intoto.json"
    sign_bundle(read_bundle(bundle), private, envelope)
    policy = f"keys: [{public}]\nsignatures: 1\nlicenses: [Apache-2.0, NOASSERTION]\n".encode()
    elf = read_bundle(bundle).files["firmware.elf"]
    statement = json.dumps(make_statement()).encode()
    payload = {
        "payload": "e30=",
        "payloadType": "application/vnd.in-toto+json",
        "signatures": [{"sig": "AA=="}],
    }
    signature = json.dumps({
        "mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
        "verificationMaterial": {"publicKey": {"hint": "x"}}, "dsseEnvelope": payload,
    }).encode()  # fmt: skip
    as_json = partial(mutate_json, known=NO_WORDS)
    return (
        in_yaml("policy", read_schema("bundle", "policy.schema.json"), [("policy.yaml", policy)],
                lambda path: verify_bundle(bundle, path, envelope)),
        Target("envelope", ((envelope.name, envelope.read_bytes()),), as_json,
               lambda path, _: verify_bundle(bundle, write_policy(path, public), path)),
        Target("key", ((public.name, public.read_bytes()),), mutate_bytes, read_keys),
        Target("bundle", ((bundle.name, bundle.read_bytes()),), mutate_bytes,
               lambda path, _: read_bundle(path)),
        Target("image", (("firmware.elf", elf),), mutate_bytes,
               lambda path, _: inspect_file(path)),
        Target("signature of a model", (("model.sig", signature),), as_json,
               lambda path, _: read_sigstore(path)),
        Target("statement of a model", (("statement.json", statement),), as_json,
               lambda path, _: read_statement(path.read_bytes(), str(path))),
    )  # fmt: skip


def write_policy(beside: Path, public: Path) -> Path:
    policy = beside.with_name("policy.yaml")
    policy.write_text(f"keys: [{public}]\n")
    return policy


def read_keys(path: Path, draw: random.Random) -> None:
    draw.choice((read_public_key, read_model_key))(path)


def make_statement() -> dict[str, Any]:
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": "net", "digest": {"sha256": oci.describe(bytes(32), "").digest[7:]}}],
        "predicateType": "https://model_signing/signature/v1.0",
        "predicate": {
            "serialization": {"method": "files", "hash_type": "sha256", "allow_symlinks": False},
            "resources": [{"name": "net.onnx", "algorithm": "sha256", "digest": KEY}],
        },
    }


def make_answer_targets(bundle: Path) -> tuple[Target, ...]:
    """Return the clients of servers; the random changes are in the servers' answers."""
    content = bundle.read_bytes()
    registry, cache = answer_as_registry(content), answer_as_cache()
    stored = Answers({"/file": b"a model"})
    nothing = (("unused", b""),)

    def pull(path: Path, draw: random.Random) -> None:
        with registry.serve(draw) as host:
            list(pull_bundle(oci.parse_reference(f"{host}/net:1"), path.parent / "pulled"))

    def restore(path: Path, draw: random.Random) -> None:
        with cache.serve(draw) as host:
            SharedCache(WebStore(f"http://{host}")).restore(KEY, path.parent / "restored")

    def fetch(_path: Path, draw: random.Random) -> None:
        with stored.serve(draw) as host:
            download(f"http://{host}/file", oci.describe(b"a model", "").digest[7:], "the model")

    return (
        Target("answers of a registry", nothing, leave, pull, goes_out=True),
        Target("answers of a shared cache", nothing, leave, restore, goes_out=True),
        Target("answers to a download", nothing, leave, fetch, goes_out=True),
        Target("entry of a shared cache", (("entry", cache.bodies[f"/ac/{KEY}"]),), mutate_bytes,
               read_entry),
    )  # fmt: skip


def leave(content: bytes, _draw: random.Random) -> bytes:
    return content


def answer_as_registry(content: bytes) -> Answers:
    """Return the answers of a registry with a bundle that has no referrers."""
    layer, empty = oci.describe(content, BUNDLE_TYPE), oci.describe(oci.EMPTY, "application/x")
    manifest = msgspec.json.encode(
        oci.OciManifest(
            schema_version=2, media_type=oci.MANIFEST_TYPE, artifact_type=BUNDLE_TYPE, config=empty,
            layers=[layer],
        )
    )  # fmt: skip
    manifests = {"/v2/net/manifests/1": manifest}
    blobs = {f"/v2/net/blobs/{layer.digest}": content}
    return Answers({**manifests, **blobs}, dict.fromkeys(manifests, oci.MANIFEST_TYPE))


def answer_as_cache() -> Answers:
    tool = b"#!/bin/sh"
    digest = oci.describe(tool, "").digest[7:]
    entry = Entry(KEY, (CachedFile("bin/tool", digest, len(tool), True),), ("a note",))
    return Answers({f"/ac/{KEY}": encode(entry), f"/cas/{digest}": tool})


def read_entry(path: Path, _draw: random.Random) -> None:
    place = path.parent / "cache" / "ac" / KEY[:2] / KEY
    place.parent.mkdir(parents=True)
    place.write_bytes(path.read_bytes())
    SharedCache(FolderStore(path.parent / "cache", 1 << 20)).restore(KEY, path.parent / "restored")
    describe_files(path.parent)


def make_revision_target(repository: Path) -> Target:
    """Return the names of revisions, in a repository with one file and two commits."""
    repository.mkdir()
    git = ("git", "-C", str(repository), "-c", "user.name=a", "-c", "user.email=a@example.com")
    subprocess.run([*git, "init", "-q", "-b", "main"], check=True)
    for text in ("one", "two"):
        (repository / "net.yaml").write_text(text)
        subprocess.run([*git, "add", "net.yaml"], check=True)
        subprocess.run([*git, "commit", "-q", "-m", text], check=True)

    def read(path: Path, _draw: random.Random) -> None:
        os.chdir(repository)
        check_out(os.fsdecode(path.read_bytes()), path.parent / "files")

    names = ("HEAD", "HEAD~1", "main", "main@{0}", ":/two", "HEAD^{tree}", "--output=x", "a..b")
    bases = tuple((f"name{n}", name.encode()) for n, name in enumerate(names))

    def change(content: bytes, draw: random.Random) -> bytes:
        return as_text(content, draw).replace(b"\0", b"")  # an argument cannot contain it

    return Target("revisions of git", bases, change, read, goes_out=True)
