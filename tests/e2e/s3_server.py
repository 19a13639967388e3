"""Tests a shared cache in a bucket of a real S3 server: ``python -m nox -s s3``.

CI skips this file, because only this test needs the server, moto, and about sixty packages for it.
"""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import fsspec
import pytest

from firmwright.shared_cache.cache import SharedCache
from firmwright.shared_cache.entry import CacheError
from firmwright.shared_cache.stores import BucketStore
from tests.e2e.test_shared_cache import BUNDLE, build, make

botocore = pytest.importorskip("botocore.session")

KEY = "0" * 64
OPEN_CALLS = 8
"""Requests that the server accepts from anyone: they create the bucket and the users."""

READ_ONLY = """{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Resource": "*",
"Action": ["s3:GetObject", "s3:ListBucket"]}]}"""
ALL = READ_ONLY.replace('["s3:GetObject", "s3:ListBucket"]', '"s3:*"')


def find_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
        return port


def connect(service: str) -> Any:
    return botocore.get_session().create_client(service)


def add_user(name: str, policy: str) -> dict[str, str]:
    """Return the variables of a new user's credentials."""
    iam = connect("iam")
    iam.create_user(UserName=name)
    iam.put_user_policy(UserName=name, PolicyName=name, PolicyDocument=policy)
    key = iam.create_access_key(UserName=name)["AccessKey"]
    return {
        "AWS_ACCESS_KEY_ID": key["AccessKeyId"],
        "AWS_SECRET_ACCESS_KEY": key["SecretAccessKey"],
    }


Users = dict[str, dict[str, str]]


@pytest.fixture(scope="module")
def users() -> Iterator[Users]:
    """The users of a server with the bucket ``team``: one can write, the other can only read."""
    port = find_port()
    with pytest.MonkeyPatch.context() as patch, subprocess.Popen(
        ["moto_server", "--host", "127.0.0.1", "--port", str(port)],
        env=os.environ | {"INITIAL_NO_AUTH_ACTION_COUNT": str(OPEN_CALLS)},
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    ) as server:  # fmt: skip
        address = f"http://127.0.0.1:{port}"
        patch.setenv("AWS_ENDPOINT_URL", address)
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        patch.setenv("AWS_ACCESS_KEY_ID", "anyone")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "anything")
        wait_for(address, server)
        connect("s3").create_bucket(Bucket="team")
        found = {"writer": add_user("writer", ALL), "reader": add_user("reader", READ_ONLY)}
        connect("iam").list_users()  # the last request that the server accepts from anyone
        yield found
        server.kill()


def wait_for(address: str, server: subprocess.Popen[bytes]) -> None:
    while server.poll() is None:
        with suppress(OSError), urlopen(f"{address}/moto-api/"):
            return
        time.sleep(0.1)
    pytest.fail("moto_server has ended")


def use(monkeypatch: pytest.MonkeyPatch, credentials: dict[str, str]) -> None:
    """Use these credentials for all further requests."""
    fsspec.get_filesystem_class("s3").clear_instance_cache()
    for name, value in credentials.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def made(tmp_path: Path) -> Path:
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "file").write_bytes(b"content")
    return tmp_path / "made"


def test_a_second_machine_takes_every_stage(
    users: Users, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, users["writer"])
    first = make(tmp_path / "first", "s3://team/builds")
    assert not build(first)[0]
    use(monkeypatch, users["reader"])
    second = make(tmp_path / "second", "s3://team/builds")
    taken, own, _ = build(second)
    assert taken and not own
    assert (second.folder / BUNDLE).read_bytes() == (first.folder / BUNDLE).read_bytes()

    use(monkeypatch, users["writer"])
    objects = connect("s3").list_objects_v2(Bucket="team", Prefix="builds/cas/")["Contents"]
    for each in objects:
        connect("s3").put_object(Bucket="team", Key=each["Key"], Body=b"a lie")
    third = make(tmp_path / "third", "s3://team/builds")
    taken, _, printed = build(third)
    assert "objects" not in taken
    assert "the stage ran instead" in printed
    assert (third.folder / BUNDLE).read_bytes() == (first.folder / BUNDLE).read_bytes()


def test_who_may_only_read_is_told_once_and_reads(
    users: Users, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, users["writer"])
    SharedCache(BucketStore("s3://team/read")).keep(KEY, made, [])
    use(monkeypatch, users["reader"])
    cache = SharedCache(BucketStore("s3://team/read"))
    with pytest.raises(CacheError, match=r"s3://team/read/cas/.*: Access Denied"):
        cache.keep("1" * 64, made, [])
    cache.keep("1" * 64, made, [])
    assert cache.restore("1" * 64, tmp_path / "it") is None
    assert cache.restore(KEY, tmp_path / "it") is not None


def test_a_bucket_that_is_not_there(
    users: Users, made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, users["writer"])
    cache = SharedCache(BucketStore("s3://nobody/read"))
    with pytest.raises(CacheError, match="The specified bucket does not exist"):
        cache.keep(KEY, made, [])


@pytest.mark.usefixtures("users")
def test_wrong_credentials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, {"AWS_ACCESS_KEY_ID": "nobody", "AWS_SECRET_ACCESS_KEY": "nothing"})
    cache = SharedCache(BucketStore("s3://team/read"))
    with pytest.raises(CacheError, match=r"s3://team/read/ac/0+: "):
        cache.restore(KEY, tmp_path / "it")
    assert cache.restore(KEY, tmp_path / "it") is None
