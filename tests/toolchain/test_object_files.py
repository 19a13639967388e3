"""Symbols and machines of object files and archives, of real compilers."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from firmwright.errors import UserError
from firmwright.toolchain.archive_checks import (
    check_definitions,
    check_machine,
    find_failed_symbols,
)
from firmwright.toolchain.object_files import (
    find_missing_symbols,
    read_archive,
    read_object,
    select_linked_objects,
)

LONG = "a_file_whose_name_is_longer_than_a_header_holds"


def compiled(folder: Path, name: str, source: str, *flags: str) -> Path:
    (folder / f"{name}.c").write_text(source)
    zig = (sys.executable, "-m", "ziglang", "cc")
    subprocess.run(
        [*zig, "-fno-sanitize=undefined", *flags, "-c", f"{name}.c", "-o", f"{name}.o"],
        cwd=folder,
        check=True,
    )
    return folder / f"{name}.o"


def archived(folder: Path, name: str, *objects: Path) -> Path:
    ar = (sys.executable, "-m", "ziglang", "ar", "rcs")
    subprocess.run([*ar, name, *(path.name for path in objects)], cwd=folder, check=True)
    return folder / name


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An archive of two members; only the first is ever needed."""
    folder = tmp_path_factory.mktemp("library")
    first = "int halve(int);\nint middle(int a, int b) { return halve(a + b); }"
    second = "int nowhere(void);\nint spare(void) { return nowhere(); }"
    return archived(
        folder, "libmiddle.a", compiled(folder, LONG, first), compiled(folder, "second", second)
    )


@pytest.fixture(scope="module")
def user(library: Path) -> Path:
    source = "int middle(int, int);\nint half(int a) { return a / 2; }\n"
    return compiled(library.parent, "user", source + "int use(int a) { return middle(a, 1); }")


def test_an_archive_s_members_have_their_whole_names_and_their_symbols(library: Path) -> None:
    first, second = read_archive(library)
    assert first.name == f"libmiddle.a({LONG}.o)"
    assert "middle" in first.defined
    assert "halve" in first.undefined
    assert second.name == "libmiddle.a(second.o)"


def test_bsd_names_stand_in_front_of_the_content(library: Path) -> None:
    first, _ = read_archive(library)
    content = (library.parent / f"{LONG}.o").read_bytes()
    name = f"{LONG}.o".encode()
    header = b"%-16s%-12s%-6s%-6s%-8s%-10d`\n" % (
        b"#1/%d" % len(name), b"0", b"0", b"0", b"644", len(name) + len(content)
    )  # fmt: skip
    bsd = library.with_name("libbsd.a")
    bsd.write_bytes(b"!<arch>\n" + header + name + content)
    (found,) = read_archive(bsd)
    assert (found.name, found.defined) == (f"libbsd.a({LONG}.o)", first.defined)


def test_only_members_that_are_needed_are_linked(library: Path, user: Path) -> None:
    files = select_linked_objects([read_object(user)], read_archive(library))
    found = find_missing_symbols(files)
    assert [(m.needed_by.name, m.symbol) for m in found] == [(f"libmiddle.a({LONG}.o)", "halve")]
    assert str(found[0]).endswith("needs 'halve', which no file defines; did you mean 'half'?")


def test_a_link_lacks_what_its_message_names(library: Path, user: Path) -> None:
    said = "undefined symbol: halve"
    assert [m.symbol for m in find_failed_symbols(said, [user], [library])] == ["halve"]
    assert find_failed_symbols("undefined symbol: halved", [user], [library]) == []


def test_a_loadable_has_every_function_of_the_user_s_that_the_network_calls(
    library: Path, user: Path
) -> None:
    check_definitions(["half", "middle"], [user], [library], "MORE")
    check_definitions([], [Path("no object is read")], [], "MORE")
    message = "calls 'midle', which is not defined in the loadable; did you mean 'middle'?"
    with pytest.raises(UserError, match=re.escape(message)):
        check_definitions(["half", "midle"], [user], [library], "MORE")


def test_an_archive_for_another_machine_is_refused(library: Path, user: Path) -> None:
    check_machine(library, user)
    flags = ("-target", "riscv32-freestanding-none")
    bare = compiled(library.parent, "bare", "int one(void) { return 1; }", *flags)
    message = r"libmiddle.a\(a_file.*\) is for .*64 bits.*; the program is for RISC-V, 32 bits"
    with pytest.raises(UserError, match=message):
        check_machine(library, bare)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"no archive", "is not an archive of object files"),
        (b"!<arch>\n", "is an archive without object files"),
        (b"!<arch>\n" + b"%-16s%-32s%-10d`\n" % (b"a.txt/", b"", 4) + b"text", "is not an ELF"),
    ],
)
def test_what_is_no_archive_of_objects_is_refused(
    tmp_path: Path, content: bytes, message: str
) -> None:
    path = tmp_path / "broken.a"
    path.write_bytes(content)
    with pytest.raises(UserError, match=message):
        read_archive(path)
