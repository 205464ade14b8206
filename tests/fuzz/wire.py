"""A client without manners: sends whatever it is told to, byte for byte, and measures the answer."""

from __future__ import annotations

import http.client
import socket
import ssl
import tempfile
import time
from base64 import b64decode
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import yaml
from attrs import field, frozen

PATIENCE_S = 5.0
"""How long an answer may take; a server that needs longer hangs, as far as its client knows."""
WATCH_S = 0.02
"""How long a watch is listened to."""

Headers = dict[str, str] | list[tuple[str, str]]


@frozen
class Answer:
    """What came back. `seconds` is from the first byte sent to the last byte read."""

    code: int
    headers: dict[str, str]
    body: bytes = field(repr=False)
    seconds: float

    @property
    def json(self) -> Any:
        """The body as JSON values."""
        return msgspec.json.decode(self.body)

    @property
    def message(self) -> str:
        """What a Status says; empty for anything else."""
        try:
            found = self.json
        except msgspec.DecodeError:
            return ""
        return str(found.get("message", "")) if isinstance(found, dict) else ""


class Wire:
    """Connections to one server. One request at a time.

    Who asks is the kubeconfig's administrator, or whom `identity` names: PEM of a client certificate and its key, or
    nothing at all where it is empty.
    """

    def __init__(self, kubeconfig: Path, *, patience_s: float = PATIENCE_S, identity: bytes | None = None) -> None:
        config = yaml.safe_load(kubeconfig.read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        address = urlsplit(cluster["server"])
        self.address = (str(address.hostname), int(address.port or 443))
        self.patience_s = patience_s
        self.context = ssl.create_default_context(cadata=b64decode(cluster["certificate-authority-data"]).decode())
        if identity is None:
            identity = b64decode(user["client-certificate-data"]) + b64decode(user["client-key-data"])
        if identity:
            with tempfile.NamedTemporaryFile() as file:
                file.write(identity)
                file.flush()
                self.context.load_cert_chain(file.name)
        self._kept: ssl.SSLSocket | None = None

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *_: object) -> None:
        self.drop()

    def connect(self) -> ssl.SSLSocket:
        """A new connection."""
        plain = socket.create_connection(self.address, timeout=self.patience_s)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return self.context.wrap_socket(plain, server_hostname=self.address[0])

    def ask(self, method: str, path: str, body: bytes | None = None, headers: Headers | None = None) -> Answer:
        """One request over the kept connection, or over a new one where the server has closed it."""
        rows = list(headers.items() if isinstance(headers, dict) else headers or ())
        if body is not None:
            rows.append(("Content-Length", str(len(body))))
        lines = [f"{method} {path} HTTP/1.1", "Host: dashpot", *(f"{name}: {value}" for name, value in rows)]
        head = "\r\n".join(lines).encode("utf-8", "surrogateescape") + b"\r\n\r\n"
        for attempt in (0, 1):
            fresh = self._kept is None
            try:
                return self._one(method, head + (body or b""))
            except (OSError, http.client.HTTPException) as error:
                self.drop()
                # a kept connection may have been closed by the server since; a new one may not
                closed = isinstance(error, ConnectionError | ssl.SSLEOFError | http.client.BadStatusLine)
                if fresh or attempt or not closed:
                    raise
        raise AssertionError

    def _one(self, method: str, data: bytes) -> Answer:
        if self._kept is None:
            self._kept = self.connect()
        begun = time.perf_counter()
        self._kept.settimeout(self.patience_s)
        broken: OSError | None = None
        try:
            self._kept.sendall(data)
        except (ConnectionError, ssl.SSLEOFError) as error:
            # a server may answer before it has read all, and close: the answer is still there to be read
            broken = error
        try:
            answer, keep = receive(self._kept, method, begun)
        except (http.client.BadStatusLine, ConnectionError) as error:
            raise broken or error from None
        if not keep or broken:
            self.drop()
        return answer

    def drop(self) -> None:
        """Closes the kept connection."""
        if self._kept is not None:
            self._kept.close()
            self._kept = None


def receive(sock: socket.socket, method: str, begun: float) -> tuple[Answer, bool]:
    """Reads one answer, and tells whether the connection can be used again. Of an endless stream the beginning."""
    response = http.client.HTTPResponse(sock, method=method)
    try:
        response.begin()
        headers = {name.lower(): value for name, value in response.getheaders()}
        if response.status == 101:
            return Answer(101, headers, b"", time.perf_counter() - begun), False
        if headers.get("transfer-encoding") == "chunked":
            sock.settimeout(WATCH_S)
            try:
                body = response.read1(65536)
            except TimeoutError:
                body = b""
            return Answer(response.status, headers, body, time.perf_counter() - begun), False
        body = response.read()
        return Answer(response.status, headers, body, time.perf_counter() - begun), not response.will_close
    finally:
        response.close()


def memory(pid: int, *, peak: bool = False) -> int:
    """Bytes of a process that are in memory, or the most there have been since `forget_peak`."""
    key = "VmHWM:" if peak else "VmRSS:"
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(key):
            return int(line.split()[1]) * 1024
    raise AssertionError(f"process {pid} is gone")


def forget_peak(pid: int) -> None:
    """From now on the peak is counted anew (proc(5), clear_refs)."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")
