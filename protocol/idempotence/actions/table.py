"""The table that the actions of the leader's half register in. No action is here."""

from __future__ import annotations

from protocol.idempotence.rules import Rules
from protocol.idempotence.state import SequencesState
from protocol.machine import Actions

action = Actions[SequencesState, Rules]()
