------------------------------ MODULE QuorumState ------------------------------
(* The state that `Quorum` acts on: its constants and variables, the first    *)
(* state, and the consequences that several of its actions share.             *)
EXTENDS QuorumRules, TLC

CONSTANTS
    FirstLeader,   \* the voter that leads at the start; None: all begin anew
    MaxEpoch,      \* up to which epoch candidates stand
    MaxRecords,    \* how many records clients append
    MaxTimeouts,   \* how often a node gives up although it need not
    MaxContests,   \* how often one stands although another stands or leads
    MaxRestarts,   \* how many nodes restart
    MaxCuts,       \* how often a node is cut off
    MaxSnapshots,  \* how many snapshots are taken
    MaxDelays      \* how many answers outlive the epoch they belong to

VARIABLES
    epoch,      \* epoch[n]: the epoch that n is in
    voted,      \* voted[n]: for whom it has voted in that epoch, or None
    disk,       \* disk[n]: epoch and vote as they are on its disk
    role,       \* role[n]: unattached, follower, prospective, candidate, leader
    leader,     \* leader[n]: the leader of its epoch, if it knows
    votes,      \* votes[n]: who has granted it a pre-vote or, later, a vote
    log,        \* log[n]: its entries on disk, with those that a snapshot replaced
    start,      \* start[n]: how many of them a snapshot has replaced
    hw,         \* hw[n]: how many it knows to be committed; 0 after a restart
    remote,     \* remote[l][n]: where, as leader l knows, the log of n ends
    msgs,       \* votes and fetch answers in flight
    cut,        \* the nodes that nobody can talk to
    used,       \* budgets used
    committed,  \* history: the longest log ever under a leader's high watermark
    elected,    \* history: <<epoch, node>> for every leader
    cast,       \* history: <<voter, epoch, candidate>>, votes in voters' epochs
    disturbed   \* history: voters that timed out, restarted or were cut off;
                \* all of them as soon as they are a majority

diskVars == <<epoch, voted, disk, log, start>>
memoryVars == <<role, leader, votes, hw, remote>>
historyVars == <<committed, elected, cast, disturbed>>
vars == <<diskVars, memoryVars, msgs, cut, used, historyVars>>

NoRemote == [n \in Nodes |-> 0]

FirstEpoch == IF FirstLeader = None THEN 0 ELSE 1
FirstVote(n) == IF n = FirstLeader THEN n ELSE None
FirstRole(n) == IF FirstLeader = None THEN "unattached"
                ELSE IF n = FirstLeader THEN "leader" ELSE "follower"

Init ==
    /\ epoch = [n \in Nodes |-> FirstEpoch]
    /\ voted = [n \in Nodes |-> FirstVote(n)]
    /\ disk = [n \in Nodes |-> [epoch |-> FirstEpoch, voted |-> FirstVote(n)]]
    /\ role = [n \in Nodes |-> FirstRole(n)]
    /\ leader = [n \in Nodes |-> FirstLeader]
    /\ votes = [n \in Nodes |-> {}]
    /\ log = [n \in Nodes |-> IF n = FirstLeader THEN RecordsOnElection(1) ELSE <<>>]
    /\ start = [n \in Nodes |-> 0]
    /\ hw = [n \in Nodes |-> 0]
    /\ remote = [n \in Nodes |-> NoRemote]
    /\ msgs = {}
    /\ cut = {}
    /\ used = [records |-> 0, timeouts |-> 0, contests |-> 0, restarts |-> 0,
               cuts |-> 0, snapshots |-> 0, delays |-> 0]
    /\ committed = <<>>
    /\ elected = IF FirstLeader = None THEN {} ELSE {<<1, FirstLeader>>}
    /\ cast = IF FirstLeader = None THEN {} ELSE {<<FirstLeader, 1, FirstLeader>>}
    /\ disturbed = IF FirstLeader = None THEN Voters ELSE {}

