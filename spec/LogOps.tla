-------------------------------- MODULE LogOps --------------------------------
(* Pure operators on one replica's log: no constants, no variables.          *)
(*                                                                           *)
(* A log is a sequence of entries [epoch, id].  The entry at offset o is     *)
(* log[o + 1], because Kafka counts from zero and TLA+ from one, so that     *)
(* Len(log) is the log end offset: the offset the next entry will get.       *)
(* `id` names the record and exists only for the properties; the protocol    *)
(* itself looks at epochs and offsets alone.                                 *)
EXTENDS Integers, Sequences, FiniteSets

Min(S) == CHOOSE x \in S : \A y \in S : x <= y
Max(S) == CHOOSE x \in S : \A y \in S : x >= y

EndOffset(log) == Len(log)

(* The first `length` entries; all of them when there are fewer.             *)
Prefix(log, length) == SubSeq(log, 1, Min({length, Len(log)}))

IsPrefix(shorter, longer) ==
    /\ Len(shorter) <= Len(longer)
    /\ shorter = SubSeq(longer, 1, Len(shorter))

Ids(log) == {log[i].id : i \in DOMAIN log}
Epochs(log) == {log[i].epoch : i \in DOMAIN log}

(* The epoch of the last entry; 0, which no leader ever has, for an empty    *)
(* log.                                                                      *)
LastEpoch(log) == IF log = <<>> THEN 0 ELSE log[Len(log)].epoch

(* Where `epoch` begins in this log, or would begin: the number of entries   *)
(* of earlier epochs.  For a leader and its own epoch this is the log end at *)
(* its election.                                                             *)
EpochStart(log, epoch) == Cardinality({i \in DOMAIN log : log[i].epoch < epoch})

(* KIP-101 and KIP-279: the largest epoch this log knows up to `epoch`, and  *)
(* the offset at which that epoch ends.                                      *)
EpochEnd(log, epoch) ==
    [epoch  |-> Max({0} \cup {e \in Epochs(log) : e <= epoch}),
     offset |-> Cardinality({i \in DOMAIN log : log[i].epoch <= epoch})]
===============================================================================
