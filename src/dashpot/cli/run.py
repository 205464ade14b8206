"""`dashpot run`: a spec as an operator of a cluster."""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import signal
import socket
import sys
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dashpot.cli import console
from dashpot.cli.parser import add_set
from dashpot.cli.problem import HOLDS, OUTSIDE, WRONG, Problem, choose

if TYPE_CHECKING:
    from dashpot.model.program import Program
    from dashpot.runtime.client.access import Access
    from dashpot.runtime.client.rest import Client
    from dashpot.runtime.controller.calls import Caller
    from dashpot.runtime.controller.manager import Manager
    from dashpot.runtime.controller.request import ApiRequest

SUMMARY = "run the controllers of a spec against a cluster"
USAGE = "dashpot run FILE [--kubeconfig FILE] [--context NAME] [--namespace NAME] [--dry-run] [--leader-elect] …"
DESCRIPTION = """\
Runs the controllers that FILE declares, until SIGTERM or Ctrl-C; passes in flight are finished first. Processes of a
spec mostly stand for what the cluster does by itself: --only NAME runs one that does not.
Before it starts it looks whether the cluster serves their kinds and allows all that their bodies can do. A lease
keeps two runs of the same controllers apart.

Exit status: 0 stopped when told to, 2 the spec or the command line is wrong, 4 the cluster cannot be used: a kind or a
right is missing, another run is active, the lease was lost.
"""
EXAMPLE = (
    "  dashpot crd web.loop | kubectl apply -f -\n"
    "  dashpot run web.loop --dry-run\n"
    "  dashpot run web.loop --namespace shop --leader-elect --metrics-port 8080"
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument("file", metavar="FILE", help="the spec")
    parser.add_argument("--kubeconfig", type=Path, metavar="FILE", help="default $KUBECONFIG, then dashpot's own")
    parser.add_argument("--context", default="", metavar="NAME", help="default the current one")
    parser.add_argument("--namespace", default="", metavar="NAME", help="only objects of this namespace (default all)")
    parser.add_argument("--dry-run", action="store_true", help="print each write and make none")
    parser.add_argument("--leader-elect", action="store_true", help="wait until no other run leads")
    parser.add_argument("--no-lease", action="store_true", help="look for no other run, take no lease")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="only these controllers and processes")
    parser.add_argument(
        "--metrics-port", type=_port, metavar="N", help="serve /metrics on loopback; 0 takes a free one"
    )
    add_set(parser)


def _port(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"'{text}' is no port: write 0 to 65535")
    return int(text)


def run(args: argparse.Namespace) -> int:
    """Runs until told to stop."""
    from dashpot.cli.speech import load_spec

    if args.leader_elect and args.no_lease:
        raise Problem(WRONG, "--leader-elect needs the lease that --no-lease does without")
    program = load_spec(args.file)
    names = _names(program, args)
    try:
        from dashpot.runtime.client.access import KubeconfigError, tls_context
        from dashpot.runtime.controller.externs import ExternError
        from dashpot.runtime.controller.paths import PathError
    except ModuleNotFoundError as error:
        raise Problem(
            OUTSIDE, f"the Python package '{error.name}' is missing", "install them all: pip install 'dashpot[serve]'"
        ) from None
    try:
        access = _access(args)
        tls_context(access, access.login.certificate, access.login.key)
    except KubeconfigError as error:
        raise Problem(OUTSIDE, str(error), "name another one: --kubeconfig FILE") from None
    try:
        return asyncio.run(_Operator(program, names, access, args).run())
    except (ExternError, PathError) as error:
        raise Problem(WRONG, f"{args.file}: {error}") from None


def _names(program: Program, args: argparse.Namespace) -> list[str]:
    modules = {a.name: a.module for a in program.controllers} | {a.name: a.module for a in program.processes}
    if args.only:
        for name in args.only:
            if name not in modules:
                raise choose("controller or process", name, sorted(modules), args.file)
        return list(dict.fromkeys(args.only))
    own = [actor.name for actor in program.controllers if actor.module == program.main]
    processes = [actor.name for actor in program.processes if actor.module == program.main]
    if not own and processes:
        raise Problem(
            WRONG,
            f"{args.file} declares no controller, only processes, and those may stand for the cluster's own",
            f"name what is to run: --only {' '.join(processes)}",
        )
    if not own:
        raise Problem(WRONG, f"{args.file} declares no controller", "--only NAME runs one of a module that it uses")
    if processes:
        console.err(f"dashpot: not run, since no --only names it: process {', '.join(processes)}")
    return own


