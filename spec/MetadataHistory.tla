---------------------------- MODULE MetadataHistory ----------------------------
(* `Replication` with its metadata's history written down, to show that it    *)
(* asks no more of its metadata than `Metadata` gives.  Adds no behaviour.    *)
EXTENDS Replication

VARIABLE decided  \* every record that the controller has decided, in order

HistoryInit == Init /\ decided = <<FirstRecord>>
HistoryNext == Next /\ decided' = IF ctl' = ctl THEN decided ELSE Append(decided, ctl')
HistorySpec == HistoryInit /\ [][HistoryNext]_<<vars, decided>>

(* Replica r acts on this record; a follower looks at leader and epoch alone. *)
ActsOn(r, record) ==
    /\ view[r].leader = record.leader
    /\ view[r].epoch = record.epoch
    /\ Leads(r) => view[r].version = record.version /\ view[r].isr = record.isr

(* The place of the first record that r may be acting on; 0 after a restart,  *)
(* and beyond the end if no such record was ever decided.                     *)
Known(r) ==
    IF view[r].epoch = 0 THEN 0
    ELSE Min({i \in DOMAIN decided : ActsOn(r, decided[i])} \cup {Len(decided) + 1})

(* A record's version is its place in the history: nothing is decided twice   *)
(* or out of order.                                                           *)
VersionIsPlace == \A i \in DOMAIN decided : decided[i].version = i

(* Every replica acts on a record that was decided.                           *)
ActsOnDecided == \A r \in Replicas : Known(r) <= Len(decided)

MetadataLog == INSTANCE Metadata WITH
    Nodes <- Replicas,
    FirstDecisions <- <<FirstRecord>>,
    known <- [r \in Replicas |-> Known(r)]
RefinesMetadata == MetadataLog!Spec
================================================================================
