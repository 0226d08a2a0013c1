------------------------- MODULE QuorumMetadataMutants -------------------------
(* A wrong rule by which the quorum is no log of decisions any more.          *)
EXTENDS QuorumMetadata

(* For LogIsUpToDate.                                                         *)
AnyLogWins(candidateLog, voterLog) == TRUE
================================================================================
