"""Names the page about each command, a file of firmwright's repository."""

from __future__ import annotations

REFERENCE = "docs/reference/commands.md"
"""The page about all other commands."""

PAGES = {
    "build": "docs/reference/terminal.md",
    "diff": "docs/howto/check-a-bundle.md",
    "explain": "docs/howto/look-at-a-build.md",
    "export": "docs/howto/export.md",
    "fleet": "docs/howto/fleets.md",
    "image": "docs/howto/check-a-bundle.md",
    "init": "docs/howto/ci.md",
    "inspect": "docs/howto/check-a-bundle.md",
    "matrix": "docs/howto/fleets.md",
    "measure": "docs/measurements/index.md",
    "new": "docs/howto/own-board.md",
    "new board": "docs/howto/own-board.md",
    "new device": "docs/howto/own-device.md",
    "pull": "docs/howto/ship-a-bundle.md",
    "push": "docs/howto/ship-a-bundle.md",
    "rebuild": "docs/howto/check-a-bundle.md",
    "reproduce": "docs/howto/check-a-bundle.md",
    "search": "docs/howto/quantization.md",
    "show": "docs/howto/product-family.md",
    "sign": "docs/howto/check-a-bundle.md",
    "tune": "docs/howto/tune.md",
    "verify-bundle": "docs/howto/check-a-bundle.md",
    "watch": "docs/reference/terminal.md",
}


def describe_page(command: str, epilog: str | None) -> str:
    """Return the last paragraph of a command's help: ``epilog`` and the page."""
    page = f"page: {PAGES.get(command, REFERENCE)} in the repository"
    return f"{epilog}. {page}" if epilog else page
