"""SGLang's `Decode batch` lines: a sample of its decode steps, as it counts them itself.

    [2026-11-29 15:22:55 DP1 TP0] Decode batch, #running-req: 3, #token: 118, token usage: 0.00, accept len: 2.40,
    accept rate: 0.47, cuda graph: True, gen throughput (token/s): 17.25, #queue-req: 0

One line each `decode-log-interval` steps (40 unless it is given) of each data-parallel replica. Fields are found by
their names, since versions and options put others between them (0.5.23 managers/scheduler_components/
metrics_reporter.py:903-1065): `block accept len`, `cap len`, usages of other pools. A batch may be numbered, as in
`Decode batch [7]`. On a CPU the field is `cpu graph`, on an NPU `npu graph`.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from autotune.domain.finding import ServerWindow

_LINE = re.compile(r"^(?:\[(?P<head>[^\]\n]*)\]\s*)?Decode batch(?: \[\d+\])?[,.](?P<fields>[^\n]*)\n", re.MULTILINE)
_REPLICA = re.compile(r"\bDP(\d+)\b")
_RUNNING = re.compile(r"#running-req: (\d+)")
_QUEUED = re.compile(r"#queue-req: (\d+)")
_GRAPH = re.compile(r"\b(?:[a-z]+ )?graph: (True|False)")
_ACCEPT = re.compile(r"(?<!block )accept len: (\d+(?:\.\d+)?)")


@dataclass(frozen=True)
class DecodeLine:
    """`replica`: the data-parallel rank, 0 where there is one. None: the line does not say."""

    replica: int
    running: int
    queued: int | None = None
    graph: bool | None = None
    accept_length: float | None = None


def decode_lines(text: str) -> tuple[DecodeLine, ...]:
    """Whole lines only: the last may still be being written. What is no such line is passed over."""
    found = []
    for match in _LINE.finditer(text):
        fields = match["fields"]
        running, queued, graph, accept = (pattern.search(fields) for pattern in (_RUNNING, _QUEUED, _GRAPH, _ACCEPT))
        if running is None:
            continue
        replica = _REPLICA.search(match["head"] or "")
        found.append(
            DecodeLine(
                replica=int(replica[1]) if replica else 0,
                running=int(running[1]),
                queued=int(queued[1]) if queued else None,
                graph=graph[1] == "True" if graph else None,
                accept_length=float(accept[1]) if accept else None,
            )
        )
    return tuple(found)


def server_window(text: str) -> ServerWindow | None:
    """What the lines of `text` come to; None where there is none.

    Accept lengths are weighted by the requests that ran, as passes are. A pass that yields nothing is not logged, so
    a length of 0 says that none was made.
    """
    lines = decode_lines(text)
    if not lines:
        return None
    replicas = [[line for line in lines if line.replica == rank] for rank in sorted({line.replica for line in lines})]
    graphs = [line.graph for line in lines if line.graph is not None]
    accepts = [(line.accept_length, line.running) for line in lines if line.accept_length and line.running]
    passes = sum(running for _length, running in accepts)
    return ServerWindow(
        lines=len(lines),
        running=sum(statistics.fmean(line.running for line in replica) for replica in replicas),
        running_median=sum(statistics.median(line.running for line in replica) for replica in replicas),
        queued=_sum_of_means(replicas),
        eager_share=graphs.count(False) / len(graphs) if graphs else None,
        accept_length=sum(length * running for length, running in accepts) / passes if passes else None,
    )


def _sum_of_means(replicas: Sequence[Sequence[DecodeLine]]) -> float | None:
    queues = [[line.queued for line in replica if line.queued is not None] for replica in replicas]
    return sum(statistics.fmean(queue) for queue in queues) if all(queues) else None
