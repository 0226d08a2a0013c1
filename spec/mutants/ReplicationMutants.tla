-------------------------- MODULE ReplicationMutants --------------------------
(* Wrong rules: historic bugs, and slips that nobody has made yet.  Each .cfg *)
(* beside this module swaps one of them for the right one and names the       *)
(* property that must break; its first lines tell the story.                  *)
EXTENDS ReplicationProperties

(* For EpochIsCurrent.  A leader answers whoever asks; others still refuse.   *)
AnyEpochOfLeader(known, request) == known.leader = request.to

(* For AnswerIsCurrent.                                                       *)
AnyAnswer(known, answer) == TRUE
NoAnswer(known, answer) == FALSE

(* For SameIncarnation.                                                       *)
AnyIncarnation(follower, request) == TRUE

(* For LeaderEpochEnd.  Without an entry for its own epoch the leader does    *)
(* not know where an epoch newer than its last record ends; the follower,     *)
(* told nothing, falls back to its high watermark.                            *)
EpochEndWithoutOwnEpoch(entries, request) ==
    IF request.lastEpoch > LastEpoch(entries)
        THEN [epoch |-> 0, offset |-> request.hw]
        ELSE EpochEnd(entries, request.lastEpoch)

(* For Diverges.                                                              *)
DivergesByOffsetAlone(end, request) == end.offset < request.offset

(* For CountsAsProgress.                                                      *)
EveryFetchIsProgress(diverges) == TRUE
NoFetchIsProgress(diverges) == FALSE

(* For HighWatermarkIsr.                                                      *)
CommittedIsrAlone(known) == known.isr

(* For MayAdvanceHighWatermark.                                               *)
AlwaysAdvance(known) == TRUE

(* For AcknowledgedUpTo.                                                      *)
AcknowledgeOnAppend(endOffset, highWatermark) == endOffset

(* For MayAppend.                                                             *)
AppendUnderMinIsr(known, acksAll) == TRUE

(* For MayJoinIsr.                                                            *)
JoinAtHighWatermark(follower, highWatermark, epochStart) ==
    follower.endOffset >= highWatermark
JoinAtEpochStart(follower, highWatermark, epochStart) ==
    follower.endOffset >= epochStart
NeverJoin(follower, highWatermark, epochStart) == FALSE

(* For MayLeaveIsr.                                                           *)
AnyoneMayLeave(follower, endOffset) == TRUE

(* For KeptOnBecomingFollower.                                                *)
KeepToHighWatermark(entries, highWatermark) == highWatermark

(* For TruncationOffset.                                                      *)
TruncateToHighWatermark(entries, highWatermark, end) == highWatermark
TruncateToLeadersAnswer(entries, highWatermark, end) == end.offset

(* For FollowerHighWatermark.                                                 *)
HighWatermarkBeyondLog(highWatermark, leaderHighWatermark, endOffset) ==
    Max({highWatermark, leaderHighWatermark})
HighWatermarkOfLeader(highWatermark, leaderHighWatermark, endOffset) ==
    Min({leaderHighWatermark, endOffset})

(* For ReadLimit.                                                             *)
ReadToLogEnd(entries, highWatermark) == EndOffset(entries)

(* For NextEpoch.                                                             *)
SameEpoch(epoch) == epoch

(* For EligibleLeaderReplicas.                                                *)
NobodyEligible(record, isr, lost) == {}
EligibleForever(record, isr, lost) == ((record.isr \cup record.elr) \ isr) \ lost
EligibleThoughInSync(record, isr, lost) ==
    IF Cardinality(isr) >= MinIsr THEN {} ELSE (record.isr \cup record.elr) \ lost

(* For LosesEligibility.                                                      *)
NobodyLosesEligibility(cleanShutdown) == FALSE

(* For MayBeAdded.                                                            *)
FencedMayBeAdded(fenced) == TRUE

(* For BrokerEpochIsCurrent.                                                  *)
AnyBrokerEpoch(registered, claimed) == TRUE

(* For ProposalIsCurrent.                                                     *)
AnyVersion(record, version) == TRUE

(* Such a proposal is accepted again and again; a few times will do.          *)
FewVersions == ctl.version <= 6

(* For Candidates.                                                            *)
AnyoneAlive(record, fenced) == Replicas \ fenced
FencedToo(record, fenced) == IF record.isr # {} THEN record.isr ELSE record.elr

(* For MayElectUncleanly.                                                     *)
UncleanAlthoughCandidates(allowed, leader, candidates) == allowed /\ leader = None

(* For IsrAfterElection.                                                      *)
IsrWithoutNewLeader(record, replica) == record.isr
===============================================================================
