import pytest
from node_process import READY, Node


@pytest.fixture
def launch(tmp_path):
    nodes = []

    def start(*flags, ready=True, environment=None, port=None, **setting):
        folder = tmp_path / str(len(nodes))
        folder.mkdir()
        nodes.append(Node(folder, flags, setting, port, environment))
        return nodes[-1].wait_for(READY) if ready else nodes[-1]

    yield start
    for node in nodes:
        node.end()