--------------------------------------------------------------------------------
(* A node's own state, and what becomes of it.                                *)

State(n) ==
    [epoch |-> epoch[n], voted |-> voted[n], role |-> role[n], leader |-> leader[n],
     votes |-> votes[n], log |-> log[n], start |-> start[n], hw |-> hw[n],
     remote |-> remote[n]]

(* It moves to an epoch, its own or a later one; `known` leads, or nobody is  *)
(* known to.                                                                  *)
Moved(s, newEpoch, known) ==
    [s EXCEPT !.epoch = newEpoch,
              !.voted = VotedAfterMove(s.voted, newEpoch = s.epoch),
              !.role = IF known = None THEN "unattached" ELSE "follower",
              !.leader = known, !.votes = {}, !.remote = NoRemote]

(* How far leader l, with this log, has what a majority of voters has.        *)
Majority(l, entries, known, leaderEpoch) ==
    {o \in DOMAIN entries :
        /\ MayCommit(entries[o].epoch, leaderEpoch)
        /\ HasMajority({n \in Nodes : Counts(n) /\ (n = l \/ known[n] >= o)})}

(* Leader l has these entries and knows this of the others; its high          *)
(* watermark advances to what a majority of the voters has.                   *)
Advanced(l, s, entries, known) ==
    [s EXCEPT !.log = entries, !.remote = known,
              !.hw = Max({@} \cup Majority(l, entries, known, s.epoch))]

(* It leads, knows nothing of the others yet, and its first record is out.    *)
Leading(n, s) ==
    Advanced(n, [s EXCEPT !.role = "leader", !.leader = n, !.votes = {}],
             s.log \o RecordsOnElection(s.epoch), NoRemote)

(* These have voted for it: with a majority it leads.                         *)
VotedFor(n, s, granted) ==
    IF HasMajority(granted) THEN Leading(n, s)
    ELSE [s EXCEPT !.role = "candidate", !.votes = granted]

(* These have granted it a pre-vote: with a majority it stands.  A voter that *)
(* is a majority by itself leads at once.                                     *)
PreVotedFor(n, s, granted) ==
    LET asking == [s EXCEPT !.role = "prospective", !.leader = None, !.votes = granted]
        standing == [asking EXCEPT !.epoch = EpochAfter(s.epoch), !.voted = n]
    IN  IF HasMajority(granted) THEN VotedFor(n, standing, {n}) ELSE asking

--------------------------------------------------------------------------------
(* Messages.                                                                  *)

(* These two can talk.                                                        *)
Connected(n, m) == n \notin cut /\ m \notin cut

VotesFor(n) == {m \in msgs : m.type = "vote" /\ m.to = n}
AnswersTo(n) == {m \in msgs : m.type # "vote" /\ m.to = n}

(* The fetch that f sends in its present state.                               *)
FetchRequest(f) ==
    [from |-> f, epoch |-> epoch[f], offset |-> EndOffset(log[f]), lastEpoch |-> LastEpoch(log[f])]

(* A receiver in state s still waits for m; or m is late already, and nobody  *)
(* waits for it.                                                              *)
Wanted(m, s) ==
    IF m.type = "vote" THEN s.role = "candidate" /\ s.epoch = m.epoch
    ELSE m.epoch < epoch[m.to] \/ (s.role = "follower" /\ s.epoch = m.epoch)

(* Of `sent`, what nobody waits for any more is dropped; or, within the       *)
(* budget, the answer to a follower that has moved to another epoch arrives   *)
(* late.                                                                      *)
Deliver(new, sent, spent) ==
    LET lost == {m \in sent : m.to \in DOMAIN new /\ ~Wanted(m, new[m.to])}
        late == {m \in lost : m.type # "vote" /\ new[m.to].epoch > m.epoch}
    IN  \/ /\ msgs' = sent \ lost
           /\ used' = spent
        \/ /\ late # {}
           /\ spent.delays < MaxDelays
           /\ msgs' = (sent \ lost) \cup late
           /\ used' = [spent EXCEPT !.delays = @ + 1]

(* History is written.                                                        *)
Record(new) ==
    LET leads == {n \in DOMAIN new : new[n].role = "leader"}
        done == {entries \in {Prefix(new[n].log, new[n].hw) : n \in leads} :
                    ~IsPrefix(entries, committed)}
        given == {<<n, new[n].epoch, new[n].voted>> :
                     n \in {v \in DOMAIN new : new[v].voted # None}}
    IN  /\ committed' = IF done = {} THEN committed ELSE CHOOSE entries \in done : TRUE
        /\ elected' = elected \cup {<<new[n].epoch, n>> : n \in leads}
        /\ cast' = {vote \in cast \cup given :
                       vote[1] \in DOMAIN new => vote[2] >= new[vote[1]].epoch}

(* The nodes in the domain of `changed` are in those states from now on;      *)
(* epoch and vote are on disk before anyone can tell.  These messages were    *)
(* sent and these budgets spent.  (Bound by \E, `new` is computed once.)      *)
Step(changed, sent, spent) ==
    \E new \in {changed} :
        LET same(n) == n \notin DOMAIN new
            saved(n) == new[n].epoch = epoch[n] /\ new[n].voted = voted[n]
        IN  /\ epoch' = [n \in Nodes |-> IF same(n) THEN epoch[n] ELSE new[n].epoch]
            /\ voted' = [n \in Nodes |-> IF same(n) THEN voted[n] ELSE new[n].voted]
            /\ disk' = [n \in Nodes |-> IF same(n) \/ saved(n) THEN disk[n]
                                         ELSE PersistedVote(new[n].epoch, new[n].voted)]
            /\ role' = [n \in Nodes |-> IF same(n) THEN role[n] ELSE new[n].role]
            /\ leader' = [n \in Nodes |-> IF same(n) THEN leader[n] ELSE new[n].leader]
            /\ votes' = [n \in Nodes |-> IF same(n) THEN votes[n] ELSE new[n].votes]
            /\ log' = [n \in Nodes |-> IF same(n) THEN log[n] ELSE new[n].log]
            /\ start' = [n \in Nodes |-> IF same(n) THEN start[n] ELSE new[n].start]
            /\ hw' = [n \in Nodes |-> IF same(n) THEN hw[n] ELSE new[n].hw]
            /\ remote' = [n \in Nodes |-> IF same(n) THEN remote[n] ELSE new[n].remote]
            /\ Record(new)
            /\ Deliver(new, sent, spent)

(* Node n was disturbed.                                                      *)
Disturb(n) ==
    LET some == disturbed \cup ({n} \cap Voters)
    IN  disturbed' = IF 2 * Cardinality(some) > Cardinality(Voters) THEN Voters ELSE some
================================================================================
