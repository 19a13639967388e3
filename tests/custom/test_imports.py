"""The imports of a Python file are found in every block of statements."""

from pathlib import Path

from firmwright.custom.installed_modules import list_imports

SOURCE = """\
import first, second.part
try:
    from third import name
except ImportError:
    import fourth
else:
    import fifth
finally:
    import sixth
with open(path) as file:
    if file:
        pass
    elif name:
        import seventh

class Example:
    def method(self):
        match self:
            case 1:
                from . import eighth
        return lambda: __import__("ninth")
"""


def test_imports_in_blocks(tmp_path: Path) -> None:
    file = tmp_path / "example.py"
    file.write_text(SOURCE)
    assert [*list_imports(file, "owner.example")] == [
        *("first", "second.part", "third", "third.name", "fourth", "fifth", "sixth", "seventh"),
        *("owner", "owner.eighth"),
    ]


def test_long_chain_of_branches(tmp_path: Path) -> None:
    file = tmp_path / "example.py"
    file.write_text("if x == 0:\n    pass\n" + "elif x == 1:\n    import last\n" * 1500)
    assert {*list_imports(file, "example")} == {"last"}
