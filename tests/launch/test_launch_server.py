from __future__ import annotations

import mmap
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from autotune.domain.trial import LaunchCommand
from autotune.errors import ServerDied, StudyStopped
from autotune.launch import Server, StopReport, short_tmpdir, start

Serve = Callable[..., Server]
Eventually = Callable[..., None]
Alive = Callable[[int], bool]

OBEDIENT = "import signal; print('up'); signal.pause()"

STUBBORN = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print('up')
while True:
    time.sleep(1)
"""

# Says its own number, then forks twice: the grandchild has a session of its own, no parent, and no ear for SIGTERM.
RUNAWAY_PARENT = """
import os, signal, sys, time
print('up', flush=True)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        print('runaway', os.getpid(), flush=True)
        while True:
            time.sleep(1)
    os._exit(0)
os.wait()
"""
RUNAWAY = RUNAWAY_PARENT + "signal.pause()"


def runaway_pid(log: str) -> int:
    return next(int(line.split()[1]) for line in log.splitlines() if line.startswith("runaway"))


def test_a_server_that_obeys_sigterm_is_not_killed(serve: Serve, eventually: Eventually, alive: Alive) -> None:
    server = serve(OBEDIENT)
    eventually(lambda: "up" in server.log())
    assert server.exit_status() is None
    report = server.stop(grace_s=10.0)
    assert (report.killed, report.exit_status, report.leftovers) == (False, -signal.SIGTERM, ())
    assert server.exit_status() == -signal.SIGTERM
    assert not alive(server.pid)
    assert not alive(server.guard_pid)
    assert not server.tmpdir.exists()
    assert server.descendants() == []


def test_a_server_that_ignores_sigterm_is_killed_after_the_grace(serve: Serve, eventually: Eventually) -> None:
    server = serve(STUBBORN)
    eventually(lambda: "up" in server.log())
    report = server.stop(grace_s=0.3)
    assert (report.killed, report.exit_status) == (True, -signal.SIGKILL)
    assert 0.3 <= report.seconds < 5.0


def test_stopping_twice_gives_one_report(serve: Serve) -> None:
    server = serve(OBEDIENT)
    first: StopReport = server.stop(grace_s=1.0)
    assert server.stop(grace_s=1.0) is first


def test_a_grandchild_that_left_group_and_session_is_found_and_ended(
    serve: Serve, eventually: Eventually, alive: Alive
) -> None:
    server = serve(RUNAWAY)
    eventually(lambda: "runaway" in server.log())
    grandchild = runaway_pid(server.log())
    assert {pid for pid, _ in server.descendants()} >= {server.pid, grandchild}
    report = server.stop(grace_s=5.0)
    assert not alive(grandchild)
    assert len(report.leftovers) == 1
    assert f"({grandchild})" in report.leftovers[0]


def test_what_outlives_a_server_that_ended_by_itself_is_ended(
    serve: Serve, eventually: Eventually, alive: Alive
) -> None:
    server = serve(RUNAWAY_PARENT + "sys.exit(3)")
    eventually(lambda: server.exit_status() is not None and "runaway" in server.log())
    grandchild = runaway_pid(server.log())
    assert alive(grandchild)
    report = server.stop(grace_s=5.0)
    assert (report.exit_status, report.killed, len(report.leftovers)) == (3, False, 1)
    assert not alive(grandchild)


def test_leaving_the_context_stops_the_server_when_the_trial_raises(serve: Serve, alive: Alive) -> None:
    server = serve(OBEDIENT)
    with pytest.raises(KeyError), server:
        raise KeyError("a fault in the middle of a trial")
    assert not alive(server.pid)


def test_the_log_holds_stdout_and_stderr_in_their_order(serve: Serve, eventually: Eventually) -> None:
    server = serve("import sys; print('one'); print('two', file=sys.stderr); print('three')")
    eventually(lambda: server.exit_status() == 0)
    assert server.log() == "one\ntwo\nthree\n"


def test_a_long_log_keeps_its_head_and_its_tail(serve: Serve, eventually: Eventually) -> None:
    server = serve("print('begin'); print('x' * 5000); print('end')")
    eventually(lambda: server.exit_status() == 0)
    text = server.log(limit=400)
    assert text.startswith("begin\nxxx")
    assert text.endswith("xxx\nend\n")
    assert "[... 4611 bytes left out ...]" in text
    assert len(text) < 500


def test_the_environment_is_what_the_command_says_and_nothing_else(
    serve: Serve, eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NCCL_ALGO", "Ring")
    monkeypatch.setenv("SOMETHING_PRIVATE", "secret")
    server = serve("print(open('/proc/self/environ').read())", SGLANG_X="1")
    eventually(lambda: server.exit_status() == 0)
    received = dict(entry.split("=", 1) for entry in server.log().strip("\0\n").split("\0"))
    assert received == server.command.environment
    assert received["SGLANG_X"] == "1"
    assert "NCCL_ALGO" not in received
    assert "SOMETHING_PRIVATE" not in received
    assert "NCCL_ALGO" in server.command.dropped


def test_a_server_has_its_own_session_and_its_guard_another(serve: Serve) -> None:
    server = serve(OBEDIENT)
    sessions = {os.getsid(0), os.getsid(server.pid), os.getsid(server.guard_pid)}
    assert len(sessions) == 3
    assert os.getpgid(server.pid) == server.pid


def test_neither_argument_nor_variable_stands_in_the_command_line_of_the_guard(serve: Serve) -> None:
    server = serve(OBEDIENT, "--api-key=hidden", TOKEN="hidden too")
    shown = (
        Path(f"/proc/{server.guard_pid}/cmdline").read_bytes() + Path(f"/proc/{server.guard_pid}/environ").read_bytes()
    )
    assert b"hidden" not in shown


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda folder: folder / "nowhere", "No such file"),
        (lambda folder: folder, "Permission denied"),
    ],
    ids=["no such program", "not executable"],
)
def test_a_program_that_cannot_be_started_is_said_so(tmp_path: Path, make: Callable[[Path], Path], reason: str) -> None:
    program = make(tmp_path)
    with pytest.raises(ServerDied, match=reason) as raised:
        start(LaunchCommand((str(program),), {}), log_path=tmp_path / "log", tmpdir=tmp_path / "t")
    assert raised.value.exit_status is None
    assert str(program) in raised.value.hint
    assert not (tmp_path / "t").exists()


def test_a_log_that_cannot_be_written_stops_the_study(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StudyStopped, match="cannot write"):
        start(LaunchCommand(("true",), {}), log_path=tmp_path / "file" / "log", tmpdir=tmp_path / "t")


def test_a_tmpdir_that_holds_something_is_refused(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("not the server's")
    with pytest.raises(ValueError, match="new or empty"):
        start(LaunchCommand(("true",), {}), log_path=tmp_path / "log", tmpdir=tmp_path)
    assert (tmp_path / "precious").exists()


def test_a_short_tmpdir_leaves_room_for_socket_paths() -> None:
    folder = short_tmpdir()
    assert len(str(folder)) <= 60
    folder.rmdir()


SHARES_MEMORY = """
import mmap, os, signal, sys
for path in sys.argv[1:]:
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR)
    os.ftruncate(descriptor, 4096)
    held = mmap.mmap(descriptor, 4096)
    globals()[path] = held
