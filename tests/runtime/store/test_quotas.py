"""The quota of a home, in the transactions of its store: no engine takes part."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from holdfast.base.home import Home
from holdfast.errors import InvalidArgument, QuotaReached, StoreError
from holdfast.runtime.lifecycle import provision
from holdfast.runtime.store import lifetime, quotas
from holdfast.runtime.store.lifetime import Lifetime
from holdfast.runtime.store.quotas import EACH, Quota, Quotas
from holdfast.runtime.store.row_details import SessionDetails
from holdfast.runtime.store.rows import OperationKind
from holdfast.runtime.store.store import Store


@pytest.fixture
def store(home: Home) -> Store:
    return Store.open(home.database)


def _all_at_once(count: int, work: Callable[[int], object]) -> list[QuotaReached]:
    """Do work in threads that begin together; return how those failed that did."""
    together = threading.Barrier(count)
    failed: list[QuotaReached] = []

    def one(number: int) -> None:
        together.wait()
        try:
            work(number)
        except QuotaReached as error:
            failed.append(error)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(count)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    return failed


def test_fifty_concurrent_requests_get_five_sessions(home: Home, store: Store) -> None:
    """The limit is checked in the transaction that adds the session: no one passes between the two."""
    quotas.write(home.place, Quotas(Quota(running=5)))

    failed = _all_at_once(50, lambda number: Store.open(home.database).add_session(f"s{number}", "i", {}))

    assert len(store.sessions()) == 5
    assert len(failed) == 45
    assert all(each.retry_after for each in failed)


def test_sessions_woken_at_once_pass_the_limit_together(home: Home, store: Store) -> None:
    """A wake that is under way counts, although its session is not recorded as running yet."""
    rows = [store.add_session(f"s{number}", "i", {}, state="suspended") for number in range(8)]
    quotas.write(home.place, Quotas(Quota(running=3)))

    def wake(number: int) -> None:
        mine = Store.open(home.database)
        with mine.together():
            mine.operations.begin(OperationKind.RESUME, session_id=rows[number].id)
            mine.check_running()

    failed = _all_at_once(8, wake)

    assert len(failed) == 5
    assert len(store.operations.open()) == 3  # what was refused has left nothing
    for each in store.operations.open():
        store.operations.end(each.id, "done")
    wake(0)


def test_sleeping_sessions_do_not_count_as_running(home: Home, store: Store) -> None:
    quotas.write(home.place, Quotas(Quota(running=1, sessions=3)))
    first = store.add_session("one", "i", {})
    with pytest.raises(QuotaReached, match="1 running sessions, and this one would make it 2"):
        store.add_session("two", "i", {})
    store.update_session(first.id, state="suspended")
    store.add_session("two", "i", {})
    store.add_session("three", "i", {}, state="suspended")
    with pytest.raises(QuotaReached, match="3 in all"):
        store.add_session("four", "i", {}, state="suspended")
    store.update_session(first.id, state="removed")
    store.add_session("four", "i", {}, state="suspended")


@pytest.mark.parametrize(
    ("quota", "options", "fits"),
    [
        (Quota(memory=8 << 30), {"memory": 4 << 30}, 2),
        (Quota(memory=8 << 30), {}, 2),
        (Quota(cpus=3), {"cpus": 1.5}, 2),
        (Quota(cpus=0.5), {"cpus": None}, 0),
    ],
)
def test_limits_of_running_sessions_are_added_up(
    quota: Quota, options: dict[str, Any], fits: int, home: Home, store: Store
) -> None:
    """Memory and processors by the limits of the sessions; one without takes the whole machine."""
    quotas.write(home.place, Quotas(quota))
    for number in range(fits):
        store.add_session(f"s{number}", "i", options)
    with pytest.raises(QuotaReached):
        store.add_session("more", "i", options)


def test_a_life_ends_however_often_it_is_renewed(home: Home, store: Store) -> None:
    """Begun at its start or waking; a caller can have less, and not more by asking again."""
    quotas.write(home.place, Quotas(Quota(life=3600, idle=600)))
    row = provision.register(store, "work", "i", {}, session_id="a" * 12, details=SessionDetails())
    given = Lifetime.of(row.details)
    assert (given.life, given.idle, given.then) == (3600, 600, "suspend")
    store.update_session(row.id, state="running")

    long = {"life": 86400.0, "idle": None}
    found = lifetime.change(store, row.id, lambda kept: lifetime.changed(kept, given.began_at + 1800, long))
    assert (found.ends_at, found.idle) == (given.ends_at, 600)
    short = {"life": 60.0, "idle": 30.0}
    found = lifetime.change(store, row.id, lambda kept: lifetime.changed(kept, given.began_at + 10, short))
    assert (found.ends_at, found.idle) == (given.began_at + 70, 30)

    store.update_session(row.id, state="suspended")
    assert lifetime.change(store, row.id, lambda kept: kept.suspended("life")).ends_at is None
    store.update_session(row.id, state="running")
    woken = lifetime.change(store, row.id, lambda kept: replace(kept.resumed(given.began_at + 9000)))
    assert woken.ends_at is not None
    assert woken.ends_at > (given.ends_at or 0) or woken.life == 60


def test_a_session_of_a_home_without_quota_has_no_lifetime(store: Store) -> None:
    row = provision.register(store, "work", "i", {}, session_id="a" * 12, details=SessionDetails())
    assert lifetime.DETAIL not in row.details


def of(home: Home, user: str) -> Store:
    """Return the store as a user has it."""
    store = Store.open(home.database)
    store.user = user
    return store


def test_a_user_has_limits_besides_those_of_the_home(home: Home) -> None:
    """By the user's own sessions, also if others have some; a request for several is within them."""
    kept = Quotas(Quota(running=7), {"agent:ci": Quota(running=3), EACH: Quota(sessions=2)})
    quotas.write(home.place, kept)
    assert quotas.read(home.place) == kept
    failed = _all_at_once(20, lambda number: of(home, "agent:ci").add_session(f"c{number}", "i", {}))
    assert len(failed) == 17
    assert all("the quota of agent:ci is 3 running" in str(each) and each.retry_after for each in failed)
    for number in range(2):
        of(home, "person:ada").add_session(f"a{number}", "i", {})
    with pytest.raises(QuotaReached, match="the quota of person:ada is 2 in all"):
        of(home, "person:ada").add_session("a2", "i", {})
    store = of(home, "person:bob")
    store.add_session("b0", "i", {})
    store.add_session("b1", "i", {})
    with pytest.raises(QuotaReached, match="the quota is 7 running"):
        of(home, "person:eve").add_session("e0", "i", {})
    assert (store.usage("agent:ci").running, store.usage().running) == (3, 7)


