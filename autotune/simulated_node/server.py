"""The endpoints of SGLang 0.5.9 that a tuner uses, and /simulated/truth."""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import time
import uuid
import zlib
from collections.abc import Callable
from typing import Any

from autotune.simulated_node.acceptance import CLASSES, reach_of
from autotune.simulated_node.children import die_of
from autotune.simulated_node.clock import NodeClock
from autotune.simulated_node.http_protocol import Call
from autotune.simulated_node.latency import StepModel
from autotune.simulated_node.logs import READY, decode_line, log
from autotune.simulated_node.metrics import CONTENT_TYPE, metrics_text
from autotune.simulated_node.readers import GenerateReader, Probe
from autotune.simulated_node.resolution import Resolved, server_info
from autotune.simulated_node.scheduler import NoiseLaw, Request, Scheduler
from autotune.simulated_node.setting import NodeSetting
from autotune.simulated_node.stepping import Stepper
from autotune.simulated_node.truth import closed_loop_throughput
from autotune.simulated_node.wire import error_body, event, looping_text, other_text

WARMUP_TOKENS = 8
DRAIN_POLL_S = 5.0
"""Node seconds between two looks at what still runs after SIGTERM, as SGLang waits."""

FOREIGN_TOKENS = 1000
"""Of each request of the fault foreign_requests, which is followed by another one."""

MEAN_ANSWER_TOKENS = 300.0
"""Where ignore_eos is off: mean of the drawn length of an answer, before max_new_tokens cuts it."""


