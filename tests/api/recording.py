"""A server that records: discovery and OpenAPI are real, every write is decoded, kept and given back."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import msgspec

from dashpot.model.objects.resource import Resource, Subresource
from dashpot.model.objects.status import StatusError
from dashpot.runtime.api.catalog import Catalog
from dashpot.runtime.api.discovery import answer
from dashpot.runtime.api.exchange import Request, Response
from dashpot.runtime.api.openapi import OpenAPI
from dashpot.runtime.api.protobuf import CONTENT_TYPE, decode

Object = dict[str, Any]


def cron_tab(version: str, group: str = "example.com") -> Resource:
    """A custom resource as a definition of it would make it."""
    return Resource(
        group,
        version,
        "CronTab",
        "crontabs",
        "crontab",
        True,
        short_names=("ct",),
        categories=("all",),
        subresources=(
            Subresource("scale", "autoscaling", "v1", "Scale", ("get", "patch", "update")),
            Subresource("status", group, version, "CronTab", ("get", "patch", "update")),
        ),
        storage_group=group,
        storage_version="v1",
        custom=True,
    )


def asked(path: str, *, method: str = "GET", accept: str = "", query: str = "", **headers: str) -> Request:
    """A request without a body; header names with `_` for `-`."""

    async def read() -> bytes:
        return b""

    lower = {name.replace("_", "-"): value for name, value in headers.items()}
    return Request(method, path, parse_qsl(query), {"host": "127.0.0.1:6443", "accept": accept, **lower}, read)


def kubectls() -> dict[str, str]:
    """The kubectls at hand, by minor version: beside this Python, and on the path."""
    found: dict[str, str] = {}
    for place in (Path(sys.executable).parent / "kubectl", shutil.which("kubectl")):
        if place is None or not Path(place).exists():
            continue
        said = subprocess.run([place, "version", "--client", "-o", "json"], capture_output=True, check=False).stdout
        try:
            found.setdefault(msgspec.json.decode(said)["clientVersion"]["minor"].rstrip("+"), str(place))
        except (msgspec.DecodeError, KeyError):
            continue
    return found


class Recorder:
    """What was asked, and the objects of all writes."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self.openapi = OpenAPI(catalog)
        self.asked: list[str] = []
        self.written: list[tuple[str, Object]] = []
        self.stored: dict[str, Object] = {}
        self.url = ""

    def respond(self, method: str, target: str, headers: dict[str, str], body: bytes) -> Response:
        """One exchange."""
        parts = urlsplit(target)
        path = parts.path.rstrip("/")
        self.asked.append(f"{method} {parts.path}")

        async def read() -> bytes:
            return body

        request = Request(method, path, parse_qsl(parts.query), headers, read)
        try:
            found = answer(self.catalog, request) or self.openapi.answer(request)
            if found is not None:
                return found
            if path == "/version":
                return Response(body=b'{"major":"1","minor":"37","gitVersion":"v1.37.0"}')
            if method == "GET" and path in self.stored:
                return Response(body=msgspec.json.encode(self.stored[path]))
            if method in ("POST", "PUT", "PATCH"):
                content = headers.get("content-type", "")
                sent = decode(body) if content == CONTENT_TYPE else msgspec.json.decode(body)
                self.written.append((content, sent))
                return Response(201, msgspec.json.encode(sent))
            raise StatusError("NotFound", "not found")
        except StatusError as error:
            return Response(error.code, msgspec.json.encode(error.status()))


@contextmanager
def recording(catalog: Catalog) -> Iterator[Recorder]:
    """Serves until the block ends."""
    recorder = Recorder(catalog)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def go(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            response = recorder.respond(self.command, self.path, headers, body)
            self.send_response(response.code)
            for name, value in response.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Type", response.content_type)
            self.send_header("Content-Length", str(len(response.body)))
            self.end_headers()
            self.wfile.write(response.body)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = go

        def log_message(self, format: str, *_: Any) -> None:
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    recorder.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield recorder
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def kubectl(program: str, server: str, home: Path, *words: str, text: str = "") -> subprocess.CompletedProcess[str]:
    """Runs kubectl against a server, with a home of its own."""
    environment = {"HOME": str(home), "PATH": os.environ.get("PATH", "")}
    command = [program, f"--server={server}", f"--cache-dir={home}/cache", *words]
    return subprocess.run(command, input=text, capture_output=True, text=True, env=environment, check=False, timeout=60)
