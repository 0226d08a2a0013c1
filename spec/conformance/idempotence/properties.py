"""What must hold of the world: the properties of `IdempotenceProperties.tla`, under their names."""

from __future__ import annotations

from collections.abc import Callable

from protocol.idempotence import Batch, Entry
from protocol.idempotence.client_state import Standing
from protocol.idempotence.state import UNKNOWN_OFFSET
from spec.conformance.idempotence.constants import Constants
from spec.conformance.idempotence.world import Answer, Known, Request, World, Written, number_of
from spec.conformance.system import Label

Invariant = Callable[[Constants, World], bool]
ActionProperty = Callable[[Constants, World, World], bool]


def type_ok(constants: Constants, world: World) -> bool:
    """Numbers are within the bounds that the model allows."""
    leader = world.leader
    offsets = range(constants.max_batches * len(constants.producers) + 1)
    told = {each for each in world.acked if each.offset != UNKNOWN_OFFSET}
    known = leader.all_waiting | told
    return (
        all(_client_ok(constants, world, number) for number in _numbers(constants))
        and all(_entry_ok(constants, each) for each in leader.state.entries.values())
        and all(_entry_ok(constants, each) for each in world.snapshot.entries.values())
        and all(_message_ok(constants, each) for each in world.messages)
        and all(_written_ok(constants, each) for each in leader.log)
        and 0 <= leader.state.high_watermark <= len(leader.log)
        and 0 <= world.snapshot.offset <= len(leader.log)
        and all(each.offset in offsets and each.batch >= 1 for each in known)
    )


def _numbers(constants: Constants) -> range:
    return range(1, len(constants.producers) + 1)


def _sequence_ok(constants: Constants, sequence: int) -> bool:
    return 0 <= sequence <= constants.max_sequence


def _client_ok(constants: Constants, world: World, number: int) -> bool:
    client = world.client(number)
    state = client.state
    return (
        0 <= state.epoch <= constants.max_epoch
        and _sequence_ok(constants, state.next_sequence)
        and 0 <= client.sent <= constants.max_batches
        and len(state.in_flight) <= constants.max_in_flight
        and all(_sequence_ok(constants, each.first_sequence) for each in state.in_flight)
    )


def _entry_ok(constants: Constants, entry: Entry) -> bool:
    offsets = range(constants.max_batches * len(constants.producers) + 1)
    batches = entry.batches
    return (
        0 <= entry.epoch <= constants.max_epoch
        and 1 <= len(batches) <= constants.remembered
        and all(_sequence_ok(constants, each.first_sequence) for each in batches)
        and all(each.base_offset in offsets for each in batches)
    )


def _message_ok(constants: Constants, message: Request | Answer) -> bool:
    if isinstance(message, Request):
        return 0 <= message.epoch <= constants.max_epoch and _sequence_ok(
            constants, message.sequence
        )
    return -1 <= message.offset <= constants.max_batches * len(constants.producers)


def _written_ok(constants: Constants, written: Written) -> bool:
    return 0 <= written.epoch <= constants.max_epoch and _sequence_ok(constants, written.sequence)


def _of(world: World, number: int) -> list[tuple[int, Written]]:
    """List what a producer has in the log, with offsets."""
    return [(at, each) for at, each in enumerate(world.leader.log) if each.producer == number]


def no_duplicate(constants: Constants, world: World) -> bool:
    """No batch is in the log twice."""
    del constants
    names = [(each.producer, each.batch) for each in world.leader.log]
    return len(set(names)) == len(names)


def in_order(constants: Constants, world: World) -> bool:
    """What a producer has in the log stands in the order in which it was sent."""
    return all(
        [each.batch for _, each in mine] == sorted(each.batch for _, each in mine)
        for mine in (_of(world, number) for number in _numbers(constants))
    )


def no_zombie_write(constants: Constants, world: World) -> bool:
    """After a batch of some epoch there is none of an older one."""
    return all(
        [each.epoch for _, each in mine] == sorted(each.epoch for _, each in mine)
        for mine in (_of(world, number) for number in _numbers(constants))
    )


def seq_contiguous(constants: Constants, world: World) -> bool:
    """The sequence numbers of an epoch start at 0 and go on by one, round and round."""
    counted: dict[tuple[int, int], int] = {}
    for each in world.leader.log:
        before = counted.get((each.producer, each.epoch), 0)
        if each.sequence != before % (constants.max_sequence + 1):
            return False
        counted[each.producer, each.epoch] = before + 1
    return True


def _last_batches(
    constants: Constants, world: World, number: int, start: int, snapshot: int
) -> tuple[int, tuple[Batch, ...]] | None:
    """Look at the log from an offset on: the last batches of a producer's last epoch.

    Of those before the snapshot, only the last one.
    """
    mine = [(at, each) for at, each in _of(world, number) if at >= start]
    if not mine:
        return None
    epoch = mine[-1][1].epoch
    older = [(at, each) for at, each in mine if at < snapshot]
    mine = [*older[-1:], *mine[len(older) :]]
    batches = [Batch(each.sequence, each.sequence, at) for at, each in mine if each.epoch == epoch]
    return epoch, tuple(batches[-constants.remembered :])


