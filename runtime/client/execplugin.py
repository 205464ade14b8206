"""Credential plugins: programs that tell a token or a certificate. Source: client-go plugin/pkg/client/auth/exec,
KEP-541 (client.authentication.k8s.io/v1)."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec
from attrs import field, frozen

from dashpot.runtime.client.access import KubeconfigError, Plugin

Object = dict[str, Any]

TIME_S = 300.0
"""How long a plugin may take: a person may have to log in."""
OUTPUT_MAX = 1 << 20


@frozen
class Told:
    """What a plugin told. `expires` in seconds since 1970, None: never. `certificate` and `key` are PEM."""

    token: str = field(default="", repr=False)
    certificate: bytes = field(default=b"", repr=False)
    key: bytes = field(default=b"", repr=False)
    expires: float | None = None


async def run_plugin(plugin: Plugin, environment: Mapping[str, str], *, terminal: bool) -> Told:
    """Runs it. `environment` is what it inherits, `terminal` whether a person can answer it; what it writes to its
    stderr goes to ours. KubeconfigError."""
    if plugin.mode == "Always" and not terminal:
        raise KubeconfigError(f"{plugin.where}: {plugin.command} needs a terminal: log in with it on one first")
    interactive = plugin.mode != "Never" and terminal
    program = shutil.which(plugin.command, path=environment.get("PATH"))
    if program is None:
        hint = f"\n{plugin.hint}" if plugin.hint else ""
        raise KubeconfigError(f"{plugin.where}: {plugin.command} is not installed: put it on the PATH{hint}")
    output = await _output(plugin, program, environment, interactive)
    return _told(plugin, output)


async def _output(plugin: Plugin, program: str, environment: Mapping[str, str], interactive: bool) -> bytes:
    spec: Object = {"interactive": interactive}
    if plugin.cluster is not None:
        spec["cluster"] = plugin.cluster
    info = {"kind": "ExecCredential", "apiVersion": plugin.api_version, "spec": spec}
    env = {**environment, **dict(plugin.env), "KUBERNETES_EXEC_INFO": msgspec.json.encode(info).decode()}
    try:
        process = await asyncio.create_subprocess_exec(
            program,
            *plugin.args,
            env=env,
            stdin=None if interactive else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
        )
    except (OSError, ValueError) as error:
        told = getattr(error, "strerror", None) or "its arguments or environment cannot be used"
        raise KubeconfigError(f"{plugin.where}: {program} cannot be run: {told}") from None
    assert process.stdout is not None
    try:
        async with asyncio.timeout(TIME_S):
            output = bytearray()
            while part := await process.stdout.read(65536):
                output += part
                if len(output) > OUTPUT_MAX:
                    raise KubeconfigError(f"{plugin.where}: {program} wrote more than {OUTPUT_MAX} bytes")
            status = await process.wait()
    except TimeoutError:
        raise KubeconfigError(f"{plugin.where}: {program} did not end within {TIME_S:g}s: run it by hand") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if status != 0:
        raise KubeconfigError(
            f"{plugin.where}: {program} failed with exit code {status}: see what it wrote, log in anew"
        )
    return bytes(output)


def _told(plugin: Plugin, output: bytes) -> Told:
    def wrong(text: str) -> KubeconfigError:
        return KubeconfigError(f"{plugin.where}: {plugin.command} {text}: see its documentation, or update it")

    try:
        answer = msgspec.json.decode(output, type=Object)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        raise wrong("wrote no JSON object to stdout") from None
    if answer.get("kind") != "ExecCredential":
        raise wrong("wrote no ExecCredential")
    if answer.get("apiVersion") != plugin.api_version:
        raise wrong(f"answered in another version than {plugin.api_version}")
    status = answer.get("status")
    if not isinstance(status, dict):
        raise wrong("told no status")
    token, certificate, key = (status.get(name) or "" for name in ("token", "clientCertificateData", "clientKeyData"))
    if not all(isinstance(value, str) for value in (token, certificate, key)):
        raise wrong("told credentials that are no strings")
    if not token and not certificate:
        raise wrong("told neither token nor clientCertificateData")
    if bool(certificate) != bool(key):
        raise wrong("told only one of clientCertificateData and clientKeyData")
    when = status.get("expirationTimestamp")
    expires = None
    if when:
        expires = _seconds(when)
        if expires is None:
            raise wrong("told an expirationTimestamp that is no time")
    return Told(token, certificate.encode(), key.encode(), expires)


def _seconds(when: Any) -> float | None:
    """An RFC 3339 time in seconds since 1970; None for what is none."""
    try:
        found = datetime.fromisoformat(when)
    except (TypeError, ValueError):
        return None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
