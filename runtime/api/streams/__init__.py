"""What a kubelet answers: logs, exec, attach, port-forward and proxy, handed to the node that runs the pod."""

from __future__ import annotations

from dashpot.runtime.api.streams.node import LogOptions, Node, Nodes, NoNodes, RunError, StreamOptions, Streams
from dashpot.runtime.api.streams.serving import Streaming

__all__ = ["LogOptions", "NoNodes", "Node", "Nodes", "RunError", "StreamOptions", "Streaming", "Streams"]