def producer_state_is_fold(constants: Constants, world: World) -> bool:
    """The leader remembers what its log says; of who was forgotten, what some end of it says.

    Less what a snapshot did not keep.
    """
    end = len(world.leader.log)
    snapshots = range(end + 1 if world.used.snapshots else 1)
    for number in _numbers(constants):
        entry = world.leader.state.entries.get(number)
        known = None if entry is None else (entry.epoch, entry.batches)
        last = end if number in world.forgotten else 0
        if all(
            known != _last_batches(constants, world, number, start, snapshot)
            for start in range(last + 1)
            for snapshot in snapshots
        ):
            return False
    return True


def acked_not_lost(constants: Constants, world: World) -> bool:
    """What was acknowledged is committed."""
    del constants
    under = world.leader.log[: world.leader.state.high_watermark]
    committed = {(each.producer, each.batch) for each in under}
    return all((each.producer, each.batch) in committed for each in world.acked)


def dup_ack_same_offset(constants: Constants, world: World) -> bool:
    """A batch is acknowledged, the first time or again, with the offset at which it is."""
    del constants
    told = {each for each in world.acked if each.offset != UNKNOWN_OFFSET}
    for each in world.messages:
        if isinstance(each, Answer) and each.result == "ok":
            told.add(Known(each.producer, each.batch, each.offset))
    log = world.leader.log
    return all(
        0 <= each.offset < len(log)
        and (log[each.offset].producer, log[each.offset].batch) == (each.producer, each.batch)
        for each in told
    )


def offset_is_told(constants: Constants, world: World) -> bool:
    """Without a snapshot, who is told that a batch is in the log is told where."""
    del constants
    if world.used.snapshots:
        return True
    return all(each.offset != UNKNOWN_OFFSET for each in world.acked) and not any(
        isinstance(each, Answer) and each.result == "duplicate" for each in world.messages
    )


def no_needless_bump(constants: Constants, world: World) -> bool:
    """A producer that is not forgotten and whose client gives nothing up keeps its epoch."""
    return all(
        world.client(number).state.epoch == 0 and not world.client(number).state.bump
        for number in _undisturbed(constants, world)
    )


def no_needless_failure(constants: Constants, world: World) -> bool:
    """Each of such a producer's batches is in flight or acknowledged."""
    for number in _undisturbed(constants, world):
        client = world.client(number)
        fine = {each.batch for each in client.state.in_flight}
        fine |= {each.batch for each in world.acked if each.producer == number}
        if not fine.issuperset(range(1, client.sent + 1)):
            return False
    return True


def _undisturbed(constants: Constants, world: World) -> list[int]:
    disturbed = world.forgotten | world.gave_up
    return [number for number in _numbers(constants) if number not in disturbed]


def answers_are_awaited(constants: Constants, world: World) -> bool:
    """Every answer that comes, or waits for a commit, is waited for."""
    awaited = {
        (number, number_of(each.batch))
        for number in _numbers(constants)
        for each in world.client(number).state.in_flight
        if each.standing is Standing.WAITS
    }
    coming = {(each.producer, each.batch) for each in world.leader.all_waiting}
    coming |= {(m.producer, m.batch) for m in world.messages if isinstance(m, Answer)}
    return coming <= awaited


def refused_is_sent_again(constants: Constants, before: World, after: World) -> bool:
    """A batch that is surely not in the log does not fail, unless its client gives it up."""
    if after.used.faults != before.used.faults:
        return True
    return all(
        each.batch in {one.batch for one in after.client(number).state.in_flight}
        for number in _numbers(constants)
        for each in before.client(number).state.in_flight
        if each.standing is Standing.REFUSED and not each.loose
    )


INVARIANTS: dict[str, Invariant] = {
    "TypeOk": type_ok,
    "NoDuplicate": no_duplicate,
    "InOrder": in_order,
    "NoZombieWrite": no_zombie_write,
    "SeqContiguous": seq_contiguous,
    "ProducerStateIsFold": producer_state_is_fold,
    "AckedNotLost": acked_not_lost,
    "DupAckSameOffset": dup_ack_same_offset,
    "OffsetIsTold": offset_is_told,
    "NoNeedlessBump": no_needless_bump,
    "NoNeedlessFailure": no_needless_failure,
    "AnswersAreAwaited": answers_are_awaited,
}
ACTION_PROPERTIES: dict[str, ActionProperty] = {"RefusedIsSentAgain": refused_is_sent_again}

# The actions that `Fairness` of Idempotence.tla names; Retry only where an answer is lost.
_FAIR = frozenset(
    {
        "Commit",
        "Send",
        "Retry",
        "HandleAnswer",
        "InitEpoch",
        "AppendBatch",
        "DuplicateAck",
        "OlderDuplicate",
        "RejectOutOfOrder",
        "RejectUnknown",
        "RejectFenced",
    }
)


def every_batch_is_answered(constants: Constants, world: World) -> bool:
    """A client that keeps trying gets an answer to each of its batches."""
    return all(
        client.sent == constants.max_batches and not client.state.in_flight
        for client in world.clients
    )


LIVENESS: dict[str, Invariant] = {"EveryBatchIsAnswered": every_batch_is_answered}


def is_fair(label: Label, world: World) -> bool:
    """Whether a step is one that `Fairness` gives its turn."""
    name, numbers = label
    if name == "Retry":
        return _lost(world, numbers[0])
    return name in _FAIR


def _lost(world: World, number: int) -> bool:
    """Whether a client waits for an answer that will not come."""
    return any(
        each.standing is Standing.WAITS and not world.is_under_way(number, number_of(each.batch))
        for each in world.client(number).state.in_flight
    )
