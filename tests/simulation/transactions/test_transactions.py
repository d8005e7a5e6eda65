"""A reader of committed data sees whole transactions or nothing, whatever is lost, repeated, delayed or crashes; and all of them end."""

import random

import pytest

from millstream.transaction_errors import ProducerFenced
from tests.simulation.transactions.client import Client
from tests.simulation.transactions.world import PARTITIONS, World

STEPS = 4_000


def run(world: World, clients: list[Client], *, steps: int = STEPS, crash: float = 0.004, speed: float = 0.4) -> None:
    """Let things happen in any order until the clients are done, or for so long. The slower the network, the more is under way."""
    rng = world.rng
    for _ in range(steps):
        if all(client.is_done for client in clients):
            return
        chance = rng.random()
        if chance < crash:
            world.crash()
        elif chance < 0.08:
            rng.choice(clients).nudge()
        elif chance < 0.2:
            world.commit()
        elif chance < 0.35:
            world.send_markers()
        elif chance < 0.37:
            world.pass_time(rng.randrange(200))
        elif chance < 0.37 + speed or world.is_crowded:
            world.deliver()


def check(world: World, clients: list[Client]) -> tuple[int, int]:
    """Every transaction is seen whole or not at all, as its client was answered; how many were committed, and aborted."""
    outcomes = {partition: world.partitions[partition].outcomes() for partition in PARTITIONS}
    committed = aborted = 0
    for client in clients:
        for tag, acknowledged, outcome in client.sent:
            seen = {outcomes[partition][tag] for partition in PARTITIONS if tag in outcomes[partition]}
            assert len(seen) <= 1, f"{tag} is seen in parts"
            if outcome is not None:
                assert seen <= {outcome}, f"{tag}: its client was answered {outcome}, readers see {seen}"
                assert all(tag in outcomes[partition] for partition in acknowledged), f"{tag} has lost what was acknowledged"
            committed += seen == {True}
            aborted += seen == {False}
    return committed, aborted


@pytest.mark.parametrize("version", [0, 2])
@pytest.mark.parametrize("seed", range(12))
def test_producers_alone_are_never_fenced_and_see_what_they_were_promised(seed: int, version: int) -> None:
    world = World(random.Random(seed))
    clients = [Client(world, f"id-{number}", f"c{number}", version=version, transactions=4) for number in range(3)]
    run(world, clients, steps=100_000)
    world.settle()
    assert [(client.is_done, client.error, len(client.sent)) for client in clients] == [(True, 0, 4)] * 3
    committed, aborted = check(world, clients)
    assert committed + aborted == 12


@pytest.mark.parametrize("seed", range(40))
def test_zombies_are_fenced_and_nothing_is_torn(seed: int) -> None:
    rng = random.Random(1000 + seed)
    world = World(rng, loss=rng.choice([0.0, 0.1, 0.3]))
    clients: list[Client] = []
    for life in range(6):
        number = rng.randrange(2)
        clients.append(
            Client(world, f"id-{number}", f"c{number}-{life}", version=2 if number else 0, transactions=3, is_patient=life % 2 == 0)
        )
        run(world, clients, steps=rng.randrange(600))
        if rng.random() < 0.3:
            world.pass_time(rng.randrange(100_000))
    run(world, clients)
    world.settle()
    check(world, clients)


@pytest.mark.parametrize("seed", range(30))
def test_producers_that_give_up_abort_and_go_on(seed: int) -> None:
    """What they gave up may still arrive, and must not become part of anything."""
    world = World(random.Random(2000 + seed))
    clients = [
        Client(world, f"id-{number}", f"c{number}", version=2 * (number % 2), transactions=10, is_patient=False) for number in range(2)
    ]
    run(world, clients, steps=20_000, crash=0.001, speed=0.05)
    world.settle()
    # Kafka fences a client of version 2 that aborts before the markers of its last transaction are written: it could be any zombie.
    assert {client.error for client in clients if client.is_done} <= {0, ProducerFenced.code}
    check(world, clients)


def test_the_world_does_its_worst() -> None:
    """There were crashes, commits, aborts and fenced producers: the other tests are about something."""
    crashes = committed = aborted = fenced = 0
    for seed in range(6):
        world = World(random.Random(seed))
        clients = [Client(world, "id", f"c{number}", version=2, transactions=3) for number in range(4)]
        run(world, clients, crash=0.01)
        world.settle()
        more_committed, more_aborted = check(world, clients)
        committed, aborted, crashes = committed + more_committed, aborted + more_aborted, crashes + world.crashes
        fenced += sum(client.error != 0 for client in clients)
    assert min(crashes, committed, aborted, fenced) > 3
