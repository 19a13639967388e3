"""Downloads the wheels of the installed environment, for an installation without network.

pip resolves the versions and downloads the wheels from the index that the user has configured.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from importlib.metadata import distributions, requires, version
from pathlib import Path
from tempfile import TemporaryDirectory

from packaging.tags import parse_tag, sys_tags
from packaging.utils import canonicalize_name

from firmwright.custom.installed_modules import find_requirements
from firmwright.folders import IS_CHECKOUT
from firmwright.rebuild.reproduce import make_wheel, run_pip

LIST = "requirements.txt"
"""The file that names each wheel, its version and its digest."""


def list_requirements(packages: Iterable[str]) -> list[str]:
    """Return the requirements of firmwright and of ``packages``, which are installed packages."""
    needed = [text for text in requires("firmwright") or () if "extra ==" not in text]
    needed += [f"{name}=={version(name)}" for name in sorted({*packages} - {"firmwright"})]
    return needed if IS_CHECKOUT else [f"firmwright=={version('firmwright')}", *needed]


def fill_wheels(folder: Path, requirements: Iterable[str]) -> int:
    """Download the wheels of requirements in the installed versions. Return the number of wheels.

    A checkout adds the wheel of its sources. Raises UserError with pip's reason if the download
    fails.
    """
    folder.mkdir(parents=True, exist_ok=True)
    remove_listed(folder)
    with TemporaryDirectory(prefix="firmwright-wheels-") as scratch:
        constraints = Path(scratch) / "constraints.txt"
        constraints.write_text("".join(f"{pin}\n" for pin in pin_installed()), encoding="utf-8")
        destination = "--dest", str(folder), "--constraint", str(constraints)
        run_pip("download", "--only-binary=:all:", *destination, *requirements)
        if IS_CHECKOUT:
            wheel = make_wheel(Path(scratch))
            (folder / wheel.name).write_bytes(wheel.read_bytes())
    lines = [*list_wheels(folder)]
    (folder / LIST).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return len(lines)


def remove_listed(folder: Path) -> None:
    """Remove the wheels of an earlier call, because pip installs one version of each package."""
    if (folder / LIST).is_file():
        listed = (folder / LIST).read_text("utf-8")
        for wheel in folder.glob("*.whl"):
            if hashlib.sha256(wheel.read_bytes()).hexdigest() in listed:
                wheel.unlink()


def pin_installed() -> list[str]:
    """Return ``name==version`` for each installed package except firmwright."""
    versions = {canonicalize_name(each.name): each.version for each in distributions() if each.name}
    return [f"{name}=={text}" for name, text in sorted(versions.items()) if name != "firmwright"]


def pin_requirements() -> list[str]:
    """Return ``name==version`` for each installed package that firmwright needs without extras.

    The list is empty if firmwright runs from its sources without an installation.
    """
    needed = {canonicalize_name(name) for name in find_requirements(["firmwright"])}
    return [pin for pin in pin_installed() if pin.partition("==")[0] in needed]


def list_wheels(folder: Path) -> Iterator[str]:
    """Yield the line of each wheel in a folder for the requirements, with the wheel's digest."""
    for wheel in sorted(folder.glob("*-*-*.whl")):
        name, text = wheel.name.split("-")[:2]
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
        yield f"{canonicalize_name(name)}=={text} --hash=sha256:{digest}"


def list_missing(folder: Path, requirements: Iterable[str]) -> list[str]:
    """Return the requirements without a wheel of the installed version, and changed wheels.

    A requirement whose wheels are only for other platforms is missing, and the text names a wheel.
    """
    stated = (folder / LIST).read_text("utf-8").splitlines() if (folder / LIST).is_file() else []
    wheels = [*list_wheels(folder)]
    pinned = dict(pin.split("==") for pin in pin_installed())
    names = [canonicalize_name(re.split(r"[^\w.-]", text)[0]) for text in requirements]
    wanted = {f"{name}=={pinned[name]}" for name in names if name in pinned}
    wanted -= {line.split()[0] for line in wheels}
    wanted |= {line.split()[0] for line in {*stated} ^ {*wheels}}
    return sorted(wanted | {*list_foreign(folder)})


def list_foreign(folder: Path) -> Iterator[str]:
    """Yield the package of each wheel that is not for this Python and this machine.

    The text also names the wheel. A package with another wheel that fits is omitted.
    """
    wheels = sorted(folder.glob("*-*-*.whl"))
    fitting = {wheel.name.split("-")[0] for wheel in wheels if fits_machine(wheel.stem)}
    for wheel in wheels:
        name, text = wheel.name.split("-")[:2]
        if name not in fitting:
            package = f"{canonicalize_name(name)}=={text}"
            yield f"{package} ({wheel.name} is for another platform or Python)"


def fits_machine(stem: str) -> bool:
    """Return whether a wheel's name has the tags of this Python and this machine (PEP 425)."""
    return not parse_tag("-".join(stem.split("-")[-3:])).isdisjoint(sys_tags())
