---------------------------- MODULE QuorumMetadata ----------------------------
(* `Quorum` gives what `Metadata` promises to those who stand on it: what is  *)
(* committed is the log of decisions, and every node knows as much of it as   *)
(* is under its high watermark.  Adds no behaviour.                           *)
EXTENDS Quorum

(* How much of what was decided a node has learned.  A leader decides and     *)
(* knows in one step; it acts on a decision from the next step on, as all     *)
(* others do.                                                                 *)
VARIABLE learned

HistoryInit == Init /\ learned = hw
HistoryNext == Next /\ learned' = [n \in Nodes |-> Min({hw'[n], Len(committed)})]
HistorySpec == HistoryInit /\ [][HistoryNext]_<<vars, learned>>

MetadataLog == INSTANCE Metadata WITH
    FirstDecisions <- <<>>,
    decided <- committed,
    known <- learned
RefinesMetadata == MetadataLog!Spec
================================================================================
