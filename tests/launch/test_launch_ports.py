from autotune.launch import free_port

DERIVED_ABOVE = 10_000  # SGLang's gRPC port lies so far above the HTTP port


def test_the_ports_that_a_server_derives_from_its_own_are_ports_too() -> None:
    assert all(free_port() + DERIVED_ABOVE <= 65_535 for _ in range(60))


def test_no_port_is_handed_out_twice() -> None:
    ports = [free_port() for _ in range(40)]
    assert len(set(ports)) == len(ports)
