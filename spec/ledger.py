"""Remembers what long checks have found, so that they can be interrupted and gone on with.

A ledger is a folder: `ledger.json` lists the models that hold, with their figures, and a folder per
unfinished model keeps TLC's last checkpoint. Both count only for the very text that was checked: a
changed spec is checked anew. It does not decide what to run.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import attrs

from spec.catalogue import CatalogueError, Model
from spec.runner import Job, Outcome, Statistics, Verdict
from spec.runner.config import format_config, read_config

_CHECKPOINT_MINUTES = 10


@attrs.frozen
class Ledger:
    """The results and checkpoints kept in one folder."""

    folder: Path

    def finished(self, model: Model) -> Outcome | None:
        """Give the outcome of a model that is known to hold, if its text is still the same."""
        entry = self._entries().get(model.name)
        if entry is None or entry["digest"] != digest(model):
            return None
        return Outcome(
            Verdict.HOLDS, Statistics(**entry["statistics"]), exhaustive=entry["exhaustive"]
        )

    def record(self, model: Model, outcome: Outcome) -> None:
        """Remember that a model holds; any other outcome is for the next run to find again."""
        if outcome.verdict is not Verdict.HOLDS:
            return
        entries = self._entries()
        entries[model.name] = {
            "digest": digest(model),
            "statistics": attrs.asdict(outcome.statistics),
            "exhaustive": outcome.exhaustive,
        }
        unfinished = self._file.with_suffix(".new")
        unfinished.write_text(json.dumps(entries, indent=2) + "\n", encoding="utf-8")
        unfinished.replace(self._file)
        shutil.rmtree(self._work_dir(model), ignore_errors=True)

    def resumable(self, model: Model, job: Job) -> Job:
        """Let the job write checkpoints, and go on from the last one if there is any."""
        work_dir = self._work_dir(model)
        marker = work_dir / "digest"
        if not marker.is_file() or marker.read_text(encoding="utf-8") != digest(model):
            shutil.rmtree(work_dir, ignore_errors=True)
            work_dir.mkdir(parents=True)
            marker.write_text(digest(model), encoding="utf-8")
        marks = sorted(work_dir.glob("*/states/*/*.chkpt"), key=lambda path: path.stat().st_mtime)
        return attrs.evolve(
            job,
            work_dir=work_dir,
            checkpoint_minutes=_CHECKPOINT_MINUTES,
            recover=marks[-1].parent if marks else None,
        )

    @property
    def _file(self) -> Path:
        return self.folder / "ledger.json"

    def _work_dir(self, model: Model) -> Path:
        return self.folder / model.name.replace("/", "-")

    def _entries(self) -> dict[str, Any]:
        self.folder.mkdir(parents=True, exist_ok=True)
        if not self._file.is_file():
            return {}
        try:
            entries = json.loads(self._file.read_text(encoding="utf-8"))
        except ValueError as problem:
            raise CatalogueError(f"{self._file} is damaged ({problem}): remove it") from None
        if not isinstance(entries, dict):
            raise CatalogueError(f"{self._file} is not a ledger: remove it")
        return entries


def digest(model: Model) -> str:
    """Sum up all that a model's result depends on: what its configuration says, and the modules.

    Comments in the configuration do not count, so that a size can be written down there.
    """
    total = hashlib.sha256()
    total.update(
        f"{format_config(read_config(model.config))}{model.walks} {model.walk_steps}".encode()
    )
    for path in sorted(model.module.parent.glob("*.tla")):
        total.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return total.hexdigest()
