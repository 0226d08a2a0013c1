------------------------------ MODULE Idempotence ------------------------------
(* Idempotent producing to one partition (KIP-98, KIP-360): clients number    *)
(* their batches, and send a batch again until they know what became of it;   *)
(* the leader remembers the last batches of each producer and appends a batch *)
(* at most once, in order.                                                    *)
(*                                                                            *)
(* Replication is abstracted: there is the log of whoever leads, and how much *)
(* of it is committed; a new leader may lack what is not.  The network loses  *)
(* requests and answers, lets them overtake each other, and delivers requests *)
(* late.  What is abstracted, and why that is sound, stands in                *)
(* docs/idempotence.md.                                                       *)
EXTENDS IdempotenceState

--------------------------------------------------------------------------------
(* The client.                                                                *)

(* A client sends its next batch.                                             *)
(* Enabled: no more are in flight than may be, none is to be sent again      *)
(* first, and no request is under way from a whole round of sequence numbers  *)
(* ago, which with Kafka's 2^31 of them cannot be.                            *)
(* Changes: the batch is in flight, with the next sequence number.            *)
Send(p) ==
    LET known == client[p]
        batch == [id |-> known.sent + 1, seq |-> known.next, state |-> "waits",
                  first |-> known.inflight = <<>>, loose |-> FALSE]
    IN  /\ known.sent < MaxBatches
        /\ ~known.bump
        /\ MaySend(known.inflight, known.next)
        /\ \A i \in DOMAIN known.inflight : known.inflight[i].state = "waits"
        /\ \A m \in RequestsOf(p) : m.epoch = known.epoch => m.seq # NextSequence(known.next)
        /\ client' = [client EXCEPT ![p] = [known EXCEPT
                !.sent = @ + 1, !.next = NextSequence(@), !.inflight = Append(@, batch)]]
        /\ msgs' = msgs \cup {Request(p, known.epoch, batch)}
        /\ UNCHANGED <<log, hw, pstate, waiting, snap, used, acked, forgotten, gaveUp>>

(* A request times out: the client does not wait for its answer any more, and *)
(* sends the batch again, with its sequence number, once it is the first in   *)
(* flight.                                                                    *)
(* Enabled: an answer is waited for.  If it would come, this is a disturbance *)
(* and within the budget; if it was lost, it heals.                           *)
(* Changes: what is known of the batch; its answer is lost.                   *)
Retry(p) ==
    \E i \in DOMAIN client[p].inflight :
        LET batch == client[p].inflight[i]
            inTime == UnderWay(p, batch.id)
            known == [client[p] EXCEPT !.inflight[i].state = "unsure",
                                          !.inflight[i].loose = TRUE]
        IN  /\ batch.state = "waits"
            /\ inTime => MayFail("timeout")
            /\ \E s \in StopWaiting(p, batch.id) :
                   /\ Proceed(p, known, s.msgs)
                   /\ used' = [used EXCEPT !.faults = IF inTime THEN @ + 1 ELSE @,
                                           !.delays = s.delays]
            /\ waiting' = waiting \ WaitingNow(p, batch.id)
            /\ UNCHANGED <<log, hw, pstate, snap, acked, forgotten, gaveUp>>

(* The client gives up its first batch in flight (delivery.timeout.ms): what  *)
(* became of it will not be known.                                            *)
(* Enabled: within the budget.                                                *)
(* Changes: the batch is no longer in flight; the next one has its turn.      *)
GiveUp(p) ==
    /\ client[p].inflight # <<>>
    /\ MayFail("giveUp")
    /\ LET batch == Head(client[p].inflight)
       IN  /\ \E s \in StopWaiting(p, batch.id) :
                  /\ Proceed(p, [client[p] EXCEPT !.inflight = Tail(@)], s.msgs)
                  /\ used' = [used EXCEPT !.faults = @ + 1, !.delays = s.delays]
           /\ waiting' = waiting \ WaitingNow(p, batch.id)
    /\ gaveUp' = gaveUp \cup {p}
    /\ UNCHANGED <<log, hw, pstate, snap, acked, forgotten>>

(* An answer arrives at its client.                                           *)
(* Enabled: the batch is in flight.                                           *)
(* Changes: it is acknowledged; or it is to be sent again, in a new epoch     *)
(* perhaps; or it has failed.                                                 *)
HandleAnswer(p) ==
    \E m \in AnswersTo(p), i \in DOMAIN client[p].inflight :
        LET known == client[p]
            reaction == IF m.result \in {"ok", "duplicate"} THEN "done"
                        ELSE Reaction(m.result, known.inflight[i].first)
        IN  /\ known.inflight[i].id = m.id
            /\ Proceed(p,
                   IF reaction \in {"done", "fail"}
                       THEN [known EXCEPT !.inflight = Without(@, i)]
                       ELSE [known EXCEPT
                                !.inflight[i].state = IF IsRefusal(m.result) THEN "refused"
                                                      ELSE "unsure",
                                !.bump = @ \/ reaction = "bump"],
                   msgs \ {m})
            /\ acked' = IF reaction # "done" THEN acked
                        ELSE acked \cup {[producer |-> p, id |-> m.id, offset |-> m.offset]}
            /\ UNCHANGED <<log, hw, pstate, waiting, snap, used, forgotten, gaveUp>>

