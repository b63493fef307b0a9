"""The other load clients of client_rates.py: how each is told to make a run, and what it says of it afterwards.

All make the same run, in closed loop: so many requests in flight, six for each, 64 tokens in, a fixed number out.
SGLang's two speak `/generate`, aiperf and guidellm `/v1/completions`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROMPT_TOKENS = 64
REQUESTS_PER_STREAM = 6
MODEL = "reference"
"""The name that the reference server gives its model."""


@dataclass(frozen=True)
class Run:
    """What is asked of a client. `tokens` of each answer; `tokenizer`: a model folder; `folder`: an empty one, in which
    the client leaves what it found."""

    program: str
    tokenizer: str
    port: int
    concurrency: int
    tokens: int
    folder: Path

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def requests(self) -> int:
        return REQUESTS_PER_STREAM * self.concurrency


@dataclass(frozen=True)
class Said:
    """What a client reports of its run. `rate`: generated tokens a second; `ttft_p50`, `ttft_p99` in ms; `completed`:
    requests that it counts as answered."""

    rate: float
    ttft_p50: float
    ttft_p99: float
    completed: int


@dataclass(frozen=True)
class Contestant:
    """`read` raises OSError, LookupError, TypeError or ValueError where the client left no figures."""

    command: Callable[[Run], list[str]]
    read: Callable[[Path], Said]
    environment: Mapping[str, str]


def _sglang(run: Run, module: str, own: list[str]) -> list[str]:
    return [
        *(run.program, "-m", f"sglang.benchmark.{module}", "--backend", "sglang", "--base-url", run.url),
        *("--dataset-name", "random-ids", "--random-input-len", str(PROMPT_TOKENS), "--random-range-ratio", "1.0"),
        *("--random-output-len", str(run.tokens), "--max-concurrency", str(run.concurrency)),
        *("--warmup-requests", "0", "--num-prompts", str(run.requests)),
        *("--output-file", str(run.folder / "sglang.jsonl"), *own),
    ]


def sglang_python(run: Run) -> list[str]:
    # It imports `datasets`, which random prompts do not use: an empty module stands in its way where it is missing.
    (run.folder / "datasets.py").write_text("load_dataset = None\n")
    return _sglang(run, "serving", ["--model", run.tokenizer, "--tokenizer", run.tokenizer, "--disable-tqdm"])


def sglang_rust(run: Run) -> list[str]:
    (run.folder / "datasets.py").write_text("load_dataset = None\n")
    return _sglang(run, "rust_client", ["--tokenize-prompt", "--vocab-size", "32000", "--disable-retokenize"])


def read_sglang(folder: Path) -> Said:
    """One line of JSON a run; its rate is that of the whole run, from the first request to the last answer."""
    said = json.loads((folder / "sglang.jsonl").read_text().splitlines()[-1])
    return Said(
        float(said["output_throughput"]),
        float(said["median_ttft_ms"]),
        float(said["p99_ttft_ms"]),
        int(said["completed"]),
    )


def aiperf(run: Run) -> list[str]:
    return [
        *(run.program, "profile", "-m", MODEL, "--tokenizer", run.tokenizer, "--url", run.url),
        *("--endpoint-type", "completions", "--streaming", "--concurrency", str(run.concurrency)),
        *("--request-count", str(run.requests), "--synthetic-input-tokens-mean", str(PROMPT_TOKENS)),
        # Its own count is by tokenizer, and differs from the server's where a chunk's text is not one of its tokens.
        *("--output-tokens-mean", str(run.tokens), "--use-server-token-count"),
        *("--ui", "none", "--output-artifact-dir", str(run.folder / "aiperf")),
    ]


def read_aiperf(folder: Path) -> Said:
    """`output_token_throughput` is all tokens over the time from the first request to the last answer."""
    found = sorted((folder / "aiperf").rglob("profile_export_aiperf.json"))
    if not found:
        raise FileNotFoundError("aiperf wrote no profile_export_aiperf.json")
    said = json.loads(found[-1].read_text())
    first = said["time_to_first_token"]
    return Said(
        float(said["output_token_throughput"]["avg"]),
        float(first["p50"]),
        float(first["p99"]),
        int(said["request_count"]["avg"]),
    )


def guidellm(run: Run) -> list[str]:
    target = f"kind=openai_http,target={run.url},model={MODEL},request_format=/v1/completions"
    return [
        *(run.program, "run", "--backend", target, "--profile", f"kind=concurrent,streams={run.concurrency}"),
        *("--constraint", f"kind=max_requests,count={run.requests}"),
        *("--tokenizer", f"kind=hf_auto,model={run.tokenizer}"),
        *("--data", f"kind=synthetic_text,prompt_tokens={PROMPT_TOKENS},output_tokens={run.tokens}"),
        *("--output", f"kind=json,path={run.folder / 'guidellm.json'}", "--disable-console"),
    ]


def read_guidellm(folder: Path) -> Said:
    said: dict[str, Any] = json.loads((folder / "guidellm.json").read_text())["benchmarks"][-1]["metrics"]
    first = said["time_to_first_token_ms"]["successful"]
    return Said(
        float(said["output_tokens_per_second"]["successful"]["mean"]),
        float(first["percentiles"]["p50"]),
        float(first["percentiles"]["p99"]),
        int(said["request_totals"]["successful"]),
    )


_OFFLINE = {"HF_HUB_OFFLINE": "1"}
CONTESTANTS: Mapping[str, Contestant] = {
    "sglang-python": Contestant(sglang_python, read_sglang, _OFFLINE),
    "sglang-rust": Contestant(sglang_rust, read_sglang, _OFFLINE),
    # With HF_HUB_OFFLINE it refuses a tokenizer that is a folder.
    "aiperf": Contestant(aiperf, read_aiperf, {}),
    "guidellm": Contestant(guidellm, read_guidellm, _OFFLINE),
}
