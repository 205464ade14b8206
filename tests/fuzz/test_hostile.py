"""What strangers send on purpose: each attack is refused in bounded time and memory, with the right status, without a
word on stderr, and while another client is served as if nothing had happened."""

from __future__ import annotations

import gzip
import json
import socket
import ssl
import time
import zlib
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from dashpot.runtime.api import protobuf
from tests.fuzz.bystander import MIB
from tests.fuzz.victim import APPLY, CONFIGMAPS, JSON, JSON_PATCH, MANY, MERGE, PROTOBUF, STRATEGIC, TOKEN, YAML, Victim
from tests.fuzz.wire import Headers, receive


def config(name: str = "h", **fields: Any) -> bytes:
    return msgspec.json.encode({"metadata": {"name": name}, **fields})


def metadata(**fields: Any) -> bytes:
    return msgspec.json.encode({"metadata": {"name": "h", **fields}})


def enveloped(kind: str, raw: bytes) -> bytes:
    envelope: Any = protobuf._message(protobuf.UNKNOWN)()
    envelope.typeMeta.apiVersion, envelope.typeMeta.kind, envelope.raw = "v1", kind, raw
    return protobuf.MAGIC + bytes(envelope.SerializeToString())


def varint(value: int) -> bytes:
    low = value & 127
    return bytes([low | 128]) + varint(value >> 7) if value > 127 else bytes([low])


def many_containers() -> bytes:
    spec = b"\x12\x00" * 1_000_000
    return enveloped("Pod", b"\x12" + varint(len(spec)) + spec)


