----------------------------- MODULE QuorumMutants -----------------------------
(* Wrong rules for the metadata quorum: historic bugs, and slips that Raft's  *)
(* paper warns of.  Each .cfg beside this module swaps one of them for the    *)
(* right one and names the property that must break; its first lines tell the *)
(* story.                                                                     *)
EXTENDS QuorumProperties

(* For HasMajority.                                                           *)
HalfIsEnough(nodes) == 2 * Cardinality(nodes) >= Cardinality(Voters)

(* For EpochAfter.                                                            *)
StandInSameEpoch(current) == current

(* For IsNewerEpoch.                                                          *)
AnyOtherEpoch(theirs, mine) == theirs # mine

(* For RequestIsCurrent.                                                      *)
AnyVoteRequest(requested, mine) == TRUE

(* For LogIsUpToDate.                                                         *)
AnyLog(candidateLog, voterLog) == TRUE
LongerLog(candidateLog, voterLog) == EndOffset(candidateLog) >= EndOffset(voterLog)

(* For MayGrantPreVote.                                                       *)
EncourageAnyone(knowsLeader, logUpToDate) == logUpToDate
NeverEncourage(knowsLeader, logUpToDate) == FALSE

(* For MayGrantVote.                                                          *)
VoteForEveryone(vote, candidate, knowsLeader, logUpToDate) == ~knowsLeader /\ logUpToDate

(* For VotedAfterMove.                                                        *)
ForgetVoteOnMove(vote, sameEpoch) == None

(* For PersistedVote.                                                         *)
PersistEpochAlone(current, vote) == [epoch |-> current, voted |-> None]
PersistNothing(current, vote) == [epoch |-> 0, voted |-> None]

(* For RecordsOnElection.                                                     *)
NoRecordOnElection(current) == <<>>
RecordWithoutEpoch(current) == <<[epoch |-> 0, id |-> 0]>>

(* For MustResign.                                                            *)
NeverResign(reachesMajority) == FALSE

(* For NeedsSnapshot.                                                         *)
SnapshotByOffsetAlone(first, firstEpoch, request) == request.offset < first
NeverSnapshot(first, firstEpoch, request) == FALSE

(* For Diverges.                                                              *)
NeverDiverges(end, request) == FALSE

(* For CountsAsProgress.                                                      *)
EveryFetchIsProgress(agrees) == TRUE

(* For Counts.                                                                *)
ObserversCount(node) == TRUE

(* For MayCommit.                                                             *)
CommitByCountingAlone(entryEpoch, current) == TRUE

(* For AnswerIsCurrent.                                                       *)
AnyAnswer(ownRole, current, answer) == TRUE
NoAnswer(ownRole, current, answer) == FALSE

(* For TruncationOffset.                                                      *)
TruncateToHighWatermark(entries, highWatermark, end) == highWatermark

(* For FollowerHighWatermark.                                                 *)
HighWatermarkBeyondLog(highWatermark, leaderHighWatermark, endOffset) ==
    Max({highWatermark, leaderHighWatermark})
HighWatermarkOfLeader(highWatermark, leaderHighWatermark, endOffset) ==
    Min({leaderHighWatermark, endOffset})
HighWatermarkAtLogEnd(highWatermark, leaderHighWatermark, endOffset) == endOffset

(* For KeptAfterSnapshot.                                                     *)
SnapshotReplacesLog(entries, snapshot) == snapshot
KeepLongerLog(entries, snapshot) ==
    IF EndOffset(snapshot) <= EndOffset(entries) THEN entries ELSE snapshot

(* For SnapshotOffset.                                                        *)
SnapshotToLogEnd(highWatermark, endOffset) == endOffset
================================================================================
