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
(* Some steps are not in `Replication`, and real brokers take them; each has  *)
(* its own paragraph below: an answer is lost, a copy of a fetch comes late,  *)
(* a record or a refusal is learned that is not the newest any more, a high   *)
(* watermark is older after a restart, a proposal changes nothing, a leader   *)
(* shuts down that nobody can succeed.  docs/traces.md says why each is       *)
(* harmless.                                                                  *)
(*                                                                            *)
(* The fields of a step:                                                      *)
(*   act      what was done, by the name of the action                        *)
(*   nodes    whose steps are in order with it: a broker or the controller,   *)
(*            or both for a restart                                           *)
(*   node     the broker that acts, if one does                               *)
(*   after    the places of steps that come first: a message's sending        *)
(*   state    what the broker's state is afterwards; <<>>: it does not say    *)
(*   record   the same of the controller                                      *)
(* and, where they matter, follower, until, count, late, id, request, acked,  *)
(* again, learned (a record), refused (a record and registrations), keeps     *)
(* (what a disk has kept), same, shutdown.                                    *)
EXTENDS Replication, TraceData, TLC

VARIABLES
    at,     \* the place of the first step that was not taken yet
    ahead,  \* the places of the steps after it that were
    since   \* since[r]: the record at the time of r's last registration

Len_ == Len(Steps)
Done(place) == place < at \/ place \in ahead
Taken == at - 1 + Cardinality(ahead)

TraceInit ==
    /\ at = 1
    /\ ahead = {}
    /\ since = IF Start = <<>> THEN [r \in Replicas |-> FirstRecord] ELSE Start.since
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

(* A fetch comes that was left behind; with it goes the message, unless there *)
(* are more copies of it on their way (`late` are all of them).               *)
LateFetch(step) ==
    \E m \in {each \in msgs : each.type = "request" /\ each.to = step.node} :
        /\ m.from = step.follower
        /\ m.offset = step.request.offset
        /\ m.epoch = step.request.epoch
        /\ msgs' = IF Cardinality({place \in step.late : ~Done(place)}) > 1 THEN msgs
                   ELSE msgs \ {m}
        /\ CountLateFetch(step.node, m)
        /\ UNCHANGED <<log, view, ctl, broker, used>>

(* A fetch that was parked, and counted then, is answered.                    *)
AnswerParked(f) ==
    /\ Follows(f)
    /\ EpochIsCurrent(view[view[f].leader], FetchRequest(f))
    /\ \A m \in AnswersTo(f) : m.epoch # view[f].epoch
    /\ \E answer \in Answers(view[f].leader, FetchRequest(f)) : msgs' = msgs \cup {answer}
    /\ UNCHANGED <<log, hw, view, remote, ctl, broker, used, committed, acked>>

(* A fetch that was sent twice may be answered when the follower has taken an *)
(* empty answer to its copy: it still asks the same.                          *)
Fetch(step) ==
    \/ /\ IsWaitedFor(step) \/ step.count # -1
       /\ view[step.follower].leader = step.node
       /\ FetchRequest(step.follower).offset = step.request.offset
       /\ FetchRequest(step.follower).epoch = step.request.epoch
       /\ IF step.again THEN AnswerParked(step.follower) ELSE LeaderHandleFetch(step.follower)
       /\ AnswerHas(step.follower, step.count)
    \/ ~IsWaitedFor(step) /\ LateFetch(step)

(* The answer to a fetch is lost, with a connection: nobody has ever taken    *)
(* it.  The follower may ask the same again.                                  *)
LoseAnswer(step) ==
    /\ msgs' = IF IsWaitedFor(step)
               THEN msgs \ {m \in AnswersTo(step.follower) : m.epoch = step.request.epoch}
               ELSE msgs
    /\ UNCHANGED <<log, hw, view, remote, ctl, broker, used, committed, acked>>

(* A follower goes on by the answer to its fetch, and a copy of that fetch is *)
(* still on its way: it will say what the follower had, and no more is known  *)
(* by it than was before.                                                     *)
LeaveCopy(r, step) ==
    /\ msgs' = IF \E place \in step.late : ~Done(place)
               THEN msgs \cup {FetchRequest(r)} ELSE msgs
    /\ UNCHANGED <<log, hw, view, remote, ctl, broker, used, committed, acked>>

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

(* A broker learns a record that was decided (its place is among `after`),    *)
(* the newest or not, but newer than what it knows, and not from before its   *)
(* registration: by such a one it might lead without what it has lost.        *)
Learn(r, step) ==
    LET record == step.learned
    IN  /\ \/ /\ step.act = "BecomeLeader"
              /\ record.leader = r
              /\ record.epoch > view[r].epoch
              /\ record.version >= since[r].version
              /\ LeadBy(r, record)
           \/ /\ step.act = "BecomeFollower"
              /\ record.leader # r
              /\ record.epoch > view[r].epoch
              /\ record.epoch >= since[r].epoch
              /\ FollowBy(r, record)
           \/ /\ step.act = "LearnIsr"
              /\ Leads(r)
              /\ record.epoch = view[r].epoch
              /\ record.version > view[r].version
              /\ LeadOnBy(r, record)
        /\ Leaves(r, step)
        /\ UNCHANGED <<ctl, broker>>

(* A broker has kept what it says, of its log all if its shutdown was clean.  *)
(* Its high watermark may be an older one: it was written down now and then.  *)
Return(r, step) ==
    LET clean == step.act = "CleanRestart"
        kept == IF clean \/ step.keeps = <<>> THEN EndOffset(log[r])
                ELSE Min({step.keeps.end, EndOffset(log[r])})
        mark == IF step.keeps = <<>> THEN hw[r] ELSE Min({step.keeps.hw, hw[r]})
    IN  /\ MayFail(r)
        /\ Restart(r, kept, mark, IF LosesEligibility(clean) THEN {r} ELSE {})
        /\ Leaves(r, step)

(* A leader hears that its proposal was refused, when the controller may have *)
(* decided more since.  What counts is what was decided by then (`refused`).  *)
TakeBack(l, step) ==
    LET said == step.refused
        proposal == Proposal(l)
        rolledBack == [view[l] EXCEPT !.pending = {}, !.joiner = 0]
    IN  /\ view[l].pending # {}
        /\ ProposalIsCurrent(said.ctl, proposal.version)
        /\ \E r \in proposal.isr \ said.ctl.isr :
            ~(/\ MayBeAdded(said.broker[r].fenced)
              /\ BrokerEpochIsCurrent(said.broker[r].epoch, proposal.joiner))
        /\ view' = [view EXCEPT ![l] = rolledBack]
        /\ AdvanceHighWatermark(l, log[l], remote[l], rolledBack)
        /\ UNCHANGED <<log, remote, ctl, broker, msgs, used>>

(* The controller accepts a proposal of the ISR as it is, by which a leader   *)
(* outdates the copies of one that was refused.                               *)
CommitSame(l) ==
    /\ view[l].pending # {}
    /\ Current(Proposal(l))
    /\ ctl' = ChangeIsr(ctl, ctl.isr, {})
    /\ UNCHANGED <<log, hw, view, remote, broker, msgs, used, committed, acked>>

(* A broker is about to shut down, which counts as fenced; it leads, and goes *)
(* on to lead, because nobody can succeed it.                                 *)
Strand(b) ==
    /\ b \notin Fenced
    /\ ctl.leader = b
    /\ \A next \in Depart(ctl, b, {}, Fenced \cup {b}) : next.leader = None
    /\ broker' = [broker EXCEPT ![b].fenced = TRUE]
    /\ UNCHANGED <<log, hw, view, remote, ctl, msgs, used, committed, acked>>

(* Such a broker departs at last: somebody can succeed it, or it is gone.     *)
DepartStranded(b) ==
    /\ b \in Fenced
    /\ ctl.leader = b
    /\ ctl' \in Depart(ctl, b, {}, Fenced)
    /\ UNCHANGED <<log, hw, view, remote, broker, msgs, used, committed, acked>>

Fence(b, step) ==
    \/ FenceBroker(b)
    \/ step.shutdown /\ Strand(b)
    \/ DepartStranded(b)

Act(step) ==
    LET r == step.node
    IN  \/ step.act = "Produce" /\ Produce(r) /\ used'.records = step.id
        \/ step.act = "LeaderHandleFetch" /\ Fetch(step)
        \/ step.act = "GoOnWaiting" /\ GoOnWaiting(step)
        \/ step.act = "LoseAnswer" /\ LoseAnswer(step)
        \/ step.act = "LeaveCopy" /\ LeaveCopy(r, step)
        \/ step.act = "FollowerHandleAnswer" /\ FollowerHandleAnswer(r)
        \/ step.act \in {"BecomeLeader", "BecomeFollower", "LearnIsr"} /\ Learn(r, step)
        \/ step.act = "ExpandIsr" /\ ExpandIsr(r, step.follower)
        \/ step.act = "ShrinkIsr" /\ ShrinkIsr(r, step.follower)
        \/ step.act = "RejectIsr" /\ TakeBack(r, step)
        \/ step.act = "Consume" /\ Consume(r) /\ EndOffset(Readable(r)) = step.count
        \/ step.act = "CommitIsr" /\ IF step.same THEN CommitSame(r) ELSE CommitIsr(r)
        \/ step.act = "ElectLeader" /\ ElectLeader(r)
        \/ step.act = "ElectUncleanLeader" /\ ElectUncleanLeader(r)
        \/ step.act = "FenceBroker" /\ Fence(r, step)
        \/ step.act = "UnfenceBroker" /\ UnfenceBroker(r)
        \/ step.act \in {"CleanRestart", "LossyRestart"} /\ Return(r, step)
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
    /\ since' = IF Steps[place].act \in {"CleanRestart", "LossyRestart"}
                THEN [since EXCEPT ![Steps[place].node] = ctl'] ELSE since
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
          acked |-> acked, since |-> since]

(* As many steps were taken as wanted: print where that led, and stop at last.*)
Report ==
    Taken \in Targets =>
        /\ PrintT(ToString([at |-> at, ahead |-> ahead, state |-> State]))
        /\ Taken = Max(Targets) => TLCSet("exit", TRUE)
================================================================================
