------------------------------ MODULE TraceQuorum ------------------------------
(* Is a recorded run a behaviour of `Quorum`?  Each line of the run says what *)
(* a node's state is after something happened to it; TLC looks for steps of   *)
(* `Quorum` that lead there.                                                  *)
(*                                                                            *)
(* `TraceData` is written by `spec.conformance` for one window of a run.  Its *)
(* lines are in the order in which they were written down, each node's in its *)
(* own order.  Between nodes that order is a proposal only: at the places in  *)
(* `Loose` TLC may take a line up to `Slack` places before its turn.  What no *)
(* line says (a fetch that is answered and changes nothing at the leader, an  *)
(* answer that is lost) TLC supplies where the next lines need it.            *)
(*                                                                            *)
(* A line has the node whose it is, whether it is the first after a restart,  *)
(* and the state: epoch, voted, role, leader, votes, hw, remote as in         *)
(* `Quorum`; start and end of the log, and its runs of epochs: where each     *)
(* begins.                                                                    *)
(*                                                                            *)
(* It allows more than `Quorum` does in four places, each said below: a       *)
(* leader resigns unheard, a snapshot is of what was committed earlier, an    *)
(* answer is lost, and a pre-vote takes its time.                             *)
EXTENDS Quorum, TraceData

VARIABLES
    at,     \* the place of the first line that was not taken yet
    ahead,  \* the places of the lines after it that were
    willing \* <<n, v, e>>: v would have granted n its pre-vote in epoch e

traceVars == <<at, ahead, willing>>
Taken == at - 1 + Cardinality(ahead)

TraceInit ==
    /\ TLCSet(1, 0)
    /\ at = 1
    /\ ahead = {}
    /\ willing = {}
    /\ IF Start = <<>> THEN Init
       ELSE /\ epoch = Start.epoch /\ voted = Start.voted /\ disk = Start.disk
            /\ role = Start.role /\ leader = Start.leader /\ votes = Start.votes
            /\ log = Start.log /\ start = Start.start /\ hw = Start.hw
            /\ remote = Start.remote /\ msgs = Start.msgs /\ cut = Start.cut
            /\ used = Start.used /\ committed = Start.committed
            /\ elected = Start.elected /\ cast = Start.cast /\ disturbed = Start.disturbed

--------------------------------------------------------------------------------
(* What a line says about the state after its step.                           *)

(* The log has these runs of epochs.  Of the entries before its start only    *)
(* the last one's epoch is known.                                             *)
LogIs(entries, state) ==
    /\ EndOffset(entries) = state.end
    /\ \A i \in DOMAIN state.runs :
        LET run == state.runs[i]
            until == IF i = Len(state.runs) THEN state.end ELSE state.runs[i + 1].start
        IN  \A o \in (run.start + 1)..until : entries[o].epoch = run.epoch

NodeIs(n, state) ==
    /\ epoch'[n] = state.epoch
    /\ voted'[n] = state.voted
    /\ role'[n] = state.role
    /\ leader'[n] = state.leader
    /\ votes'[n] = state.votes
    /\ hw'[n] = state.hw
    /\ start'[n] = state.start
    /\ remote'[n] = state.remote
    /\ LogIs(log'[n], state)

Same(n) ==
    /\ epoch'[n] = epoch[n] /\ voted'[n] = voted[n] /\ role'[n] = role[n]
    /\ leader'[n] = leader[n] /\ votes'[n] = votes[n] /\ hw'[n] = hw[n]
    /\ start'[n] = start[n] /\ remote'[n] = remote[n] /\ log'[n] = log[n]

--------------------------------------------------------------------------------
(* The steps.                                                                 *)

(* A leader has not heard from a majority for too long.  In `Quorum` it is    *)
(* cut off then, resigns, and is reached again.                               *)
ResignUnheard(l) ==
    /\ role[l] = "leader"
    /\ Step(l :> Moved(State(l), epoch[l], None), msgs, used)
    /\ UNCHANGED <<cut, disturbed>>

(* A snapshot is done of what was committed when it was begun.                *)
FinishSnapshot(n) ==
    \E end \in (start[n] + 1)..SnapshotOffset(hw[n], EndOffset(log[n])) :
        /\ Step(n :> [State(n) EXCEPT !.start = end], msgs, used)
        /\ UNCHANGED <<cut, disturbed>>

(* In `Quorum` a pre-vote is granted and counted in one step.  Two nodes that *)
(* grant each other theirs at the same time both stand, and then one of them  *)
(* counts what the other, now in the next epoch, would not grant any more.    *)
Remember ==
    willing' =
        {w \in willing : role'[w[1]] = "prospective" /\ epoch'[w[1]] = w[3]} \cup
        {<<pair[1], pair[2], epoch'[pair[1]]>> : pair \in
            {pair \in Voters \X Voters : LET n == pair[1] v == pair[2] IN
                /\ n # v /\ role'[n] = "prospective" /\ epoch'[v] <= epoch'[n]
                /\ MayGrantPreVote(epoch'[v] = epoch'[n] /\ leader'[v] # None,
                                   LogIsUpToDate(log'[n], log'[v]))}}

CountPreVote(n) ==
    /\ role[n] = "prospective"
    /\ \E v \in Voters \ votes[n] :
        /\ <<n, v, epoch[n]>> \in willing
        /\ Step(n :> PreVotedFor(n, State(n), votes[n] \cup {v}), msgs, used)
    /\ UNCHANGED <<cut, disturbed>>

Act(line) ==
    LET n == line.node
    IN  IF line.restart THEN Restart(n)
        ELSE \/ TimeOut(n)
             \/ HandleVote(n)
             \/ LearnLeader(n)
             \/ LearnEpoch(n)
             \/ ResignUnheard(n)
             \/ AppendRecord(n)
             \/ FollowerHandleAnswer(n)
             \/ HandleLateSnapshot(n)
             \/ FinishSnapshot(n)
             \/ \E f \in Nodes : leader[f] = n /\ LeaderHandleFetch(f)
             \/ CountPreVote(n)
             \/ \E v \in Voters : PreVote(n, v) \/ HandleVoteRequest(n, v)

InOrder(place) ==
    \A other \in at..(place - 1) : other \in ahead \/ Lines[other].node # Lines[place].node

Advance(place) ==
    LET done == ahead \cup {place}
        next == CHOOSE p \in at..(Len(Lines) + 1) :
                    p \notin done /\ \A q \in at..(p - 1) : q \in done
    IN  /\ at' = next
        /\ ahead' = {p \in done : p > next}
        /\ Remember

(* The next line of node n: none, or one in a set.                            *)
NextOf(n) ==
    LET left == {p \in at..Len(Lines) : p \notin ahead /\ Lines[p].node = n}
    IN  IF left = {} THEN {} ELSE {Min(left)}

(* With its next line follower f takes an answer.                             *)
Consumes(f) ==
    \E p \in NextOf(f) :
        LET s == Lines[p].state
        IN  /\ ~Lines[p].restart
            /\ role[f] = "follower" /\ s.role = "follower" /\ s.epoch = epoch[f]
            /\ s.end # EndOffset(log[f]) \/ s.hw # hw[f]

(* This answer leads follower f to its next line.                             *)
Fits(f, m) ==
    \E p \in NextOf(f) :
        LET s == Lines[p].state
        IN  IF m.type = "snapshot" THEN TRUE
            ELSE IF m.diverges THEN s.end < EndOffset(log[f])
            ELSE /\ s.end = EndOffset(log[f]) + Len(m.entries)
                 /\ s.hw = FollowerHighWatermark(hw[f], m.hw, s.end)

(* Of the answers that a fetch may get: the one that its follower takes, or   *)
(* if none is taken, one that stands for all.                                 *)
IsWorthTrying(m) ==
    IF m.type # "answer" THEN TRUE
    ELSE IF m.diverges THEN TRUE
    ELSE Len(m.entries) <= 1 \/ (Consumes(m.to) /\ Fits(m.to, m))

Take(place) ==
    /\ place \notin ahead
    /\ InOrder(place)
    /\ Act(Lines[place])
    /\ NodeIs(Lines[place].node, Lines[place].state)
    /\ \A n \in Nodes \ {Lines[place].node} : Same(n)
    /\ \A m \in msgs' \ msgs : IsWorthTrying(m)
    /\ used'.delays > used.delays =>
           \E m \in msgs' : m.to = Lines[place].node /\ m.type = "snapshot"
    /\ Advance(place)

(* A fetch is answered, and that changes nothing that its leader would write  *)
(* down.                                                                      *)
AnswerUnseen(f) ==
    /\ Consumes(f)
    /\ HearsLeader(f)
    /\ LeaderHandleFetch(f)
    /\ \A n \in Nodes : Same(n)
    /\ \A m \in msgs' \ msgs : Fits(f, m)
    /\ UNCHANGED traceVars

(* The answer to a fetch is lost, and its follower asks again.                *)
LoseAnswer(f) ==
    /\ Consumes(f)
    /\ \E m \in AnswersTo(f) : m.epoch = epoch[f] /\ ~Fits(f, m) /\ msgs' = msgs \ {m}
    /\ UNCHANGED <<diskVars, memoryVars, cut, used, historyVars, traceVars>>

(* A leader appends several records at once: all but the last of them.        *)
AppendUnseen(l) ==
    /\ \E p \in NextOf(l) :
        /\ ~Lines[p].restart
        /\ Lines[p].state.epoch = epoch[l]
        /\ Lines[p].state.end > EndOffset(log[l]) + 1
    /\ AppendRecord(l)
    /\ hw'[l] = hw[l]
    /\ UNCHANGED traceVars

TraceNext ==
    LET slack == IF at \in Loose THEN Slack ELSE 0
    IN  \/ \E place \in at..Min({Len(Lines), at + slack}) : Take(place)
        \/ \E n \in Nodes : AnswerUnseen(n) \/ LoseAnswer(n) \/ AppendUnseen(n)

--------------------------------------------------------------------------------
(* What TLC tells.  The verdict is printed rather than a violated invariant,  *)
(* because TLC would print every state of the way there.                      *)

AllVars ==
    [epoch |-> epoch, voted |-> voted, disk |-> disk, role |-> role, leader |-> leader,
     votes |-> votes, log |-> log, start |-> start, hw |-> hw, remote |-> remote, msgs |-> msgs,
     cut |-> cut, used |-> used, committed |-> committed, elected |-> elected, cast |-> cast,
     disturbed |-> disturbed]

(* More lines were taken than ever before in this run.                        *)
Further == TLCGet(1) < Taken /\ TLCSet(1, Taken) /\ PrintT(ToString([taken |-> Taken]))

Report ==
    /\ IF Further THEN TRUE ELSE TRUE
    /\ Taken = Len(Lines) =>
        /\ PrintT(ToString([taken |-> Taken, state |-> AllVars]))
        /\ TLCSet("exit", TRUE)
================================================================================
