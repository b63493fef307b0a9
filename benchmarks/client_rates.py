"""The load client beside others, at known rates: what each delivers, how late it sees, what it costs.

    python benchmarks/client_rates.py --tokenizer /path/to/a/model --sglang-python /path/to/venv/bin/python
        [--aiperf /path/to/venv/bin/aiperf] [--guidellm /path/to/venv/bin/guidellm] [--rounds 2] [--paces 64:5000]

A reference server in a process of its own streams one token a chunk and knows what it sent when. Each client runs as a
process of its own, in turn, against the same pace; a round holds all of them once, so that whatever else the machine
does falls on all. Printed for each client and pace: the median over the rounds, with (lowest to highest).

delivered   tokens a second as the client reports them, over what the server sent in the same time: inside the window
            for this client, over the whole run for the others, which have no window
TTFT error  the client's p50 and p99 less the server's own (request read to first token written)
CPU         of the client and of all processes that it started, while the server was sending, per token
sent        tokens a second that the server really sent, in the same time as for `delivered`: a client that is slow to
            ask again, or that takes the server's processor, shows here

The others and how they are told to make the run are in client_contestants.py. A client that ends with an error, that
counts other than all requests as answered, or that does not end is reported with that and gets no figures.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from autotune import engines
from autotune.client_test import HOST, ReferenceProcess, Truth, judge, reference_process
from autotune.domain.workload import LevelPlan, MeasurementPlan
from autotune.load import Clock, prompt_source, run_level
from autotune.scoring import measure
from benchmarks.client_contestants import CONTESTANTS, REQUESTS_PER_STREAM, Run, Said

PACES = ((1, 100.0), (64, 5_000.0), (256, 10_000.0), (256, 20_000.0), (1024, 20_000.0))
"""Streams, and tokens a second of all of them."""
REQUEST_S = 1.0
TTFT_S = 0.05
OURS = "autotune"
LIMIT_S = 240.0
"""For one run of one client, its start and its own report included."""
SAMPLE_S, LOOK_S = 0.05, 0.5
"""Between readings of the CPU time of known processes, and between looks for new ones."""
ROW = "{:<14} {:>5} {:>7} | {:<26} {:<26} {:<28} {:<18} {:<24} {:<16} {:<12}"
HEADER = (
    *("client", "C", "tok/s", "delivered", "TTFT p50 error ms", "TTFT p99 error ms", "CPU us/token", "sent tok/s"),
    *("whole run s", "processes"),
)


@dataclass(frozen=True)
class Outcome:
    """`delivered` is a ratio; errors in ms; `cpu_us` microseconds a token; `true_rate` in tokens/s; `whole_s`: how long
    the client's process lived; `processes`: that one and all that it started."""

    delivered: float
    ttft_p50_error: float
    ttft_p99_error: float
    cpu_us: float
    true_rate: float
    whole_s: float
    processes: int


class Failed(Exception):
    """Why a client gave no figures."""


def run_ours(port: int, concurrency: int, tokens: int) -> None:
    """In the child: one level, its records judged against the server's there, since they are not printed."""
    level = LevelPlan(concurrency, (REQUESTS_PER_STREAM - 1) * concurrency)
    wire = engines.get("sglang").wire_for("generate", "")
    prompts = prompt_source("coding", seed=0)
    plan = MeasurementPlan((level,), tokens)
    run = run_level(HOST, port, wire=wire, plan=plan, level=level, prompts=prompts, clock=Clock())
    first = measure(run).ttft_ms
    with urllib.request.urlopen(f"http://{HOST}:{port}/reference/truth", timeout=30) as reply:
        truth = json.loads(reply.read())
    seen = judge(run, Truth(**truth))
    said = {
        "delivered": seen.delivered,
        "true_rate": seen.true_rate,
        "ttft": None if first is None else [first.p50, first.p99],
        "truth": truth,
    }
    sys.stdout.write(json.dumps(said))


def run_client(
    client: str, asked: argparse.Namespace, reference: ReferenceProcess, concurrency: int, rate: float
) -> Outcome:
    """Raises Failed."""
    interval_s = concurrency / rate
    tokens = max(8, round(REQUEST_S / interval_s))
    reference.pace(interval_s=interval_s, ttft_s=TTFT_S)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        environment = dict(os.environ)
        if client == OURS:
            words = [sys.executable, __file__, "--child", str(reference.port), str(concurrency), str(tokens)]
        else:
            program = vars(asked)[client.replace("-", "_")]
            run = Run(program, asked.tokenizer, reference.port, concurrency, tokens, folder)
            words = CONTESTANTS[client].command(run)
            environment |= {"PYTHONPATH": name, **CONTESTANTS[client].environment}
        began = time.perf_counter()
        samples, processes = run_watched(words, environment, folder)
        whole_s = time.perf_counter() - began
        if client == OURS:
            found = json.loads((folder / "out").read_text())
            truth = Truth(**found["truth"])
            if found["ttft"] is None:
                raise Failed("no TTFT")
            delivered, true_rate, (ttft_p50, ttft_p99) = found["delivered"], found["true_rate"], found["ttft"]
        else:
            truth = reference.truth()
            said = read(client, folder)
            if said.completed != run.requests:
                raise Failed(f"it counts {said.completed:,} of {run.requests:,} requests as answered")
            true_rate = sum(truth.tokens) / (truth.steps[-1] - min(truth.received))
            delivered, ttft_p50, ttft_p99 = said.rate / true_rate, said.ttft_p50, said.ttft_p99
    own = 1000.0 * (np.asarray(truth.answered) - np.asarray(truth.received))
    p50, p99 = (float(value) for value in np.percentile(own, (50, 99)))
    stamps, spent = zip(*samples, strict=True)
    cpu = float(np.diff(np.interp([min(truth.received), truth.steps[-1]], stamps, spent))[0])
    cpu_us = 1e6 * cpu / sum(truth.tokens)
    return Outcome(delivered, ttft_p50 - p50, ttft_p99 - p99, cpu_us, true_rate, whole_s, processes)


