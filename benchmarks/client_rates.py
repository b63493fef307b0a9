"""The load client beside SGLang's own two, at known rates: what each delivers, how late it sees, what it costs.

    python benchmarks/client_rates.py --sglang-python /path/to/venv/bin/python --tokenizer /path/to/a/model [--rounds 2]

A reference server in a process of its own streams one token a chunk and knows what it sent when. Each client runs as a
process of its own, in turn, against the same pace; a round holds all of them once, so that whatever else the machine
does falls on all. Printed for each client and pace: the median over the rounds, with (lowest to highest).

delivered   tokens a second as the client reports them, over what the server sent in the same time: inside the window
            for this client, over the whole run for the others, which have no window
TTFT error  the client's p50 and p99 less the server's own (request read to first token written)
CPU         of the client's process while the server was sending, per token

SGLang's Python client imports `datasets`, which random prompts do not use; where it is missing, an empty module of that
name is put in its way.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil

from autotune import engines
from autotune.client_test import HOST, ReferenceProcess, Truth, judge, reference_process
from autotune.domain.workload import LevelPlan, MeasurementPlan
from autotune.load import Clock, prompt_source, run_level
from autotune.scoring import measure

PACES = ((1, 100.0), (64, 5_000.0), (256, 10_000.0), (256, 20_000.0), (1024, 20_000.0))
"""Streams, and tokens a second of all of them."""
REQUEST_S = 1.0
TTFT_S = 0.05
REQUESTS_PER_STREAM = 6
CLIENTS = ("autotune", "sglang-python", "sglang-rust")
ROW = "{:<14} {:>5} {:>8} | {:<26} {:<22} {:<22} {:<18}"


@dataclass(frozen=True)
class Outcome:
    """`delivered` is a ratio; errors in ms; `cpu_us` microseconds a token; `true_rate` in tokens/s."""

    delivered: float
    ttft_p50_error: float
    ttft_p99_error: float
    cpu_us: float
    true_rate: float
    note: str = ""


def run_ours(port: int, concurrency: int, tokens: int) -> None:
    """In the child: one level, its records judged in the parent from what is printed."""
    level = LevelPlan(concurrency, (REQUESTS_PER_STREAM - 1) * concurrency)
    wire = engines.get("sglang").wire_for("generate", "")
    prompts = prompt_source("coding", seed=0)
    plan = MeasurementPlan((level,), tokens)
    run = run_level(HOST, port, wire=wire, plan=plan, level=level, prompts=prompts, clock=Clock())
    measured = measure(run)
    truth = json.loads(subprocess_truth(port))
    level_seen = judge(run, Truth(**truth))
    first = measured.ttft_ms
    sys.stdout.write(
        json.dumps(
            {
                "delivered": level_seen.delivered,
                "true_rate": level_seen.true_rate,
                "ttft": None if first is None else [first.p50, first.p99],
                "truth": truth,
            }
        )
    )


def subprocess_truth(port: int) -> str:
    import urllib.request

    with urllib.request.urlopen(f"http://{HOST}:{port}/reference/truth", timeout=30) as reply:
        return str(reply.read().decode())


def command(client: str, asked: argparse.Namespace, port: int, concurrency: int, tokens: int) -> list[str]:
    if client == "autotune":
        return [sys.executable, __file__, "--child", str(port), str(concurrency), str(tokens)]
    module = "sglang.benchmark.serving" if client == "sglang-python" else "sglang.benchmark.rust_client"
    own = (
        ["--model", asked.tokenizer, "--tokenizer", asked.tokenizer, "--disable-tqdm"]
        if client == "sglang-python"
        else ["--tokenize-prompt", "--vocab-size", "32000", "--disable-retokenize"]
    )
    return [
        *(asked.sglang_python, "-m", module, "--backend", "sglang", "--base-url", f"http://{HOST}:{port}"),
        *("--dataset-name", "random-ids", "--random-input-len", "64", "--random-range-ratio", "1.0"),
        *("--random-output-len", str(tokens), "--max-concurrency", str(concurrency), "--warmup-requests", "0"),
        *("--num-prompts", str(REQUESTS_PER_STREAM * concurrency), "--output-file", "/dev/stderr", *own),
    ]


def run_client(
    client: str, asked: argparse.Namespace, reference: ReferenceProcess, concurrency: int, rate: float
) -> Outcome | str:
    """What came of it, or why nothing did."""
    interval_s = concurrency / rate
    tokens = max(8, round(REQUEST_S / interval_s))
    reference.pace(interval_s=interval_s, ttft_s=TTFT_S)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "datasets.py").write_text("load_dataset = None\n")
        environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
        if client != "autotune":
            environment["PYTHONPATH"] = folder
        out, err = Path(folder) / "out", Path(folder) / "err"
        with out.open("wb") as stdout, err.open("wb") as stderr:
            words = command(client, asked, reference.port, concurrency, tokens)
            words = [str(err) + ".jsonl" if word == "/dev/stderr" else word for word in words]
            child = subprocess.Popen(words, stdout=stdout, stderr=stderr, env=environment)
            samples = watch_cpu(child)
        if child.returncode != 0:
            return (err.read_text(errors="replace").strip().splitlines() or ["no reason given"])[-1][:160]
        if client == "autotune":
            said = json.loads(out.read_text())
            truth = Truth(**said["truth"])
            delivered, true_rate, ttft = said["delivered"], said["true_rate"], said["ttft"]
        else:
            truth = reference.truth()
            said = json.loads(Path(str(err) + ".jsonl").read_text().splitlines()[-1])
            length = truth.steps[-1] - min(truth.received)
            true_rate = sum(truth.tokens) / length
            delivered = said["output_throughput"] / true_rate
            ttft = [said["median_ttft_ms"], said["p99_ttft_ms"]]
    if ttft is None:
        return "no TTFT"
    own = 1000.0 * (np.asarray(truth.answered) - np.asarray(truth.received))
    began, ended = min(truth.received), truth.steps[-1]
    stamps, spent = zip(*samples, strict=True)
    cpu = float(np.interp(ended, stamps, spent) - np.interp(began, stamps, spent))
    p50, p99 = (float(value) for value in np.percentile(own, (50, 99)))
    return Outcome(delivered, ttft[0] - p50, ttft[1] - p99, 1e6 * cpu / sum(truth.tokens), true_rate)


def watch_cpu(child: subprocess.Popen[bytes]) -> list[tuple[float, float]]:
    """(stamp, CPU seconds so far) until the child ends."""
    process = psutil.Process(child.pid)
    samples: list[tuple[float, float]] = []
    while child.poll() is None:
        try:
            times = process.cpu_times()
        except psutil.Error:
            break
        samples.append((time.perf_counter(), times.user + times.system))
        time.sleep(0.05)
    child.wait()
    return samples


def show(client: str, concurrency: int, rate: float, outcomes: list[Outcome]) -> str:
    def spread(values: list[float], form: str) -> str:
        middle = format(statistics.median(values), form)
        return f"{middle} ({format(min(values), form)} to {format(max(values), form)})"

    return ROW.format(
        client,
        concurrency,
        f"{rate:,.0f}",
        spread([o.delivered for o in outcomes], ".4f"),
        spread([o.ttft_p50_error for o in outcomes], ".1f"),
        spread([o.ttft_p99_error for o in outcomes], ".1f"),
        spread([o.cpu_us for o in outcomes], ".0f"),
    )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument(
        "--sglang-python", help="an interpreter with SGLang 0.5.23 or later; without it only this client"
    )
    options.add_argument("--tokenizer", default="", help="a model folder with a tokenizer, for SGLang's Python client")
    options.add_argument("--rounds", type=int, default=2)
    options.add_argument("--child", nargs=3, type=int, help=argparse.SUPPRESS)
    asked = options.parse_args()
    if asked.child:
        run_ours(*asked.child)
        return
    clients = CLIENTS if asked.sglang_python else CLIENTS[:1]
    found: dict[tuple[str, int, float], list[Outcome]] = {}
    with reference_process(sys.executable) as reference:
        for number in range(asked.rounds):
            for concurrency, rate in PACES:
                for client in clients:
                    outcome = run_client(client, asked, reference, concurrency, rate)
                    sys.stderr.write(f"round {number} C={concurrency} {rate:g} {client}: {outcome}\n")
                    if isinstance(outcome, Outcome):
                        found.setdefault((client, concurrency, rate), []).append(outcome)
    sys.stdout.write(
        ROW.format("client", "C", "tok/s", "delivered", "TTFT p50 error ms", "TTFT p99 error ms", "CPU us/token") + "\n"
    )
    for concurrency, rate in PACES:
        for client in clients:
            outcomes = found.get((client, concurrency, rate), [])
            sys.stdout.write((show(client, concurrency, rate, outcomes) if outcomes else f"{client}: failed") + "\n")


if __name__ == "__main__":
    main()
