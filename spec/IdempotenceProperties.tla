------------------------- MODULE IdempotenceProperties -------------------------
(* What must hold of `Idempotence`: invariants and liveness.  Which model     *)
(* checks which property stands in models/*.cfg; which bug breaks it, in      *)
(* mutants/*.cfg.  What a rule says is said here again in other words, so     *)
(* that a wrong rule does not change what is asked of it.                     *)
EXTENDS Idempotence

BatchIds == 1..MaxBatches
SequenceNumbers == 0..MaxSequence
ProducerEpochs == 0..MaxEpoch
Offsets == 0..(MaxBatches * Cardinality(Producers))
Results == {"ok", "duplicate", "notLeader", "outOfOrder", "unknownProducer", "fenced"}

(* What the producer has in `entries`, a part of the log.                     *)
BatchesOf(p, entries) == {i \in DOMAIN entries : entries[i].producer = p}

IsEntry(entry) ==
    /\ entry.epoch \in ProducerEpochs \cup {NoEpoch}
    /\ Len(entry.batches) <= Remembered
    /\ entry.batches = <<>> <=> entry.epoch = NoEpoch
    /\ \A i \in DOMAIN entry.batches :
           entry.batches[i] \in [seq : SequenceNumbers, offset : Offsets]

IsClient(known) ==
    /\ known.epoch \in ProducerEpochs /\ known.next \in SequenceNumbers
    /\ known.sent \in 0..MaxBatches /\ known.bump \in BOOLEAN
    /\ Len(known.inflight) <= MaxInFlight
    /\ \A i \in DOMAIN known.inflight : known.inflight[i] \in
           [id : BatchIds, seq : SequenceNumbers, state : {"waits", "refused", "unsure"},
            first : BOOLEAN, loose : BOOLEAN]

TypeOk ==
    /\ \A p \in Producers : IsClient(client[p]) /\ IsEntry(pstate[p]) /\ IsEntry(snap.entries[p])
    /\ \A m \in msgs : m \in
           [type : {"request"}, producer : Producers, epoch : ProducerEpochs,
            seq : SequenceNumbers, id : BatchIds, late : BOOLEAN]
           \cup [type : {"answer"}, producer : Producers, id : BatchIds, result : Results,
                 offset : Offsets \cup {NoOffset}]
    /\ \A i \in DOMAIN log : log[i] \in
           [producer : Producers, epoch : ProducerEpochs, seq : SequenceNumbers, id : BatchIds]
    /\ hw \in 0..EndOffset(log) /\ snap.offset \in 0..EndOffset(log)
    /\ \A w \in waiting : w \in [producer : Producers, id : BatchIds, offset : Offsets,
                                 result : {"ok", "duplicate"}]
    /\ \A a \in acked : a \in [producer : Producers, id : BatchIds, offset : Offsets \cup {NoOffset}]
    /\ forgotten \subseteq Producers /\ gaveUp \subseteq Producers

--------------------------------------------------------------------------------
(* The log.                                                                   *)

(* No batch is in the log twice.                                              *)
NoDuplicate ==
    \A i, j \in DOMAIN log : log[i].producer = log[j].producer /\ log[i].id = log[j].id => i = j

(* What a producer has in the log stands in the order in which it was sent.   *)
InOrder ==
    \A p \in Producers : \A i, j \in BatchesOf(p, log) : i < j => log[i].id <= log[j].id

(* After a batch of some epoch there is none of an older one.                 *)
NoZombieWrite ==
    \A p \in Producers : \A i, j \in BatchesOf(p, log) : i < j => log[i].epoch <= log[j].epoch

(* The sequence numbers of a producer's epoch have no gap: they start at 0    *)
(* and go on by one, round and round.                                         *)
SeqContiguous ==
    \A p \in Producers : \A i \in BatchesOf(p, log) :
        LET before == {j \in BatchesOf(p, log) : j < i /\ log[j].epoch = log[i].epoch}
        IN  log[i].seq = Cardinality(before) % (MaxSequence + 1)

--------------------------------------------------------------------------------
(* What the leader remembers.                                                 *)

(* The last batches of a producer's last epoch in `entries`, of which the     *)
(* first is at `offset` in the log.  Of those before `snapshot` only the last *)
(* one is remembered, and that not if its epoch is another one.               *)
LastBatches(p, entries, offset, snapshot) ==
    LET mine == BatchesOf(p, entries)
        epoch == entries[Max(mine)].epoch
        older == {i \in mine : offset + i <= snapshot}
        kept == {i \in mine : i \in older => i = Max(older)}
        ofEpoch == {i \in kept : entries[i].epoch = epoch}
        recent == {i \in ofEpoch : Cardinality({j \in ofEpoch : j >= i}) <= Remembered}
        At(k) == CHOOSE i \in recent : Cardinality({j \in recent : j <= i}) = k
    IN  IF mine = {} THEN Unknown
        ELSE [epoch |-> epoch,
              batches |-> [k \in 1..Cardinality(recent) |->
                  [seq |-> entries[At(k)].seq, offset |-> offset + At(k) - 1]]]

(* The leader remembers what its log says, less what a snapshot did not keep; *)
(* of a producer that was forgotten, what some part of the log says, up to    *)
(* its end.                                                                   *)
ProducerStateIsFold ==
    \A p \in Producers :
        \E from \in 0..(IF p \in forgotten THEN EndOffset(log) ELSE 0),
           snapshot \in 0..(IF used.snapshots > 0 THEN EndOffset(log) ELSE 0) :
            pstate[p] = LastBatches(p, SubSeq(log, from + 1, EndOffset(log)), from, snapshot)

--------------------------------------------------------------------------------
(* What clients are promised.                                                 *)

Committed(id, p) == \E i \in 1..hw : log[i].producer = p /\ log[i].id = id

(* What was acknowledged is committed.                                        *)
AckedNotLost == \A a \in acked : Committed(a.id, a.producer)

(* A batch is acknowledged, the first time or again, with the offset at which *)
(* it is, or with none.                                                       *)
DupAckSameOffset ==
    \A a \in {b \in acked : b.offset # NoOffset}
            \cup {m \in msgs : m.type = "answer" /\ m.result = "ok"} :
        /\ a.offset < EndOffset(log)
        /\ log[a.offset + 1].producer = a.producer /\ log[a.offset + 1].id = a.id

(* As long as there is no snapshot, the batches remembered are enough: who is *)
(* told that a batch is in the log is told where.                             *)
OffsetIsTold ==
    used.snapshots = 0 =>
        /\ \A a \in acked : a.offset # NoOffset
        /\ \A m \in msgs : m.type = "answer" => m.result # "duplicate"

(* As long as a producer is not forgotten and its client gives up nothing, it *)
(* keeps its epoch ...                                                        *)
NoNeedlessBump ==
    \A p \in Producers : p \notin forgotten \cup gaveUp => client[p].epoch = 0 /\ ~client[p].bump

(* ... and each of its batches is in flight or acknowledged: none fails.      *)
InFlight(p) == {client[p].inflight[i].id : i \in DOMAIN client[p].inflight}
NoNeedlessFailure ==
    \A p \in Producers : p \notin forgotten \cup gaveUp =>
        \A id \in 1..client[p].sent :
            id \in InFlight(p) \/ \E a \in acked : a.producer = p /\ a.id = id

(* A client never reports as failed what it may still be told of: every       *)
(* answer that comes, or waits for a commit, is waited for.                   *)
AnswersAreAwaited ==
    \A a \in waiting \cup {m \in msgs : m.type = "answer"} :
        \E i \in DOMAIN client[a.producer].inflight :
            /\ client[a.producer].inflight[i].id = a.id
            /\ client[a.producer].inflight[i].state = "waits"

(* A batch that is surely not in the log does not fail, unless its client     *)
(* gives it up (which is a fault): it is sent again.                          *)
RefusedIsSentAgain ==
    [][\A p \in Producers : \A i \in DOMAIN client[p].inflight :
        LET batch == client[p].inflight[i]
        IN  batch.state = "refused" /\ ~batch.loose /\ used'.faults = used.faults
            => batch.id \in {client'[p].inflight[j].id : j \in DOMAIN client'[p].inflight}]_client

--------------------------------------------------------------------------------
(* Liveness, under FairSpec.                                                  *)

(* A client that keeps trying gets an answer to each of its batches.          *)
EveryBatchIsAnswered ==
    <>[](\A p \in Producers : client[p].sent = MaxBatches /\ client[p].inflight = <<>>)
================================================================================
