"""`dashpot up`: a control plane on this machine."""

from __future__ import annotations

import argparse
import gc
import os
import signal
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from dashpot.cli import console, up_plane
from dashpot.cli.parser import size
from dashpot.cli.problem import HOLDS, OUTSIDE, WRONG, Problem

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Coroutine

    from dashpot.runtime.api.apiserver import ApiServer
    from dashpot.runtime.api.settings import Settings
    from dashpot.runtime.plane.plane import Plane

T = TypeVar("T")
SUMMARY = "start a control plane that kubectl can talk to"
USAGE = "dashpot up [--nodes N] [--api-only] [--data DIR] [--store STORE] [--port N] [-- COMMAND …]"
DESCRIPTION = (
    "Starts a control plane in one process: store, API server, controllers, scheduler, and simulated nodes. It "
    "has a certificate authority of its own and writes an administrator's kubeconfig. It listens on loopback and stops "
    "cleanly on SIGTERM or Ctrl-C; what it stored is there when it starts again. With a COMMAND it serves for as long "
    "as that runs, with KUBECONFIG set, and ends with its status."
)
EXAMPLE = (
    "  dashpot up --nodes 5\n"
    "  kubectl --kubeconfig .dashpot/cluster/kubeconfig get namespaces\n"
    "  dashpot up --api-only --store memory --port 0 -- kubectl get namespaces\n"
    "  dashpot up --api-only --data /var/lib/dashpot --store etcd://127.0.0.1:2379"
)

