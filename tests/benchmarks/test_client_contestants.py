"""The benchmark of load clients: what it reads out of what each of the others leaves, and what they are answered."""

from __future__ import annotations

import http.client
import json
import sys
from pathlib import Path

import pytest

from autotune.client_test import ReferenceProcess, reference_process
from benchmarks.client_contestants import CONTESTANTS, MODEL, Run, Said

AIPERF = {
    "aiperf_version": "0.0",
    "request_count": {"unit": "requests", "avg": 48.0},
    "output_token_throughput": {"unit": "tokens/sec", "avg": 380.5},
    "time_to_first_token": {"unit": "ms", "avg": 55.0, "p50": 54.0, "p95": 60.0, "p99": 61.5, "count": 48},
}
GUIDELLM = {
    "metadata": {},
    "benchmarks": [
        {
            "metrics": {
                "request_totals": {"successful": 47, "errored": 1, "incomplete": 0, "total": 48},
                "output_tokens_per_second": {"successful": {"mean": 380.5, "median": 196.0}, "total": {"mean": 390.0}},
                "time_to_first_token_ms": {"successful": {"mean": 55.0, "percentiles": {"p50": 54.0, "p99": 61.5}}},
            }
        }
    ],
}
SGLANG = {"completed": 48, "output_throughput": 380.5, "median_ttft_ms": 54.0, "p99_ttft_ms": 61.5}


def left_by(client: str, folder: Path) -> Path:
    """A folder as the client leaves it, with one run in it."""
    place, text = {
        "aiperf": (folder / "aiperf" / "profile_export_aiperf.json", json.dumps(AIPERF)),
        "guidellm": (folder / "guidellm.json", json.dumps(GUIDELLM)),
    }.get(client, (folder / "sglang.jsonl", json.dumps({"completed": 1}) + "\n" + json.dumps(SGLANG) + "\n"))
    words = CONTESTANTS[client].command(Run("program", "tokenizer", 1, 8, 50, folder))
    told = place.parent if client == "aiperf" else place
    assert any(str(told) in word for word in words), "the client is told to write where it is read"
    place.parent.mkdir(exist_ok=True)
    place.write_text(text)
    return folder


@pytest.mark.parametrize("client", CONTESTANTS)
def test_rate_and_first_token_times_are_read_where_the_client_was_told_to_write_them(
    client: str, tmp_path: Path
) -> None:
    said = CONTESTANTS[client].read(left_by(client, tmp_path))
    assert said == Said(380.5, 54.0, 61.5, 47 if client == "guidellm" else 48)


@pytest.mark.parametrize("client", CONTESTANTS)
def test_a_client_that_left_nothing_is_no_client_that_measured_zero(client: str, tmp_path: Path) -> None:
    with pytest.raises(OSError):
        CONTESTANTS[client].read(tmp_path)


def test_figures_that_a_report_lacks_are_not_made_up(tmp_path: Path) -> None:
    folder = left_by("aiperf", tmp_path)
    lacking = {name: value for name, value in AIPERF.items() if name != "time_to_first_token"}
    (folder / "aiperf" / "profile_export_aiperf.json").write_text(json.dumps(lacking))
    with pytest.raises(LookupError):
        CONTESTANTS["aiperf"].read(folder)


@pytest.mark.parametrize("client", CONTESTANTS)
def test_every_client_is_told_the_same_run(client: str, tmp_path: Path) -> None:
    words = " ".join(CONTESTANTS[client].command(Run("program", "tokenizer", 31000, 8, 50, tmp_path)))
    assert "http://127.0.0.1:31000" in words
    for number in ("48", "64", "50"):  # requests, prompt tokens, tokens of an answer
        assert number in words.replace(",", " ").replace("=", " ").split()


def asked(reference: ReferenceProcess, method: str, path: str, body: object = None) -> str:
    talk = http.client.HTTPConnection("127.0.0.1", reference.port, timeout=10)
    try:
        talk.request(method, path, None if body is None else json.dumps(body), {"Content-Type": "application/json"})
        reply = talk.getresponse()
        assert reply.status == 200
        return reply.read().decode()
    finally:
        talk.close()


def test_the_reference_server_answers_as_openai_clients_ask_and_keeps_the_record() -> None:
    question = {"model": MODEL, "stream": True, "max_tokens": 5, "stream_options": {"include_usage": True}}
    with reference_process(sys.executable) as reference:
        reference.pace(interval_s=0.001, ttft_s=0.001)
        models = json.loads(asked(reference, "GET", "/v1/models"))
        completion = asked(reference, "POST", "/v1/completions", {**question, "prompt": "a b c"})
        chat = asked(reference, "POST", "/v1/chat/completions", {**question, "messages": []})
        truth = reference.truth()
    assert [model["id"] for model in models["data"]] == [MODEL]
    for answer in (completion, chat):
        *chunks, done = [line.removeprefix("data: ") for line in answer.splitlines() if line]
        said = [json.loads(chunk) for chunk in chunks]
        assert done == "[DONE]"
        assert [chunk["usage"]["completion_tokens"] for chunk in said] == [1, 2, 3, 4, 5]
        assert [chunk["choices"][0]["finish_reason"] for chunk in said] == [None, None, None, None, "length"]
        assert all(chunk["choices"][0].get("text") or chunk["choices"][0]["delta"]["content"] for chunk in said)
    assert (sum(truth.tokens), len(truth.received)) == (10, 2)
    assert all(received < answered for received, answered in zip(truth.received, truth.answered, strict=True))
