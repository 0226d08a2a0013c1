"""Strategies for metadata records, and for images that some of them lead to."""

import hypothesis.strategies as st
from immutables import Map

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
)
from protocol.controller.state import Partition, Registration, TopicConfig

small = st.integers(0, 5)
number = st.integers(0, 2**63 - 1)
# No lone surrogates: they are no characters, and no client can send one.
text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
name = st.sampled_from(["a", "b", "c"])
nodes = st.frozensets(small, max_size=4)
configs = st.builds(
    TopicConfig, number, st.booleans(), st.dictionaries(text, text, max_size=3).map(Map)
)
endpoints = st.lists(st.tuples(text, text, st.integers(0, 65535), small), max_size=3).map(tuple)
registrations = st.builds(
    Registration, small, number, text, st.booleans(), st.booleans(), st.booleans(), endpoints, text
)
partitions = st.builds(
    Partition,
    name,
    st.integers(0, 3),
    st.lists(small, max_size=4, unique=True).map(tuple),
    nodes,
    nodes,
    st.integers(-1, 5),
    number,
    number,
    nodes,
    nodes,
)
records: st.SearchStrategy[Record] = st.one_of(
    st.builds(BrokerRecord, registrations),
    st.builds(UnregisterBrokerRecord, small),
    st.builds(TopicRecord, name, text, configs),
    st.builds(ConfigRecord, name, configs),
    st.builds(RemoveTopicRecord, name),
    st.builds(
        BrokerConfigRecord, st.integers(-1, 5), st.dictionaries(text, text, max_size=3).map(Map)
    ),
    st.builds(PartitionRecord, partitions),
    st.builds(ProducerIdsRecord, small, number, number),
)
