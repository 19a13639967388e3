"""The user's settings of the cache: the environment first, then the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from firmwright.errors import DiagnosticError, UserError
from firmwright.pipeline.remote_jobs import list_environment
from firmwright.shared_cache import open_cache, settings
from firmwright.shared_cache.stores import FolderStore

FILE = "cache: team\ncache_role: read\ncache_size: 1 MiB\n"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the user's file; no variable sets the cache."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for name in settings.KEYS.values():
        monkeypatch.delenv(name, raising=False)
    file = settings.find_file()
    assert file is not None
    folder = file.parent
    folder.mkdir()
    return folder


def test_without_a_word_nothing_is_shared(home: Path) -> None:
    assert open_cache() is None
    assert not [*home.iterdir()]


def test_the_file_names_the_cache(home: Path) -> None:
    (home / "config.yaml").write_text(FILE)
    cache = open_cache()
    assert cache is not None
    assert cache.is_read
    assert not cache.is_written
    store = cache.store.store
    assert isinstance(store, FolderStore)
    assert (store.folder, store.limit) == (home / "team", 1 << 20)
    found = list_environment()  # for workers with another home folder
    assert found["FIRMWRIGHT_CACHE"] == str(home / "team")
    assert found["FIRMWRIGHT_CACHE_ROLE"] == "read"


def test_a_home_is_found_in_the_file(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(home / "me"))
    (home / "config.yaml").write_text("cache: ~/kept\n")
    assert settings.read_settings() == {"FIRMWRIGHT_CACHE": str(home / "me" / "kept")}
    (home / "config.yaml").write_text("cache: http://cache.example:8080\n")
    assert settings.read_settings() == {"FIRMWRIGHT_CACHE": "http://cache.example:8080"}


@pytest.mark.parametrize("place", ["", "elsewhere"])
def test_the_variable_takes_the_place_of_the_file(
    place: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "config.yaml").write_text(FILE)
    monkeypatch.setenv("FIRMWRIGHT_CACHE", place)
    assert settings.read_settings() == {"FIRMWRIGHT_CACHE": place}
    assert (open_cache() is None) is (place == "")


def test_a_variable_changes_one_word_of_the_file(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "config.yaml").write_text(FILE)
    monkeypatch.setenv("FIRMWRIGHT_CACHE_ROLE", "write")
    assert settings.read_settings()["FIRMWRIGHT_CACHE_ROLE"] == "write"
    assert settings.read_settings()["FIRMWRIGHT_CACHE_SIZE"] == "1 MiB"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cache_role: read\n", "config.yaml:1:1: the key 'cache' is missing"),
        (
            "cache: x\ncache_role: admin\n",
            "config.yaml:2:13: cache_role: unknown value 'admin'; known: ",
        ),
        ("cache: x\ncache_size: much\n", "config.yaml:2:13: cache_size: expected a size with its "),
        ("cache: x\ncashe: y\n", "config.yaml:2:1: cashe: unknown key"),
    ],
)
def test_a_wrong_file_is_told_with_its_place(text: str, message: str, home: Path) -> None:
    (home / "config.yaml").write_text(text)
    with pytest.raises(DiagnosticError) as raised:
        open_cache()
    assert message in str(raised.value)


def test_a_file_that_cannot_be_reached_is_an_error(home: Path) -> None:
    (home / "config.yaml").symlink_to("config.yaml")
    with pytest.raises(UserError, match=r"config\.yaml: Too many levels.*set FIRMWRIGHT_CACHE"):
        settings.read_settings()
