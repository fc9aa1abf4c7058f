from bench.warm import available


def test_available_memory_is_read_in_bytes() -> None:
    """The kernel reports kibibytes; where it reports nothing, nothing is used."""
    assert available("MemTotal: 10 kB\nMemAvailable:    2048 kB\n") == 2 << 20
    assert available("MemTotal: 10 kB\n") == 0
