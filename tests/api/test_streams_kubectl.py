"""logs, exec, attach, cp and port-forward by real kubectls."""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import queue
import re
import select
import shlex
import socket
import struct
import subprocess
import termios
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.api.node_kit import KUBECTLS, Cluster

pytestmark = pytest.mark.skipif(not KUBECTLS, reason="no kubectl")
each = pytest.mark.parametrize("kubectl", KUBECTLS, ids=lambda path: path.name)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One server with the pods that these tests use."""
    with Cluster(tmp_path_factory.mktemp("cluster")) as made:
        made.do(made.pod("web"))
        made.do(made.pod("two", ("a", "b")))
        made.do(made.pod("nowhere", node=""))
        made.do(made.pod("lost", node="n2"))
        waiting = {"name": "c", "image": "x", "imageID": "", "ready": False, "restartCount": 0}
        waiting["state"] = {"waiting": {"reason": "ContainerCreating"}}
        made.do(made.pod("early", phase="Pending", containerStatuses=[waiting]))
        yield made
        assert made.complaints == []


CASES = [
    ("logs web", 0, r"^started\ntwo\nthree\n$", r"^$"),
    ("logs web --tail=1 --timestamps", 0, r"^2026-01-01T00:00:00\.000000000Z three\n$", r"^$"),
    ("logs web --limit-bytes=4", 0, r"^star$", r"^$"),
    ("logs web --previous", 1, r"^$", r'\(BadRequest\): previous terminated container "c" in pod "web" not found'),
    ("logs two -c b --tail=1", 0, r"^three\n$", r"^$"),
    ("logs web -c x", 1, r"^$", r"container x is not valid for pod web"),
    ("logs nowhere", 0, r"^$", r"^$"),
    ("logs lost", 1, r"^$", r'error dialing backend: node "n2"'),
    ("logs none", 1, r"^$", r'\(NotFound\): pods "none" not found'),
    ("logs early", 1, r"^$", r'\(BadRequest\): container "c" in pod "early" is waiting to start: ContainerCreating'),
    ("exec web -- sh -c 'echo hi; echo oops >&2'", 0, r"^hi\n$", r"^oops\n$"),
    ("exec web -- sh -c 'exit 7'", 7, r"^$", r"command terminated with exit code 7"),
    ("exec web -- /no/such", 1, r"^$", r'exec failed: "/no/such": no such file or directory'),
    ("exec two -c b -- echo b", 0, r"^b\n$", r"^$"),
    ("exec nowhere -- true", 1, r"^$", r"pod nowhere does not have a host assigned"),
    ("exec lost -- true", 1, r"^$", r'error dialing backend: node "n2"'),
    ("exec web -c x -- true", 1, r"^$", r"container x is not valid for pod web|container not found"),
]


@each
@pytest.mark.parametrize(("words", "code", "out", "err"), CASES, ids=lambda value: str(value)[:32])
def test_commands(cluster: Cluster, kubectl: Path, words: str, code: int, out: str, err: str) -> None:
    """Exit code, output and messages."""
    done = cluster.kubectl(*shlex.split(words), program=kubectl)
    said = done.stdout.decode(), done.stderr.decode()
    assert done.returncode == code, said
    assert re.search(out, said[0]), said
    assert re.search(err, said[1]), said


@each
def test_much_input(cluster: Cluster, kubectl: Path) -> None:
    """Three megabytes in; and as many out again."""
    data = os.urandom(3_000_000)
    assert cluster.kubectl("exec", "-i", "web", "--", "wc", "-c", stdin=data, program=kubectl).stdout == b"3000000\n"
    assert cluster.kubectl("exec", "-i", "web", "--", "cat", stdin=data, program=kubectl).stdout == data


@each
def test_attach(cluster: Cluster, kubectl: Path) -> None:
    """The container's process gets the input, and its end."""
    assert cluster.kubectl("attach", "-i", "web", stdin=b"hello\n", program=kubectl).stdout == b"hello\n"


@each
def test_copy(cluster: Cluster, kubectl: Path, tmp_path: Path) -> None:
    """There and back again, bit by bit."""
    source, there, back = tmp_path / "a", tmp_path / "b", tmp_path / "c"
    source.write_bytes(os.urandom(1_500_000))
    for words in (("cp", str(source), f"web:{there}"), ("cp", f"web:{there}", str(back))):
        done = cluster.kubectl(*words, program=kubectl)
        assert done.returncode == 0, done.stderr
    assert source.read_bytes() == there.read_bytes() == back.read_bytes()


