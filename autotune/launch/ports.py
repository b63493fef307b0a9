"""A port for each trial that nothing answers on and no earlier trial had."""

from __future__ import annotations

import socket

from autotune.errors import ServingEnvironmentError

_ATTEMPTS = 100
_HIGHEST = 65_535 - 10_000
"""SGLang derives further ports from its own: its gRPC port lies 10,000 above, and must be a port too."""
_handed_out: set[int] = set()


def free_port(host: str = "127.0.0.1") -> int:
    """A port that the kernel says is free on `host`, new in this process.

    A server binds its port only after it has loaded its model, and a leftover on that port would answer in its place.
    Raises ServingEnvironmentError if `host` is not an address of this machine or nothing is free.
    """
    for _ in range(_ATTEMPTS):
        try:
            with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
                probe.bind((host, 0))
                port: int = probe.getsockname()[1]
        except OSError as error:
            raise ServingEnvironmentError(
                f"no port can be bound on {host}: {error}", hint="use an IPv4 address of this machine, e.g. 127.0.0.1"
            ) from error
        if port <= _HIGHEST and port not in _handed_out and not answers(host, port):
            _handed_out.add(port)
            return port
    raise ServingEnvironmentError(
        f"no fresh port on {host} after {_ATTEMPTS} attempts",
        hint="look for servers left over from earlier work: ss -ltnp",
    )


def answers(host: str, port: int) -> bool:
    """Whether something accepts a connection there."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        return probe.connect_ex((host, port)) == 0
