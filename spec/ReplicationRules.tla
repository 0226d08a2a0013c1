--------------------------- MODULE ReplicationRules ---------------------------
(* The choices that a broker makes for one replica of a partition: pure      *)
(* operators, no variables.  Every choice that a bug could get wrong has a   *)
(* name here (or in `Controller`), so that a model can swap it for a wrong   *)
(* one:  CONSTANT TruncationOffset <- TruncateToHighWatermark.  The Python   *)
(* machines know the same rules by the same names, in snake case.            *)
(*                                                                           *)
(* A replica's view of the metadata:                                         *)
(*   leader, epoch   whom it follows (itself, when it leads), and since when *)
(*   version, isr    of a leader: the partition record it knows              *)
(*   pending         of a leader: the ISR it has proposed, {} if none        *)
(*   joiner          of a leader: the broker epoch of the replica that the   *)
(*                   proposal adds, 0 if it adds none                        *)
EXTENDS Controller

(* GUARD, KIP-320.  A leader answers a fetch of its own epoch only.           *)
EpochIsCurrent(view, request) == request.epoch = view.epoch

(* GUARD, KIP-903.  A late fetch of a broker's earlier incarnation says       *)
(* nothing about the present one, which may have lost what that one had.     *)
SameIncarnation(follower, request) == request.brokerEpoch >= follower.brokerEpoch

(* CHOICE, KIP-101, KIP-279.  What the leader knows of the epoch that the     *)
(* follower's last entry has.                                                *)
LeaderEpochEnd(log, request) == EpochEnd(log, request.lastEpoch)

(* GUARD, KIP-279.  The follower's log ends in an epoch that the leader does  *)
(* not know, or beyond that epoch's end: the logs differ before the offset   *)
(* asked for.                                                                *)
Diverges(end, request) == end.epoch < request.lastEpoch \/ end.offset < request.offset

(* GUARD, KAFKA-13141.  Only a fetch that agrees with the leader's log says   *)
(* what the follower has.                                                    *)
CountsAsProgress(diverges) == ~diverges

(* CHOICE, KIP-497.  The high watermark waits for everyone who is in sync, or *)
(* may be so by now without the leader knowing: the maximal ISR.             *)
HighWatermarkIsr(view) == view.isr \cup view.pending

(* GUARD, KIP-966.  Under min ISR the high watermark stands still.            *)
MayAdvanceHighWatermark(view) == Cardinality(view.isr) >= MinIsr

(* CHOICE.  With acks=all a record is acknowledged once it is under the high  *)
(* watermark.                                                                *)
AcknowledgedUpTo(endOffset, highWatermark) == highWatermark

(* GUARD.  acks=all is refused under min ISR; acks=1 asks for no more than    *)
(* the leader's own log.                                                     *)
MayAppend(view, acksAll) == acksAll => Cardinality(view.isr) >= MinIsr

(* GUARD, KAFKA-7128.  A follower joins the ISR when it has reached the high  *)
(* watermark and the start of the leader's epoch: until the leader has       *)
(* committed something of its own, its high watermark may be an old one.     *)
MayJoinIsr(follower, highWatermark, epochStart) ==
    /\ follower.endOffset >= highWatermark
    /\ follower.endOffset >= epochStart

(* GUARD.  A follower that lags may be taken out of the ISR.  (How long it    *)
(* must have lagged is a matter of time, which the spec does not have.)      *)
MayLeaveIsr(follower, endOffset) == follower.endOffset < endOffset

(* CHOICE, KIP-101.  What a replica keeps when it starts to follow: all, for *)
(* only the leader can tell it where the logs diverge.                       *)
KeptOnBecomingFollower(log, highWatermark) == EndOffset(log)

(* GUARD, KIP-320.  A follower takes the answers of its current epoch only.   *)
AnswerIsCurrent(view, answer) == answer.epoch = view.epoch

(* CHOICE, KIP-279.  Where to cut a log that diverges: both sides step down  *)
(* to the largest epoch that both know, and to its earlier end.              *)
TruncationOffset(log, highWatermark, end) ==
    Min({end.offset, EpochEnd(log, end.epoch).offset})

(* CHOICE.  A follower takes over the leader's high watermark as far as its   *)
(* own log reaches, and never goes back: a new leader may know an older one. *)
FollowerHighWatermark(highWatermark, leaderHighWatermark, endOffset) ==
    Max({highWatermark, Min({leaderHighWatermark, endOffset})})

(* CHOICE, KIP-392.  Consumers read up to the high watermark of the replica   *)
(* they ask, leader or follower.                                             *)
ReadLimit(log, highWatermark) == highWatermark
===============================================================================