def test_a_session_that_is_woken_counts_for_the_user_who_made_it(home: Home) -> None:
    """A waking caller does not matter: a user does not get around their limit by the use of another."""
    row = of(home, "agent:ci").add_session("one", "i", {}, state="suspended")
    of(home, "agent:ci").add_session("two", "i", {})
    quotas.write(home.place, Quotas(users={"agent:ci": Quota(running=1)}))
    assert row.details.get("by") == "agent:ci"
    store = of(home, "person:ada")

    def wake() -> None:
        with store.together():
            store.operations.begin(OperationKind.RESUME, session_id=row.id)
            store.check_running("agent:ci")

    with pytest.raises(QuotaReached, match="agent:ci"):
        wake()
    assert store.operations.open() == []


def test_lives_copies_and_commands_of_a_user(home: Home) -> None:
    """The shorter of the user's limit and the home's counts, and each user begins commands for themselves."""
    users = {"agent:ci": Quota(life=60, idle=900, forks=2, commands=0.001), "agent:b": Quota(commands=0.001)}
    quotas.write(home.place, Quotas(Quota(life=600, idle=300, forks=4), users))
    row = provision.register(
        of(home, "agent:ci"), "work", "i", {}, session_id="a" * 12, details=SessionDetails()
    )
    assert (Lifetime.of(row.details).life, Lifetime.of(row.details).idle) == (60, 300)
    quotas.check_copies(home.place, 4, "person:ada")
    with pytest.raises(QuotaReached, match="cannot make 3 copies: the quota is 2"):
        quotas.check_copies(home.place, 3, "agent:ci")
    for user in ("agent:ci", "agent:b"):
        quotas.count_command(home.place, user)
        with pytest.raises(QuotaReached, match=f"the quota of {user} is 0.001 in a second"):
            quotas.count_command(home.place, user)
    quotas.count_command(home.place, "person:ada")


def test_commands_are_counted_for_all_processes(home: Home) -> None:
    """Twice the rate, from all callers together, and a wait that is reported."""
    quotas.write(home.place, Quotas(Quota(commands=0.001)))
    quotas.count_command(home.place)
    with pytest.raises(QuotaReached) as refused:
        quotas.count_command(home.place)
    assert 900 < (refused.value.retry_after or 0) <= 1000
    quotas.write(home.place, Quotas(Quota(commands=5)))
    (home.root / quotas.RATE_FILE).write_bytes(b"torn")
    assert len(_all_at_once(40, lambda _: quotas.count_command(home.place))) >= 25


@pytest.mark.parametrize(
    "text",
    [
        '{"users": {"agent:ci": {"running": "5"}}}',
        '{"users": 5}',
        '{"running": "5"}',
        '{"running": true}',
        '{"races": 1}',
        "[]",
        "{",
        "5",
    ],
)
def test_a_damaged_quota_is_not_no_quota(text: str, home: Home, store: Store) -> None:
    """Anyone who can spoil the file must not be without limits by that."""
    (home.root / quotas.FILE).write_text(text)
    with pytest.raises(StoreError, match="cannot read"):
        store.add_session("work", "i", {})


@pytest.mark.parametrize(
    "texts", [{"running": "1.5"}, {"running": "-1"}, {"memory": "lots"}, {"idle": "1s"}, {"cpus": "nan"}]
)
def test_invalid_limits_are_refused(texts: dict[str, str]) -> None:
    with pytest.raises(InvalidArgument):
        Quota().with_texts(texts)


def test_limits_as_people_write_them() -> None:
    made = Quota(forks=3).with_texts({"memory": "16g", "life": "8h", "cpus": "1.5", "forks": "none"})
    assert made == Quota(memory=16 << 30, life=28800, cpus=1.5)
