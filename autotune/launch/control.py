"""The control plane of a server: single requests to its health, identity and administration. Never load."""

from __future__ import annotations

from dataclasses import dataclass
from types import TracebackType
from typing import Self

import httpx


@dataclass(frozen=True)
class Reply:
    """`status` is None when nothing answered; `text` then says why, and is the answer's body otherwise."""

    status: int | None
    text: str


class Control:
    """One server's address. A fault of the network is a Reply without a status, never an exception."""

    def __init__(self, host: str, port: int, *, api_key: str | None = None) -> None:
        self._client = httpx.Client(
            base_url=f"http://{host}:{port}",
            headers={"Authorization": f"Bearer {api_key}"} if api_key else {},
            trust_env=False,  # a proxy of the shell must not stand between tuner and server
            limits=httpx.Limits(max_keepalive_connections=0),  # an idle connection can hold up a server's shutdown
        )

    def get(self, path: str, timeout_s: float = 5.0) -> Reply:
        return self._ask("GET", path, None, timeout_s)

    def post(self, path: str, body: bytes = b"", timeout_s: float = 30.0) -> Reply:
        """`body` is JSON where there is one."""
        return self._ask("POST", path, body, timeout_s)

    def close(self) -> None:
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _ask(self, method: str, path: str, body: bytes | None, timeout_s: float) -> Reply:
        headers = {"Content-Type": "application/json"} if body else {}
        try:
            answer = self._client.request(method, path, content=body, headers=headers, timeout=timeout_s)
        except httpx.HTTPError as error:
            return Reply(None, f"{type(error).__name__}: {error}")
        return Reply(answer.status_code, answer.text)
