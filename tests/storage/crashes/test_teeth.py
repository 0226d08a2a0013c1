"""The crash runs have teeth: leave out one kind of fsync or rename, and some run fails.

Every kind that a log ever does is in one of three lists: a seed that notices, a scenario that does
(`test_rare_fsyncs`, `test_cutting`), or the reason why nothing needs it.
"""

import pytest

from storage.testing import LeftOut, run

Kind = tuple[str, ...]

CAUGHT: list[tuple[Kind, int]] = [
    (("fsync", ".index", "close"), 2),
    (("fsync", ".index", "flush"), 3),
    (("fsync", ".index", "open"), 21),
    (("fsync", ".log", "close"), 2),
    (("fsync", ".log", "flush"), 3),
    (("fsync", ".log", "open"), 0),
    (("fsync", ".log", "truncate"), 3),
    (("fsync", ".snapshot", "close"), 14),
    (("fsync", ".timeindex", "close"), 2),
    (("fsync", ".timeindex", "flush"), 3),
    (("fsync", ".timeindex", "open"), 67),
    (("fsync", ".txnindex", "close"), 24),
    (("fsync", ".txnindex", "flush"), 5),
    (("fsync", ".txnindex", "open"), 29),
    (("fsync", "cleaner-offset-checkpoint.tmp", "close"), 0),
    (("fsync", "cleaner-offset-checkpoint.tmp", "reset"), 33),
    (("fsync", "cleaner-offset-checkpoint.tmp", "save"), 0),
    (("fsync", "cleaner-offset-checkpoint.tmp", "truncate"), 30),
    (("fsync", "leader-epoch-checkpoint.tmp", "close"), 2),
    (("fsync", "leader-epoch-checkpoint.tmp", "flush"), 3),
    (("fsync", "leader-epoch-checkpoint.tmp", "open"), 0),
    (("fsync", "log-start-offset-checkpoint.tmp", "advance"), 18),
    (("fsync", "log-start-offset-checkpoint.tmp", "close"), 0),
    (("fsync", "log-start-offset-checkpoint.tmp", "create"), 1),
    (("fsync", "log-start-offset-checkpoint.tmp", "open"), 16),
    (("fsync", "log-start-offset-checkpoint.tmp", "reset"), 9),
    (("fsync", "log-start-offset-checkpoint.tmp", "save"), 1),
    (("fsync", "log-start-offset-checkpoint.tmp", "truncate"), 16),
    (("fsync", "recovery-point-offset-checkpoint.tmp", "close"), 0),
    (("fsync", "recovery-point-offset-checkpoint.tmp", "create"), 1),
    (("fsync", "recovery-point-offset-checkpoint.tmp", "open"), 16),
    (("fsync", "recovery-point-offset-checkpoint.tmp", "reset"), 24),
    (("fsync", "recovery-point-offset-checkpoint.tmp", "save"), 1),
    (("fsync", "recovery-point-offset-checkpoint.tmp", "truncate"), 8),
    (("fsync", "replication-offset-checkpoint.tmp", "close"), 0),
    (("fsync", "replication-offset-checkpoint.tmp", "save"), 0),
    (("fsync_folder", "folder", "advance", "rename log-start-offset-checkpoint.tmp"), 22),
    (("fsync_folder", "folder", "open", "start"), 18),
    (("fsync_folder", "folder", "reset", "rename log-start-offset-checkpoint.tmp"), 74),
    (("fsync_folder", "folder", "save", "rename cleaner-offset-checkpoint.tmp"), 5),
    (("fsync_folder", "folder", "truncate", "rename log-start-offset-checkpoint.tmp"), 18),
    (("fsync_folder", "folder", "truncate", "rename recovery-point-offset-checkpoint.tmp"), 8),
    (("fsync_folder", "partition", "close"), 5),
    (("fsync_folder", "partition", "close", "rename leader-epoch-checkpoint.tmp"), 2),
    (("fsync_folder", "partition", "flush"), 5),
    (("fsync_folder", "partition", "open"), 2),
    (("fsync_folder", "partition", "truncate"), 18),
    (("rename", "cleaner-offset-checkpoint.tmp", "reset"), 1),
    (("rename", "cleaner-offset-checkpoint.tmp", "save"), 0),
    (("rename", "cleaner-offset-checkpoint.tmp", "truncate"), 30),
    (("rename", "leader-epoch-checkpoint.tmp", "close"), 2),
    (("rename", "leader-epoch-checkpoint.tmp", "flush"), 3),
    (("rename", "leader-epoch-checkpoint.tmp", "open"), 4),
    (("rename", "log-start-offset-checkpoint.tmp", "advance"), 2),
    (("rename", "log-start-offset-checkpoint.tmp", "reset"), 1),
    (("rename", "log-start-offset-checkpoint.tmp", "truncate"), 10),
    (("rename", "recovery-point-offset-checkpoint.tmp", "close"), 2),
    (("rename", "recovery-point-offset-checkpoint.tmp", "reset"), 1),
    (("rename", "recovery-point-offset-checkpoint.tmp", "truncate"), 10),
    (("rename", "replication-offset-checkpoint.tmp", "close"), 0),
    (("rename", "replication-offset-checkpoint.tmp", "save"), 0),
    (("rename", "cleaner-offset-checkpoint.tmp", "close"), 0),
    (("fsync_folder", "folder", "close", "rename cleaner-offset-checkpoint.tmp"), 2),
]

