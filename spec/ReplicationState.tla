--------------------------- MODULE ReplicationState ---------------------------
(* The state that `Replication` acts on: its constants and variables, the     *)
(* first state, and the consequences that several of its actions share.       *)
EXTENDS ReplicationRules

CONSTANTS
    FirstLeader,      \* the replica that leads at the start
    UncleanElection,  \* may a replica outside ISR and ELR be elected?
    AcksOne,          \* ids of the records produced with acks=1; others acks=all
    MaxRecords,       \* how many records are produced
    MaxEpoch,         \* up to which leader epoch elections disturb
    MaxShrinks,       \* how often leaders take a lagging follower out of the ISR
    MaxFaults,        \* how many brokers are fenced or restarted
    MaxDelays         \* how many messages outlive the session they belong to

VARIABLES
    log,        \* log[r]: the entries of replica r, on its disk
    hw,         \* hw[r]: the high watermark that r knows
    view,       \* view[r]: what r knows of the metadata (see ReplicationRules)
    remote,     \* remote[l][f]: what leader l knows of follower f: its endOffset,
                \* and the brokerEpoch it fetched with (0: has not fetched)
    ctl,        \* the partition's record at the controller (see Controller)
    broker,     \* broker[r]: its registration: epoch, and whether it is fenced
    msgs,       \* fetch answers in flight; requests and proposals left behind
    used,       \* budgets used: records, shrinks, faults, delays
    committed,  \* history: the longest log that was ever under a high watermark
    acked       \* history: ids of the records acknowledged with acks=all

replicaVars == <<log, hw, view, remote>>
controllerVars == <<ctl, broker>>
historyVars == <<committed, acked>>
vars == <<log, hw, view, remote, ctl, broker, msgs, used, committed, acked>>

NotFetched == [endOffset |-> 0, brokerEpoch |-> 0]
NoRemote == [r \in Replicas |-> NotFetched]

LeaderView(record) ==
    [leader |-> record.leader, epoch |-> record.epoch, version |-> record.version,
     isr |-> record.isr, pending |-> {}, joiner |-> 0]
FollowerView(leader, epoch) ==
    [leader |-> leader, epoch |-> epoch, version |-> 0, isr |-> {}, pending |-> {}, joiner |-> 0]

Leads(r) == view[r].leader = r
Follows(r) == view[r].leader \notin {r, None}
Fenced == {r \in Replicas : broker[r].fenced}

FirstRecord ==
    [leader |-> FirstLeader, epoch |-> 1, version |-> 1, isr |-> Replicas, elr |-> {}]

Init ==
    /\ log = [r \in Replicas |-> <<>>]
    /\ hw = [r \in Replicas |-> 0]
    /\ ctl = FirstRecord
    /\ view = [r \in Replicas |-> IF r = FirstLeader THEN LeaderView(FirstRecord)
                                                     ELSE FollowerView(FirstLeader, 1)]
    /\ remote = [r \in Replicas |-> NoRemote]
    /\ broker = [r \in Replicas |-> [epoch |-> 1, fenced |-> FALSE]]
    /\ msgs = {}
    /\ used = [records |-> 0, shrinks |-> 0, faults |-> 0, delays |-> 0]
    /\ committed = <<>>
    /\ acked = {}

--------------------------------------------------------------------------------
(* Consequences that several actions share.                                   *)

(* The leader's new state is `entries`, `fetched` and `known`: its high       *)
(* watermark advances to what the whole maximal ISR has, and pending          *)
(* acknowledgements are sent.  They wait in the leader's memory, so only      *)
(* records of its own epoch are acknowledged.                                 *)
AdvanceHighWatermark(l, entries, fetched, known) ==
    LET ends == {IF r = l THEN EndOffset(entries) ELSE fetched[r].endOffset :
                    r \in HighWatermarkIsr(known)}
        new  == IF MayAdvanceHighWatermark(known) THEN Max({hw[l], Min(ends)}) ELSE hw[l]
        done == Prefix(entries, AcknowledgedUpTo(EndOffset(entries), new))
    IN  /\ hw' = [hw EXCEPT ![l] = new]
        /\ committed' = IF IsPrefix(Prefix(entries, new), committed) THEN committed
                        ELSE Prefix(entries, new)
        /\ acked' = acked \cup ({done[i].id : i \in {j \in DOMAIN done :
                                    done[j].epoch = known.epoch}} \ AcksOne)

