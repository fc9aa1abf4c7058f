from bench.rounds import batch, take_turns


def test_turns_alternate_and_the_first_round_does_not_count() -> None:
    """Each has one turn in each round, the first changes, and warming up is not measured."""
    order: list[str] = []

    def contender(name: str) -> list[float]:
        order.append(name)
        return [float(len(order))]

    found = take_turns(2, {"a": lambda: contender("a"), "b": lambda: contender("b")}, lambda _line: None)

    assert order == ["a", "b", "b", "a", "a", "b"]
    assert found == {"a": (4.0, 5.0), "b": (3.0, 6.0)}


def test_a_batch_measures_each_call() -> None:
    """A turn of a batch is as many samples as calls."""
    calls: list[int] = []

    assert len(list(batch(3, lambda: calls.append(1))())) == len(calls) == 3
