"""Kubeconfig files: merging, what each field means, and what is told when something is wrong."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dashpot.runtime.client.access import KubeconfigError, Login
from dashpot.runtime.client.incluster import in_cluster
from dashpot.runtime.client.kubeconfig import Kubeconfig, load, merge, search_path
from dashpot.runtime.client.proxies import passes, proxy_for

SECRET = "s3cr3t-value"
B64 = base64.b64encode(b"PEM").decode()


def config(user: Any = None, cluster: Any = None, context: Any = None, **more: Any) -> str:
    """A kubeconfig (JSON is YAML) with one context."""
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "clusters": [{"name": "k", "cluster": {"server": "https://h:1", **(cluster or {})}}],
        "users": [{"name": "u", "user": user if user is not None else {}}],
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u", **(context or {})}}],
        **more,
    }
    return msgspec.json.encode(document).decode()


def read(text: str, folder: Path = Path("/x")) -> Kubeconfig:
    return merge([(folder / "config", text)])


def test_every_field(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_bytes(b"CA")
    text = config(
        {
            "client-certificate-data": B64,
            "client-key-data": B64,
            "token": SECRET,
            "as": "jane",
            "as-uid": "7",
            "as-groups": ["g", "h"],
            "as-user-extra": {"Scopes": ["a", "b"]},
        },
        {
            "certificate-authority": "ca.crt",
            "tls-server-name": "kubernetes",
            "proxy-url": "http://u:p@proxy:3128",
            "disable-compression": True,
        },
        {"namespace": "n"},
    )
    access = read(text, tmp_path).access()
    assert (access.server, access.ca, access.verify, access.server_name) == ("https://h:1", b"CA", True, "kubernetes")
    assert (access.proxy, access.compression, access.namespace) == ("http://u:p@proxy:3128", False, "n")
    assert access.login == Login(b"PEM", b"PEM", SECRET)
    assert access.acting.headers() == (
        ("impersonate-user", "jane"),
        ("impersonate-uid", "7"),
        ("impersonate-group", "g"),
        ("impersonate-group", "h"),
        ("impersonate-extra-scopes", "a"),
        ("impersonate-extra-scopes", "b"),
    )
    assert SECRET not in repr(access) and "proxy:3128" not in repr(access) and "PEM" not in repr(access)


def test_files_are_merged_first_come_first_served(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    (tmp_path / "b/token").write_text("t")
    first = config({"token": "one"}, {"server": "https://first"}, **{"current-context": ""})
    second = config({"token": "two"}, {"server": "https://second"})
    other = {"users": [{"name": "v", "user": {"tokenFile": "token"}}], "current-context": "c"}
    paths = [tmp_path / "a/config", tmp_path / "missing", tmp_path / "b/config", tmp_path / "b/other"]
    for path, text in zip([*paths[:1], *paths[2:]], [first, second, msgspec.json.encode(other).decode()], strict=True):
        path.write_text(text)
    found = load(paths)
    assert found.current == "c"
    access = found.access()
    assert (access.server, access.login.token) == ("https://first", "one")
    assert found.access(user="v", namespace="z").login.token_file == tmp_path / "b/token"


def test_search_path() -> None:
    home = Path("/home/me")
    assert search_path(None, "", home) == [home / ".kube/config"]
    assert search_path(None, "/a::/b:/a", home) == [Path("/a"), Path("/b")]
    assert search_path(Path("/c"), "/a", home) == [Path("/c")]


def test_plugin_and_what_it_is_told() -> None:
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "bin/login",
        "args": ["--x", SECRET],
        "env": [{"name": "A", "value": SECRET}],
        "interactiveMode": "Never",
        "provideClusterInfo": True,
    }
    extension = [{"name": "client.authentication.k8s.io/exec", "extension": {"audience": "a"}}]
    cluster = {"certificate-authority-data": B64, "extensions": extension}
    found = read(config({"exec": plugin}, cluster)).access().login.plugin
    assert found is not None
    assert (found.command, found.args, found.env) == ("/x/bin/login", ("--x", SECRET), (("A", SECRET),))
    assert found.cluster == {
        "server": "https://h:1",
        "certificate-authority-data": B64,
        "config": {"audience": "a"},
    }
    assert SECRET not in repr(found)


EXEC = {"apiVersion": "client.authentication.k8s.io/v1", "command": "x", "interactiveMode": "Never"}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "/x/config: no current-context is set: choose one with --context"),
        ("[]", "/x/config: is no kubeconfig"),
        ("kind: Pod", "/x/config: is no kubeconfig: it must have 'apiVersion: v1'"),
        (f"a: [{SECRET}\nb: - {{", "/x/config: is no YAML at line 2"),
        (config(**{"current-context": "z"}), "there is no context 'z': there are c"),
        (config(**{"clusters": []}), "context 'c': there is no cluster 'k': there are none"),
        (config(**{"users": [{"user": {}}]}), "/x/config: users[0] has no name: add 'name: …'"),
        (config(**{"users": [{"name": "u", "user": SECRET}]}), "/x/config: user 'u': 'user:' must hold fields"),
        (config({}, {"server": "h"}), "cluster 'k': server is no URL: write 'server: https://HOST:PORT'"),
        (config({}, {"certificate-authority-data": "%%"}), "cluster 'k': certificate-authority-data is no base64"),
        (config({}, {"certificate-authority": "no"}), "names /x/no, which cannot be read (No such file or directory)"),
        (
            config({}, {"certificate-authority-data": B64, "insecure-skip-tls-verify": True}),
            "of which only one can count: remove insecure-skip-tls-verify",
        ),
        (config({}, {"insecure-skip-tls-verify": "yes"}), "insecure-skip-tls-verify must be true or false"),
        (
            config({}, {"proxy-url": "socks5://h:1"}),
            "SOCKS proxies are not supported: use an http:// or https:// proxy",
        ),
        (config({"token": 5}), "user 'u': token must be a string: put it in quotes"),
        (config({"token": SECRET, "username": "me", "password": SECRET}), "has token and username: keep one of them"),
        (config({"client-certificate-data": B64}), "client-key is missing: a certificate needs its key"),
        (config({"auth-provider": {"name": "gcp"}}), "auth-provider 'gcp' was removed from Kubernetes in 1.26"),
        (config({"exec": {**EXEC, "apiVersion": "client.authentication.k8s.io/v1alpha1"}}), "is not supported: use"),
        (config({"exec": {**EXEC, "command": ""}}), "names no command: add 'command: PROGRAM'"),
        (
            config({"exec": {**EXEC, "interactiveMode": ""}}),
            "interactiveMode must be one of Never, IfAvailable, Always",
        ),
        (config({"as-groups": ["g"]}), "need a user to act as: add 'as: NAME'"),
    ],
)
def test_what_is_wrong_is_told_with_file_entry_and_cure(text: str, told: str) -> None:
    with pytest.raises(KubeconfigError) as caught:
        read(text).access()
    assert told in str(caught.value) and SECRET not in str(caught.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(KubeconfigError, match="there is no kubeconfig"):
        load([tmp_path / "no"])
    with pytest.raises(KubeconfigError, match="there is no such file"):
        load([tmp_path / "no"], needed=True)


def test_in_a_pod(tmp_path: Path) -> None:
    for name, text in (("token", "t\n"), ("ca.crt", "CA"), ("namespace", "n")):
        (tmp_path / name).write_text(text)
    environment = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
    access = in_cluster(environment, tmp_path)
    assert (access.server, access.ca, access.namespace) == ("https://[fd00::1]:443", b"CA", "n")
    assert access.login.token_file == tmp_path / "token"
    with pytest.raises(KubeconfigError, match="this is no pod"):
        in_cluster({}, tmp_path)
    (tmp_path / "token").unlink()
    with pytest.raises(KubeconfigError, match="automountServiceAccountToken"):
        in_cluster(environment, tmp_path)


@pytest.mark.parametrize(
    ("host", "port", "exempt", "passed"),
    [
        ("a.example.com", 443, "example.com", True),
        ("example.com", 443, "example.com", True),
        ("example.com", 443, ".example.com", False),
        ("notexample.com", 443, "example.com", False),
        ("a.example.com", 443, "*.example.com", True),
        ("a.example.com", 443, "other, *", True),
        ("10.1.2.3", 443, "10.0.0.0/8", True),
        ("11.1.2.3", 443, "10.0.0.0/8,nonsense/9", False),
        ("10.1.2.3", 443, "10.1.2.3:443", True),
        ("10.1.2.3", 6443, "10.1.2.3:443", False),
        ("fd00::1", 443, "fd00::1", True),
        ("fd00::1", 443, "[fd00::1]:443", True),
    ],
)
def test_no_proxy(host: str, port: int, exempt: str, passed: bool) -> None:
    assert passes(host, port, exempt) is passed


@pytest.mark.parametrize(
    ("server", "environment", "proxy"),
    [
        ("https://h:6443", {"https_proxy": "proxy:3128"}, "http://proxy:3128"),
        ("https://h:6443", {"http_proxy": "http://proxy:3128"}, ""),
        ("http://h", {"HTTP_PROXY": "http://proxy:3128", "NO_PROXY": "h"}, ""),
        ("https://127.0.0.1:6443", {"https_proxy": "http://proxy:3128"}, ""),
        ("https://localhost:6443", {"https_proxy": "http://proxy:3128"}, ""),
    ],
)
def test_proxy_variables(server: str, environment: dict[str, str], proxy: str) -> None:
    assert proxy_for(server, environment) == proxy
