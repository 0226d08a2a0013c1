------------------------------ MODULE QuorumRules ------------------------------
(* The choices that a node of the metadata quorum makes: pure operators, no   *)
(* variables.  Every choice that a bug could get wrong has a name here, so    *)
(* that a model can swap it for a wrong one:                                  *)
(* CONSTANT MayCommit <- CommitByCountingAlone.  The Python machine knows the *)
(* same rules by the same names, in snake case.                               *)
EXTENDS LogOps

CONSTANTS
    Voters,     \* who elects and is elected, and whose copies count
    Observers,  \* who only fetch
    None

Nodes == Voters \cup Observers

(* GUARD.  Elections and commits take more than half of the voters.           *)
HasMajority(nodes) == 2 * Cardinality(nodes) > Cardinality(Voters)

--------------------------------------------------------------------------------
(* Epochs and votes.                                                          *)

(* CHOICE.  A candidate stands in an epoch of its own.                        *)
EpochAfter(current) == current + 1

(* GUARD.  A node learns of later epochs; what it hears of earlier ones is    *)
(* old.                                                                       *)
IsNewerEpoch(theirs, mine) == theirs > mine

(* GUARD.  A vote is asked for in the voter's epoch or a later one.           *)
RequestIsCurrent(requested, mine) == requested >= mine

(* GUARD.  A candidate's log is at least as new as the voter's: it ends in a  *)
(* later epoch, or in the same and is not shorter.                            *)
LogIsUpToDate(candidateLog, voterLog) ==
    \/ LastEpoch(candidateLog) > LastEpoch(voterLog)
    \/ /\ LastEpoch(candidateLog) = LastEpoch(voterLog)
       /\ EndOffset(candidateLog) >= EndOffset(voterLog)

(* GUARD, KIP-996.  Who knows a leader does not encourage others to replace   *)
(* it; nor does anyone whose log is newer.                                    *)
MayGrantPreVote(knowsLeader, logUpToDate) == ~knowsLeader /\ logUpToDate

(* GUARD.  One vote in an epoch, none when its leader is known, and none for  *)
(* a candidate that may lack committed records.                               *)
MayGrantVote(vote, candidate, knowsLeader, logUpToDate) ==
    vote \in {None, candidate} /\ ~knowsLeader /\ logUpToDate

(* CHOICE.  A node that moves within its epoch, to follow its leader, does    *)
(* not forget for whom it has voted.                                          *)
VotedAfterMove(vote, sameEpoch) == IF sameEpoch THEN vote ELSE None

(* CHOICE.  What is on disk before a vote is answered or an epoch acted on.   *)
PersistedVote(current, vote) == [epoch |-> current, voted |-> vote]

(* CHOICE, Raft 8.  A new leader appends a record of its own epoch, so that   *)
(* what precedes it can be committed.                                         *)
RecordsOnElection(current) == <<[epoch |-> current, id |-> 0]>>

(* GUARD.  Check-quorum: a leader that reaches no majority steps down.        *)
MustResign(reachesMajority) == ~reachesMajority

--------------------------------------------------------------------------------
(* The leader's answers, and what it commits.                                 *)

(* GUARD, KIP-630.  The leader no longer has what this follower needs: it     *)
(* asks for what a snapshot has replaced, or its log ends in an epoch of      *)
(* which nothing is left.                                                     *)
NeedsSnapshot(first, firstEpoch, request) ==
    request.offset < first \/ request.lastEpoch < firstEpoch

(* GUARD, KIP-279.  The follower's log ends in an epoch that the leader does  *)
(* not know, or beyond that epoch's end.                                      *)
Diverges(end, request) == end.epoch < request.lastEpoch \/ end.offset < request.offset

(* GUARD, KAFKA-13141.  Only a fetch that agrees with the leader's log says   *)
(* what the follower has.                                                     *)
CountsAsProgress(agrees) == agrees

(* GUARD.  Copies on voters count; observers' do not.                         *)
Counts(node) == node \in Voters

(* GUARD, Raft 5.4.2.  Records of earlier epochs are not committed by         *)
(* counting copies, only by a later record of the leader's own epoch.         *)
MayCommit(entryEpoch, current) == entryEpoch = current

--------------------------------------------------------------------------------
(* The follower.                                                              *)

(* GUARD.  Only an answer of the epoch in which it follows is acted on.       *)
AnswerIsCurrent(ownRole, current, answer) ==
    ownRole = "follower" /\ answer.epoch = current

(* CHOICE, KIP-279.  How much of a diverging log is kept: up to the end of    *)
(* the largest epoch that both know, and to its earlier end.                  *)
TruncationOffset(entries, highWatermark, end) ==
    Min({end.offset, EpochEnd(entries, end.epoch).offset})

(* CHOICE.  A follower takes over the leader's high watermark as far as its   *)
(* own log reaches, and never goes back.                                      *)
FollowerHighWatermark(highWatermark, leaderHighWatermark, endOffset) ==
    Max({highWatermark, Min({leaderHighWatermark, endOffset})})

(* CHOICE.  A log that contains the snapshot's last entry contains all of it, *)
(* and keeps what follows; any other log is replaced.                         *)
KeptAfterSnapshot(entries, snapshot) ==
    IF /\ EndOffset(snapshot) <= EndOffset(entries)
       /\ entries[EndOffset(snapshot)].epoch = LastEpoch(snapshot)
    THEN entries ELSE snapshot

(* CHOICE.  A snapshot is taken of what is committed.                         *)
SnapshotOffset(highWatermark, endOffset) == highWatermark
================================================================================