def read(client: str, folder: Path) -> Said:
    """Raises Failed."""
    try:
        return CONTESTANTS[client].read(folder)
    except (OSError, LookupError, TypeError, ValueError) as error:
        raise Failed(f"no figures: {error!r}: {last_words(folder)}") from error


def last_words(folder: Path) -> str:
    said = [line for name in ("out", "err") for line in (folder / name).read_text(errors="replace").splitlines()]
    return next((line.strip()[:160] for line in reversed(said) if line.strip()), "it said nothing")


def run_watched(words: list[str], environment: dict[str, str], folder: Path) -> tuple[list[tuple[float, float]], int]:
    """(stamp, CPU seconds so far of the program and of all that it started) until it ends, and how many processes that
    were. Its output goes to `out` and
    `err` in `folder`. What a process spent after the last reading before its end is lost: SAMPLE_S at most; one that
    lives less than LOOK_S may be missed. Raises Failed if it ends with an error or not at all."""
    spent: dict[int, float] = {}
    samples: list[tuple[float, float]] = []
    with (folder / "out").open("wb") as stdout, (folder / "err").open("wb") as stderr:
        child = subprocess.Popen(
            words, stdout=stdout, stderr=stderr, env=environment, cwd=folder, start_new_session=True
        )
    began = looked = time.perf_counter()
    known = {child.pid: psutil.Process(child.pid)}
    try:
        while child.poll() is None and time.perf_counter() - began < LIMIT_S:
            if time.perf_counter() - looked > LOOK_S:
                looked = time.perf_counter()
                known |= {one.pid: one for one in offspring(known[child.pid]) if one.pid not in known}
            for pid, process in known.items():
                try:
                    times = process.cpu_times()
                except psutil.Error:
                    continue
                spent[pid] = times.user + times.system
            samples.append((time.perf_counter(), sum(spent.values())))
            time.sleep(SAMPLE_S)
    finally:
        ended = child.poll() is not None
        for process in known.values():
            end(process)
        child.wait()
    if not ended:
        raise Failed(f"it did not end within {LIMIT_S:g} s: {last_words(folder)}")
    if child.returncode != 0:
        raise Failed(f"it ended with {child.returncode}: {last_words(folder)}")
    return samples, len(known)


def offspring(process: psutil.Process) -> list[psutil.Process]:
    try:
        return process.children(recursive=True)
    except psutil.Error:
        return []


def end(process: psutil.Process) -> None:
    try:
        process.send_signal(signal.SIGKILL)
    except psutil.Error:
        return


def show(client: str, concurrency: int, rate: float, outcomes: list[Outcome]) -> str:
    def spread(values: Sequence[float], form: str) -> str:
        middle = format(statistics.median(values), form)
        return f"{middle} ({format(min(values), form)} to {format(max(values), form)})"

    return ROW.format(
        client,
        concurrency,
        f"{rate:,.0f}",
        spread([o.delivered for o in outcomes], ".4f"),
        spread([o.ttft_p50_error for o in outcomes], ",.1f"),
        spread([o.ttft_p99_error for o in outcomes], ",.1f"),
        spread([o.cpu_us for o in outcomes], ",.0f"),
        spread([o.true_rate for o in outcomes], ",.0f"),
        spread([o.whole_s for o in outcomes], ".0f"),
        spread([o.processes for o in outcomes], ".0f"),
    )


def pace_of(text: str) -> tuple[int, float]:
    streams, rate = text.split(":")
    return int(streams), float(rate)


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sglang-python", help="an interpreter with SGLang 0.5.23 or later; its two clients run")
    parser.add_argument("--aiperf", help="the program of that name, 0.13 or later, in an environment of its own")
    parser.add_argument("--guidellm", help="the same for guidellm, 0.8 or later")
    parser.add_argument("--tokenizer", default="", help="a model folder with a tokenizer, which the others ask for")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=60.0, help="no pace is begun after so many")
    parser.add_argument("--paces", type=pace_of, nargs="+", default=PACES, metavar="STREAMS:RATE", help="other paces")
    parser.add_argument("--child", nargs=3, type=int, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    asked.sglang_rust = asked.sglang_python
    return asked


def main() -> None:
    asked = options()
    if asked.child:
        run_ours(*asked.child)
        return
    clients = [OURS, *(name for name in CONTESTANTS if vars(asked)[name.replace("-", "_")])]
    found: dict[tuple[str, int, float], list[Outcome]] = {}
    until = time.perf_counter() + 60.0 * asked.minutes
    with reference_process(sys.executable) as reference:
        for number, (concurrency, rate) in itertools.product(range(asked.rounds), asked.paces):
            if time.perf_counter() > until:
                break
            for client in clients:
                said: Outcome | Failed
                try:
                    said = run_client(client, asked, reference, concurrency, rate)
                except Failed as failed:
                    said = failed
                else:
                    found.setdefault((client, concurrency, rate), []).append(said)
                sys.stderr.write(f"round {number} C={concurrency} {rate:g} {client}: {said}\n")
                sys.stderr.flush()
    sys.stdout.write(ROW.format(*HEADER) + "\n")
    for concurrency, rate in asked.paces:
        for client in clients:
            outcomes = found.get((client, concurrency, rate), [])
            line = show(client, concurrency, rate, outcomes) if outcomes else f"{client} {concurrency}: failed"
            sys.stdout.write(line + "\n")


if __name__ == "__main__":
    main()