class NodeServer:
    """One loaded server. `handle` is the entry of every HTTP request; `on_drained` is called once, after SIGTERM."""

    def __init__(
        self,
        setting: NodeSetting,
        resolved: Resolved,
        loop: asyncio.AbstractEventLoop,
        child: int,
        on_drained: Callable[[], None],
    ) -> None:
        values, node = resolved.values, setting.node
        self._setting = setting
        self._resolved = resolved
        self._loop = loop
        self._child = child
        self._on_drained = on_drained
        self._rng = random.Random(f"{setting.seed} {values['served_model_name']} {values['port']}")
        clock = NodeClock(setting.speed)
        age_s = 0.0 if setting.drift_epoch_s is None else (time.time() - setting.drift_epoch_s) * setting.speed
        noise = NoiseLaw(setting.noise, setting.launch_noise, setting.drift_per_hour, max(0.0, age_s))
        plan = resolved.plan
        scheduler = Scheduler(
            plan, StepModel(node, plan), self._rng, noise, lambda report: log(decode_line(report, plan), "TP0")
        )
        self._stepper = Stepper(scheduler, clock, loop, child)
        tree = plan.tree
        self._reaches = [reach_of(node.acceptance, tree, index) for index in range(CLASSES)] if tree else [()]
        self._own_name = str(values["served_model_name"])
        self._context_tokens = min(values["context_length"] or node.context_length, plan.kv_capacity_tokens)
        self._active: dict[str, Request] = {}
        self._probes = itertools.count()
        self._generated = 0
        self._ready = False
        self._draining = False
        self._routes: dict[str, tuple[tuple[str, ...], Callable[[Call], None]]] = {
            "/generate": (("POST", "PUT"), self._generate),
            "/health": (("GET",), self._health),
            "/health_generate": (("GET",), self._health),
            "/server_info": (("GET",), self._server_info),
            "/get_server_info": (("GET",), self._server_info),
            "/model_info": (("GET",), self._model_info),
            "/get_model_info": (("GET",), self._model_info),
            "/v1/models": (("GET",), self._models),
            "/flush_cache": (("GET", "POST"), self._flush),
            "/abort_request": (("POST",), self._abort),
            "/metrics": (("GET",), self._metrics),
            "/simulated/truth": (("GET",), self._truth),
        }

    @property
    def _served_name(self) -> str:
        faults = self._setting.faults
        if faults.serve_as is None or self._generated < faults.serve_as_after_requests:
            return self._own_name
        return faults.serve_as

    def start(self) -> None:
        """Call once the port is bound: the warm-up request, after which the server is ready."""
        if self._resolved.values["skip_server_warmup"]:
            self._become_ready()
        else:
            self._probe(WARMUP_TOKENS, self._become_ready)

    def drain(self) -> None:
        """On SIGTERM: no end to the waiting, as in SGLang."""
        if not self._draining:
            self._draining = True
            self._look_at_remaining()

    def close(self) -> None:
        self._stepper.close()

    def handle(self, call: Call) -> None:
        methods, handler = self._routes.get(call.path, ((), None))
        key = self._resolved.values["api_key"]
        if handler is None:
            self._answer(call, 404, {"detail": "Not Found"})
        elif call.method not in methods:
            self._answer(call, 405, {"detail": "Method Not Allowed"})
        elif key and not call.path.startswith(("/health", "/metrics")) and call.authorization != f"Bearer {key}":
            self._answer(call, 401, {"error": "Unauthorized"})
        else:
            handler(call)

    def _answer(self, call: Call, status: int, body: Any, content_type: str = "application/json") -> None:
        call.connection.answer(status, body, content_type)
        call.connection.log_access(call, status)

    # life cycle

    def _become_ready(self) -> None:
        self._ready = True
        for _ in range(self._setting.faults.foreign_requests):
            self._serve_nobody()
        log(READY)

    def _serve_nobody(self) -> None:
        self._probe(FOREIGN_TOKENS, self._serve_nobody)

    def _look_at_remaining(self) -> None:
        remaining = list(self._active)
        log(
            f"Gracefully exiting... Remaining number of requests {len(remaining)}. "
            f"Remaining requests remaining_rids={remaining}."
        )
        if remaining:
            self._loop.call_later(DRAIN_POLL_S / self._setting.speed, self._look_at_remaining)
        else:
            self._on_drained()

    def _probe(self, tokens: int, then: Callable[[], None]) -> None:
        number = next(self._probes)
        request = Request(
            f"HEALTH_CHECK_{number}", prompt_key=-number - 1, prompt_tokens=1, limit=tokens, reach=self._reaches[0]
        )
        request.owner = Probe(then)
        self._stepper.submit(request)

    # generation

    def _generate(self, call: Call) -> None:
        try:
            body = json.loads(call.body)
            request, salt = self._read_request(body)
        except (ValueError, TypeError, KeyError) as error:
            self._answer(call, 400, error_body(f"the request cannot be read: {error}"))
            return
        streaming = bool(body.get("stream", False))
        if request.prompt_tokens >= self._context_tokens:
            self._refuse_length(call, request, streaming)
            return
        self._strike()
        reader = GenerateReader(
            call,
            self._resolved.plan,
            streaming=streaming,
            salt=salt,
            broken=self._rng.random() < self._setting.faults.error_rate,
            stop=self._stepper.abort,
            on_end=self._forget,
        )
        request.owner = reader
        self._active[request.rid] = request
        reader.open(request)
        self._stepper.submit(request)

    def _forget(self, request: Request) -> None:
        self._active.pop(request.rid, None)

    def _read_request(self, body: Any) -> tuple[Request, int]:
        """The request and the salt of its text (0: greedy). Raises ValueError."""
        if not isinstance(body, dict):
            raise ValueError("it is not a JSON object")
        text, ids = body.get("text"), body.get("input_ids")
        if isinstance(text, str) and text:
            prompt, prompt_tokens = text.encode(), len(text) // 4 + 1
        elif isinstance(ids, list) and ids and all(isinstance(token, int) for token in ids):
            prompt, prompt_tokens = repr(ids).encode(), len(ids)
        else:
            raise ValueError("a simulated node takes one prompt a request: text, or input_ids as a list of integers")
        sampling = body.get("sampling_params") or {}
        limit = int(sampling.get("max_new_tokens", 128))
        if limit < 1:
            raise ValueError(f"max_new_tokens must be at least 1, but is {limit}")
        rid = str(body.get("rid") or uuid.uuid4().hex)
        if rid in self._active:
            raise ValueError(f"rid {rid} is in use")
        limit = min(limit, max(1, self._context_tokens - prompt_tokens))
        key = zlib.crc32(prompt)
        reach = self._reaches[zlib.crc32(prompt, self._setting.seed) % len(self._reaches)]
        request = Request(rid, prompt_key=key, prompt_tokens=prompt_tokens, limit=limit, reach=reach)
        natural = int(random.Random(key).expovariate(1.0 / MEAN_ANSWER_TOKENS)) + 8
        if not sampling.get("ignore_eos", False) and natural < limit:
            request.limit, request.finish_reason = natural, "stop"
        self._spoil(request)
        greedy = float(sampling.get("temperature", 1.0)) == 0.0
        return request, 0 if greedy else self._rng.randrange(1, 1 << 30)

    def _refuse_length(self, call: Call, request: Request, streaming: bool) -> None:
        message = (
            f"The input ({request.prompt_tokens} tokens) is longer than the model's context length "
            f"({self._context_tokens} tokens)."
        )
        if streaming:
            call.connection.begin_stream()
            call.connection.send(event(error_body(message)))
            call.connection.end_stream()
            call.connection.log_access(call, 200)
        else:
            self._answer(call, 400, error_body(message))

    def _spoil(self, request: Request) -> None:
        """The faults of what is answered. Which prompts they strike depends on the prompt alone."""
        faults, place = self._setting.faults, (request.prompt_key & 0xFFFFFFFF) / 2**32
        if place < faults.short_rate:
            request.limit = max(1, request.limit // 2)
        if place < faults.looping_rate:
            request.text = looping_text()
        elif faults.broken_verification and self._resolved.plan.tree is not None:
            request.text = other_text(request)

    def _strike(self) -> None:
        """The faults that count requests."""
        faults = self._setting.faults
        self._generated += 1
        if faults.hang_after_requests is not None and self._generated > faults.hang_after_requests:
            self._stepper.scheduler.hung = True
        if faults.pause_after_requests is not None and self._generated == faults.pause_after_requests + 1:
            self._stepper.clock.pause(faults.pause_s)
        if faults.die_after_requests is not None and self._generated > faults.die_after_requests:
            error = "torch.AcceleratorError: CUDA error: an illegal memory access was encountered"
            die_of(error, self._child, serving=True)

    def _abort(self, call: Call) -> None:
        try:
            body = json.loads(call.body or b"{}")
            everything, rid = bool(body.get("abort_all", False)), str(body.get("rid") or "")
        except (ValueError, AttributeError) as error:
            self._answer(call, 400, error_body(f"the request cannot be read: {error}"))
            return
        for name, request in list(self._active.items()):
            if everything or (rid and name.startswith(rid)):
                self._stepper.abort(request)
        self._answer(call, 200, "", "text/plain; charset=utf-8")

    # reports

    def _health(self, call: Call) -> None:
        if not self._ready or self._draining:
            self._answer(call, 503, "", "text/plain; charset=utf-8")
        elif self._stepper.scheduler.hung:
            self._answer(call, 200, "", "text/plain; charset=utf-8")
        else:
            self._probe(1, lambda: self._answer(call, 200, "", "text/plain; charset=utf-8"))

    def _server_info(self, call: Call) -> None:
        self._stepper.catch_up()
        totals, memory = self._stepper.scheduler.totals, self._resolved.memory
        state: dict[str, Any] = {
            "last_gen_throughput": totals.last_throughput,
            "memory_usage": {
                "weight": memory.weights_gib,
                "kvcache": memory.kv_gib,
                "token_capacity": memory.capacity_tokens,
                "graph": memory.graph_gib,
            },
            "effective_max_running_requests_per_dp": self._resolved.plan.max_running,
        }
        if self._resolved.plan.tree is not None and totals.average_accept is not None:
            state["avg_spec_accept_length"] = totals.average_accept
        info = server_info(self._resolved)
        info["served_model_name"] = self._served_name
        info["internal_states"] = [state]
        info["simulated_node"] = {"name": self._setting.name, "speed": self._setting.speed}
        self._answer(call, 200, info)

    def _model_info(self, call: Call) -> None:
        values = self._resolved.values
        info = {name: values[name] for name in ("model_path", "tokenizer_path", "preferred_sampling_params")}
        self._answer(call, 200, info | {"is_generation": True, "weight_version": "default"})

    def _models(self, call: Call) -> None:
        card = {"id": self._served_name, "object": "model", "created": int(time.time()), "owned_by": "sglang"}
        card |= {"root": self._served_name, "parent": None, "max_model_len": self._context_tokens}
        self._answer(call, 200, {"object": "list", "data": [card]})

    def _flush(self, call: Call) -> None:
        self._stepper.catch_up()
        if self._stepper.scheduler.flush():
            self._answer(call, 200, "Cache flushed.\n", "text/plain; charset=utf-8")
        else:
            self._answer(
                call, 400, "Cache not flushed: requests are running or waiting.\n", "text/plain; charset=utf-8"
            )

    def _metrics(self, call: Call) -> None:
        if not self._resolved.values["enable_metrics"]:
            self._answer(call, 404, {"detail": "Not Found"})
            return
        self._stepper.catch_up()
        self._answer(call, 200, metrics_text(self._stepper.scheduler, self._served_name), CONTENT_TYPE)

    def _truth(self, call: Call) -> None:
        """Blocks the node for up to two seconds: not while it is being measured."""
        try:
            concurrency, max_tokens = int(call.query["concurrency"]), int(call.query["max_tokens"])
            prompt_tokens = int(call.query.get("prompt_tokens", "100"))
            if min(concurrency, max_tokens, prompt_tokens) < 1:
                raise ValueError("concurrency, max_tokens and prompt_tokens must be at least 1")
            node, plan = self._setting.node, self._resolved.plan
            value = closed_loop_throughput(node, plan, concurrency, max_tokens, prompt_tokens)
        except (ValueError, KeyError) as error:
            self._answer(call, 400, error_body(f"/simulated/truth: {error}"))
            return
        self._answer(
            call, 200, {"output_throughput": value, "unit": "output tokens per node second", "simulated": True}
        )
