"""What the load client costs, and how true it is, at 1, 64 and 256 streams.

    python benchmarks/client_overhead.py [--seconds 3] [--interval-ms 30] [--rounds 1]

A reference server in a process of its own sends one token a chunk to each stream and knows what it sent when.
Columns: chunks/s that the client counted in its window; the same as a ratio of what the server sent in that window;
median and p99 of client arrival - server write; median TTFT that the client saw of a server that answers at once,
its own Python time included; the client's own lag figure; CPU of the client per chunk. Each number of streams is run
without a stopping rule, and then with one that is never content, which looks at the series four times on the way. Run
it on a quiet machine: both processes want a core, and at 256 streams the server needs most of one.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import statistics
import sys
from collections.abc import Generator, Iterable
from multiprocessing.connection import Connection
from pathlib import Path

import uvloop

from autotune.domain.measurement import LevelRun, RequestRecord
from autotune.domain.stopping import Look
from autotune.domain.workload import LevelPlan, MeasurementPlan
from autotune.load import Clock, prompt_source, run_level
from autotune.scoring.intervals.stopping import WarmAndPrecise

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "load"))
from reference_server import Behaviour, ReferenceServer, ReferenceWire, Sent

STREAMS = (1, 64, 256)
REQUESTS_PER_STREAM = 20
FLOOR_PER_STREAM = 5
"""With looks: at 5, 7.5, 11.25 and 16.9 requests a stream."""
UNREACHABLE = 1e-9
ROW = "{:>8} {:>6} {:>10} {:>10} {:>12} {:>12} {:>10} {:>10} {:>10}"


def serve(pipe: Connection, interval_s: float) -> None:
    """Sends its port, and for each message that comes the truth since the last one."""

    async def main() -> None:
        server = ReferenceServer(Behaviour(chunk_delay_s=interval_s))
        pipe.send(await server.start())
        while await asyncio.to_thread(pipe.recv):
            pipe.send(server.served)
            server.served = []

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())


class Counting:
    """The rule of `workload.precision`, with a precision that no level reaches."""

    def __init__(self) -> None:
        self.looks = 0
        self._rule = WarmAndPrecise(precision=UNREACHABLE)

    def look(
        self, run: LevelRun, live: Iterable[RequestRecord], *, may_open_later: bool
    ) -> Generator[None, None, Look]:
        self.looks += 1
        seen = yield from self._rule.look(run, live, may_open_later=False)
        return seen


def levelled(streams: int, rule: Counting | None) -> LevelPlan:
    """As many requests with looks as without."""
    most = REQUESTS_PER_STREAM * streams
    if rule is None:
        return LevelPlan(streams, most)
    return LevelPlan(streams, FLOOR_PER_STREAM * streams, most_requests=most, rule=rule)


def row(run: LevelRun, served: list[Sent], looks: int) -> str:
    if run.window is None or run.client.cpu_share is None or run.client.lag_p99_s is None:
        return f"{run.concurrency:>8} no window: {next((r.error for r in run.records if r.error), 'no error')}"
    sent = {item.prompt: item for item in served}
    start = min(sent[record.prompt].received - record.sent_s for record in run.records)
    opened, closed = run.window
    arrivals = [stamp for record in run.records for stamp in record.chunk_times_s if opened < stamp <= closed]
    true = sum(opened < stamp - start <= closed for item in served for stamp, _ in item.chunks)
    delays = sorted(
        stamp - (written - start)
        for record in run.records
        for stamp, (written, _) in zip(record.chunk_times_s, sent[record.prompt].chunks, strict=False)
    )
    first = statistics.median(
        r.chunk_times_s[0] - r.sent_s for r in run.records if r.chunk_times_s and r.sent_s > opened
    )
    return ROW.format(
        run.concurrency,
        looks,
        f"{len(arrivals) / (closed - opened):,.0f}",
        f"{len(arrivals) / true:.4f}",
        f"{1e3 * statistics.median(delays):.2f} ms",
        f"{1e3 * delays[int(0.99 * (len(delays) - 1))]:.2f} ms",
        f"{1e3 * first:.2f} ms",
        f"{1e3 * run.client.lag_p99_s:.2f} ms",
        f"{1e6 * run.client.cpu_share * (closed - opened) / len(arrivals):.1f} us",
    )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seconds", type=float, default=3.0, help="length of each window, roughly")
    options.add_argument("--rounds", type=int, default=1, help="of all rows, one after the other")
    options.add_argument("--interval-ms", type=float, default=30.0, help="between the chunks of one stream")
    asked = options.parse_args()
    tokens = max(2, round(1000 * asked.seconds / asked.interval_ms / REQUESTS_PER_STREAM))
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    server = context.Process(target=serve, args=(theirs, asked.interval_ms / 1000), daemon=True)
    server.start()
    port = ours.recv()
    head = ("streams", "looks", "chunks/s", "delivered", "delay p50", "delay p99", "TTFT p50", "lag p99", "CPU/chunk")
    lines = [ROW.format(*head)]
    prompts = prompt_source("coding", seed=0)
    for streams in STREAMS * asked.rounds:
        for rule in (None, Counting()):
            level = levelled(streams, rule)
            plan = MeasurementPlan((level,), tokens)
            run = run_level(
                "127.0.0.1", port, wire=ReferenceWire(), plan=plan, level=level, prompts=prompts, clock=Clock()
            )
            ours.send(True)
            lines.append(row(run, ours.recv(), rule.looks if rule is not None else 0))
    ours.send(False)
    server.join()
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