(* The client goes on in a new epoch, with sequence numbers from the start.   *)
(* Enabled: it was told of a gap that nothing will fill.                      *)
(* Changes: its epoch.  Batches that are surely not in the log are numbered   *)
(* anew and sent again in their turn; the others have failed: what became of  *)
(* them is not known.                                                         *)
InitEpoch(p) ==
    LET known == client[p]
        kept == SelectSeq(known.inflight, MayRenumber)
    IN  /\ known.bump
        /\ MayBump(known.inflight)
        /\ known.epoch < MaxEpoch
        /\ Proceed(p, [known EXCEPT !.epoch = @ + 1, !.bump = FALSE, !.next = Len(kept),
                           !.inflight = [i \in DOMAIN kept |->
                               [kept[i] EXCEPT !.seq = i - 1]]],
                   msgs)
        /\ UNCHANGED <<log, hw, pstate, waiting, snap, used, acked, forgotten, gaveUp>>

--------------------------------------------------------------------------------
(* The leader.  A request arrives; exactly one of the next six takes it.      *)

(* Enabled: it is the next batch of its producer, or the first of its epoch.  *)
(* Changes: the batch is in the log and remembered; its answer waits for the  *)
(* commit.                                                                    *)
AppendBatch(p) ==
    \E m \in RequestsOf(p) :
        /\ EpochIsCurrent(pstate[p], m)
        /\ ~IsDuplicate(pstate[p], m)
        /\ Fits(pstate[p], m)
        /\ log' = Append(log, [producer |-> p, epoch |-> m.epoch, seq |-> m.seq, id |-> m.id])
        /\ pstate' = [pstate EXCEPT ![p] = Remember(@,
                [epoch |-> m.epoch, seq |-> m.seq, offset |-> EndOffset(log)])]
        /\ AnswerOrWait(m, EndOffset(log), "ok")
        /\ UNCHANGED <<client, hw, snap, used, acked, forgotten, gaveUp>>

(* Enabled: it is one of the batches remembered.                              *)
(* Changes: nothing is appended; it is answered as the first time.            *)
DuplicateAck(p) ==
    \E m \in RequestsOf(p) :
        /\ EpochIsCurrent(pstate[p], m)
        /\ IsDuplicate(pstate[p], m)
        /\ AnswerOrWait(m, DuplicateOffset(pstate[p], m, EndOffset(log)), "ok")
        /\ UNCHANGED <<client, log, hw, pstate, snap, used, acked, forgotten, gaveUp>>

(* Enabled: it is older than the batches remembered.                          *)
(* Changes: nothing is appended; it is answered that it was                   *)
(* (DUPLICATE_SEQUENCE_NUMBER), without an offset, once what comes after it   *)
(* is committed, and so it is too.                                            *)
OlderDuplicate(p) ==
    \E m \in RequestsOf(p) :
        /\ EpochIsCurrent(pstate[p], m)
        /\ ~IsDuplicate(pstate[p], m)
        /\ ~Fits(pstate[p], m)
        /\ WasAppendedBefore(pstate[p], m)
        /\ AnswerOrWait(m, Head(pstate[p].batches).offset, "duplicate")
        /\ UNCHANGED <<client, log, hw, pstate, snap, used, acked, forgotten, gaveUp>>

(* The request is refused, and nothing else changes.                          *)
Refuse(m, result) ==
    /\ msgs' = (msgs \ {m}) \cup Tell(m, result, NoOffset)
    /\ UNCHANGED <<client, log, hw, pstate, waiting, snap, used, acked, forgotten, gaveUp>>

(* Enabled: there is a gap before it (OUT_OF_ORDER_SEQUENCE_NUMBER).          *)
RejectOutOfOrder(p) ==
    \E m \in RequestsOf(p) :
        /\ EpochIsCurrent(pstate[p], m)
        /\ ~IsDuplicate(pstate[p], m)
        /\ ~Fits(pstate[p], m)
        /\ ~WasAppendedBefore(pstate[p], m)
        /\ pstate[p] # Unknown
        /\ Refuse(m, "outOfOrder")

(* Enabled: its producer is not known, and it is not a first batch            *)
(* (UNKNOWN_PRODUCER_ID).                                                     *)
RejectUnknown(p) ==
    \E m \in RequestsOf(p) :
        /\ ~Fits(pstate[p], m)
        /\ pstate[p] = Unknown
        /\ Refuse(m, "unknownProducer")