def _access(args: argparse.Namespace) -> Access:
    from dashpot.runtime.client.incluster import in_cluster
    from dashpot.runtime.client.kubeconfig import load, search_path

    named, own = os.environ.get("KUBECONFIG", ""), Path(".dashpot/cluster/kubeconfig")
    if args.kubeconfig is None and not named:
        if own.exists():
            return load([own]).access(args.context)
        if os.environ.get("KUBERNETES_SERVICE_HOST") and not args.context:
            return in_cluster(os.environ)
    return load(search_path(args.kubeconfig, named, Path.home()), needed=args.kubeconfig is not None).access(
        args.context
    )


class _Operator:
    """One run."""

    def __init__(self, program: Program, names: list[str], access: Access, args: argparse.Namespace) -> None:
        from dashpot.cli.targets import constants_of

        self.program, self.names, self.access, self.args = program, names, access, args
        self.constants = constants_of(program, args.set)
        self.stop = asyncio.Event()

    async def run(self) -> int:
        from dashpot.model.objects.status import StatusError
        from dashpot.runtime.client.http import connect
        from dashpot.runtime.client.transport import TransportError
        from dashpot.runtime.controller.preflight import NotAllowed, NotServed

        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop.set)
        terminal = sys.stdin is not None and sys.stdin.isatty()
        client = connect(self.access, os.environ, user_agent="dashpot-run", terminal=terminal)
        try:
            return await self._guarded(client)
        except NotServed as error:
            hint = f"install what is custom first: dashpot crd {self.args.file} | kubectl apply -f -"
            raise Problem(OUTSIDE, f"{self.access.server}: {error}", hint) from None
        except NotAllowed as error:
            raise Problem(
                OUTSIDE, str(error), "grant that to the user of the kubeconfig: a Role and a binding"
            ) from None
        except (StatusError, TransportError) as error:
            raise Problem(
                OUTSIDE, f"{self.access.server}: {error}", "is the cluster up, and is it the right one?"
            ) from None
        finally:
            await client.close()

    async def _guarded(self, client: Client) -> int:
        """Looks first, then runs under the lease."""
        from dashpot.runtime.controller.manager import Manager
        from dashpot.runtime.controller.uses import Right

        args = self.args
        manager = Manager(
            self.program,
            client,
            constants=self.constants,
            namespace=args.namespace,
            caller=self._trying(client) if args.dry_run else None,
            dry_run=args.dry_run,
            complain=lambda text: console.err(f"dashpot: {text}"),
        )
        leased = not (args.no_lease or args.dry_run)
        await manager.prepare(self.names)
        rights = [
            Right("coordination.k8s.io", "leases", verb, "Lease") for verb in ("create", "get", "update") if leased
        ]
        if args.dry_run:
            from dashpot.runtime.controller.preflight import allowed

            reads = [r for r in manager.rights(self.names) if r.verb in ("get", "list", "watch")]
            await allowed(reads, client, args.namespace)
        else:
            await manager.check_access(self.names, extra=rights)
        metrics = await self._metrics(manager)
        try:
            if not leased:
                await self._work(manager)
                return HOLDS
            return await self._led(client, manager)
        finally:
            if metrics is not None:
                metrics.close()

    async def _work(self, manager: Manager) -> None:
        """Starts, and stops when told to."""
        try:
            starting = asyncio.ensure_future(manager.start(self.names))
            stopped = asyncio.ensure_future(self.stop.wait())
            await asyncio.wait((starting, stopped), return_when=asyncio.FIRST_COMPLETED)
            if not starting.done():
                starting.cancel()
                await asyncio.gather(starting, return_exceptions=True)
                return
            starting.result()
            what = "would run" if self.args.dry_run else "running"
            console.err(f"dashpot: {what} {', '.join(self.names)} against {self.access.server}")
            await stopped
        except asyncio.CancelledError:
            await manager.stop(now=True)
            raise
        finally:
            await manager.stop()
        console.err("dashpot: stopped")

    async def _led(self, client: Client, manager: Manager) -> int:
        """Runs while the lease is held; a Problem where another run has it."""
        from dashpot.runtime.client.leader import Elector
        from dashpot.runtime.clock import SystemClock

        main = re.sub(r"[^a-z0-9]+", "-", self.program.main.lower()).strip("-") or "spec"
        name = "-".join(["dashpot", main, *(n.lower() for n in sorted(self.args.only or ()))])[:253]
        space = self.args.namespace or self.access.namespace
        identity = f"{socket.gethostname()}_{uuid.uuid4()}"
        begun = asyncio.Event()

        async def lead(_: Any) -> None:
            begun.set()
            await self._work(manager)

        elector = Elector(
            client, name, space, identity, lead, SystemClock(), complain=lambda text: console.err(f"dashpot: {text}")
        )
        electing = asyncio.ensure_future(elector.run())
        stopped = asyncio.ensure_future(self.stop.wait())
        looking = asyncio.ensure_future(self._another(client, name, space, identity, begun))
        try:
            await asyncio.wait((electing, stopped, looking), return_when=asyncio.FIRST_COMPLETED)
            if looking.done() and not self.args.leader_elect and looking.result():
                raise Problem(
                    OUTSIDE,
                    f"another run of these controllers is active: {looking.result()} holds lease {space}/{name}",
                    "stop it, or wait for it with --leader-elect",
                )
            if self.stop.is_set() and not begun.is_set():
                return HOLDS
            await electing
        finally:
            for task in (electing, stopped, looking):
                task.cancel()
            await asyncio.gather(electing, stopped, looking, return_exceptions=True)
        if not self.stop.is_set():
            raise Problem(OUTSIDE, f"lease {space}/{name} was lost: another run may have begun", "start it again")
        return HOLDS

    async def _another(self, client: Client, name: str, space: str, identity: str, begun: asyncio.Event) -> str:
        """Who holds the lease and renews it; waits until this run has it, else. Says so once while it waits."""
        from dashpot.model.objects.status import StatusError
        from dashpot.runtime.client.leader import LEASES
        from dashpot.runtime.client.transport import TransportError

        first = None
        while not begun.is_set():
            try:
                spec = (await client.get(LEASES, name, space)).get("spec") or {}
            except (StatusError, TransportError):
                spec = {}
            holder, renewed = str(spec.get("holderIdentity") or ""), spec.get("renewTime")
            if holder and holder != identity:
                if first is None:
                    console.err(f"dashpot: {holder} holds lease {space}/{name}: waiting for it")
                    first = (holder, renewed)
                elif first != (holder, renewed) and not self.args.leader_elect:
                    return holder
            await _either(begun.wait(), 1.0)
        await asyncio.Event().wait()
        return ""

    def _trying(self, client: Client) -> Callable[[str], Caller]:
        from dashpot.runtime.controller.calls import ClientCaller
        from dashpot.runtime.controller.trying import Trying

        texts = {file: text.splitlines() for file, text in self.program.sources}

        def tell(request: ApiRequest, fields: str) -> None:
            span = request.span
            lines = texts.get(span.file, [])
            line = lines[span.line - 1].strip() if 0 < span.line <= len(lines) else ""
            metadata = (request.body or {}).get("metadata") or {}
            name = request.name or str(metadata.get("name") or metadata.get("generateName") or "")
            where = f"{request.namespace}/{name}" if request.namespace else name
            sub = f".{request.subresource}" if request.subresource else ""
            console.out(f"{request.verb} {request.kind}{sub} {where} {fields}".rstrip())
            console.out(f"  {span.file}:{span.line}: {line}")
            sys.stdout.flush()

        return lambda actor: Trying(ClientCaller(client, actor), tell)

    async def _metrics(self, manager: Manager) -> asyncio.Server | None:
        """Serves /metrics on loopback."""
        if self.args.metrics_port is None:
            return None

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                async with asyncio.timeout(5):
                    head = await reader.readuntil(b"\r\n\r\n")
                    found = head.split(b" ", 2)[1:2] == [b"/metrics"]
                    body = manager.metrics.text() if found else b"there is /metrics\n"
                    status = b"200 OK" if found else b"404 Not Found"
                    kind = b"text/plain; version=0.0.4; charset=utf-8"
                    length = str(len(body)).encode()
                    writer.write(
                        b"HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %s\r\nConnection: close\r\n\r\n"
                        % (status, kind, length)
                    )
                    writer.write(body)
                    await writer.drain()
            except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                pass  # whoever asked went away, or asked nothing that is HTTP
            finally:
                writer.close()

        try:
            server = await asyncio.start_server(answer, "127.0.0.1", self.args.metrics_port)
        except OSError as error:
            port = self.args.metrics_port
            raise Problem(OUTSIDE, f"cannot listen on port {port}: {error.strerror}", "choose another port") from None
        console.err(f"dashpot: metrics at http://127.0.0.1:{server.sockets[0].getsockname()[1]}/metrics")
        return server


async def _either(waiting: Awaitable[Any], seconds: float) -> None:
    """Waits for something, but not longer."""
    try:
        async with asyncio.timeout(seconds):
            await waiting
    except TimeoutError:
        return
