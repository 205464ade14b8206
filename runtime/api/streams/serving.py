"""What the server does with a request for logs, exec, attach, port-forward or proxy: finds the node, hands it over."""

from __future__ import annotations

import asyncio
import random
from asyncio import StreamReader, StreamWriter
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from dashpot.model.objects.status import StatusError, Subject, bad_request, not_found
from dashpot.runtime.api.exchange import Duplex, Exchange, Info, Request, Response
from dashpot.runtime.api.site import Endpoint
from dashpot.runtime.api.streams import channels, logs, ports, proxy, targets, tunnel
from dashpot.runtime.api.streams.channels import Run
from dashpot.runtime.api.streams.containers import chosen, host
from dashpot.runtime.api.streams.node import Node, Nodes, NoNodes, StreamOptions, Streams, no_backend
from dashpot.runtime.api.streams.pipe import IDLE_S
from dashpot.runtime.api.tally import tally
from dashpot.runtime.api.view import View

Object = dict[str, Any]
LOG_S = 30.0
"""Seconds that a node may take to begin with a log."""


_TRANSLATED = tally("apiserver_stream_translator_requests_total")
_TUNNELS = tally("apiserver_stream_tunnel_requests_total")
_LOGS = tally("kube_apiserver_pod_logs_insecure_backend_total")


class Streaming:
    """Serves all streams of a server. `nodes` is set when kubelets exist; `proxy.dial` reaches their pods."""

    def __init__(self, view: View, nodes: Nodes | None = None, *, idle_s: float = IDLE_S) -> None:
        self._view = view
        self.nodes: Nodes = nodes or NoNodes()
        self.proxy = proxy.Proxy()
        self._pick = random.Random()
        self._idle_s = idle_s

    async def close(self) -> None:
        """Ends connections to targets of proxies."""
        await self.proxy.close()

    async def serve(self, exchange: Exchange, endpoint: Endpoint) -> Response:
        """The answer; StatusError in Kubernetes' words. Authorization and admission are over."""
        info = exchange.info
        if info.subresource == "proxy":
            return await self._proxied(exchange, endpoint)
        if info.subresource == "log":
            return await self._log(exchange, endpoint)
        if exchange.request.method not in ("GET", "POST"):
            raise StatusError("MethodNotAllowed", "the server does not allow this method on the requested resource")
        pod = await _pod(exchange, endpoint, info.name)
        forwards = info.subresource == "portforward"
        code = 500
        try:
            response = await (self._forwarded(exchange.request, pod) if forwards else self._run(exchange, pod))
            code = response.code
            return response
        except StatusError as error:
            code = error.code
            raise
        finally:
            (_TUNNELS if forwards else _TRANSLATED).cell(str(code)).value += 1

    async def _node(self, name: str) -> Node:
        found = self.nodes.of(name)
        if found is None:
            if await self._view.fresh("", "nodes", "", name) is None:
                raise not_found(Subject("", "nodes"), name)
            raise no_backend(name)
        return found

    # -- logs ---------------------------------------------------------------------------------------------------

    async def _log(self, exchange: Exchange, endpoint: Endpoint) -> Response:
        if exchange.request.method not in ("GET", "HEAD"):
            raise StatusError("MethodNotAllowed", "the server does not allow this method on the requested resource")
        options = logs.options(exchange.request, exchange.info.name)
        skips = exchange.request.flag("insecureSkipTLSVerifyBackend")
        _LOGS.cell("skip_tls_allowed" if skips else "enforce_tls").value += 1
        pod = await _pod(exchange, endpoint, exchange.info.name)
        container = chosen(pod, exchange.request.get("container"))
        name = (pod.get("spec") or {}).get("nodeName")
        if not name:
            # a pod without a node has said nothing yet, and upstream says so
            return Response(204)
        node = await self._node(name)
        try:
            async with asyncio.timeout(LOG_S):
                pieces = await node.logs(pod, container, options)
        except (OSError, TimeoutError) as error:
            raise no_backend(name, _why(error)) from None
        return Response(200, content_type="text/plain", chunks=logs.limited(pieces, options.limit_bytes))

    # -- exec, attach, port-forward -----------------------------------------------------------------------------

    async def _run(self, exchange: Exchange, pod: Object) -> Response:
        request, kind = exchange.request, exchange.info.subresource
        container = chosen(pod, request.get("container"))
        name = host(pod)
        tty = request.flag("tty")
        options = StreamOptions(request.flag("stdin"), request.flag("stdout"), request.flag("stderr") and not tty, tty)
        if not (options.stdin or options.stdout or options.stderr):
            raise bad_request("you must specify at least 1 of stdin, stdout, stderr")
        command = request.all("command")
        if kind == "exec" and not command:
            raise bad_request("you must specify at least one command for the container")
        node = await self._node(name)
        _upgradable(request, channels.PROTOCOLS)

        async def run(streams: Streams) -> int:
            try:
                if kind == "exec":
                    return await node.run(pod, container, command, streams)
                return await node.attach(pod, container, streams)
            except OSError as error:
                raise no_backend(name, _why(error)) from None

        return self._channels(options, run)

    def _channels(self, options: StreamOptions, run: Run) -> Response:
        async def upgrade(duplex: Duplex) -> None:
            await channels.converse(duplex, options, run, self._idle_s)

        return Response(101, upgrade=upgrade, protocols=channels.PROTOCOLS)

    async def _forwarded(self, request: Request, pod: Object) -> Response:
        node = await self._node(host(pod))
        about = f"pod {pod['metadata']['name']}, uid {pod['metadata'].get('uid', '')}"

        async def dial(port: int) -> tuple[StreamReader, StreamWriter]:
            return await node.forward(pod, port)

        offered = _upgradable(request, (tunnel.PROTOCOL, *ports.PROTOCOLS))
        if tunnel.PROTOCOL in offered:

            async def upgrade(duplex: Duplex) -> None:
                await tunnel.Tunnel(duplex, dial, about, self._idle_s).serve()

            return Response(101, upgrade=upgrade, protocols=(tunnel.PROTOCOL,))
        wanted = ports.wanted(request)

        async def plain(duplex: Duplex) -> None:
            await ports.converse(duplex, wanted, dial, about, self._idle_s)

        return Response(101, upgrade=plain, protocols=ports.PROTOCOLS)

    # -- proxy --------------------------------------------------------------------------------------------------

    async def _proxied(self, exchange: Exchange, endpoint: Endpoint) -> Response:
        info, request = exchange.info, exchange.request
        asked = targets.named(info.name, info.resource)
        upgrade = False
        if _upgrades(request.headers):
            upgrade = True
            _websocket(request)
        if info.resource == "services":
            target = await targets.of_service(self._view, info.namespace, asked, self._pick)
        elif info.resource == "nodes":
            found = (await endpoint.storage.get("", asked.name)).object
            if not asked.port:
                return await self._kubelet(request, asked.name, info.rest)
            target = targets.of_node(found, asked)
        else:
            target = targets.of_pod(await _pod(exchange, endpoint, asked.name), asked)
        return await self.proxy.serve(request, target, _before(info), info.rest, upgrade)

    async def _kubelet(self, request: Request, name: str, rest: str) -> Response:
        node = await self._node(name)
        headers = proxy.outgoing(request, targets.Target("https", name, 10250))
        inner = Request(
            request.method, f"/{rest}", request.query, headers, request.read, request.remote, stream=request.stream
        )
        try:
            return await node.proxy(inner, f"/{rest}")
        except (OSError, TimeoutError) as error:
            raise targets.unavailable(f"error trying to reach service: {_why(error)}") from None