(* Enabled: its producer has a newer epoch (INVALID_PRODUCER_EPOCH).          *)
RejectFenced(p) ==
    \E m \in RequestsOf(p) :
        /\ ~EpochIsCurrent(pstate[p], m)
        /\ Refuse(m, "fenced")

(* Enabled: its time is over (see MayExpire); within the budget.              *)
(* Changes: the leader forgets the producer.                                  *)
Quiet(p) == client[p].inflight = <<>> /\ RequestsOf(p) = {}
Expire(p) ==
    /\ pstate[p] # Unknown
    /\ MayFail("expiry")
    /\ MayExpire(Quiet(p))
    /\ pstate' = [pstate EXCEPT ![p] = Unknown]
    /\ used' = [used EXCEPT !.faults = @ + 1]
    /\ forgotten' = forgotten \cup {p}
    /\ UNCHANGED <<client, msgs, log, hw, waiting, snap, acked, gaveUp>>

(* The next batch is on all replicas that it must be on.                      *)
(* Changes: the high watermark; who waited for that is answered.              *)
Commit ==
    /\ hw < EndOffset(log)
    /\ hw' = hw + 1
    /\ AnswerWaiting(hw + 1, msgs)
    /\ UNCHANGED <<client, log, pstate, snap, used, acked, forgotten, gaveUp>>

(* Another replica leads; it may lack what is not committed.                  *)
(* Enabled: within the budget.                                                *)
(* Changes: the log is cut, and what is remembered of it; who waits is told   *)
(* to look for the new leader (NOT_LEADER_OR_FOLLOWER).                       *)
LeaderChange ==
    /\ MayFail("change")
    /\ \E kept \in hw..EndOffset(log) :
           LET left == Prefix(log, kept)
               usable == IF KeepsSnapshot(snap, kept) THEN snap ELSE NoSnapshot
           IN  /\ log' = left
               /\ snap' = usable
               /\ pstate' = StateAfterTruncation(pstate, usable, left)
    /\ msgs' = msgs \cup {Answer(w.producer, w.id, "notLeader", NoOffset) : w \in waiting}
    /\ waiting' = {}
    /\ used' = [used EXCEPT !.faults = @ + 1]
    /\ UNCHANGED <<client, hw, acked, forgotten, gaveUp>>

(* The leader writes down the last batch of each producer.                    *)
TakeSnapshot ==
    /\ used.snapshots < MaxSnapshots
    /\ snap.offset < EndOffset(log)
    /\ snap' = [offset |-> EndOffset(log), entries |-> [p \in Producers |-> Thin(pstate[p])]]
    /\ used' = [used EXCEPT !.snapshots = @ + 1]
    /\ UNCHANGED <<client, msgs, log, hw, pstate, waiting, acked, forgotten, gaveUp>>

(* The leader restarts with its log whole.                                    *)
(* Changes: what it held in memory is gone; what it remembers is read from    *)
(* the snapshot and the log.                                                  *)
Restart ==
    /\ MayFail("restart")
    /\ pstate' = StateAfterRestart(snap, log)
    /\ waiting' = {}
    /\ used' = [used EXCEPT !.faults = @ + 1]
    /\ UNCHANGED <<client, msgs, log, hw, snap, acked, forgotten, gaveUp>>

--------------------------------------------------------------------------------
Next ==
    \/ Commit
    \/ LeaderChange
    \/ TakeSnapshot
    \/ Restart
    \/ \E p \in Producers :
        \/ Send(p)
        \/ Retry(p)
        \/ GiveUp(p)
        \/ HandleAnswer(p)
        \/ InitEpoch(p)
        \/ AppendBatch(p)
        \/ DuplicateAck(p)
        \/ OlderDuplicate(p)
        \/ RejectOutOfOrder(p)
        \/ RejectUnknown(p)
        \/ RejectFenced(p)
        \/ Expire(p)

(* An answer is waited for that will not come.                                *)
Lost(p) ==
    \E i \in DOMAIN client[p].inflight :
        client[p].inflight[i].state = "waits" /\ ~UnderWay(p, client[p].inflight[i].id)

(* What heals happens in the end, whatever else happens.                      *)
Fairness ==
    /\ WF_vars(Commit)
    /\ \A p \in Producers :
        /\ WF_vars(Send(p)) /\ WF_vars(Lost(p) /\ Retry(p))
        /\ WF_vars(HandleAnswer(p)) /\ WF_vars(InitEpoch(p))
        /\ WF_vars(AppendBatch(p)) /\ WF_vars(DuplicateAck(p)) /\ WF_vars(OlderDuplicate(p))
        /\ WF_vars(RejectOutOfOrder(p)) /\ WF_vars(RejectUnknown(p)) /\ WF_vars(RejectFenced(p))

Spec == Init /\ [][Next]_vars
FairSpec == Spec /\ Fairness
================================================================================
