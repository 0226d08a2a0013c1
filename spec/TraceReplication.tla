--------------------------- MODULE TraceReplication ---------------------------
(* Is a recorded run a behaviour of `Replication`?  TLC takes the run's steps *)
(* one by one; each is an action of `Replication`, conjoined with what the    *)
(* broker that took it said about its state afterwards.                       *)
(*                                                                            *)
(* `TraceData` is written by `spec.conformance` for one window of a run: the  *)
(* steps in an order that respects what each broker did in turn and what was  *)
(* sent before it was received.  That order is a proposal only.  From the     *)
(* place `SlackFrom` on TLC may take a step up to `Slack` places before its   *)
(* turn, so that with enough of it all interleavings of the brokers are       *)
(* tried.  What cannot be read off the trace (which message outlives its      *)
(* session) is decided by what happens later: nothing is left to be guessed.  *)
(*                                                                            *)
(* The fields of a step:                                                      *)
(*   act      what was done, by the name of the action                        *)
(*   nodes    whose steps are in order with it: a broker or the controller,   *)
(*            or both for a restart                                           *)
(*   node     the broker that acts, if one does                               *)
(*   after    the places of steps that come first: a message's sending        *)
(*   state    what the broker's state is afterwards; <<>>: it does not say    *)
(*   record   the same of the controller                                      *)
(* and, where they matter, follower, until, count, late, id, request, acked.  *)
EXTENDS Replication, TraceData, TLC

VARIABLES
    at,     \* the place of the first step that was not taken yet
    ahead   \* the places of the steps after it that were

Len_ == Len(Steps)
Done(place) == place < at \/ place \in ahead
Taken == at - 1 + Cardinality(ahead)

TraceInit ==
    /\ at = 1
    /\ ahead = {}
    /\ IF Start = <<>> THEN Init
       ELSE /\ log = Start.log /\ hw = Start.hw /\ view = Start.view
            /\ remote = Start.remote /\ ctl = Start.ctl /\ broker = Start.broker
            /\ msgs = Start.msgs /\ used = Start.used
            /\ committed = Start.committed /\ acked = Start.acked

--------------------------------------------------------------------------------
(* What a line says about the state after its step.                           *)

(* The log has these runs of epochs: where each begins, and where all end.    *)
(* Entries before `from` were deleted by retention, which the spec does not   *)
(* have.                                                                      *)
LogIs(entries, state) ==
    /\ EndOffset(entries) = state.end
    /\ \A i \in DOMAIN state.runs :
        LET run == state.runs[i]
        IN  /\ entries[run.start + 1].epoch = run.epoch
            /\ run.start > state.from => entries[run.start].epoch < run.epoch
    /\ LET last == Len(state.runs)
       IN  IF last = 0 THEN state.end = state.from ELSE LastEpoch(entries) = state.runs[last].epoch

BrokerIs(r, state) ==
    IF state = <<>> THEN TRUE
    ELSE /\ hw'[r] = state.hw
         /\ view'[r] = state.view
         /\ remote'[r] = state.remote
         /\ LogIs(log'[r], state)

ControllerIs(record) ==
    IF record = <<>> THEN TRUE ELSE ctl' = record.ctl /\ broker' = record.broker

(* What the broker acknowledged with acks=all may be acknowledged.            *)
Acknowledges(r, offsets) == \A o \in offsets : log'[r][o + 1].id \in acked'

--------------------------------------------------------------------------------
(* The steps.                                                                 *)

(* A follower's fetch is still the one it waits for: it was sent, and the     *)
(* follower has done nothing since.                                           *)
IsWaitedFor(step) == ~Done(step.until)

(* The answer that f waits for has `count` entries.  If nobody ever took it,  *)
(* it does not matter how many (-1), and it has as few as possible.           *)
AnswerHas(f, count) ==
    \E m \in msgs' \ msgs :
        IF m.diverges THEN TRUE
        ELSE LET left == EndOffset(log[view[f].leader]) - EndOffset(log[f])
             IN  Len(m.entries) = IF count = -1 THEN Min({1, left}) ELSE count

Fetch(step) ==
    \/ /\ IsWaitedFor(step)
       /\ view[step.follower].leader = step.node
       /\ FetchRequest(step.follower).offset = step.request.offset
       /\ FetchRequest(step.follower).epoch = step.request.epoch
       /\ LeaderHandleFetch(step.follower)
       /\ AnswerHas(step.follower, step.count)
    \/ /\ ~IsWaitedFor(step)
       /\ LeaderHandleLateFetch(step.node)
       /\ \E m \in msgs \ msgs' :
            /\ m.from = step.follower
            /\ m.offset = step.request.offset
            /\ m.epoch = step.request.epoch

(* A fetch was parked: the follower has got an empty answer, and goes on      *)
(* waiting with the same request.                                             *)
GoOnWaiting(step) ==
    IF \E m \in AnswersTo(step.follower) : m.epoch = view[step.follower].epoch
    THEN FollowerHandleAnswer(step.follower) /\ UNCHANGED <<log, hw>>
    ELSE UNCHANGED vars

(* Who moves on leaves its request behind if that is received later.          *)
Leaves(r, step) ==
    IF \E place \in step.late : ~Done(place)
    THEN FetchRequest(r) \in msgs'
    ELSE used'.delays = used.delays

(* A broker has kept what it says.  If it stops again before it says so, all  *)
(* that it had will do, for then it may lose the rest in its next restart.    *)
Keeps(r, step) ==
    IF step.state = <<>> THEN log'[r] = log[r]
    ELSE EndOffset(log'[r]) = Min({step.state.end, EndOffset(log[r])})

Act(step) ==
    LET r == step.node
    IN  \/ step.act = "Produce" /\ Produce(r) /\ used'.records = step.id
        \/ step.act = "LeaderHandleFetch" /\ Fetch(step)
        \/ step.act = "GoOnWaiting" /\ GoOnWaiting(step)
        \/ step.act = "FollowerHandleAnswer" /\ FollowerHandleAnswer(r)
        \/ step.act = "BecomeLeader" /\ BecomeLeader(r) /\ Leaves(r, step)
        \/ step.act = "BecomeFollower" /\ BecomeFollower(r) /\ Leaves(r, step)
        \/ step.act = "LearnIsr" /\ LearnIsr(r) /\ Leaves(r, step)
        \/ step.act = "ExpandIsr" /\ ExpandIsr(r, step.follower)
        \/ step.act = "ShrinkIsr" /\ ShrinkIsr(r, step.follower)
        \/ step.act = "RejectIsr" /\ RejectIsr(r)
        \/ step.act = "Consume" /\ Consume(r) /\ EndOffset(Readable(r)) = step.count
        \/ step.act = "CommitIsr" /\ CommitIsr(r)
        \/ step.act = "ElectLeader" /\ ElectLeader(r)
        \/ step.act = "ElectUncleanLeader" /\ ElectUncleanLeader(r)
        \/ step.act = "FenceBroker" /\ FenceBroker(r)
        \/ step.act = "UnfenceBroker" /\ UnfenceBroker(r)
        \/ step.act = "CleanRestart" /\ CleanRestart(r) /\ Leaves(r, step)
        \/ step.act = "LossyRestart" /\ LossyRestart(r) /\ Leaves(r, step) /\ Keeps(r, step)
        \/ step.act = "Stutter" /\ UNCHANGED vars

(* An explanation of a rejection asks what the spec allows instead: from some *)
(* place on, what the lines say does not count.                               *)
Says(step, place) ==
    IF place >= RelaxedFrom THEN TRUE
    ELSE /\ BrokerIs(step.node, step.state)
         /\ ControllerIs(step.record)
         /\ Acknowledges(step.node, step.acked)

InOrder(place) ==
    \A other \in at..(place - 1) :
        other \in ahead \/ Steps[other].nodes \cap Steps[place].nodes = {}

Received(step) == \A place \in step.after : Done(place)

Advance(place) ==
    LET done == ahead \cup {place}
        next == CHOOSE n \in at..(Len_ + 1) : n \notin done /\ \A m \in at..(n - 1) : m \in done
    IN  /\ at' = next
        /\ ahead' = {p \in done : p > next}

Take(place) ==
    /\ place \notin ahead
    /\ InOrder(place)
    /\ Received(Steps[place])
    /\ Act(Steps[place])
    /\ Says(Steps[place], place)
    /\ Advance(place)

TraceNext ==
    LET slack == IF at >= SlackFrom THEN Slack ELSE 0
    IN  \E place \in at..Min({Len_, at + slack}) : Take(place)

--------------------------------------------------------------------------------
(* What TLC tells.  The verdict is printed rather than a violated invariant,  *)
(* because TLC would print every state of the way there, each with all logs.  *)

State == [log |-> log, hw |-> hw, view |-> view, remote |-> remote, ctl |-> ctl,
          broker |-> broker, msgs |-> msgs, used |-> used, committed |-> committed,
          acked |-> acked]

(* As many steps were taken as wanted: print where that led, and stop at last.*)
Report ==
    Taken \in Targets =>
        /\ PrintT(ToString([at |-> at, ahead |-> ahead, state |-> State]))
        /\ Taken = Max(Targets) => TLCSet("exit", TRUE)
================================================================================
