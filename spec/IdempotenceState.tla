--------------------------- MODULE IdempotenceState ---------------------------
(* The state that `Idempotence` acts on: its constants and variables, the     *)
(* first state, and the consequences that several of its actions share.       *)
EXTENDS IdempotenceRules

CONSTANTS
    Producers,     \* clients, each with a producer id of its own
    MaxBatches,    \* how many batches each client sends
    MaxEpoch,      \* up to which producer epoch clients bump (from 0)
    Faults,        \* which disturb: timeout, giveUp, change, restart, expiry
    MaxFaults,     \* how many of them there are
    MaxDelays,     \* how many requests arrive after their client stopped waiting
    MaxSnapshots   \* how many snapshots of the producers are written

(* What is ahead of the log, in flight or given up, is less than half of the  *)
(* round: what is behind it by less than half has been there.                 *)
ASSUME LET givenUp == IF "giveUp" \in Faults THEN MaxFaults ELSE 0
           ahead == Min({MaxBatches, MaxInFlight + givenUp})
       IN  MaxSequence + 1 - ahead >= (MaxSequence + 1) \div 2

(* As in IdempotenceRules, where a client that gives up batches goes on       *)
(* without them.  If the last number of a round is given up and then the      *)
(* producer is forgotten, the next batch is taken for a start, and nobody     *)
(* notices the gap: so there is no round where both may happen.               *)
ASSUME /\ "giveUp" \in Faults => MaxSequence + 1 >= Remembered + MaxInFlight + MaxFaults
       /\ {"giveUp", "expiry"} \subseteq Faults => MaxBatches <= MaxSequence + 1

VARIABLES
    client,     \* client[p]: its epoch; the next sequence number; how many batches
                \* it has sent; the batches inflight (see IdempotenceRules), oldest
                \* first; and whether it is to bump its epoch
    msgs,       \* requests and answers under way
    log,        \* the log of whoever leads: [producer, epoch, seq, id]
    hw,         \* how much of it is committed
    pstate,     \* pstate[p]: what the leader remembers of producer p
    waiting,    \* requests that wait in the leader's memory for the commit of their
                \* batch: [producer, id, offset, result], with what they will be told
    snap,       \* the last snapshot of pstate, and the offset at which it was taken
    used,       \* budgets used: faults, delays, snapshots
    acked,      \* history: what clients were told: [producer, id, offset]
    forgotten,  \* history: producers that a leader has forgotten
    gaveUp      \* history: producers whose client has given up a batch

clientVars == <<client, acked, gaveUp>>
leaderVars == <<log, hw, pstate, waiting, snap, forgotten>>
vars == <<client, msgs, log, hw, pstate, waiting, snap, used, acked, forgotten, gaveUp>>

NobodyKnown == [p \in Producers |-> Unknown]
NoSnapshot == [offset |-> 0, entries |-> NobodyKnown]

Init ==
    /\ client = [p \in Producers |->
                    [epoch |-> 0, next |-> FirstSequence, sent |-> 0, inflight |-> <<>>,
                     bump |-> FALSE]]
    /\ msgs = {}
    /\ log = <<>>
    /\ hw = 0
    /\ pstate = NobodyKnown
    /\ waiting = {}
    /\ snap = NoSnapshot
    /\ used = [faults |-> 0, delays |-> 0, snapshots |-> 0]
    /\ acked = {}
    /\ forgotten = {}
    /\ gaveUp = {}

--------------------------------------------------------------------------------
(* Messages.                                                                  *)

(* A request is late when its client does not wait for the answer any more.   *)
Request(p, epoch, batch) ==
    [type |-> "request", producer |-> p, epoch |-> epoch, seq |-> batch.seq, id |-> batch.id,
     late |-> FALSE]
Answer(p, id, result, offset) ==
    [type |-> "answer", producer |-> p, id |-> id, result |-> result, offset |-> offset]