print('up')
signal.pause()
"""


@pytest.fixture
def shared_name(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    made: list[Path] = []

    def name(suffix: str) -> Path:
        made.append(Path("/dev/shm", f"autotune-test-{os.getpid()}-{suffix}"))
        return made[-1]

    yield name
    for path in made:
        path.unlink(missing_ok=True)


def test_shared_memory_of_a_server_is_removed_and_that_of_others_is_not(
    serve: Serve, eventually: Eventually, shared_name: Callable[[str], Path]
) -> None:
    own, older, used = shared_name("own"), shared_name("older"), shared_name("used")
    older.write_bytes(bytes(4096))
    server = serve(SHARES_MEMORY, str(own), str(older), str(used))
    eventually(lambda: "up" in server.log())
    with used.open("r+b") as file, mmap.mmap(file.fileno(), 4096):
        server.stop(grace_s=5.0)
    assert (own.exists(), older.exists(), used.exists()) == (False, True, True)


TUNER = """
import os, sys, time
from pathlib import Path
from autotune.domain.trial import LaunchCommand
from autotune.launch import start
folder = Path(sys.argv[1])
command = LaunchCommand((sys.executable, '-S', str(folder / 'server.py')), {'TMPDIR': str(folder / 't')})
server = start(command, log_path=folder / 'log', tmpdir=folder / 't')
forked = os.fork() if sys.argv[2] == 'forks' else 1
if forked == 0:
    time.sleep(20)
    os._exit(0)
