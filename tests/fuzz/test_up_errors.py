"""`dashpot up` that cannot start: one message that names the place, the right status, no traceback, nothing lost."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from dashpot.cli import main

FOREIGN = "apiVersion: v1\nkind: Config\nclusters: [{name: prod, cluster: {server: https://prod}}]\n"
WEBHOOKS = ("--token-webhook", "--audit-webhook", "--authorization-webhook")


def refused(capsys: pytest.CaptureFixture[str], data: Path, *options: str) -> tuple[int, str]:
    """Exit status and what is said; it must be no traceback and no mistake of ours."""
    status = main(["up", "--api-only", "--data", str(data), "--port", "0", *options])
    told = capsys.readouterr().err
    assert "Traceback" not in told and "internal error" not in told and "mistake" not in told, told
    lines = [line for line in told.splitlines() if not line.startswith("usage:")]
    assert lines[0].startswith("dashpot: ") and len(lines) <= 2, told
    return status, told


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("--nope",), "--nope"),
        (("--port", "x"), "is no port"),
        (("--port", "70000"), "is no port"),
        (("--store", "zzz"), "'zzz' is no store"),
        (("--store", "etcd://"), "is no store"),
        (("--store", "etcd://x:99999"), "is no store"),
        (("--store-override", "x"), "is no override"),
        (("--store-override", "events=zzz"), "'zzz' is no store"),
        (("--store-override", "event=memory"), "'event' is no resource that is stored: write events"),
        (("--store-override", "events=memory", "--store-override", "events=embedded:/x"), "given two stores"),
        (("--audit-policy", "policy.yaml"), "without --audit-log or --audit-webhook"),
        (("--max-requests-inflight", "x"), "'x' is no number of requests"),
        (("--max-requests-inflight", "0", "--max-mutating-requests-inflight", "0"), "nothing would be served"),
        (("--host", "nosuch.invalid"), "'nosuch.invalid'"),
        (("--host", "192.0.2.1"), "192.0.2.1 is no address of this machine"),
        (("--service-network", "x"), "--service-network"),
        (("--service-network", "10.0.0.5/12"), "host bits"),
        (("--service-network", "10.0.0.1/32"), "too small"),
        (("--node-ports", "5-1"), "--node-ports"),
        (("--authorization-mode", "X"), "'X'"),
        (("--authorization-mode", ","), "names no mode"),
        (("--authorization-mode", "Webhook"), "needs a webhook"),
        (("--oidc-issuer", "https://x"), "needs --oidc-client-id"),
        (("--oidc-client-id", "x"), "needs --oidc-issuer"),
        (("--oidc-issuer", "http://x", "--oidc-client-id", "y"), "https://"),
        (("--token-file", "/dev/zero"), "larger than"),
    ],
)
def test_wrong_options(capsys: pytest.CaptureFixture[str], tmp_path: Path, options: tuple[str, ...], text: str) -> None:
    status, told = refused(capsys, tmp_path / "data", *options)
    assert (status, text in told) == (2, True), told


@pytest.mark.parametrize("option", ["--token-file", "--audit-policy", "--faults", "--oidc-ca", *WEBHOOKS])
@pytest.mark.parametrize("content", ["nothing", "a folder", b"\xff\x00\xfe", b"{{{{", b"hello"])
def test_files_that_are_not_what_they_should_be(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, option: str, content: str | bytes
) -> None:
    """2, and the message names the file."""
    path = tmp_path / "file"
    if content == "a folder":
        path.mkdir()
    elif isinstance(content, bytes):
        path.write_bytes(content)
    more: tuple[str, ...] = ()
    if option == "--oidc-ca":
        more = ("--oidc-issuer", "https://x", "--oidc-client-id", "y")
    elif option == "--audit-policy":
        more = ("--audit-log", str(tmp_path / "audit.log"))
    elif option == "--authorization-webhook":
        more = ("--authorization-mode", "Webhook")
    status, told = refused(capsys, tmp_path / "data", option, str(path), *more)
    assert (status, str(path) in told) == (2, True), told


@pytest.mark.parametrize("rule", ["{drop: true, resource: deployment}", "{drop: true, useragent: kubectl}"])
def test_faults_that_hit_nothing(capsys: pytest.CaptureFixture[str], tmp_path: Path, rule: str) -> None:
    """2, with the place in the file."""
    path = tmp_path / "faults.yaml"
    path.write_text(f"rules: [{{drop: true}}, {rule}]")
    status, told = refused(capsys, tmp_path / "data", "--faults", str(path))
    assert (status, f"{path}: rules[1]" in told) == (2, True), told


def test_a_port_that_is_taken(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        status, told = refused(capsys, tmp_path / "data", "--port", port)
    assert status == 4 and port in told and "choose another --port" in told


def test_an_etcd_that_does_not_answer(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    status, told = refused(capsys, tmp_path / "data", "--store", "etcd://127.0.0.1:1")
    assert status == 4 and "etcd at 127.0.0.1:1 does not answer" in told


def test_an_audit_log_that_cannot_be(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    status, told = refused(capsys, tmp_path / "data", "--audit-log", str(tmp_path))
    assert status == 4 and str(tmp_path) in told


@pytest.mark.parametrize("text", [FOREIGN, "my notes"])
def test_a_kubeconfig_of_somebody_else_stays(capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    status, told = refused(capsys, tmp_path / "data", "--kubeconfig", str(path))
    assert status == 4 and str(path) in told
    assert path.read_text() == text


def test_data_that_is_no_folder(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_text("mine")
    status, told = refused(capsys, path)
    assert status == 4 and str(path) in told and path.read_text() == "mine"


@pytest.mark.parametrize("name", ["pki/ca.crt", "pki/ca.key", "pki/sa.key", "store/store.db", "pki/admin.crt/"])
def test_damaged_data_is_named_and_kept(capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str) -> None:
    """Neither keys nor the store are made anew over what is there."""
    path = tmp_path / "data" / name
    refused(capsys, tmp_path / "data", "--kubeconfig", str(tmp_path))  # begins, and stops at the kubeconfig
    if name.endswith("/"):
        path.unlink(missing_ok=True)
        path.mkdir()
        status, told = refused(capsys, tmp_path / "data")
        assert status == 4 and str(path) in told
        return
    path.write_bytes(b"garbage" * 1000)
    status, told = refused(capsys, tmp_path / "data")
    assert status == 4 and str(path) in told
    assert path.read_bytes() == b"garbage" * 1000
