------------------------------ MODULE Controller ------------------------------
(* The partition's record in the cluster metadata, and what the controller   *)
(* may decide about it: pure operators, no variables.  Each decision yields  *)
(* the next record; `Metadata` says how decisions are ordered and learned.   *)
(*                                                                           *)
(* The record of the one partition that we model:                            *)
(*   leader   a replica, or None                                             *)
(*   epoch    the leader epoch, larger after every change of leader          *)
(*   version  Kafka's partition epoch, larger after every change at all      *)
(*   isr      the in-sync replicas                                           *)
(*   elr      KIP-966: members that left an ISR too small to commit without  *)
(*            them; they still hold everything committed                     *)
EXTENDS LogOps

CONSTANTS Replicas, None, MinIsr

(* CHOICE.  A change of leader is a new epoch: it tells the new leader's      *)
(* writes from the old one's.                                                *)
NextEpoch(epoch) == epoch + 1

(* CHOICE, KIP-497.  Every decision about the partition is a new version.    *)
NextVersion(version) == version + 1

(* CHOICE, KIP-966.  Who may still be elected cleanly besides `isr`: nobody   *)
(* while the ISR can commit by itself, otherwise all who left since it could *)
(* not, less those who lost data.                                            *)
EligibleLeaderReplicas(record, isr, lost) ==
    IF Cardinality(isr) >= MinIsr
        THEN {}
        ELSE ((record.isr \cup record.elr) \ isr) \ lost

(* GUARD, KIP-966.  A broker that comes back without its last shutdown having *)
(* been clean may have lost data, and leaves the ISR and the ELR alike.      *)
LosesEligibility(cleanShutdown) == ~cleanShutdown

(* GUARD, KIP-841.  A fenced broker does not join the ISR.                    *)
MayBeAdded(fenced) == ~fenced

(* GUARD, KIP-903.  Only the incarnation of a broker that caught up may join, *)
(* not a later one which may have lost what the earlier one had.             *)
BrokerEpochIsCurrent(registered, claimed) == claimed = registered

(* GUARD, KIP-497.  An ISR change is compared with the record it was made     *)
(* from, and set only when nothing changed in between.                       *)
ProposalIsCurrent(record, version) == version = record.version

(* CHOICE.  A clean election takes an in-sync replica that is not fenced, or *)
(* when there is none, an eligible leader replica.                           *)
Candidates(record, fenced) ==
    IF record.isr \ fenced # {} THEN record.isr \ fenced ELSE record.elr \ fenced

(* GUARD.  A replica that may lack committed records leads only where that is *)
(* allowed, and when nobody leads and nobody can be elected cleanly.          *)
MayElectUncleanly(allowed, leader, candidates) ==
    allowed /\ leader = None /\ candidates = {}

(* Decision: the ISR becomes `isr`, the replicas in `lost` having lost data. *)
ChangeIsr(record, isr, lost) ==
    [record EXCEPT !.isr = isr,
                   !.elr = EligibleLeaderReplicas(record, isr, lost),
                   !.version = NextVersion(@)]

(* CHOICE, KIP-966.  Who is in sync with a leader elected cleanly: the ISR as *)
(* it was, and a leader taken from the ELR joins it.                         *)
IsrAfterElection(record, replica) == record.isr \cup {replica}

(* Decision: `replica` leads.                                                *)
Elect(record, replica) ==
    [ChangeIsr(record, IsrAfterElection(record, replica), {})
        EXCEPT !.leader = replica, !.epoch = NextEpoch(@)]

(* Decision: a replica that may lack committed records leads, alone in sync. *)
ElectUncleanly(record, replica) ==
    [leader |-> replica, epoch |-> NextEpoch(record.epoch), isr |-> {replica},
     elr |-> {}, version |-> NextVersion(record.version)]

(* Decision: `replica` leaves the ISR, and if it led, a candidate succeeds   *)
(* it, or nobody does while there is none.  One decision, hence one version. *)
(* The set of possible outcomes: any candidate may be chosen.                *)
Depart(record, replica, lost, fenced) ==
    LET left == ChangeIsr(record, record.isr \ {replica}, lost)
        next == Candidates(left, fenced)
    IN  IF record.leader = replica
        THEN IF next = {}
             THEN {[left EXCEPT !.leader = None, !.epoch = NextEpoch(@)]}
             ELSE {[Elect(left, r) EXCEPT !.version = left.version] : r \in next}
        ELSE IF [left EXCEPT !.version = record.version] = record
             THEN {record}
             ELSE {left}
===============================================================================