async def _pod(exchange: Exchange, endpoint: Endpoint, name: str) -> Object:
    return (await endpoint.storage.get(exchange.info.namespace, name)).object


def _before(info: Info) -> str:
    namespace = f"namespaces/{quote(info.namespace)}/" if info.namespace else ""
    return f"/api/{info.version}/{namespace}{info.resource}/{quote(info.name, safe=':')}/proxy"


def _why(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return str(error) or "i/o timeout"


def _upgrades(headers: Mapping[str, str]) -> bool:
    return "upgrade" in headers.get("connection", "").lower() and bool(headers.get("upgrade"))


def _websocket(request: Request) -> None:
    """StatusError 400 unless the request is to become a WebSocket."""
    asked = request.headers.get("upgrade", "")
    if asked.lower() != "websocket" or request.method != "GET":
        raise bad_request(
            f"unable to upgrade: {request.method} to {asked[:64]} is not served, only GET to websocket "
            "(kubectl since 1.30 asks for it)"
        )
    if not request.headers.get("sec-websocket-key") or request.headers.get("sec-websocket-version") != "13":
        raise bad_request("unable to upgrade: the headers of the WebSocket handshake are not complete")


def _upgradable(request: Request, served: tuple[str, ...]) -> list[str]:
    """The subprotocols that the client offers, in its order; StatusError 400 if it cannot be served."""
    if not _upgrades(request.headers):
        raise bad_request("unable to upgrade: missing upgrade headers in request: Upgrade request required")
    _websocket(request)
    offered = [part.strip() for part in request.headers.get("sec-websocket-protocol", "").split(",") if part.strip()]
    if offered and not any(protocol in served for protocol in offered):
        raise bad_request(f"unable to upgrade: none of the subprotocols {', '.join(offered)[:256]} is served")
    return offered