RequestsOf(p) == {m \in msgs : m.type = "request" /\ m.producer = p}
AnswersTo(p) == {m \in msgs : m.type = "answer" /\ m.producer = p}
SentNow(p, id) == {m \in RequestsOf(p) : m.id = id /\ ~m.late}
AnswersNow(p, id) == {m \in AnswersTo(p) : m.id = id}
WaitingNow(p, id) == {w \in waiting : w.producer = p /\ w.id = id}

(* The answer to a batch will come if nothing disturbs.                       *)
UnderWay(p, id) == SentNow(p, id) \cup AnswersNow(p, id) \cup WaitingNow(p, id) # {}

(* What an answer comes to: nobody hears the one to a late request.           *)
Tell(request, result, offset) ==
    IF request.late THEN {} ELSE {Answer(request.producer, request.id, result, offset)}

(* A fault of this kind is within the budget.                                 *)
MayFail(kind) == kind \in Faults /\ used.faults < MaxFaults

--------------------------------------------------------------------------------
(* Consequences that several actions share.                                   *)

(* The client stops waiting for an answer to batch `id`: its connection is    *)
(* closed, and no answer comes through.  The request, if the leader has not   *)
(* taken it, is lost or, within the budget, late.  The set of outcomes.       *)
StopWaiting(p, id) ==
    LET now == SentNow(p, id)
        rest == (msgs \ now) \ AnswersNow(p, id)
    IN  {[msgs |-> rest, delays |-> used.delays]} \cup
        IF now # {} /\ used.delays < MaxDelays
            THEN {[msgs |-> rest \cup {[m EXCEPT !.late = TRUE] : m \in now},
                   delays |-> used.delays + 1]}
            ELSE {}

(* The client's new state is `known`: if the first batch in flight has no     *)
(* request under way, it is sent again, unless the epoch is to change first.  *)
(* Batches behind it wait for their turn.                                     *)
Proceed(p, known, rest) ==
    LET again == known.inflight # <<>> /\ ~known.bump /\ Head(known.inflight).state # "waits"
        batch == [Head(known.inflight) EXCEPT !.state = "waits", !.first = TRUE,
                        !.seq = RetrySequence(Head(known.inflight), known.next)]
    IN  IF again
        THEN /\ client' = [client EXCEPT ![p] = [known EXCEPT !.inflight[1] = batch]]
             /\ msgs' = rest \cup {Request(p, known.epoch, batch)}
        ELSE /\ client' = [client EXCEPT ![p] = known]
             /\ msgs' = rest

Without(inflight, i) == SubSeq(inflight, 1, i - 1) \o SubSeq(inflight, i + 1, Len(inflight))

(* The offset that a client is told, if it is known.                          *)
Told(result, offset) == IF result = "ok" THEN offset ELSE NoOffset

(* The high watermark is `new`: who waits for less is answered.               *)
AnswerWaiting(new, rest) ==
    LET done == {w \in waiting : MayAnswer(w.offset, new)}
    IN  /\ waiting' = waiting \ done
        /\ msgs' = rest \cup {Answer(w.producer, w.id, w.result, Told(w.result, w.offset)) :
                                w \in done}

(* The batch of `request` is in the log at `offset`, or before it if `result` *)
(* is "duplicate": it is answered, or waits in the leader's memory.           *)
AnswerOrWait(request, offset, result) ==
    LET rest == msgs \ {request}
    IN  IF MayAnswer(offset, hw)
        THEN msgs' = rest \cup Tell(request, result, Told(result, offset)) /\ waiting' = waiting
        ELSE /\ msgs' = rest
             /\ waiting' = IF request.late THEN waiting
                           ELSE waiting \cup {[producer |-> request.producer, id |-> request.id,
                                               offset |-> offset, result |-> result]}

(* The leader's judgement of a request.                                       *)
Starts(entry, request) == entry.batches = <<>> \/ request.epoch > entry.epoch
Fits(entry, request) == IF Starts(entry, request) THEN MayStart(request) ELSE IsNext(entry, request)
================================================================================
