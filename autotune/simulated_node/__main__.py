"""python -m autotune.simulated_node --model-path … [flags of SGLang 0.5.9]"""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import sys
import traceback
from collections.abc import Sequence

import uvloop

from autotune.simulated_node.children import start_orphan, start_scheduler, stop_child
from autotune.simulated_node.http_protocol import Connection
from autotune.simulated_node.logs import log, raw
from autotune.simulated_node.resolution import Resolved, resolve
from autotune.simulated_node.server import NodeServer
from autotune.simulated_node.setting import NodeSetting, read_setting
from autotune.simulated_node.startup import Startup


def main(argv: Sequence[str]) -> int:
    """Exit statuses as SGLang's: 2 for what the parser refuses, 1 for what its checks refuse, 0 after SIGTERM."""
    try:
        setting = read_setting(os.environ)
    except ValueError as error:
        raw(f"error: {error}")
        return 2
    try:
        resolved = resolve(setting.node, argv, os.environ)
    except (ValueError, AssertionError, TypeError):
        raw(traceback.format_exc().rstrip())
        return 1
    if setting.faults.ignore_sigterm:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    child = start_scheduler()
    if setting.faults.orphan:
        start_orphan()
    try:
        Startup(setting, resolved, child).load()
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(_serve(setting, resolved, child))
    finally:
        stop_child(child)


async def _serve(setting: NodeSetting, resolved: Resolved, child: int) -> int:
    loop = asyncio.get_running_loop()
    drained = asyncio.Event()
    node = NodeServer(setting, resolved, loop, child, drained.set)
    host, port = resolved.values["host"], resolved.values["port"]
    try:
        server = await loop.create_server(lambda: Connection(node.handle), host, port, reuse_address=True, backlog=2048)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            reason = f"[Errno 98] error while attempting to bind on address ('{host}', {port}): address already in use"
        else:
            reason = str(error)
        log(f"ERROR:    {reason}")
        return 1
    if not setting.faults.ignore_sigterm:
        loop.add_signal_handler(signal.SIGTERM, node.drain)
    loop.add_signal_handler(signal.SIGINT, drained.set)
    raw(f"INFO:     Uvicorn running on http://{host}:{port} (Press CTRL+C to quit)")
    node.start()
    await drained.wait()
    server.close()
    node.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
