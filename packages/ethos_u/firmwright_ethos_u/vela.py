"""Checks the version of Vela before another module imports Vela."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, requires, version

from firmwright.device import UserError

PACKAGE = "ethos-u-vela"


def check_vela() -> None:
    """Raise UserError if the required version of Vela is not installed."""
    stated = requires("firmwright-ethos-u") or ()
    required = next((r for r in stated if r.startswith(PACKAGE)), PACKAGE)
    wanted = required.partition("==")[2]
    try:
        found = version(PACKAGE)
    except PackageNotFoundError:
        found = ""
    if found != wanted:
        state = f"has the version {found}" if found else "is not installed"
        raise UserError(
            f"ethos_u: the Python package {PACKAGE} {state}; expected {wanted}, because the "
            f"register tables change; install it with `python -m pip install {required}`"
        )
