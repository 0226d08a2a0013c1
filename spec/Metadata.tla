------------------------------- MODULE Metadata -------------------------------
(* The cluster's metadata as those see it who depend on it: one log of        *)
(* decisions, atomic and ordered, of which every node knows a prefix.         *)
(*                                                                            *)
(* This is the quorum abstracted.  `Replication` stands on it: the controller *)
(* decides one step at a time, brokers learn what was decided, some later     *)
(* than others and some never (`MetadataHistory` shows that it asks for no    *)
(* more).  What is decided, and by which rules, is not said here: decisions   *)
(* are opaque.  A quorum that replicates such a log has to refine this.       *)
EXTENDS Naturals, Sequences

CONSTANTS
    Nodes,
    FirstDecisions  \* what is decided, and known to all, at the start

VARIABLES
    decided,  \* the decisions, in order
    known     \* known[n]: how many of them node n has learned

Init ==
    /\ decided = FirstDecisions
    /\ known = [n \in Nodes |-> Len(FirstDecisions)]

(* What was decided stays, in its place; more may follow.                     *)
Decide ==
    /\ Len(decided) <= Len(decided')
    /\ decided = SubSeq(decided', 1, Len(decided))

(* A node knows what it knew, learns more of what had been decided, or has    *)
(* restarted and forgets all.  It never goes back to an older prefix.         *)
Learn(n) == known'[n] \in {0} \cup (known[n]..Len(decided))

(* A node that restarts may cause a decision in the same step.                *)
Next ==
    /\ Decide
    /\ DOMAIN known' = Nodes
    /\ \A n \in Nodes : Learn(n)

Spec == Init /\ [][Next]_<<decided, known>>
================================================================================
