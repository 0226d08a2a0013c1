------------------------------ MODULE AbstractLog ------------------------------
(* What a replicated log is for: one append-only log, whatever happens behind *)
(* it.  `Replication` refines this.  There are no replicas here, no epochs,   *)
(* no messages: a committed prefix that only grows, and acknowledgements only *)
(* of what is committed.                                                      *)
EXTENDS LogOps

VARIABLES
    committed,  \* the entries that any consumer may have read
    acked       \* ids of the records whose producers were told "safe"

Init ==
    /\ committed = <<>>
    /\ acked = {}

(* Entries are appended and some of the committed ones acknowledged, in one   *)
(* step: a high watermark does both.  No record is committed twice.           *)
Commit ==
    /\ IsPrefix(committed, committed')
    /\ Cardinality(Ids(committed')) = Len(committed')
    /\ acked \subseteq acked'
    /\ acked' \subseteq Ids(committed')

Spec == Init /\ [][Commit]_<<committed, acked>>
================================================================================
