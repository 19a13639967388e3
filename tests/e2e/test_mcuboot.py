"""imgtool verifies the firmware of a bundle as an image for MCUboot."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tarfile

import pytest

from firmwright.bundle.inspect import inspect_file
from tests.e2e.conftest import Repository, new_repository

BUNDLE = "build/digits/digits-cortex-m4-bare.tar.gz"


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """A repository with a bundle and two keys."""
    repository = new_repository(tmp_path_factory.mktemp("mcuboot"))
    repository.build("recipe=digits.yaml", "platform=cortex-m4-bare", "counter=5")
    for name in ("key", "other"):
        make = ("openssl", "genpkey", "-algorithm", "ed25519", "-out", f"{name}.pem")
        assert repository.run(*make).returncode == 0
        (repository.folder / f"{name}.pem").chmod(0o600)
    return repository


def image(
    repository: Repository, *words: str, bundle: str = BUNDLE
) -> subprocess.CompletedProcess[str]:
    return repository.firmwright("image", bundle, *words)


LAYOUT = ("--image-version", "1.2.3+4", "--slot", "64KiB", "--key", "key.pem")


@pytest.mark.needs("openssl")
def test_imgtool_verifies_the_image_and_its_counter(repository: Repository) -> None:
    signed = repository.folder / BUNDLE.replace(".tar.gz", ".signed.bin")
    done = image(repository, *LAYOUT)
    assert done.returncode == 0, done.stderr
    first = signed.read_bytes()
    assert image(repository, *LAYOUT).returncode == 0
    assert signed.read_bytes() == first

    found = inspect_file(signed).mcuboot
    assert found
    assert (found.version, found.header_bytes, found.digest_matches) == ("1.2.3+4", 512, True)
    assert [e.content for e in found.entries if e.kind == "security counter"] == ["05000000"]
    with tarfile.open(repository.folder / BUNDLE) as archive:
        firmware = archive.extractfile("digits-cortex-m4-bare/firmware.bin")
        assert firmware
        assert found.firmware_sha256 == hashlib.sha256(firmware.read()).hexdigest()

    imgtool = (sys.executable, "-c", "from imgtool.main import imgtool; imgtool()")
    verify = (*imgtool, "verify", str(signed), "--key")
    assert repository.run(*verify, "key.pem").returncode == 0
    assert repository.run(*verify, "other.pem").returncode != 0


def test_a_program_has_no_images(repository: Repository) -> None:
    """An operating system loads the ELF: no flash is written, and no boot loader starts the
    program.
    """
    repository.build("recipe=digits.yaml", "platform=host")
    bundle = "build/digits/digits-host.tar.gz"
    paths = {file["path"] for file in repository.manifest(bundle)["files"]}
    assert {path for path in paths if path.startswith("firmware.")} == {
        "firmware.elf",
        "firmware.map",
    }
    with tarfile.open(repository.folder / bundle) as archive:
        readme = archive.extractfile("digits-host/README.md")
        assert readme and b"| `firmware.elf`, `.map` |" in readme.read()
    done = image(repository, *LAYOUT, bundle=bundle)
    assert done.returncode == 2
    assert "has no firmware for a boot loader" in done.stderr


@pytest.mark.needs("openssl")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--image-version", "new"), "version new: not a version of MCUboot; expected"),
        (("--slot", "8KiB"), "Image size"),
        (("--slot", "large"), "--slot large: not a size; expected a number of bytes"),
        (("--key", "none.pem"), "none.pem: "),
        (("--key", "digits.yaml"), "other users can read this key"),
    ],
)
def test_mistakes_are_told(repository: Repository, words: tuple[str, ...], message: str) -> None:
    (repository.folder / "digits.yaml").chmod(0o644)
    done = image(repository, *LAYOUT, *words, "--output", "none.bin")
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert not (repository.folder / "none.bin").exists()
