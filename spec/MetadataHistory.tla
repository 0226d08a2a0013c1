---------------------------- MODULE MetadataHistory ----------------------------
(* `Replication` with its metadata's history written down, to show that it    *)
(* asks no more of its metadata than `Metadata` gives.  Adds no behaviour.    *)
EXTENDS Replication

VARIABLES
    decided,  \* every record that the controller has decided, in order
    known     \* known[r]: the place of the record that replica r acts on

Place(v) == <<v.leader, v.epoch, v.version>>

HistoryInit ==
    /\ Init
    /\ decided = <<FirstRecord>>
    /\ known = [r \in Replicas |-> 1]

HistoryNext ==
    /\ Next
    /\ decided' = IF ctl' = ctl THEN decided ELSE Append(decided, ctl')
    /\ known' = [r \in Replicas |->
            IF broker'[r].epoch # broker[r].epoch THEN 0
            ELSE IF Place(view'[r]) # Place(view[r]) THEN Len(decided)
            ELSE known[r]]

HistorySpec == HistoryInit /\ [][HistoryNext]_<<vars, decided, known>>

(* A record's version is its place in the history: nothing is decided twice   *)
(* or out of order.                                                           *)
VersionIsPlace == \A i \in DOMAIN decided : decided[i].version = i

(* Every replica acts on a record that was decided.                           *)
ActsOnDecided ==
    \A r \in Replicas : known[r] > 0 =>
        LET record == decided[known[r]]
        IN  /\ view[r].leader = record.leader
            /\ view[r].epoch = record.epoch
            /\ Leads(r) => view[r].version = record.version /\ view[r].isr = record.isr

MetadataLog == INSTANCE Metadata WITH Nodes <- Replicas, FirstDecisions <- <<FirstRecord>>
RefinesMetadata == MetadataLog!Spec
================================================================================
