"""What a node and a topic can be told: Kafka's names, types and defaults, and a few of our own.

    given = load_properties(text, "broker.properties")
    settings = BrokerSettings.from_mapping(given)       # BadSetting names what is wrong
    topic = topic_settings({"retention.ms": "1000"}, settings)
    log_config(topic, settings)                         # what storage and the machines take

A setting is known here if something lives by it, and refused otherwise: nobody sets what does
nothing. It reads no file by itself, and keeps no state.
"""

from net.errors import BadSetting
from net.settings.addresses import Listener, Voter, parse_endpoint
from net.settings.broker import BrokerSettings, broker_table, check_dynamic_settings
from net.settings.derived import (
    controller_config,
    flush_policy,
    log_config,
    quorum_config,
    replica_config,
    sequences_config,
)
from net.settings.described import (
    Entry,
    Operation,
    Source,
    altered_broker,
    altered_topic,
    describe_broker,
    describe_cluster_wide,
    describe_topic,
)
from net.settings.meta import (
    BadFolder,
    Meta,
    check_cluster_id,
    check_folders,
    format_folder,
    random_id,
    read_meta,
)
from net.settings.properties import load_properties, write_properties
from net.settings.topic import (
    TopicSettings,
    check_topic_settings,
    protocol_config,
    said_by,
    topic_settings,
    topic_table,
)

__all__ = [
    "BadFolder",
    "BadSetting",
    "BrokerSettings",
    "Entry",
    "Listener",
    "Meta",
    "Operation",
    "Source",
    "TopicSettings",
    "Voter",
    "altered_broker",
    "altered_topic",
    "broker_table",
    "check_cluster_id",
    "check_dynamic_settings",
    "check_folders",
    "check_topic_settings",
    "controller_config",
    "describe_broker",
    "describe_cluster_wide",
    "describe_topic",
    "flush_policy",
    "format_folder",
    "load_properties",
    "log_config",
    "parse_endpoint",
    "protocol_config",
    "quorum_config",
    "random_id",
    "read_meta",
    "replica_config",
    "said_by",
    "sequences_config",
    "topic_settings",
    "topic_table",
    "write_properties",
]
