------------------------- MODULE ReplicationProperties -------------------------
(* What must hold of `Replication`: invariants, action properties, liveness,  *)
(* and the refinement of `AbstractLog`.  Which model checks which property    *)
(* stands in models/*.cfg; which bug breaks it, in mutants/*.cfg.             *)
EXTENDS Replication, TLC

Offsets == 0..MaxRecords
LeaderEpochs == 0..(MaxEpoch + MaxFaults + 1)
Entry == [epoch : LeaderEpochs \ {0}, id : 1..MaxRecords]
IsLog(l) == Len(l) \in Offsets /\ \A i \in DOMAIN l : l[i] \in Entry

TypeOk ==
    /\ DOMAIN log = Replicas /\ \A r \in Replicas : IsLog(log[r])
    /\ hw \in [Replicas -> Offsets]
    /\ remote \in [Replicas -> [Replicas -> [endOffset : Offsets, brokerEpoch : 0..(MaxFaults + 1)]]]
    /\ \A r \in Replicas :
        /\ view[r].leader \in Replicas \cup {None} /\ view[r].epoch \in LeaderEpochs
        /\ view[r].isr \subseteq Replicas /\ view[r].pending \subseteq Replicas
        /\ ~Leads(r) => view[r].isr = {} /\ view[r].pending = {} /\ remote[r] = NoRemote
    /\ ctl.leader \in Replicas \cup {None} /\ ctl.epoch \in LeaderEpochs \ {0}
    /\ ctl.isr \subseteq Replicas /\ ctl.elr \subseteq Replicas \ ctl.isr
    /\ broker \in [Replicas -> [epoch : 1..(MaxFaults + 1), fenced : BOOLEAN]]
    /\ IsLog(committed)
    /\ acked \subseteq 1..MaxRecords

--------------------------------------------------------------------------------
(* Who leads, and who is in sync.                                             *)

LeaderInIsr == ctl.leader # None => ctl.leader \in ctl.isr

(* Two replicas never lead in the same epoch.                                 *)
SingleLeaderPerEpoch ==
    \A r, s \in Replicas : Leads(r) /\ Leads(s) /\ view[r].epoch = view[s].epoch => r = s

(* KIP-841.                                                                   *)
NoFencedInIsr == ctl.isr \cap Fenced = {}

(* KIP-966: as long as no broker fails, at least min ISR replicas may be      *)
(* elected cleanly; each failure may cost one.                                *)
MinIsrRecoveryQuorum == Cardinality(ctl.isr \cup ctl.elr) + used.faults >= MinIsr

--------------------------------------------------------------------------------
(* Logs and high watermarks.                                                  *)

(* An entry of the same epoch at the same offset is the same, and so is all   *)
(* that precedes it.                                                          *)
LogMatching ==
    \A r, s \in Replicas : \A i \in DOMAIN log[r] \cap DOMAIN log[s] :
        log[r][i].epoch = log[s][i].epoch => Prefix(log[r], i) = Prefix(log[s], i)

HwInLogRange == \A r \in Replicas : hw[r] <= EndOffset(log[r])

(* What is under any high watermark is on every in-sync replica.              *)
ValidHighWatermark ==
    \A r \in Replicas : \A s \in ctl.isr : IsPrefix(Prefix(log[r], hw[r]), log[s])

(* What is under any high watermark is on at least min ISR replicas; each     *)
(* failure may cost one.                                                      *)
HwReplicated ==
    \A r \in Replicas :
        LET holders == {s \in Replicas : IsPrefix(Prefix(log[r], hw[r]), log[s])}
        IN  Cardinality(holders) + used.faults >= MinIsr

--------------------------------------------------------------------------------
(* What users are promised.                                                   *)

(* Everyone who may be elected cleanly has all that was ever committed.       *)
LeaderCandidateCompleteness ==
    \A r \in ctl.isr \cup ctl.elr : IsPrefix(committed, log[r])

Acting(r) == Leads(r) /\ view[r].epoch = ctl.epoch

(* A leader of the newest epoch has all that was ever committed.              *)
LeaderCompleteness == \A r \in Replicas : Acting(r) => IsPrefix(committed, log[r])

(* ... and all that was ever acknowledged.                                    *)
AckedNotLost == \A r \in Replicas : Acting(r) => acked \subseteq Ids(log[r])

(* Whatever a consumer may read, anywhere and at any time, is the same.       *)
ConsistentRead == \A r \in Replicas : IsPrefix(Readable(r), committed)

--------------------------------------------------------------------------------
(* Action properties.                                                         *)

CommittedAppendOnly == [][IsPrefix(committed, committed')]_committed

(* Consumers of one replica see its high watermark go back only when its      *)
(* broker has restarted.                                                      *)
HwMonotonic ==
    [][\A r \in Replicas : hw'[r] >= hw[r] \/ broker'[r].epoch > broker[r].epoch]_<<hw, broker>>

(* acks=all fails closed: under min ISR nothing is appended for it.           *)
FailsClosed ==
    [][\A r \in Replicas :
        /\ used'.records > used.records
        /\ used'.records \notin AcksOne
        /\ used'.records \in Ids(log'[r])
        => Cardinality(view[r].isr) >= MinIsr]_<<used, log>>

(* A leader only ever proposes to remove a follower that lags behind it.      *)
OnlyLaggardsLeave ==
    [][\A l, f \in Replicas :
        /\ view[l].pending = {}
        /\ view'[l].pending # {}
        /\ f \in view[l].isr \ view'[l].pending
        => remote[l][f].endOffset < EndOffset(log[l])]_view

(* Nobody is elected uncleanly while somebody could be elected cleanly.       *)
UncleanIsLastResort ==
    [][/\ ctl.leader = None
       /\ ctl'.leader # None
       /\ Candidates(ctl, Fenced) # {}
       => ctl'.leader \in Candidates(ctl, Fenced)]_ctl

Abstract == INSTANCE AbstractLog
RefinesAbstractLog == Abstract!Spec

(* For models that check safety alone: followers may change places.           *)
Symmetry == Permutations(Replicas \ {FirstLeader})

--------------------------------------------------------------------------------
(* Liveness, under FairSpec.                                                  *)

(* The high watermark reaches the log end.                                    *)
HwReachesLogEnd == <>[](ctl.leader # None => hw[ctl.leader] = EndOffset(log[ctl.leader]))

(* The ISR heals.                                                             *)
IsrHeals == <>[](ctl.isr = Replicas)

(* What is acknowledged is on every replica in the end.                       *)
AckedBecomesReplicated ==
    <>[](\A r \in Replicas : acked \subseteq Ids(log[r]))
================================================================================
