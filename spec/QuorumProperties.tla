--------------------------- MODULE QuorumProperties ---------------------------
(* What must hold of `Quorum`: invariants, action properties, liveness.       *)
(* Which model checks which property stands in models/Quorum/*.cfg; which bug *)
(* breaks it, in mutants/*.cfg.                                               *)
EXTENDS Quorum, TLC

(* The properties count for themselves, so that a wrong rule does not count   *)
(* for them.                                                                  *)
IsMajority(nodes) == 2 * Cardinality(nodes) > Cardinality(Voters)

Ends == 0..(MaxRecords + MaxEpoch)
KnownEpochs == 0..MaxEpoch
Roles == {"unattached", "follower", "prospective", "candidate", "leader"}
Entry == [epoch : KnownEpochs \ {0}, id : 0..MaxRecords]
IsLog(l) == Len(l) \in Ends /\ \A i \in DOMAIN l : l[i] \in Entry

TypeOk ==
    /\ epoch \in [Nodes -> KnownEpochs]
    /\ voted \in [Nodes -> Voters \cup {None}]
    /\ role \in [Nodes -> Roles]
    /\ leader \in [Nodes -> Voters \cup {None}]
    /\ votes \in [Nodes -> SUBSET Voters]
    /\ DOMAIN log = Nodes /\ \A n \in Nodes : IsLog(log[n])
    /\ start \in [Nodes -> Ends]
    /\ hw \in [Nodes -> Ends]
    /\ remote \in [Nodes -> [Nodes -> Ends]]
    /\ cut \subseteq Nodes
    /\ IsLog(committed)
    /\ \A n \in Nodes :
        /\ (role[n] = "leader") = (leader[n] = n)
        /\ (role[n] \in {"leader", "follower"}) = (leader[n] # None)
        /\ role[n] \notin {"prospective", "candidate"} => votes[n] = {}
        /\ role[n] # "leader" => remote[n] = NoRemote
        /\ n \in Observers => role[n] \in {"unattached", "follower"} /\ voted[n] = None
    /\ \A m \in msgs : m.type = "vote" => Wanted(m, State(m.to))

--------------------------------------------------------------------------------
(* Who leads.                                                                 *)

(* Two nodes are never elected in the same epoch.                             *)
OneLeaderPerEpoch == \A x, y \in elected : x[1] = y[1] => x = y

(* Nobody votes for two candidates in the same epoch, not even after a        *)
(* restart.                                                                   *)
OneVotePerEpoch == \A x, y \in cast : x[1] = y[1] /\ x[2] = y[2] => x = y

(* What a node acts on, and has told others, is on its disk.                  *)
VoteIsDurable == \A n \in Nodes : disk[n] = [epoch |-> epoch[n], voted |-> voted[n]]

(* As long as fewer than a majority of the voters time out, restart or are    *)
(* cut off, the first leader's epoch goes on.                                 *)
MinorityDoesNotDisrupt == disturbed # Voters => \A n \in Nodes : epoch[n] <= FirstEpoch

--------------------------------------------------------------------------------
(* Logs and high watermarks.                                                  *)

(* An entry of the same epoch at the same offset is the same, and so is all   *)
(* that precedes it.                                                          *)
LogMatching ==
    \A n, m \in Nodes : \A i \in DOMAIN log[n] \cap DOMAIN log[m] :
        log[n][i].epoch = log[m][i].epoch => Prefix(log[n], i) = Prefix(log[m], i)

HwInLogRange == \A n \in Nodes : hw[n] <= EndOffset(log[n]) /\ start[n] <= EndOffset(log[n])

(* What is under any high watermark, or in any snapshot, is committed.        *)
HwIsCommitted == \A n \in Nodes : IsPrefix(Prefix(log[n], hw[n]), committed)
SnapshotIsCommitted == \A n \in Nodes : IsPrefix(Prefix(log[n], start[n]), committed)

(* A majority of the voters holds what was ever committed.                    *)
CommittedNotLost == IsMajority({v \in Voters : IsPrefix(committed, log[v])})

(* A leader of the newest epoch has all that was ever committed.              *)
LeaderCompleteness ==
    \A n \in Nodes :
        role[n] = "leader" /\ (\A x \in elected : x[1] <= epoch[n]) => IsPrefix(committed, log[n])

(* The log of n is at least as new as that of v.                              *)
AsNew(n, v) ==
    \/ LastEpoch(log[n]) > LastEpoch(log[v])
    \/ /\ LastEpoch(log[n]) = LastEpoch(log[v])
       /\ EndOffset(log[n]) >= EndOffset(log[v])

(* ... and so has everyone who could be elected next.                         *)
ElectableCompleteness ==
    \A n \in Voters : IsMajority({v \in Voters : AsNew(n, v)}) => IsPrefix(committed, log[n])

--------------------------------------------------------------------------------
(* Action properties.                                                         *)

CommittedAppendOnly == [][IsPrefix(committed, committed')]_committed

(* No node goes back to an earlier epoch, not even by a restart.              *)
EpochMonotonic == [][\A n \in Nodes : epoch'[n] >= epoch[n]]_epoch

(* A node's high watermark goes back only when it restarts, and then it knows *)
(* none.                                                                      *)
HwMonotonic ==
    [][\A n \in Nodes :
        hw'[n] < hw[n] => hw'[n] = 0 /\ used'.restarts > used.restarts]_<<hw, used>>

(* A leader speaks only of what it still has: a snapshot leaves nothing of    *)
(* what it has replaced but where it ends.                                    *)
ServesWhatItHas ==
    [][\A m \in msgs' \ msgs :
        m.type = "answer" =>
            IF m.diverges THEN m.end.offset >= start[leader[m.to]]
            ELSE EndOffset(log[m.to]) >= start[leader[m.to]]]_msgs

(* For models that check safety alone.                                        *)
Symmetry == Permutations(Voters \ {FirstLeader}) \cup Permutations(Observers)

--------------------------------------------------------------------------------
(* Liveness, under FairSpec.                                                  *)

(* Those who can talk to each other.                                          *)
Together == Nodes \ cut
Leads(l) == role[l] = "leader" /\ \A n \in Together : leader[n] = l /\ epoch[n] = epoch[l]

(* Whoever is not cut off follows one leader.                                 *)
LeaderEmerges == <>[](\E l \in Together : Leads(l))

(* All that this leader has is committed, and known to be so.                 *)
CommitsInTheEnd ==
    <>[](\A l \in Together : Leads(l) =>
            \A n \in Together : log[n] = log[l] /\ hw[n] = EndOffset(log[l]))

(* Who is cut off does not go on to lead.                                     *)
CutOffLeaderResigns == <>[](\A n \in cut : role[n] # "leader")
================================================================================
