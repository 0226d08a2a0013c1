--------------------------- MODULE IdempotenceRules ---------------------------
(* The choices of idempotent producing (KIP-98, KIP-360): those of the leader *)
(* of a partition, and those of a client for the batches it sends there.      *)
(* Pure operators, no variables.  Every choice that a bug could get wrong has *)
(* a name here, so that a model can swap it for a wrong one.  The Python      *)
(* machines know the same rules by the same names, in snake case.             *)
(*                                                                            *)
(* What a leader remembers of a producer (an entry):                          *)
(*   epoch      the epoch of its last batch in the log, NoEpoch if it is      *)
(*              unknown                                                       *)
(*   batches    the last batches of that epoch, [seq, offset], oldest first   *)
(* What a client knows of a batch in flight:                                  *)
(*   id         its name, for the properties; no rule looks at it             *)
(*   seq        its sequence number in the client's epoch                     *)
(*   state      "waits": for the answer to a request; else, what the last     *)
(*              answer has said: "refused", it is not in the log; "unsure"    *)
(*   first      it was the first in flight when that request was sent         *)
(*   loose      a request went without an answer: it may arrive still         *)
EXTENDS LogOps

CONSTANTS
    MaxSequence,  \* the last sequence number (2^31 - 1 in Kafka); 0 follows it
    MaxInFlight,  \* how many batches a client has in flight at most (5)
    Remembered    \* how many batches of a producer a leader remembers (5)

(* Going round the sequence numbers takes longer than anything is under way   *)
(* or remembered: a number means one batch.                                   *)
ASSUME /\ MaxInFlight >= 1
       /\ Remembered >= MaxInFlight
       /\ MaxSequence + 1 >= Remembered + MaxInFlight

NoEpoch == -1
FirstSequence == 0
Unknown == [epoch |-> NoEpoch, batches |-> <<>>]
NoOffset == -1

Last(batches) == batches[Len(batches)]

(* CHOICE.  Sequence numbers start again after the last one.                  *)
NextSequence(seq) == IF seq = MaxSequence THEN FirstSequence ELSE seq + 1

(* How many steps it is from one sequence number to another.                  *)
Distance(from, to) == (to + MaxSequence + 1 - from) % (MaxSequence + 1)

--------------------------------------------------------------------------------
(* The leader.                                                                *)

(* GUARD.  An older epoch than the producer's is fenced.                      *)
EpochIsCurrent(entry, request) == request.epoch >= entry.epoch

(* GUARD.  One of the remembered batches comes again.                         *)
IsDuplicate(entry, request) ==
    /\ request.epoch = entry.epoch
    /\ \E i \in DOMAIN entry.batches : entry.batches[i].seq = request.seq

(* GUARD.  A producer that is unknown, or has a new epoch, starts at the      *)
(* first sequence number.  (Kafka since KIP-360 takes any from an unknown     *)
(* one, and so the second batch of two that overtook the first.)              *)
MayStart(request) == request.seq = FirstSequence

(* GUARD.  Otherwise its next batch follows the last one, without a gap.      *)
IsNext(entry, request) == request.seq = NextSequence(Last(entry.batches).seq)

(* GUARD.  A batch that is not remembered any more comes again: its number is *)
(* behind the last one, by less than half of the round.  The numbers of an    *)
(* epoch have no gap, so it is in the log, before all that is remembered.     *)
WasAppendedBefore(entry, request) ==
    /\ request.epoch = entry.epoch
    /\ entry.batches # <<>>
    /\ \A i \in DOMAIN entry.batches : entry.batches[i].seq # request.seq
    /\ Distance(request.seq, Last(entry.batches).seq) < (MaxSequence + 1) \div 2

(* CHOICE, KAFKA-5494.  What is remembered of a producer after `batch`, which *)
(* is in the log: as many batches as a client may have in flight, and those   *)
(* of its last epoch only.                                                    *)
Remember(entry, batch) ==
    LET earlier == IF batch.epoch = entry.epoch THEN entry.batches ELSE <<>>
        all == Append(earlier, [seq |-> batch.seq, offset |-> batch.offset])
        surplus == Max({0, Len(all) - Remembered})
    IN  [epoch |-> batch.epoch, batches |-> SubSeq(all, surplus + 1, Len(all))]

(* CHOICE.  A duplicate is told the offset at which the batch is in the log.  *)
DuplicateOffset(entry, request, endOffset) ==
    LET at == CHOOSE i \in DOMAIN entry.batches : entry.batches[i].seq = request.seq
    IN  entry.batches[at].offset

(* GUARD.  Whether first or duplicate, a batch is acknowledged once it is     *)
(* committed (acks=all).                                                      *)
MayAnswer(offset, highWatermark) == offset < highWatermark

(* What a snapshot keeps of an entry: its last batch, as Kafka's file does.   *)
Thin(entry) ==
    IF entry.batches = <<>> THEN entry
    ELSE [entry EXCEPT !.batches = <<Last(entry.batches)>>]

(* What entries (one per producer, in a function) become by the batches of a  *)
(* log from `offset` on: what a restart or a truncation does.                 *)
RECURSIVE Replay(_, _, _)
Replay(entries, log, offset) ==
    IF offset >= Len(log) THEN entries
    ELSE LET batch == log[offset + 1]
             told == [epoch |-> batch.epoch, seq |-> batch.seq, offset |-> offset]
         IN  Replay([entries EXCEPT ![batch.producer] = Remember(@, told)], log, offset + 1)

(* GUARD.  A snapshot that reaches beyond the end of a truncated log tells of *)
(* batches that are gone.                                                     *)
KeepsSnapshot(snapshot, endOffset) == snapshot.offset <= endOffset

(* CHOICE, KAFKA-12153.  What is remembered when the log was cut to `log`:    *)
(* what that log says, starting from a snapshot that it still covers.         *)
StateAfterTruncation(entries, snapshot, log) ==
    Replay(snapshot.entries, log, snapshot.offset)

(* CHOICE.  What is remembered after a restart: the snapshot, and what the    *)
(* log has after it.                                                          *)
StateAfterRestart(snapshot, log) == Replay(snapshot.entries, log, snapshot.offset)

(* GUARD.  A producer is forgotten when nothing of it can come any more: its  *)
(* client is done with all that it sent, and no request is under way.  (Time  *)
(* is not in the spec; this is what producer.id.expiration.ms means as long   *)
(* as it exceeds delivery.timeout.ms and the life of a message.)              *)
MayExpire(quiet) == quiet

--------------------------------------------------------------------------------
(* The client.                                                                *)

(* GUARD.  From the first batch in flight to the one that is to be sent are   *)
(* no more than a leader remembers.  Counting those in flight is not enough:  *)
(* others may have been answered before the first, and count as well.  After  *)
(* the last sequence number, the first one waits until it is alone: a leader  *)
(* that has forgotten the producer would take it for a start.                 *)
MaySend(inflight, next) ==
    inflight # <<>> => /\ Distance(Head(inflight).seq, next) < MaxInFlight
                       /\ next # FirstSequence

(* CHOICE.  A batch that is sent again keeps its sequence number; `next` is   *)
(* the one that the next new batch will get.                                  *)
RetrySequence(batch, next) == batch.seq

(* CHOICE, KIP-360.  What to do about an error: `again`, send the batch again *)
(* when it is the first in flight; `bump`, go on in a new epoch; `fail`, tell *)
(* the application.  A gap is conclusive for a batch that was sent as the     *)
(* first in flight: all before it were answered or given up, so nothing will  *)
(* fill it.  For another the gap is what is still under way.                  *)
Reaction(error, first) ==
    IF error = "notLeader" THEN "again"
    ELSE IF error \in {"outOfOrder", "unknownProducer"}
         THEN (IF first THEN "bump" ELSE "again")
    ELSE "fail"

(* GUARD.  An error says that the batch is not in the log.  A leader that     *)
(* lost its office while the batch waited does not know.                      *)
IsRefusal(error) == error \in {"outOfOrder", "unknownProducer"}

(* GUARD.  The epoch changes when no answer is waited for any more: one may   *)
(* say that its batch is in the log.                                          *)
MayBump(inflight) == \A i \in DOMAIN inflight : inflight[i].state # "waits"

(* GUARD.  A batch goes over into the new epoch if it is not in the log, and  *)
(* cannot come there any more by a request that went without an answer.       *)
MayRenumber(batch) == batch.state = "refused" /\ ~batch.loose
===============================================================================
