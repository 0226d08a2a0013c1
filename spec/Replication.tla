------------------------------ MODULE Replication ------------------------------
(* ISR replication of one partition, as Kafka does it since KIP-966: leaders  *)
(* append, followers fetch, the high watermark follows the maximal ISR, and   *)
(* the controller decides who leads and who is in sync.                       *)
(*                                                                            *)
(* What is abstracted, and why that is sound, stands in docs/replication.md.  *)
(* In short: one record is one batch; a follower's fetch request is derived   *)
(* from its state and only answers travel, except for requests and answers    *)
(* that a follower leaves behind when it moves to another epoch or restarts   *)
(* (bounded by MaxDelays); a crash and the registration that follows it are   *)
(* one step; a broker always learns the newest metadata.  Faults are bounded  *)
(* by budgets; what heals is never bounded.                                   *)
EXTENDS ReplicationState

--------------------------------------------------------------------------------
(* The leader.                                                                *)

(* A producer's record arrives at a replica that believes to lead.            *)
(* Enabled: within the budget, and for acks=all at min ISR or more.           *)
(* Changes: appends the record; the high watermark if the ISR is alone.       *)
Produce(l) ==
    LET id == used.records + 1
        entries == Append(log[l], [epoch |-> view[l].epoch, id |-> id])
    IN  /\ Leads(l)
        /\ used.records < MaxRecords
        /\ MayAppend(view[l], id \notin AcksOne)
        /\ log' = [log EXCEPT ![l] = entries]
        /\ used' = [used EXCEPT !.records = id]
        /\ AdvanceHighWatermark(l, entries, remote[l], view[l])
        /\ UNCHANGED <<view, remote, ctl, broker, msgs>>

(* What leader l learns from `request`: where the follower's log ends.        *)
Progress(l, request) ==
    LET end == LeaderEpochEnd(log[l], request)
    IN  IF CountsAsProgress(Diverges(end, request))
        THEN [remote[l] EXCEPT ![request.from] =
                [endOffset |-> request.offset, brokerEpoch |-> request.brokerEpoch]]
        ELSE remote[l]

(* What leader l may answer: some of the entries that follow (at least one,   *)
(* if there is any; how many is a matter of sizes), and the high watermark    *)
(* from before this fetch was counted; or where the follower's log diverges.  *)
Answers(l, request) ==
    LET end == LeaderEpochEnd(log[l], request)
        last == EndOffset(log[l])
        lengths == IF request.offset < last THEN 1..(last - request.offset) ELSE {0}
    IN  IF Diverges(end, request)
        THEN {[type |-> "answer", to |-> request.from, epoch |-> request.epoch,
               diverges |-> TRUE, end |-> end]}
        ELSE {[type |-> "answer", to |-> request.from, epoch |-> request.epoch,
               diverges |-> FALSE, hw |-> hw[l],
               entries |-> SubSeq(log[l], request.offset + 1, request.offset + n)] : n \in lengths}

(* The fetch of follower f arrives at the leader it knows.                    *)
(* Enabled: f waits for no answer, and the epochs agree; then the one that is *)
(* asked does lead.                                                           *)
(* Changes: what the leader knows of f, its high watermark; an answer is on   *)
(* its way.                                                                   *)
LeaderHandleFetch(f) ==
    LET request == FetchRequest(f)
        l == request.to
        fetched == Progress(l, request)
    IN  /\ Follows(f)
        /\ EpochIsCurrent(view[l], request)
        /\ \A m \in AnswersTo(f) : m.epoch # request.epoch
        /\ remote' = [remote EXCEPT ![l] = fetched]
        /\ \E answer \in Answers(l, request) : msgs' = msgs \cup {answer}
        /\ AdvanceHighWatermark(l, log[l], fetched, view[l])
        /\ UNCHANGED <<log, view, ctl, broker, used>>

(* A fetch arrives that its sender has left behind; nobody waits for the      *)
(* answer.                                                                    *)
(* Enabled: always.                                                           *)
(* Changes: as any fetch if the epochs agree and its sender has not fetched   *)
(* since with a newer broker epoch, nothing otherwise; it is gone.            *)
CountLateFetch(l, request) ==
    IF /\ EpochIsCurrent(view[l], request)
       /\ SameIncarnation(remote[l][request.from], request)
    THEN LET fetched == Progress(l, request)
         IN  /\ remote' = [remote EXCEPT ![l] = fetched]
             /\ AdvanceHighWatermark(l, log[l], fetched, view[l])
    ELSE UNCHANGED <<remote, hw, committed, acked>>
LeaderHandleLateFetch(l) ==
    \E request \in {m \in msgs : m.type = "request" /\ m.to = l} :
        /\ msgs' = msgs \ {request}
        /\ CountLateFetch(l, request)
        /\ UNCHANGED <<log, view, ctl, broker, used>>

(* The leader proposes to add a follower that has caught up (AlterPartition). *)
(* Enabled: the follower has fetched in this epoch and caught up; no other    *)
(* proposal is pending.                                                       *)
(* Changes: the pending ISR; from now on the high watermark waits for it.     *)
ExpandIsr(l, f) ==
    /\ Leads(l)
    /\ view[l].pending = {}
    /\ f \notin view[l].isr
    /\ remote[l][f].brokerEpoch > 0
    /\ MayJoinIsr(remote[l][f], hw[l], EpochStart(log[l], view[l].epoch))
    /\ view' = [view EXCEPT ![l].pending = view[l].isr \cup {f},
                            ![l].joiner = remote[l][f].brokerEpoch]
    /\ UNCHANGED <<log, hw, remote, ctl, broker, msgs, used, committed, acked>>

(* The leader proposes to take out a follower that lags.                      *)
(* Enabled: it lags; no other proposal is pending; within the budget.         *)
(* Changes: the pending ISR; until that is committed, the high watermark      *)
(* still waits for the follower.                                              *)
ShrinkIsr(l, f) ==
    /\ Leads(l)
    /\ view[l].pending = {}
    /\ f \in view[l].isr \ {l}
    /\ used.shrinks < MaxShrinks
    /\ MayLeaveIsr(remote[l][f], EndOffset(log[l]))
    /\ view' = [view EXCEPT ![l].pending = view[l].isr \ {f}]
    /\ used' = [used EXCEPT !.shrinks = @ + 1]
    /\ UNCHANGED <<log, hw, remote, ctl, broker, msgs, committed, acked>>

--------------------------------------------------------------------------------
(* The follower.                                                              *)

(* The answer to its fetch arrives at a follower.                             *)
(* Enabled: always; an answer of another epoch is dropped.                    *)
(* Changes: the log, cut where it diverges or longer by what came; the high   *)
(* watermark.                                                                 *)
FollowerHandleAnswer(f) ==
    \E m \in AnswersTo(f) :
        /\ msgs' = msgs \ {m}
        /\ IF AnswerIsCurrent(view[f], m)
           THEN LET entries == IF m.diverges
                               THEN Prefix(log[f], TruncationOffset(log[f], hw[f], m.end))
                               ELSE log[f] \o m.entries
                IN  /\ log' = [log EXCEPT ![f] = entries]
                    /\ hw' = [hw EXCEPT ![f] =
                                IF m.diverges THEN Min({hw[f], EndOffset(entries)})
                                ELSE FollowerHighWatermark(hw[f], m.hw, EndOffset(entries))]
           ELSE UNCHANGED <<log, hw>>
        /\ UNCHANGED <<view, remote, ctl, broker, used, committed, acked>>

--------------------------------------------------------------------------------
(* Any replica.                                                               *)

(* The leader and epoch that r knows are not the ones decided last.           *)
Outdated(r) == view[r].leader # ctl.leader \/ view[r].epoch # ctl.epoch

(* A broker learns that its replica leads in a new epoch.                     *)
(* Changes: its view; it knows nothing of its followers yet, and its high     *)
(* watermark stays unless it is in sync alone.                                *)
BecomeLeader(r) ==
    /\ ctl.leader = r
    /\ Outdated(r)
    /\ LeadBy(r, ctl)
    /\ UNCHANGED <<ctl, broker>>

(* A broker learns of a new epoch in which its replica does not lead.         *)
(* Changes: its view.  Its log stays as it is until the new leader's answer   *)
(* says where the logs diverge.                                               *)
BecomeFollower(r) ==
    /\ ctl.leader # r
    /\ Outdated(r)
    /\ FollowBy(r, ctl)
    /\ UNCHANGED <<ctl, broker>>

(* A leader learns the ISR that the controller has set, by its own proposal   *)
(* or because a broker was fenced.                                            *)
(* Changes: its view, with nothing pending; the high watermark.               *)
LearnIsr(r) ==
    /\ ctl.leader = r
    /\ ~Outdated(r)
    /\ view[r].version < ctl.version
    /\ LeadOnBy(r, ctl)
    /\ UNCHANGED <<ctl, broker>>

(* A consumer reads from a replica, leader or follower (KIP-392), what is     *)
(* under its high watermark.                                                  *)
(* Enabled: its broker knows the partition, which after a restart it does not *)
(* yet, and there is something to read.                                       *)
(* Changes: nothing.  What may be read is judged by ConsistentRead.           *)
Readable(r) == Prefix(log[r], ReadLimit(log[r], hw[r]))
Consume(r) ==
    /\ view[r].epoch > 0
    /\ Readable(r) # <<>>
    /\ UNCHANGED vars

--------------------------------------------------------------------------------
(* The controller.                                                            *)

Current(proposal) == ProposalIsCurrent(ctl, proposal.version)
Eligible(proposal) ==
    \A r \in proposal.isr \ ctl.isr :
        /\ MayBeAdded(broker[r].fenced)
        /\ BrokerEpochIsCurrent(broker[r].epoch, proposal.joiner)

(* The controller accepts a leader's proposal.                                *)
(* Enabled: the leader knew the newest record, and the joiner is alive and    *)
(* the same incarnation that caught up.                                       *)
(* Changes: the record; the leader does not know yet.                         *)
CommitIsr(l) ==
    /\ view[l].pending # {}
    /\ Current(Proposal(l))
    /\ Eligible(Proposal(l))
    /\ ctl' = ChangeIsr(ctl, view[l].pending, {})
    /\ UNCHANGED <<log, hw, view, remote, broker, msgs, used, committed, acked>>

(* A proposal arrives that its leader no longer waits for.                    *)
(* Enabled: always.                                                           *)
(* Changes: nothing, because the leader moved on to a newer record; it is     *)
(* gone.  The rules decide, as for any other proposal.                        *)
HandleLateProposal(l) ==
    \E proposal \in {m \in msgs : m.type = "proposal" /\ m.from = l} :
        /\ msgs' = msgs \ {proposal}
        /\ ctl' = IF Current(proposal) /\ Eligible(proposal)
                  THEN ChangeIsr(ctl, proposal.isr, {})
                  ELSE ctl
        /\ UNCHANGED <<log, hw, view, remote, broker, used, committed, acked>>

(* The controller refuses a leader's proposal (INELIGIBLE_REPLICA).           *)
(* Enabled: the joiner is fenced or another incarnation.  A proposal from an  *)
(* old record needs no answer: the leader learns the newer record instead.    *)
(* Changes: the leader takes its proposal back.                               *)
RejectIsr(l) ==
    LET rolledBack == [view[l] EXCEPT !.pending = {}, !.joiner = 0]
    IN  /\ view[l].pending # {}
        /\ Current(Proposal(l))
        /\ ~Eligible(Proposal(l))
        /\ view' = [view EXCEPT ![l] = rolledBack]
        /\ AdvanceHighWatermark(l, log[l], remote[l], rolledBack)
        /\ UNCHANGED <<log, remote, ctl, broker, msgs, used>>

(* The controller makes a candidate the leader: the preferred one (a          *)
(* disturbance, so within the budget), or any when there is none (healing).   *)
ElectLeader(r) ==
    /\ r # ctl.leader
    /\ r \in Candidates(ctl, Fenced)
    /\ ctl.leader = None \/ ctl.epoch < MaxEpoch
    /\ ctl' = Elect(ctl, r)
    /\ UNCHANGED <<log, hw, view, remote, broker, msgs, used, committed, acked>>

(* The operator allows a replica to lead that may lack committed records.     *)
(* Enabled: only where switched on, and when nobody can be elected cleanly.   *)
ElectUncleanLeader(r) ==
    /\ MayElectUncleanly(UncleanElection, ctl.leader, Candidates(ctl, Fenced))
    /\ r \notin Fenced
    /\ ctl' = ElectUncleanly(ctl, r)
    /\ UNCHANGED <<log, hw, view, remote, broker, msgs, used, committed, acked>>

(* A fault of broker b is within the budget, also if it costs an election.    *)
MayFail(b) ==
    /\ used.faults < MaxFaults
    /\ ctl.leader = b => ctl.epoch < MaxEpoch

(* Heartbeats of a broker fail to arrive; it may well be alive, and lead.     *)
(* Changes: it is fenced and leaves the ISR; if it led, another is elected.   *)
FenceBroker(b) ==
    /\ b \notin Fenced
    /\ MayFail(b)
    /\ broker' = [broker EXCEPT ![b].fenced = TRUE]
    /\ ctl' \in Depart(ctl, b, {}, Fenced \cup {b})
    /\ used' = [used EXCEPT !.faults = @ + 1]
    /\ UNCHANGED <<log, hw, view, remote, msgs, committed, acked>>

(* A fenced broker's heartbeats arrive again, and it may lead and join.       *)
UnfenceBroker(b) ==
    /\ b \in Fenced
    /\ broker' = [broker EXCEPT ![b].fenced = FALSE]
    /\ UNCHANGED <<log, hw, view, remote, ctl, msgs, used, committed, acked>>

(* Broker b stops, keeps `kept` entries and the high watermark `mark`, and    *)
(* registers again, fenced at first and with a new broker epoch.  All that it *)
(* held in memory is gone.                                                    *)
Restart(b, kept, mark, lost) ==
    /\ log' = [log EXCEPT ![b] = Prefix(@, kept)]
    /\ hw' = [hw EXCEPT ![b] = Min({mark, kept})]
    /\ view' = [view EXCEPT ![b] = FollowerView(None, 0)]
    /\ remote' = [remote EXCEPT ![b] = NoRemote]
    /\ broker' = [broker EXCEPT ![b] = [epoch |-> @.epoch + 1, fenced |-> TRUE]]
    /\ ctl' \in Depart(ctl, b, lost, Fenced \cup {b})
    /\ \E s \in MoveOn(b, FALSE) :
           /\ msgs' = s.msgs
           /\ used' = [used EXCEPT !.delays = s.delays, !.faults = @ + 1]
    /\ UNCHANGED <<committed, acked>>

(* After a clean shutdown the log is whole.                                   *)
CleanRestart(b) ==
    /\ MayFail(b)
    /\ Restart(b, EndOffset(log[b]), hw[b], IF LosesEligibility(TRUE) THEN {b} ELSE {})

(* After a crash any part of the log's end may be lost, with the page cache   *)
(* or the disk.                                                               *)
LossyRestart(b) ==
    /\ MayFail(b)
    /\ \E kept \in 0..EndOffset(log[b]) :
           Restart(b, kept, hw[b], IF LosesEligibility(FALSE) THEN {b} ELSE {})

--------------------------------------------------------------------------------
Next ==
    \E r \in Replicas :
        \/ Produce(r)
        \/ LeaderHandleFetch(r)
        \/ LeaderHandleLateFetch(r)
        \/ FollowerHandleAnswer(r)
        \/ BecomeLeader(r)
        \/ BecomeFollower(r)
        \/ LearnIsr(r)
        \/ Consume(r)
        \/ CommitIsr(r)
        \/ RejectIsr(r)
        \/ HandleLateProposal(r)
        \/ ElectLeader(r)
        \/ ElectUncleanLeader(r)
        \/ FenceBroker(r)
        \/ UnfenceBroker(r)
        \/ CleanRestart(r)
        \/ LossyRestart(r)
        \/ \E f \in Replicas :
            \/ ExpandIsr(r, f)
            \/ ShrinkIsr(r, f)

(* What heals happens in the end, whatever else happens.                      *)
Fairness ==
    \A r \in Replicas :
        /\ WF_vars(BecomeLeader(r)) /\ WF_vars(BecomeFollower(r)) /\ WF_vars(LearnIsr(r))
        /\ WF_vars(LeaderHandleFetch(r)) /\ WF_vars(LeaderHandleLateFetch(r))
        /\ WF_vars(FollowerHandleAnswer(r))
        /\ WF_vars(CommitIsr(r)) /\ WF_vars(RejectIsr(r))
        /\ WF_vars(ctl.leader = None /\ ElectLeader(r))
        /\ WF_vars(UnfenceBroker(r))
        /\ \A f \in Replicas : WF_vars(ExpandIsr(r, f))

Spec == Init /\ [][Next]_vars
FairSpec == Spec /\ Fairness
================================================================================
