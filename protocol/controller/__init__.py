"""The cluster's controller: who leads each partition, who is in sync, which brokers take part.

It is the pure part of it: commands and due events in, metadata records and replies out. It decides
by `ControllerRules` (the rules of `spec/Controller.tla`, under the same names) and knows nothing of
how its records are made durable, nor of the wire.

How the state mirrors `spec/Controller.tla` and `spec/Replication.tla`, for their one partition:

| spec | here |
| --- | --- |
| `ctl.leader` (`None`) | `Partition.leader` (`NO_LEADER`) |
| `ctl.epoch` | `Partition.leader_epoch` |
| `ctl.version` | `Partition.version` |
| `ctl.isr`, `ctl.elr` | `Partition.isr`, `Partition.elr` |
| `Replicas` | `Partition.replicas`, in assignment order |
| `broker[r].epoch`, `broker[r].fenced` | `Registration.epoch`, `Registration.fenced` |
| `Fenced` | `Image.unavailable(partition)`: also who is shutting down or not registered |
| `MinIsr`, `UncleanElection` | `TopicConfig.min_isr`, `TopicConfig.unclean_election` |

Not in the spec, hence not projected: all of `ControllerState` but its image (sessions, offsets,
replies that wait), the image's index, floor, producer ids and settings of brokers,
`Partition.adding` and `removing`, and of a registration `shutting_down` and `decommissioning`.
While those four are empty and false, every step is one of the spec's, or changes nothing that it
has; but for a change of a topic's settings, which are constants there.

How the actions mirror those of the spec stands where they are registered, and can be read from
`Controller.actions`.
"""

from __future__ import annotations

from protocol.controller.effects import (
    AppendRecords,
    DecommissionProgress,
    HeartbeatAnswer,
    ItemResult,
    ProducerIdBlock,
    Refuse,
    Registered,
    Reply,
    Results,
)
from protocol.controller.events import (
    AllocateProducerIds,
    AlterBrokerConfig,
    AlterPartition,
    AlterReassignment,
    AlterTopicConfig,
    BecameActive,
    Command,
    CreatePartitions,
    CreateTopics,
    Decommission,
    DeleteTopics,
    ElectionKind,
    ElectLeaders,
    Heartbeat,
    LeaderlessDue,
    NewTopic,
    RecordsCommitted,
    RegisterBroker,
    Resigned,
    SessionExpired,
    UncleanDue,
    Unregister,
    Unset,
)
from protocol.controller.machine import Controller
from protocol.controller.records import (
    BrokerConfigRecord,
    BrokerRecord,
    ConfigRecord,
    PartitionRecord,
    ProducerIdsRecord,
    Record,
    RemoveTopicRecord,
    TopicRecord,
    UnregisterBrokerRecord,
    apply,
    replay,
)
from protocol.controller.rules import ControllerRules
from protocol.controller.state import (
    EVERY_BROKER,
    ControllerConfig,
    ControllerState,
    Image,
    Partition,
    Registration,
    Topic,
    TopicConfig,
)

__all__ = [
    "EVERY_BROKER",
    "AllocateProducerIds",
    "AlterBrokerConfig",
    "AlterPartition",
    "AlterReassignment",
    "AlterTopicConfig",
    "AppendRecords",
    "BecameActive",
    "BrokerConfigRecord",
    "BrokerRecord",
    "Command",
    "ConfigRecord",
    "Controller",
    "ControllerConfig",
    "ControllerRules",
    "ControllerState",
    "CreatePartitions",
    "CreateTopics",
    "Decommission",
    "DecommissionProgress",
    "DeleteTopics",
    "ElectLeaders",
    "ElectionKind",
    "Heartbeat",
    "HeartbeatAnswer",
    "Image",
    "ItemResult",
    "LeaderlessDue",
    "NewTopic",
    "Partition",
    "PartitionRecord",
    "ProducerIdBlock",
    "ProducerIdsRecord",
    "Record",
    "RecordsCommitted",
    "Refuse",
    "RegisterBroker",
    "Registered",
    "Registration",
    "RemoveTopicRecord",
    "Reply",
    "Resigned",
    "Results",
    "SessionExpired",
    "Topic",
    "TopicConfig",
    "TopicRecord",
    "UncleanDue",
    "Unregister",
    "UnregisterBrokerRecord",
    "Unset",
    "apply",
    "replay",
]
