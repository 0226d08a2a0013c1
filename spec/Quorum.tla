-------------------------------- MODULE Quorum --------------------------------
(* The metadata quorum, as Kafka has it in KRaft (KIP-595): Raft in which     *)
(* followers pull, with pre-vote (KIP-996), check-quorum, snapshots (KIP-630) *)
(* and observers.  What it replicates is `Metadata`'s log of decisions.       *)
(*                                                                            *)
(* What is abstracted, and why that is sound, stands in docs/quorum.md.  In   *)
(* short: requests are derived from their sender's state and only votes and   *)
(* fetch answers travel; a pre-vote is one exchange; a step ends when storage *)
(* has answered; the network does not lose messages, but nodes are cut off    *)
(* and an answer may outlive its epoch.  Faults are bounded by budgets; what  *)
(* heals is never bounded.                                                    *)
EXTENDS QuorumState

--------------------------------------------------------------------------------
(* Elections.                                                                 *)

(* Node v would do something about the vote request of candidate n.           *)
Answerable(v, n) ==
    /\ v # n
    /\ role[n] = "candidate"
    /\ Connected(n, v)
    /\ v \notin votes[n]
    /\ \A m \in VotesFor(n) : m.from # v
    /\ RequestIsCurrent(epoch[n], epoch[v])

(* What v becomes when a node in epoch `newer` asks it for something.         *)
Caught(v, newer) == IF newer > epoch[v] THEN Moved(State(v), newer, None) ELSE State(v)

Grants(v, n) ==
    LET s == Caught(v, epoch[n])
    IN  MayGrantVote(s.voted, n, s.leader # None, LogIsUpToDate(log[n], log[v]))

(* The leader that follower n knows can still be heard.                       *)
HearsLeader(n) ==
    /\ role[n] = "follower"
    /\ Connected(n, leader[n])
    /\ role[leader[n]] = "leader"
    /\ epoch[leader[n]] = epoch[n]

(* There is still somebody who might vote for candidate n.                    *)
HasHope(n) ==
    /\ role[n] = "candidate"
    /\ n \notin cut
    /\ \/ VotesFor(n) # {}
       \/ \E v \in Voters : Answerable(v, n) /\ (epoch[v] < epoch[n] \/ Grants(v, n))

(* Node n gives up although it need not: a disturbance.                       *)
Premature(n) == HearsLeader(n) \/ HasHope(n)

(* Node n stands although somebody else does, or leads: a disturbance.        *)
Contested(n) ==
    \E v \in Voters \ {n} :
        v \notin cut /\ role[v] \in {"candidate", "leader"} /\ epoch[v] >= epoch[n]

(* With these pre-votes n stands: the epoch and the budget must allow it.     *)
MayStand(n, granted) ==
    HasMajority(granted) =>
        /\ EpochAfter(epoch[n]) <= MaxEpoch
        /\ Contested(n) => used.contests < MaxContests
AfterStanding(n, granted, spent) ==
    IF HasMajority(granted) /\ Contested(n) THEN [spent EXCEPT !.contests = @ + 1] ELSE spent

(* A voter hears from no leader, or its election comes to nothing.            *)
(* Enabled: always, but prematurely only within the budget.                   *)
(* Changes: it asks for pre-votes, in its epoch; alone, it leads at once.     *)
TimeOut(n) ==
    LET spent == IF Premature(n) THEN [used EXCEPT !.timeouts = @ + 1] ELSE used
        new == n :> PreVotedFor(n, State(n), {n})
    IN  /\ n \in Voters
        /\ role[n] \in {"unattached", "follower", "candidate"}
        /\ spent.timeouts <= MaxTimeouts
        /\ MayStand(n, {n})
        /\ Step(new, msgs, AfterStanding(n, {n}, spent))
        /\ IF role[n] = "follower" THEN Disturb(n) ELSE UNCHANGED disturbed
        /\ UNCHANGED cut

(* Prospective n asks v for a pre-vote, and is answered.                      *)
(* Enabled: v is not in a later epoch, and something comes of it.             *)
(* Changes: v moves to that epoch; n has its pre-vote if v grants it, and     *)
(* with a majority of them n stands in the next epoch.                        *)
PreVote(n, v) ==
    LET asked == Caught(v, epoch[n])
        grants == MayGrantPreVote(asked.leader # None, LogIsUpToDate(log[n], log[v]))
        granted == IF grants THEN votes[n] \cup {v} ELSE votes[n]
        new == n :> PreVotedFor(n, State(n), granted) @@ v :> asked
    IN  /\ v # n
        /\ v \in Voters
        /\ role[n] = "prospective"
        /\ Connected(n, v)
        /\ RequestIsCurrent(epoch[n], epoch[v])
        /\ epoch[v] < epoch[n] \/ granted # votes[n]
        /\ MayStand(n, granted)
        /\ Step(new, msgs, AfterStanding(n, granted, used))
        /\ UNCHANGED <<cut, disturbed>>

(* The vote request of candidate n reaches v.                                 *)
(* Enabled: v is not in a later epoch, has not answered, and something comes  *)
(* of it.                                                                     *)
(* Changes: v moves to that epoch; if it grants its vote, that is on its disk *)
(* and on its way to n.                                                       *)
HandleVoteRequest(v, n) ==
    LET asked == Caught(v, epoch[n])
        grants == Grants(v, n)
        new == v :> IF grants THEN [asked EXCEPT !.voted = n] ELSE asked
        vote == [type |-> "vote", from |-> v, to |-> n, epoch |-> epoch[n]]
    IN  /\ v \in Voters
        /\ Answerable(v, n)
        /\ epoch[v] < epoch[n] \/ grants
        /\ Step(new, IF grants THEN msgs \cup {vote} ELSE msgs, used)
        /\ UNCHANGED <<cut, disturbed>>

(* A vote reaches its candidate.                                              *)
(* Changes: with a majority the candidate leads.                              *)
HandleVote(n) ==
    \E m \in VotesFor(n) :
        LET new == n :> VotedFor(n, State(n), votes[n] \cup {m.from})
        IN  /\ n \notin cut
            /\ Step(new, msgs \ {m}, used)
            /\ UNCHANGED <<cut, disturbed>>

(* Node n hears of a later epoch and its leader, from anyone; or of its own   *)
(* epoch's leader, from that (BeginQuorumEpoch).                              *)
(* Changes: it follows.                                                       *)
LearnLeader(n) ==
    \E m \in Nodes \ {n} :
        LET new == n :> Moved(State(n), epoch[m], leader[m])
        IN  /\ Connected(n, m)
            /\ leader[m] \notin {None, n}
            /\ \/ IsNewerEpoch(epoch[m], epoch[n])
               \/ role[m] = "leader" /\ epoch[m] = epoch[n] /\ leader[n] = None
            /\ Step(new, msgs, used)
            /\ UNCHANGED <<cut, disturbed>>

(* Node n hears of a later epoch from one that knows no leader of it.         *)
(* Changes: it moves there; a leader is one no more.                          *)
LearnEpoch(n) ==
    \E m \in Nodes \ {n} :
        LET new == n :> Moved(State(n), epoch[m], None)
        IN  /\ Connected(n, m)
            /\ leader[m] = None
            /\ IsNewerEpoch(epoch[m], epoch[n])
            /\ Step(new, msgs, used)
            /\ UNCHANGED <<cut, disturbed>>

(* Whom node n reaches, itself included.                                      *)
Reached(n) == IF n \in cut THEN {n} ELSE Nodes \ cut

(* A leader that reaches no majority any more gives up.                       *)
(* Changes: it is unattached, and has voted for itself in this epoch.         *)
Resign(l) ==
    LET new == l :> Moved(State(l), epoch[l], None)
    IN  /\ role[l] = "leader"
        /\ MustResign(HasMajority(Reached(l) \cap Voters))
        /\ Step(new, msgs, used)
        /\ UNCHANGED <<cut, disturbed>>

--------------------------------------------------------------------------------
(* The log.                                                                   *)

(* A leader appends a client's record.                                        *)
(* Enabled: within the budget.                                                *)
(* Changes: its log; its high watermark, if it is a majority by itself.       *)
AppendRecord(l) ==
    LET id == used.records + 1
        entries == Append(log[l], [epoch |-> epoch[l], id |-> id])
    IN  /\ role[l] = "leader"
        /\ used.records < MaxRecords
        /\ Step(l :> Advanced(l, State(l), entries, remote[l]), msgs, [used EXCEPT !.records = id])
        /\ UNCHANGED <<cut, disturbed>>

(* What leader l may answer: a snapshot; or where the follower's log          *)
(* diverges; or some of the entries that follow (at least one, if there is    *)
(* any) and the high watermark from before this fetch was counted.            *)
FetchAnswers(l, request, snapshot, end, diverges) ==
    LET last == EndOffset(log[l])
        lengths == IF request.offset < last THEN 1..(last - request.offset) ELSE {0}
    IN  IF snapshot
        THEN {[type |-> "snapshot", to |-> request.from, epoch |-> request.epoch,
               entries |-> Prefix(log[l], start[l])]}
        ELSE IF diverges
        THEN {[type |-> "answer", to |-> request.from, epoch |-> request.epoch,
               diverges |-> TRUE, end |-> end]}
        ELSE {[type |-> "answer", to |-> request.from, epoch |-> request.epoch,
               diverges |-> FALSE, hw |-> hw[l],
               entries |-> SubSeq(log[l], request.offset + 1, request.offset + n)] : n \in lengths}

(* This answer tells follower f something.                                    *)
Tells(f, m) == m.type = "answer" /\ ~m.diverges => m.entries # <<>> \/ m.hw > hw[f]

(* The fetch of follower f arrives at the leader it knows.                    *)
(* Enabled: that one leads in this epoch, f waits for no answer, and          *)
(* something comes of it.  (A fetch to which there is nothing to say waits at *)
(* the leader.)                                                               *)
(* Changes: what the leader knows of f, its high watermark; an answer is on   *)
(* its way if there is one.                                                   *)
LeaderHandleFetch(f) ==
    LET l == leader[f]
        request == FetchRequest(f)
        end == EpochEnd(log[l], request.lastEpoch)
        snapshot == NeedsSnapshot(start[l], LastEpoch(Prefix(log[l], start[l])), request)
        diverges == Diverges(end, request)
        known == IF CountsAsProgress(~snapshot /\ ~diverges)
                 THEN [remote[l] EXCEPT ![f] = request.offset] ELSE remote[l]
        after == Advanced(l, State(l), log[l], known)
    IN  /\ HearsLeader(f)
        /\ \A m \in AnswersTo(f) : m.epoch # epoch[f]
        /\ \E m \in FetchAnswers(l, request, snapshot, end, diverges) :
               /\ Tells(f, m) \/ after # State(l)
               /\ Step(l :> after, IF Tells(f, m) THEN msgs \cup {m} ELSE msgs, used)
        /\ UNCHANGED <<cut, disturbed>>

(* Follower f after it has installed this snapshot.                           *)
Installed(f, snapshot) ==
    LET end == EndOffset(snapshot)
    IN  [State(f) EXCEPT !.log = KeptAfterSnapshot(log[f], snapshot),
                         !.start = Max({start[f], end}), !.hw = Max({hw[f], end})]

(* Follower f after this answer.                                              *)
Answered(f, m) ==
    LET entries == IF m.diverges
                   THEN Prefix(log[f], TruncationOffset(log[f], hw[f], m.end))
                   ELSE log[f] \o m.entries
    IN  [State(f) EXCEPT !.log = entries,
                         !.hw = IF m.diverges THEN hw[f]
                                ELSE FollowerHighWatermark(hw[f], m.hw, EndOffset(entries))]

(* The answer to its fetch arrives at a follower.                             *)
(* Enabled: always; an answer of another epoch is dropped, unless it is a     *)
(* snapshot (see HandleLateSnapshot).                                         *)
(* Changes: the log, cut where it diverges, longer by what came, or replaced  *)
(* by a snapshot; the high watermark.                                         *)
FollowerHandleAnswer(f) ==
    \E m \in AnswersTo(f) :
        LET current == AnswerIsCurrent(role[f], epoch[f], m)
            after == IF ~current THEN State(f)
                     ELSE IF m.type = "snapshot" THEN Installed(f, m.entries)
                     ELSE Answered(f, m)
        IN  /\ f \notin cut
            /\ m.type = "snapshot" => m.epoch = epoch[f]
            /\ Step(f :> after, msgs \ {m}, used)
            /\ UNCHANGED <<cut, disturbed>>

(* A snapshot arrives whose download has outlived the epoch it was begun in.  *)
(* Changes: it is installed: what it holds is committed in every epoch.  If   *)
(* that changes the log, an answer made for the earlier log is of no use.     *)
HandleLateSnapshot(f) ==
    \E m \in AnswersTo(f) :
        LET after == Installed(f, m.entries)
        IN  /\ f \notin cut
            /\ m.type = "snapshot"
            /\ m.epoch < epoch[f]
            /\ Step(f :> after, msgs \ IF after.log = log[f] THEN {m} ELSE AnswersTo(f), used)
            /\ UNCHANGED <<cut, disturbed>>

(* A node replaces what it knows to be committed by a snapshot.               *)
(* Enabled: within the budget.                                                *)
TakeSnapshot(n) ==
    LET end == SnapshotOffset(hw[n], EndOffset(log[n]))
    IN  /\ start[n] < end
        /\ used.snapshots < MaxSnapshots
        /\ Step(n :> [State(n) EXCEPT !.start = end], msgs, [used EXCEPT !.snapshots = @ + 1])
        /\ UNCHANGED <<cut, disturbed>>

--------------------------------------------------------------------------------
(* Faults.                                                                    *)

(* Node n stops and starts again, with what is on its disk.  What was on its  *)
(* way to it is lost.                                                         *)
Restart(n) ==
    LET stopped == Moved(State(n), epoch[n], None)
        new == n :> [stopped EXCEPT !.epoch = disk[n].epoch, !.voted = disk[n].voted, !.hw = 0]
    IN  /\ used.restarts < MaxRestarts
        /\ Step(new, {m \in msgs : m.to # n}, [used EXCEPT !.restarts = @ + 1])
        /\ Disturb(n)
        /\ UNCHANGED cut

(* Node n can be reached by nobody; a majority of voters still is.            *)
Isolate(n) ==
    /\ n \notin cut
    /\ used.cuts < MaxCuts
    /\ 2 * Cardinality(Voters \ (cut \cup {n})) > Cardinality(Voters)
    /\ cut' = cut \cup {n}
    /\ used' = [used EXCEPT !.cuts = @ + 1]
    /\ Disturb(n)
    /\ UNCHANGED <<diskVars, memoryVars, msgs, committed, elected, cast>>

(* Node n can be reached again.                                               *)
Rejoin(n) ==
    /\ n \in cut
    /\ cut' = cut \ {n}
    /\ UNCHANGED <<diskVars, memoryVars, msgs, used, historyVars>>

--------------------------------------------------------------------------------
Next ==
    \E n \in Nodes :
        \/ TimeOut(n)
        \/ HandleVote(n)
        \/ LearnLeader(n)
        \/ LearnEpoch(n)
        \/ Resign(n)
        \/ AppendRecord(n)
        \/ LeaderHandleFetch(n)
        \/ FollowerHandleAnswer(n)
        \/ HandleLateSnapshot(n)
        \/ TakeSnapshot(n)
        \/ Restart(n)
        \/ Isolate(n)
        \/ Rejoin(n)
        \/ \E v \in Voters :
            \/ PreVote(n, v)
            \/ HandleVoteRequest(v, n)

(* What heals.  A node that was cut off may stay so.                          *)
Heal ==
    \E n \in Nodes :
        \/ ~Premature(n) /\ TimeOut(n)
        \/ HandleVote(n)
        \/ LearnLeader(n)
        \/ LearnEpoch(n)
        \/ Resign(n)
        \/ LeaderHandleFetch(n)
        \/ FollowerHandleAnswer(n)
        \/ HandleLateSnapshot(n)
        \/ \E v \in Voters : PreVote(n, v) \/ HandleVoteRequest(v, n)

(* As long as something can heal, something does.  That is less than each of  *)
(* them being fair, and is enough: no healing undoes another.                 *)
Fairness == WF_vars(Heal)

Spec == Init /\ [][Next]_vars
FairSpec == Spec /\ Fairness
================================================================================