(* The fetch that f sends in its present state.                               *)
FetchRequest(f) ==
    [type |-> "request", from |-> f, to |-> view[f].leader, epoch |-> view[f].epoch,
     offset |-> EndOffset(log[f]), lastEpoch |-> LastEpoch(log[f]), hw |-> hw[f],
     brokerEpoch |-> broker[f].epoch]

(* The ISR change that leader l has pending (AlterPartition).                 *)
Proposal(l) ==
    [type |-> "proposal", from |-> l, version |-> view[l].version,
     isr |-> view[l].pending, joiner |-> view[l].joiner]

AnswersTo(r) == {m \in msgs : m.type = "answer" /\ m.to = r}

(* r moves on: to another epoch, to another record, or through a restart.     *)
(* What it had in flight is dropped, or, within the budget, outlives the      *)
(* move: a follower's fetch request, or the answer if the leader has sent one *)
(* (`answersSurvive`: a connection does not survive a restart); a leader's    *)
(* proposal.  The set of possible outcomes.                                   *)
MoveOn(r, answersSurvive) ==
    LET rest == msgs \ AnswersTo(r)
        left == IF AnswersTo(r) # {} THEN (IF answersSurvive THEN AnswersTo(r) ELSE {})
                ELSE IF Follows(r) THEN {FetchRequest(r)}
                ELSE IF view[r].pending # {} THEN {Proposal(r)} ELSE {}
    IN  {[msgs |-> rest, delays |-> used.delays]} \cup
        IF left # {} /\ used.delays < MaxDelays
            THEN {[msgs |-> rest \cup left, delays |-> used.delays + 1]}
            ELSE {}

(* r learns by `record` that it leads in a new epoch; it knows nothing of its *)
(* followers yet, and its high watermark stays unless it is in sync alone.    *)
LeadBy(r, record) ==
    /\ view' = [view EXCEPT ![r] = LeaderView(record)]
    /\ remote' = [remote EXCEPT ![r] = NoRemote]
    /\ AdvanceHighWatermark(r, log[r], NoRemote, LeaderView(record))
    /\ \E s \in MoveOn(r, FALSE) :
           msgs' = s.msgs /\ used' = [used EXCEPT !.delays = s.delays]
    /\ UNCHANGED log

(* r learns by `record` whom to follow in a new epoch.                        *)
FollowBy(r, record) ==
    /\ view' = [view EXCEPT ![r] = FollowerView(record.leader, record.epoch)]
    /\ remote' = [remote EXCEPT ![r] = NoRemote]
    /\ log' = [log EXCEPT ![r] = Prefix(@, KeptOnBecomingFollower(@, hw[r]))]
    /\ \E s \in MoveOn(r, TRUE) :
           msgs' = s.msgs /\ used' = [used EXCEPT !.delays = s.delays]
    /\ UNCHANGED <<hw, committed, acked>>

(* r leads already, and learns by `record` who is in sync.                    *)
LeadOnBy(r, record) ==
    /\ view' = [view EXCEPT ![r] = LeaderView(record)]
    /\ AdvanceHighWatermark(r, log[r], remote[r], LeaderView(record))
    /\ \E s \in MoveOn(r, FALSE) :
           msgs' = s.msgs /\ used' = [used EXCEPT !.delays = s.delays]
    /\ UNCHANGED <<log, remote>>
================================================================================
