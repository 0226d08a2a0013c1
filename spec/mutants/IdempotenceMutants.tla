-------------------------- MODULE IdempotenceMutants --------------------------
(* Wrong rules: historic bugs, and slips that nobody has made yet.  Each .cfg *)
(* beside this module swaps one of them for the right one and names the       *)
(* property that must break; its first lines tell the story.                  *)
EXTENDS IdempotenceProperties

(* For NextSequence.                                                          *)
SequencesWithoutEnd(seq) == seq + 1
RoundToOne(seq) == IF seq = MaxSequence THEN 1 ELSE seq + 1

(* For EpochIsCurrent.                                                        *)
AnyProducerEpoch(entry, request) == TRUE

(* For IsDuplicate.                                                           *)
NothingIsDuplicate(entry, request) == FALSE
DuplicateOfAnyEpoch(entry, request) ==
    \E i \in DOMAIN entry.batches : entry.batches[i].seq = request.seq

(* For MayStart.                                                              *)
StartAnywhere(request) == TRUE

(* For IsNext.                                                                *)
GapsAreFine(entry, request) == TRUE
NextWithoutRound(entry, request) == request.seq = Last(entry.batches).seq + 1

(* For WasAppendedBefore.                                                     *)
NothingWasBefore(entry, request) == FALSE
AnythingWasBefore(entry, request) ==
    /\ request.epoch = entry.epoch
    /\ entry.batches # <<>>
    /\ \A i \in DOMAIN entry.batches : entry.batches[i].seq # request.seq

(* For Remember.                                                              *)
RememberOne(entry, batch) ==
    [epoch |-> batch.epoch, batches |-> <<[seq |-> batch.seq, offset |-> batch.offset]>>]
RememberAcrossEpochs(entry, batch) ==
    LET all == Append(entry.batches, [seq |-> batch.seq, offset |-> batch.offset])
        surplus == Max({0, Len(all) - Remembered})
    IN  [epoch |-> batch.epoch, batches |-> SubSeq(all, surplus + 1, Len(all))]

(* For DuplicateOffset.                                                       *)
DuplicateAtLogEnd(entry, request, endOffset) == endOffset

(* For MayAnswer.                                                             *)
AnswerOnAppend(offset, highWatermark) == TRUE
AnswerAtCommitOnly(offset, highWatermark) == offset = highWatermark - 1

(* For KeepsSnapshot.                                                         *)
KeepsAnySnapshot(snapshot, endOffset) == TRUE

(* For StateAfterTruncation.                                                  *)
StateLeftBehind(entries, snapshot, left) == entries

(* For StateAfterRestart.                                                     *)
SnapshotAlone(snapshot, left) == snapshot.entries

(* For MayExpire.                                                             *)
ExpireAnyTime(quiet) == TRUE

(* For MaySend.                                                               *)
CountInFlight(inflight, next) ==
    Len(inflight) < MaxInFlight /\ (inflight # <<>> => next # FirstSequence)
PipelineRound(inflight, next) ==
    inflight # <<>> => Distance(Head(inflight).seq, next) < MaxInFlight

(* For RetrySequence.                                                         *)
SequenceOfNext(batch, next) == next

(* For Reaction.                                                              *)
BumpForAnyGap(error, first) == IF error = "notLeader" THEN "again" ELSE "bump"
FailWithoutLeader(error, first) ==
    IF error \in {"outOfOrder", "unknownProducer"} THEN (IF first THEN "bump" ELSE "again")
    ELSE "fail"
NeverBump(error, first) == "again"

(* For IsRefusal.                                                             *)
AnyErrorIsRefusal(error) == TRUE

(* For MayBump.                                                               *)
BumpAtOnce(inflight) == TRUE

(* For MayRenumber.                                                           *)
RenumberLoose(batch) == batch.state = "refused"
RenumberUnsure(batch) == ~batch.loose
RenumberNothing(batch) == FALSE
===============================================================================