print(server.pid, server.guard_pid, forked, flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("habit", ["is alone", "forks"])
def test_a_killed_tuner_takes_server_and_grandchild_with_it(
    tmp_path: Path, eventually: Eventually, alive: Alive, habit: str
) -> None:
    """A fork of the tuner holds the pipe to the guard open, so the pipe alone would not tell."""
    (tmp_path / "server.py").write_text(RUNAWAY)
    tuner_script = tmp_path / "tuner.py"
    tuner_script.write_text(TUNER)
    with subprocess.Popen([sys.executable, tuner_script, tmp_path, habit], stdout=subprocess.PIPE) as tuner:
        assert tuner.stdout is not None
        server, guard, forked = map(int, tuner.stdout.readline().split())
        eventually(lambda: "runaway" in (tmp_path / "log").read_text())
        family = [server, guard, runaway_pid((tmp_path / "log").read_text())]
        assert all(alive(pid) for pid in family)
        tuner.kill()
        tuner.wait()
        eventually(lambda: not any(alive(pid) for pid in family), timeout_s=8.0)
        if habit == "forks":
            os.kill(forked, signal.SIGKILL)
    assert not (tmp_path / "t").exists()


def test_a_killed_guard_takes_the_server_with_it_and_the_tuner_ends_the_rest(
    serve: Serve, eventually: Eventually, alive: Alive
) -> None:
    server = serve(RUNAWAY)
    eventually(lambda: "runaway" in server.log())
    grandchild = runaway_pid(server.log())
    os.kill(server.guard_pid, signal.SIGKILL)
    eventually(lambda: server.exit_status() == -signal.SIGKILL)
    assert not alive(server.pid)
    assert grandchild in {pid for pid, _ in server.descendants()}
    report = server.stop(grace_s=5.0)
    assert report.killed
    assert any(f"({grandchild})" in name for name in report.leftovers)
    assert not alive(grandchild)
    assert not server.tmpdir.exists()


def test_a_guard_that_is_asked_to_end_ends_the_server(serve: Serve, eventually: Eventually) -> None:
    server = serve(OBEDIENT)
    os.kill(server.guard_pid, signal.SIGTERM)
    eventually(lambda: server.exit_status() == -signal.SIGTERM)


def test_a_ctrl_c_sent_to_the_guard_changes_nothing(serve: Serve, eventually: Eventually) -> None:
    server = serve(OBEDIENT)
    eventually(lambda: "up" in server.log())
    os.kill(server.guard_pid, signal.SIGINT)
    assert server.stop(grace_s=5.0).exit_status == -signal.SIGTERM


def test_the_server_itself_can_be_interrupted(serve: Serve, eventually: Eventually) -> None:
    """What the guard does with signals must not be inherited: an ignored one stays ignored over exec."""
    server = serve("import signal\nprint('up')\ntry: signal.pause()\nexcept KeyboardInterrupt: raise SystemExit(7)")
    eventually(lambda: "up" in server.log())
    os.kill(server.pid, signal.SIGINT)
    eventually(lambda: server.exit_status() == 7)