IN_SCENARIOS: list[Kind] = [
    ("fsync", ".index", "truncate"),
    ("fsync", ".snapshot", "flush"),
    ("fsync", ".snapshot", "open"),
    ("fsync", ".timeindex", "truncate"),
    ("fsync", ".txnindex", "truncate"),
    ("fsync_folder", "folder", "reset", "rename recovery-point-offset-checkpoint.tmp"),
    ("fsync_folder", "folder", "truncate", "rename cleaner-offset-checkpoint.tmp"),
    ("fsync_folder", "partition", "flush", "rename leader-epoch-checkpoint.tmp"),
    ("fsync_folder", "partition", "open", "rename leader-epoch-checkpoint.tmp"),
    ("rename", "recovery-point-offset-checkpoint.tmp", "create"),
    ("rename", "recovery-point-offset-checkpoint.tmp", "open"),
    ("rename", "recovery-point-offset-checkpoint.tmp", "save"),
]

NOT_NEEDED: dict[str, list[Kind]] = {
    "a new file is empty, and its name is made durable": [
        ("fsync", kind, job)
        for kind in (".log", ".index", ".timeindex")
        for job in ("create", "reset")
    ],
    "a later rename in the same job syncs the same folder": [
        *(
            ("fsync_folder", "folder", job, f"rename {kind}-offset-checkpoint.tmp")
            for job in ("save", "close")
            for kind in ("recovery-point", "log-start", "replication")
        ),
        ("fsync_folder", "folder", "create", "make_folder"),
        ("fsync_folder", "folder", "create", "rename recovery-point-offset-checkpoint.tmp"),
        ("fsync_folder", "folder", "open", "make_folder"),
        ("fsync_folder", "folder", "open", "rename recovery-point-offset-checkpoint.tmp"),
        ("fsync_folder", "folder", "reset", "rename cleaner-offset-checkpoint.tmp"),
    ],
    "the name of the first segment says where a new log begins": [
        ("fsync_folder", "folder", "create", "rename log-start-offset-checkpoint.tmp"),
        ("fsync_folder", "folder", "open", "rename log-start-offset-checkpoint.tmp"),
        ("rename", "log-start-offset-checkpoint.tmp", "create"),
        ("rename", "log-start-offset-checkpoint.tmp", "open"),
    ],
    "a start is saved when it changes, so that this writes the same again": [
        ("rename", "log-start-offset-checkpoint.tmp", "save"),
        ("rename", "log-start-offset-checkpoint.tmp", "close"),
    ],
    "one of the two syncs of a reset is enough": [("fsync_folder", "partition", "reset", "delete")],
    "the first flush has an epoch to write, and syncs the folder for it": [
        ("fsync_folder", "partition", "create"),
        ("fsync_folder", "partition", "reset"),
    ],
}


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "seed"), CAUGHT, ids=str)
def test_a_run_notices_what_is_left_out(kind: Kind, seed: int) -> None:
    """If what a seed does has changed, others are tried: the first that notices is its new one."""
    left_out = LeftOut(*kind)
    for each in (seed, *range(100)):
        if run(each, ignore=left_out).failure is not None:
            assert run(each).failure is None
            return
    pytest.fail(f"nobody notices that {left_out} is left out")


@pytest.mark.slow
def test_no_kind_of_fsync_or_rename_is_forgotten() -> None:
    seen: set[LeftOut] = set().union(*(run(seed).seen for seed in range(60)))
    not_needed = [kind for kinds in NOT_NEEDED.values() for kind in kinds]
    listed = [*(kind for kind, _ in CAUGHT), *IN_SCENARIOS, *not_needed]
    assert len(set(listed)) == len(listed)
    missing = seen - {LeftOut(*kind) for kind in listed}
    assert {kind for kind in missing if kind.job} == set()
