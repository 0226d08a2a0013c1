---------------------------- MODULE MetadataMutants ----------------------------
(* Wrong rules that break what `Replication` and its metadata agree on.       *)
EXTENDS MetadataHistory

(* For NextVersion.                                                           *)
SameVersion(version) == version

(* For LeaderView.                                                            *)
LeaderViewOfOlderVersion(record) ==
    [leader |-> record.leader, epoch |-> record.epoch,
     version |-> Max({1, record.version - 1}),
     isr |-> record.isr, pending |-> {}, joiner |-> 0]
================================================================================
