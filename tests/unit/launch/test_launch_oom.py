from pathlib import Path

import pytest

from autotune.launch.oom import counted, group_paths, oom_kills

V1_MEMORY = "9:name=systemd:/\n4:memory:/docker/abc\n2:cpuacct,cpu:/docker/abc\n"
V1_COUNTER = "oom_kill_disable 0\nunder_oom 0\noom_kill {}\n"
V2_COUNTER = "low 0\nhigh 0\nmax 12\noom 7\noom_kill {}\noom_group_kill 0\n"


def machine(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


@pytest.mark.parametrize(
    ("files", "count"),
    [
        (
            {
                "proc/self/cgroup": "0::/user.slice/a.scope\n",
                "sys/fs/cgroup/user.slice/a.scope/memory.events": V2_COUNTER.format(3),
                "sys/fs/cgroup/memory.events": V2_COUNTER.format(9),
                "proc/vmstat": "nr_free_pages 1\noom_kill 11\n",
            },
            3,
        ),
        (
            {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.events": V2_COUNTER.format(4)},
            4,
        ),
        (
            {
                "proc/self/cgroup": V1_MEMORY,
                "sys/fs/cgroup/memory/docker/abc/memory.oom_control": V1_COUNTER.format(2),
                "sys/fs/cgroup/memory/memory.oom_control": V1_COUNTER.format(8),
            },
            2,
        ),
        (
            {"proc/self/cgroup": V1_MEMORY, "sys/fs/cgroup/memory/memory.oom_control": V1_COUNTER.format(5)},
            5,
        ),
        (
            {
                "proc/self/cgroup": "4:memory:/a\n0::/b\n",
                "sys/fs/cgroup/memory/a/memory.oom_control": V1_COUNTER.format(6),
            },
            6,
        ),
        ({"proc/self/cgroup": "0::/\n", "proc/vmstat": "oom_kill 7\n"}, 7),
        (
            {
                "proc/self/cgroup": V1_MEMORY,
                "sys/fs/cgroup/memory/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\n",
                "proc/vmstat": "oom_kill 1\n",
            },
            1,
        ),
        ({"proc/vmstat": "nr_free_pages 1\n"}, None),
        ({}, None),
    ],
    ids=["v2", "v2 root", "v1", "v1 in a container", "hybrid", "no group", "old v1", "old kernel", "nothing"],
)
def test_the_counter_of_the_most_particular_group_is_read(
    tmp_path: Path, files: dict[str, str], count: int | None
) -> None:
    assert oom_kills(machine(tmp_path, files)) == count


@pytest.mark.parametrize("text", ["", "oom_kill\n", "oom_kill many\n", "oom_kill -1\n", "oom_kill_disable 0\n", "\x00"])
def test_what_is_no_counter_is_not_taken_for_zero(text: str) -> None:
    assert counted(text) is None


def test_controllers_are_told_by_their_whole_names() -> None:
    assert group_paths("3:memoryx,cpu:/a\n2:cpu,memory:/b:c\n0::/d\n") == ("/b:c", "/d")
    assert group_paths("garbage\n") == (None, None)