GARBAGE = 20_000
"""Objects made before a look for cycles: Python's own 700 is a look with every other request."""
DATA = Path(".dashpot/cluster")
MOST = 100_000
"""Requests at once that can be asked for: more than one process could hold."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument("--api-only", action="store_true", help="the API server and its store, nothing else")
    parser.add_argument("--data", type=Path, default=DATA, metavar="DIR", help=f"keys and store (default {DATA})")
    parser.add_argument(
        "--store", default="embedded", metavar="STORE", help="embedded (default), memory, or etcd://HOST:PORT,…"
    )
    parser.add_argument(
        "--store-override",
        action="append",
        default=[],
        metavar="RESOURCE=STORE",
        help="a store for one resource, such as events=memory",
    )
    parser.add_argument(
        "--quota", type=size, default=2 << 30, metavar="SIZE", help="what the store may take (default 2Gi; not etcd's)"
    )
    parser.add_argument("--host", default="127.0.0.1", metavar="ADDRESS", help="listen here (default: loopback alone)")
    parser.add_argument("--port", type=_port, default=6443, metavar="N", help="0 takes a free one (default 6443)")
    parser.add_argument("--kubeconfig", type=Path, metavar="FILE", help="write it here (default DIR/kubeconfig)")
    parser.add_argument(
        "--faults", type=Path, metavar="FILE", help="delay, drop, reorder or cut watches, as the file says"
    )
    parser.add_argument("words", nargs="*", metavar="COMMAND", help="serve while this runs (write it behind --)")
    up_plane.configure(parser)
    access = parser.add_argument_group("access")
    access.add_argument(
        "--authorization-mode", default="Node,RBAC", metavar="MODES", help="Node,RBAC (default), AlwaysAllow, Webhook"
    )
    access.add_argument("--authorization-webhook", type=Path, metavar="FILE", help="kubeconfig of the webhook")
    access.add_argument("--anonymous", action="store_true", help="let requests without credentials in as anonymous")
    access.add_argument("--token-file", type=Path, metavar="FILE", help='lines of token,user,uid,"group,group"')
    access.add_argument("--token-webhook", type=Path, metavar="FILE", help="kubeconfig of a TokenReview webhook")
    access.add_argument("--oidc-issuer", metavar="URL", help="accept this issuer's tokens")
    access.add_argument("--oidc-client-id", metavar="ID", help="the audience that they must have")
    access.add_argument("--oidc-ca", type=Path, metavar="FILE", help="who signed the issuer's certificate")
    audit = parser.add_argument_group("audit")
    audit.add_argument(
        "--audit-policy", type=Path, metavar="FILE", help="audit.k8s.io/v1 Policy (default: Metadata of all)"
    )
    audit.add_argument("--audit-log", type=Path, metavar="FILE", help="write events here, one JSON line each")
    audit.add_argument("--audit-webhook", type=Path, metavar="FILE", help="kubeconfig of a webhook that takes batches")
    load = parser.add_argument_group("load")
    load.add_argument(
        "--max-requests-inflight", type=_requests, default=400, metavar="N", help="requests at once (default 400)"
    )
    load.add_argument(
        "--max-mutating-requests-inflight",
        type=_requests,
        default=200,
        metavar="N",
        help="added to the above (default 200); priority levels divide the sum, as in Kubernetes",
    )
    network = parser.add_argument_group("services")
    network.add_argument("--service-network", default="10.96.0.0/12", metavar="CIDR", help="ClusterIPs")
    network.add_argument("--node-ports", default="30000-32767", metavar="LOW-HIGH", help="node ports")


def _port(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"'{text}' is no port: write 0 to 65535")
    return int(text)


def _requests(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text[:7]) > MOST:
        raise argparse.ArgumentTypeError(f"'{text}' is no number of requests: write 0 to {MOST}")
    return int(text)


def run(args: argparse.Namespace) -> int:
    """Serves until told to stop."""
    # told to stop before there is anything to stop: that is a clean end too
    signal.signal(signal.SIGTERM, _nothing_yet)
    try:
        from dashpot.runtime.api.apiserver import ApiServer, StartError
    except ModuleNotFoundError as error:
        raise Problem(
            OUTSIDE,
            f"the Python package '{error.name}' is missing",
            "install them all: pip install 'dashpot[serve]' (from a clone: pip install '.[serve]')",
        ) from None
    import asyncio

    settings = _settings(args)
    made = up_plane.check(args)
    held = _held(args)
    try:
        return asyncio.run(_serve(ApiServer, settings, args, made))
    except StartError as error:
        raise Problem(error.status, str(error), error.hint) from None
    finally:
        if held is not None:
            os.close(held)


def _nothing_yet(*_: object) -> NoReturn:
    raise SystemExit(HOLDS)


def _settings(args: argparse.Namespace) -> Settings:
    from dashpot.runtime.api.settings import Settings

    low, dash, high = args.node_ports.partition("-")
    if not dash or not low.isdigit() or not high.isdigit() or not 0 < int(low) <= int(high) < 65536:
        raise Problem(WRONG, f"--node-ports '{args.node_ports}' is no range", "write LOW-HIGH, such as 30000-32767")
    oidc = None
    if args.oidc_issuer:
        if not args.oidc_client_id:
            raise Problem(WRONG, "--oidc-issuer needs --oidc-client-id", "name the audience of the tokens")
        oidc = {"issuer": args.oidc_issuer, "client_id": args.oidc_client_id, "ca": args.oidc_ca}
    _check(args)
    return Settings(
        data=args.data,
        store=args.store,
        store_overrides=tuple(args.store_override),
        host=args.host,
        port=args.port,
        authorization=tuple(mode for mode in args.authorization_mode.split(",") if mode),
        authorization_webhook=args.authorization_webhook,
        anonymous=args.anonymous,
        token_file=args.token_file,
        token_webhook=args.token_webhook,
        oidc=oidc,
        audit_policy=args.audit_policy,
        audit_log=args.audit_log,
        audit_webhook=args.audit_webhook,
        service_network=args.service_network,
        node_ports=(int(low), int(high)),
        faults=args.faults,
        quota=args.quota,
        seats=args.max_requests_inflight + args.max_mutating_requests_inflight,
    )


def _check(args: argparse.Namespace) -> None:
    """What would else be found out late, or told as if the machine were to blame."""
    import ipaddress
    import ssl

    from dashpot.runtime.store.base import StoreError
    from dashpot.runtime.store.open import parse_override, parse_target

    try:
        parse_target(args.store)
        for text in args.store_override:
            parse_override(text)
    except StoreError as error:
        raise Problem(WRONG, str(error)) from None
    try:
        room = ipaddress.ip_network(args.service_network).num_addresses
    except ValueError as error:
        raise Problem(WRONG, f"--service-network: {error}", "write a network, such as 10.96.0.0/12") from None
    if room < 8:
        raise Problem(WRONG, f"--service-network '{args.service_network}' is too small", "it needs 8 addresses or more")
    if not args.authorization_mode.strip(", "):
        raise Problem(WRONG, "--authorization-mode names no mode", "write Node,RBAC or AlwaysAllow")
    if args.audit_policy and not (args.audit_log or args.audit_webhook):
        raise Problem(
            WRONG,
            "--audit-policy without --audit-log or --audit-webhook has no effect: nothing would be written",
            "say where the events go: --audit-log FILE",
        )
    if not args.max_requests_inflight + args.max_mutating_requests_inflight:
        raise Problem(
            WRONG, "--max-requests-inflight and --max-mutating-requests-inflight are 0: nothing would be served"
        )
    if args.oidc_client_id and not args.oidc_issuer:
        raise Problem(WRONG, "--oidc-client-id needs --oidc-issuer", "name the URL of the issuer")
    if args.oidc_issuer and not args.oidc_issuer.startswith("https://"):
        raise Problem(WRONG, f"--oidc-issuer '{args.oidc_issuer}' does not begin with https://")
    if args.oidc_ca is not None:
        try:
            ssl.create_default_context(cafile=str(args.oidc_ca))
        except (OSError, ValueError) as error:
            why = "holds no certificate" if isinstance(error, ssl.SSLError) else getattr(error, "strerror", str(error))
            raise Problem(WRONG, f"--oidc-ca {args.oidc_ca}: {why}", "name a file of PEM certificates") from None


def _held(args: argparse.Namespace) -> int | None:
    """The data directory, taken for this process where the kubeconfig in it is written; None where that is elsewhere.

    Servers on one etcd share the keys of a directory: each of them but one has a kubeconfig of its own. The embedded
    store is locked by itself, in any case.
    """
    from dashpot.runtime.store.base import StoreError
    from dashpot.runtime.store.directory import Directory

    if args.kubeconfig is not None or args.words:
        return None
    try:
        return Directory(args.data).lock("a data directory")
    except StoreError as error:
        hint = "give it another --data; servers on one etcd that share keys: each a --kubeconfig FILE of its own"
        raise Problem(OUTSIDE, str(error), hint if "in use" in str(error) else "") from None


async def _serve(
    server_class: type[ApiServer], settings: Settings, args: argparse.Namespace, made: dict[str, Any]
) -> int:
    import asyncio

    from dashpot.runtime.api.front import frugal_connections
    from dashpot.runtime.memory import return_large_blocks

    frugal_connections()
    return_large_blocks()
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(_told)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    server = await _unless(stop, server_class.start(settings, complain=lambda text: console.err(f"dashpot: {text}")))
    if server is None:
        return HOLDS
    plane = None if args.api_only else up_plane.plane(server, made)
    # what was made so far lives as long as the process, and requests leave little behind that is cyclic
    gc.collect()
    gc.freeze()
    gc.set_threshold(GARBAGE, 20, 50)
    # a cluster for one command leaves the kubeconfig of a server that may run on the same folder alone
    scratch = tempfile.TemporaryDirectory(prefix="dashpot-")
    try:
        kubeconfig = args.kubeconfig or (Path(scratch.name) if args.words else args.data) / "kubeconfig"
        server.write_kubeconfig(kubeconfig)
        if plane is not None and await _unless(stop, _started(plane)) is None:
            return HOLDS
        for line in server.banner():
            console.err(f"dashpot: {line}")
        if args.words:
            return await _command(args.words, kubeconfig, server.until(stop))
        console.out(f"API server at {server.url} (store: {settings.store})")
        if plane is not None:
            console.out(up_plane.line(made))
        console.out(f"kubectl --kubeconfig {kubeconfig} get namespaces")
        _flush()
        await server.until(stop)
    finally:
        if plane is not None:
            await plane.stop()
        await server.stop()
        scratch.cleanup()
    console.out("stopped")
    return HOLDS


async def _started(plane: Plane) -> Plane:
    await plane.start()
    return plane


async def _unless(stop: asyncio.Event, work: Coroutine[None, None, T]) -> T | None:
    """What the work comes to; None if it was told to stop before, and then the work is ended too."""
    import asyncio

    task = asyncio.get_running_loop().create_task(work)
    stopped = asyncio.ensure_future(stop.wait())
    await asyncio.wait((task, stopped), return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    if not task.done():
        task.cancel()
        await asyncio.wait((task,))
        return None
    return task.result()


async def _command(words: list[str], kubeconfig: Path, until: Coroutine[None, None, None]) -> int:
    """Runs a program against the server; its exit status. A signal to us ends it, and so does a store that is lost."""
    import asyncio

    env = {**os.environ, "KUBECONFIG": str(kubeconfig.resolve())}
    try:
        process = await asyncio.create_subprocess_exec(*words, env=env)
    except OSError as error:
        until.close()
        raise Problem(OUTSIDE, f"cannot run '{words[0]}': {error.strerror or error}", "is it on the PATH?") from None
    ended = asyncio.ensure_future(process.wait())
    stopped = asyncio.ensure_future(until)
    await asyncio.wait((ended, stopped), return_when=asyncio.FIRST_COMPLETED)
    if not ended.done():
        process.terminate()
    status = await ended
    if stopped.done():
        stopped.result()
    stopped.cancel()
    return status if status >= 0 else 128 - status


def _told(_: object, context: dict[str, Any]) -> None:
    """What asyncio could give to nobody else (no file descriptor left for a connection, say): a line."""
    error = context.get("exception")
    console.err(f"dashpot: {context.get('message', 'failed')}{f': {error!r}' if error is not None else ''}")


def _flush() -> None:
    """Whoever waits for the address reads it through a pipe."""
    import sys

    if sys.stdout is not None:
        sys.stdout.flush()