def zipped(gibibytes: int) -> bytes:
    """So many GiB of zeros as gzip: one block, again and again (the checksum at the end is never reached)."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    head = packer.compress(bytes(MIB)) + packer.flush(zlib.Z_FULL_FLUSH)
    block = packer.compress(bytes(MIB)) + packer.flush(zlib.Z_FULL_FLUSH)
    return head + block * (1024 * gibibytes - 1) + packer.flush()


BODIES: dict[str, tuple[Callable[[], bytes], Headers, int, str]] = {
    "deep objects": (lambda: b'{"a":' * MANY + b"1" + b"}" * MANY, JSON, 400, "exceeded max depth"),
    "deep lists": (lambda: b'{"metadata":' + b"[" * 90_000, JSON, 400, "exceeded max depth"),
    "deeper lists": (lambda: b'{"metadata":' + b"[" * 1_000_000, JSON, 413, "far too deep"),
    "many brackets in a string": (lambda: config("", data={"a": "[{" * 400_000}), JSON, 422, "name or generateName"),
    "half a character in YAML": (lambda: b'metadata: {name: "\\ud800"}', YAML, 400, "character"),
    "a long number": (lambda: b'{"metadata":{"generation":' + b"9" * 10**6 + b"}}", JSON, 400, "number out of range"),
    "a large number": (lambda: b'{"metadata":{"generation":1e999999999}}', JSON, 400, "number out of range"),
    "a long string": (lambda: config(data={"a": "x" * 2_900_000}), JSON, 422, "Too long"),
    "many keys": (lambda: config(data={f"k{at}": "" for at in range(MANY)}), JSON, 500, "request is too large"),
    "many unknown fields": (lambda: config("", **{f"k{at}": "" for at in range(MANY)}), JSON, 422, "name or generate"),
    "one field many times": (lambda: b'{"metadata":{"name":""}' + b',"a":1' * 400_000 + b"}", JSON, 422, "name or gen"),
    "many bad labels": (lambda: metadata(labels={f"k {at}": "" for at in range(MANY)}), JSON, 422, "name part"),
    "many finalizers": (lambda: metadata(finalizers=[f"k {at}" for at in range(MANY)]), JSON, 422, "name part"),
    "many owners": (lambda: metadata(ownerReferences=[{}] * 90_000), JSON, 422, "must not be empty"),
    "many objects": (lambda: metadata(ownerReferences=[{}] * 900_000), JSON, 413, "objects and lists"),
    "bytes that are no text": (lambda: b'{"metadata":{"name":"a"},"data":{"a":"\xff"}}', JSON, 400, "UTF-8"),
    "half a character": (lambda: b'{"metadata":{"name":"\\ud800"}}', JSON, 400, "json parse error"),
    "a name with NUL": (lambda: config("a\0"), JSON, 422, "RFC 1123"),
    "no JSON at all": (lambda: '{"metadata":{}}'.encode("utf-16"), JSON, 400, "json parse error"),
    "aliases": (lambda: b"a: &a [x,x]\nb: &b [*a,*a]\nc: [*b,*b]\n", YAML, 400, "aliases"),
    "deep flows": (lambda: b"[" * 1_000_000, YAML, 400, "depth"),
    "deep blocks": (lambda: b"- " * 1_000_000, YAML, 400, "too deep"),
    "a long document": (lambda: b"a: b\n" * 600_000, YAML, 400, "too long"),
    "a long whole number": (lambda: b"metadata:\n  generation: " + b"9" * 2_000_000, YAML, 400, "digits"),
    "a number of base 60": (lambda: b"metadata:\n  generation: 1" + b":59" * 700_000, YAML, 400, "of type int64"),
    "Python": (lambda: b"!!python/object/apply:os.system ['x']", YAML, 400, "constructor"),
    "many messages": (many_containers, PROTOBUF, 400, "more than 100000 messages"),
    "open groups": (lambda: enveloped("ConfigMap", b"\x0b" * 1_000_000), PROTOBUF, 400, "corrupt"),
    "a gzip bomb": (lambda: gzip.compress(bytes(50_000_000)), {**JSON, "Content-Encoding": "gzip"}, 413, "too large"),
    "a gzip bomb of 2 GiB": (lambda: zipped(2), {**JSON, "Content-Encoding": "gzip"}, 413, "too large"),
    "an unknown encoding": (lambda: b"{}", {**JSON, "Content-Encoding": "br"}, 415, "br"),
}


@pytest.mark.parametrize("name", BODIES)
def test_bodies(victim: Victim, name: str) -> None:
    made, headers, code, text = BODIES[name]
    answer = victim.attack("POST", CONFIGMAPS, made(), headers)
    assert (answer.code, text in answer.message) == (code, True), (answer.code, answer.message[:300])


def places(count: int) -> list[str]:
    return [f"a/b{at}" for at in range(count)]


PATCHES: dict[str, tuple[Callable[[], Any], Headers, int, str]] = {
    "copies of copies": (
        lambda: [{"op": "copy", "from": "", "path": f"/data/x{at}"} for at in range(40)],
        JSON_PATCH, 422, "server rejected",
    ),
    "more operations than allowed": (
        lambda: [{"op": "test", "path": "/data/a", "value": "b"}] * 60_000,
        JSON_PATCH, 413, "maximum operations",
    ),
    "inserts before a long list": (
        lambda: [
            {"op": "add", "path": "/metadata/finalizers", "value": ["a/b"] * 200_000},
            *[{"op": "add", "path": "/metadata/finalizers/0", "value": "a/b"}] * 9_990,
        ],
        JSON_PATCH, 413, "moves too much",
    ),
    "a large value moved to and fro": (
        lambda: [
            {"op": "add", "path": "/a", "value": {str(at): "" for at in range(50_000)}},
            *[{"op": "move", "from": "/a", "path": "/b"}, {"op": "move", "from": "/b", "path": "/a"}] * 4_900,
        ],
        JSON_PATCH, 413, "moves too much",
    ),
    "deletions from a long list": (
        lambda: {"metadata": {"finalizers": places(50_000), "$deleteFromPrimitiveList/finalizers": places(50_001)}},
        STRATEGIC, 200, "",
    ),
    "an order of many": (
        lambda: {"metadata": {"$setElementOrder/ownerReferences": [{"uid": str(at)} for at in range(50_000)],
                              "ownerReferences": [{"uid": str(at), "$patch": "delete"} for at in range(40_000)]}},
        STRATEGIC, 200, "",
    ),
    "directives that are none": (
        lambda: {"$patch": ["x"], "data": {"$patch": 5}, "$retainKeys": {}}, STRATEGIC, 400, "unknown patch type"
    ),
    "owners of fields that are none": (
        lambda: {"metadata": {"managedFields": [{"manager": 5, "fieldsV1": {"f:a": {"f:b": 3}, "k:{": {}}}]}},
        MERGE, 400, "of type string",
    ),
    "fields that are none": (
        lambda: {"metadata": {"managedFields": [
            {"manager": "x", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1",
             "time": "2020-01-01T00:00:00Z", "fieldsV1": {"f:data": {"f:b": 3, "k:{": {}, "v:": 1, "i:x": []}}}
        ]}},
        MERGE, 200, "",
    ),
    "an apply of text": (lambda: {"apiVersion": "v1", "kind": "ConfigMap", "metadata": "x"}, APPLY, 400, "ObjectMeta"),
}  # fmt: skip


@pytest.mark.parametrize("name", PATCHES)
def test_patches(victim: Victim, name: str) -> None:
    made, headers, code, text = PATCHES[name]
    path = f"{CONFIGMAPS}/victim?fieldManager=me&dryRun=All"
    answer = victim.attack("PATCH", path, json.dumps(made()).encode(), headers)
    assert (answer.code, text in answer.message) == (code, True), (answer.code, answer.message[:300])


LINES: dict[str, tuple[str, Headers, int]] = {
    "a long path": ("/" + "a" * 66_000, {}, 431),
    "many steps": ("/api/v1/" + "a/" * 30_000, {}, 404),
    "a long header": (CONFIGMAPS, {"X-A": "a" * 66_000}, 431),
    "many headers": (CONFIGMAPS, [(f"X-{at}", "a") for at in range(500)], 431),
    "a long Accept": (CONFIGMAPS, {"Accept": "a/b;q=1," * 7_000}, 406),
    "10,000 parameters": (CONFIGMAPS + "?" + "&".join(f"a{at}" for at in range(10_000)), {}, 200),
    "a long label selector": (CONFIGMAPS + "?labelSelector=" + ",".join(f"a{at}!=b" for at in range(7_000)), {}, 200),
    "a long field selector": (CONFIGMAPS + "?fieldSelector=" + "metadata.name!=b," * 3_500, {}, 400),
    "many parentheses": (CONFIGMAPS + "?labelSelector=" + "(" * 60_000, {}, 400),
    "version -1": (CONFIGMAPS + "?resourceVersion=-1", {}, 400),
    "version 2^64": (CONFIGMAPS + f"?resourceVersion={1 << 64}", {}, 400),
    "version in Arabic digits": (CONFIGMAPS + "?resourceVersion=%D9%A1", {}, 400),
    "a watch from -1": (CONFIGMAPS + "?watch=1&resourceVersion=-1", {}, 422),
    "a watch from 2^63": (CONFIGMAPS + f"?watch=1&resourceVersion={1 << 63}", {}, 200),
    "a token of nobody": (CONFIGMAPS + "?continue=x%00", {}, 400),
    "a long token": (CONFIGMAPS + "?continue=" + "e" * 60_000, {}, 400),
    "a dotted name": (CONFIGMAPS + "/%2e%2e%2f%2e%2e", {}, 404),
    "a name with a slash": (CONFIGMAPS + "/..%2fkube-root-ca.crt", {}, 404),
    "a name with a line end": (CONFIGMAPS + "/a%0d%0aSet-Cookie:%20a", {}, 404),
    "a name that is no text": (CONFIGMAPS + "/%ff%ed%a0%80", {}, 404),
    "steps up": ("/api/v1/%2e%2e/%2e%2e/metrics", {}, 404),
    "a namespace with a slash": ("/api/v1/namespaces/default%2fsecrets", {}, 404),
    "a semicolon": ("/version;x", {}, 404),
    "two slashes": ("//version", {}, 200),
    "an asterisk": ("*", {}, 400),
    "bytes in the path": ("/\udcff", {}, 400),
    "a foreign user": (CONFIGMAPS, {"Impersonate-User": "a\udc80", "Impersonate-Extra-%zz": "x"}, 403),
    "WebSocket for a list": (
        CONFIGMAPS,
        {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Key": "A" * 22 + "==",
         "Sec-WebSocket-Version": "13"},
        200,
    ),
    "HTTP/2 over nothing": (CONFIGMAPS, {"Connection": "Upgrade", "Upgrade": "h2c"}, 200),
    "a wrong token": (CONFIGMAPS, {"Authorization": "Bearer " + "a." * 20_000}, 200),
}  # fmt: skip


@pytest.mark.parametrize("name", LINES)
def test_request_lines_and_headers(victim: Victim, name: str) -> None:
    path, headers, code = LINES[name]
    answer = victim.attack("GET", path, None, headers)
    assert answer.code == code, (answer.code, answer.message[:300])
    assert "set-cookie" not in answer.headers


SMUGGLED: dict[str, bytes] = {
    "two lengths": b"Content-Length: 2\r\nContent-Length: 40\r\n\r\n{}",
    "a length and chunks": b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunks that are none": b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "a length below zero": b"Content-Length: -5\r\n\r\n",
    "a length with a sign": b"Content-Length: +5\r\n\r\nhello",
    "a long length": b"Content-Length: " + b"9" * 400 + b"\r\n\r\n",
    "a blank before the colon": b"Content-Length : 2\r\n\r\n{}",
    "a bare line feed": b"X: a\nContent-Length: 2\r\n\r\n{}",
}


@pytest.mark.parametrize("name", SMUGGLED)
def test_what_two_servers_could_read_differently_is_refused(victim: Victim, name: str) -> None:
    """400, and the connection closed: nothing behind it is taken for a request."""
    head = b"POST %s HTTP/1.1\r\nHost: x\r\n" % CONFIGMAPS.encode()
    with victim.bystander(), victim.wire().connect() as sock:
        sock.sendall(head + SMUGGLED[name] + b"GET /version HTTP/1.1\r\nHost: x\r\n\r\n")
        answer, keep = receive(sock, "POST", time.perf_counter())
        assert (answer.code, keep) == (400, False)
        assert answer.json["reason"] == "BadRequest"
        assert sock.recv(1) == b""


@pytest.mark.parametrize("framing", ["length", "chunks"])
def test_a_gigabyte_is_not_taken(victim: Victim, framing: str) -> None:
    """413 at once; what is sent on is not kept."""
    how = f"Content-Length: {1 << 30}" if framing == "length" else "Transfer-Encoding: chunked"
    head = f"POST {CONFIGMAPS} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n{how}\r\n\r\n".encode()
    piece = b" " * MIB if framing == "length" else b"100000\r\n" + b" " * MIB + b"\r\n"
    begun = time.perf_counter()
    with victim.bystander(), victim.wire().connect() as sock:
        sock.sendall(head)
        try:
            for _ in range(1024):
                sock.sendall(piece)
        except OSError:
            pass
        else:
            raise AssertionError("a whole gigabyte was taken")
    with victim.wire().connect() as sock:
        sock.sendall(head + piece * 4)
        assert receive(sock, "POST", begun)[0].code == 413
    assert time.perf_counter() - begun < 8


def test_half_open_connections(victim: Victim) -> None:
    """A thousand connections that never begin TLS, or never end a header, keep nobody from being served."""
    plain: list[socket.socket] = []
    secret: list[ssl.SSLSocket] = []
    wire = victim.wire()
    try:
        with victim.bystander(growth=256 * MIB):
            for _ in range(400):
                plain.append(socket.create_connection(wire.address))
            for sock in plain[:200]:
                sock.sendall(b"\x16\x03\x01\x02\x00\x01")  # a ClientHello that stops
            for _ in range(100):
                secret.append(wire.connect())
                secret[-1].sendall(b"GET /version HTTP/1.1\r\nX-")
            for _ in range(5):
                for sock in secret:
                    sock.sendall(b"a")
    finally:
        for sock in (*plain, *secret):
            sock.close()


def test_plain_http_to_the_tls_port(victim: Victim) -> None:
    with victim.bystander():
        for data in (
            b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
            b"\x00" * 9000,
            b"SSH-2.0-x\r\n",
            b"\x16\x03\x01\xff\xff" * 99,
        ):
            with socket.create_connection(victim.wire().address, timeout=5) as sock:
                sock.sendall(data)
                sock.shutdown(socket.SHUT_WR)
                try:
                    while sock.recv(4096):
                        pass
                except ConnectionResetError:
                    pass


def test_a_reader_that_never_reads(victim: Victim) -> None:
    """Watches whose client does not read are dropped or wait with little; the server holds no more than a bound."""
    wire = victim.wire()
    deaf: list[ssl.SSLSocket] = []
    try:
        with victim.bystander(growth=128 * MIB):
            for _ in range(20):
                sock = wire.connect()
                sock.sendall(f"GET {CONFIGMAPS}?watch=1 HTTP/1.1\r\nHost: x\r\n\r\n".encode())
                deaf.append(sock)
            for at in range(60):
                path, body = f"{CONFIGMAPS}/victim", {"data": {"a": str(at) * 200_000}}
                assert wire.ask("PATCH", path, msgspec.json.encode(body), MERGE).code == 200
    finally:
        wire.drop()
        for sock in deaf:
            sock.close()


@pytest.mark.parametrize("count", [200, pytest.param(3000, marks=pytest.mark.soak)])
def test_many_watches_of_one_client(victim: Victim, count: int) -> None:
    wire = victim.wire()
    watches: list[ssl.SSLSocket] = []
    try:
        with victim.bystander(growth=64 * MIB + count * MIB // 8):
            assert wire.ask("PATCH", f"{CONFIGMAPS}/victim", b'{"data":{"a":"b","seen":"no"}}', MERGE).code == 200
            for _ in range(count):
                sock = wire.connect()
                sock.sendall(f"GET {CONFIGMAPS}?watch=1 HTTP/1.1\r\nHost: x\r\n\r\n".encode())
                watches.append(sock)
            wire.ask("PATCH", f"{CONFIGMAPS}/victim", b'{"data":{"seen":"yes"}}', MERGE)
            for sock in watches:
                seen = b""
                while b'"seen":"yes"' not in seen:
                    part = sock.recv(65536)
                    assert part, "a watch ended"
                    seen = (seen + part)[-300_000:]
    finally:
        wire.drop()
        for sock in watches:
            sock.close()


def test_warnings_are_one_line(victim: Victim) -> None:
    """Names of fields come back in headers: without line ends, and not all of them."""
    body = {"metadata": {"name": "w"}, "x\r\nSet-Cookie: a\u2028": 1, **{"é" * 3000 + str(at): 1 for at in range(150)}}
    answer = victim.attack("POST", CONFIGMAPS + "?dryRun=All", json.dumps(body, ensure_ascii=False).encode(), JSON)
    assert answer.code == 201 and "set-cookie" not in answer.headers
    assert len(answer.headers["warning"]) < 10_000


def test_secrets_are_in_no_log_and_every_request_is(victim: Victim) -> None:
    """The audit log knows each request by its id, and knows no token and no Secret's data."""
    bearer = {"Authorization": f"Bearer {TOKEN}", "Cookie": TOKEN}
    secret = msgspec.json.encode({"metadata": {"name": "s"}, "stringData": {"a": TOKEN}})
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": TOKEN}}
    with victim.wire() as wire:
        answers = [
            wire.ask("GET", CONFIGMAPS, None, bearer),
            wire.ask("POST", "/api/v1/namespaces/default/secrets", secret, {**JSON, **bearer}),
            wire.ask("POST", "/api/v1/namespaces/default/secrets", secret[:-3], {**JSON, **bearer}),
            wire.ask("POST", "/apis/authentication.k8s.io/v1/tokenreviews", msgspec.json.encode(review), JSON),
            wire.ask("GET", "/nowhere/%00%ff", None, bearer),
        ]
    assert [answer.code for answer in answers] == [200, 201, 400, 201, 404]
    wanted = {answer.headers["audit-id"] for answer in answers}
    until = time.monotonic() + 10
    while not wanted <= {msgspec.json.decode(line)["auditID"] for line in victim.audit.read_bytes().splitlines()[-50:]}:
        assert time.monotonic() < until, "requests are missing in the audit log"
    assert TOKEN not in victim.audit.read_text() and TOKEN not in victim.running.errors()