def _until(read: Callable[[], bytes], pattern: bytes) -> bytes:
    seen = b""
    while not re.search(pattern, seen):
        data = read()
        assert data, seen
        seen += data
    return seen


@each
def test_terminal(cluster: Cluster, kubectl: Path) -> None:
    """A terminal of the client's size."""
    master, slave = pty.openpty()
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 99, 0, 0))
    command = [str(kubectl), "--kubeconfig", str(cluster.kubeconfig), "exec", "-it", "web", "--", "sh"]
    environment = {**os.environ, "HOME": str(cluster.folder)}
    with subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, env=environment) as process:
        os.close(slave)

        def read() -> bytes:
            ready, _, _ = select.select([master], [], [], 30)
            return os.read(master, 65536) if ready else b""

        try:
            os.write(master, b"until stty size | grep 33.99; do :; done; tty\n")
            assert b"/dev/pts/" in _until(read, rb"33 99\r\n/dev/pts/\d+")
            os.write(master, b"exit 3\n")
            assert process.wait(30) == 3
        finally:
            process.kill()
            os.close(master)


@each
def test_follow(cluster: Cluster, kubectl: Path) -> None:
    """A log that goes on until the container ends."""
    command = [str(kubectl), "--kubeconfig", str(cluster.kubeconfig), "logs", "-f", "web", "--tail=1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == b"three\n"

            async def more() -> None:
                cluster.node.more.set()

            cluster.do(more())
            assert process.stdout.readline() == b"four\n"
            assert process.wait(30) == 0
        finally:
            process.kill()
            cluster.node.more = asyncio.Event()


@each
def test_client_leaves(cluster: Cluster, kubectl: Path) -> None:
    """A kubectl that is killed ends what it has started."""
    before = cluster.node.closed
    command = [str(kubectl), "--kubeconfig", str(cluster.kubeconfig), "exec", "web", "--", "sh", "-c"]
    with subprocess.Popen([*command, "echo on; exec sleep 1000"], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"on\n"
        process.kill()

    async def closed() -> None:
        async with asyncio.timeout(20):
            while cluster.node.closed == before:
                await asyncio.sleep(0)

    cluster.do(closed())


@contextmanager
def echo() -> Iterator[int]:
    """A server that sends back what it gets; its port."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def talk(connection: socket.socket) -> None:
            with connection:
                while data := connection.recv(65536):
                    connection.sendall(data)
                connection.sendall(b"END")

        def accept() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                threading.Thread(target=talk, args=(connection,), daemon=True).start()

        thread = threading.Thread(target=accept)
        thread.start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
        thread.join()


def _exchange(port: int, data: bytes) -> bytes:
    """Sends all, ends its half, and reads until the other half ends."""
    got: list[bytes] = []
    with socket.create_connection(("127.0.0.1", port), timeout=30) as client:

        def read() -> None:
            while piece := client.recv(65536):
                got.append(piece)

        reader = threading.Thread(target=read)
        reader.start()
        client.sendall(data)
        client.shutdown(socket.SHUT_WR)
        reader.join()
    return b"".join(got)


@each
def test_port_forward(cluster: Cluster, kubectl: Path) -> None:
    """Many connections at a time, megabytes each; a port where nobody listens does not harm the others."""
    command = [str(kubectl), "--kubeconfig", str(cluster.kubeconfig), "port-forward", "pod/web", ":80", ":81"]
    with echo() as port, subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        cluster.node.ports = {80: port}
        assert process.stdout is not None and process.stderr is not None
        try:
            found: dict[bytes, int] = {}
            while len(found) < 2:
                line = process.stdout.readline()
                match = re.search(rb"127\.0\.0\.1:(\d+) -> (\d+)", line)
                assert match or b"[::1]" in line, line
                if match:
                    found[match[2]] = int(match[1])
            answers: queue.Queue[bool] = queue.Queue()

            def one(number: int) -> None:
                data = bytes((number,)) * 2_000_000
                answers.put(_exchange(found[b"80"], data) == data + b"END")

            threads = [threading.Thread(target=one, args=(number,)) for number in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert [answers.get() for _ in threads] == [True] * 8
            assert _exchange(found[b"80"], b"x" * 20_000_000) == b"x" * 20_000_000 + b"END"
            with socket.create_connection(("127.0.0.1", found[b"81"]), timeout=30) as client:
                assert client.recv(1) == b""
            seen = _until(process.stderr.readline, rb"refused")
            assert b"error forwarding port 81 to pod web, uid " in seen
        finally:
            process.kill()
            process.stdout.close()
            process.stderr.close()
