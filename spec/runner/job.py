"""Describes one run of TLC, and the command line that performs it.

Nothing is started here: `process.run` does that.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import attrs

from spec.runner.errors import JobError


def _positive(_job: object, field: attrs.Attribute[Any], value: Any) -> None:
    if value is not None and value <= 0:
        raise JobError(f"{field.name} must be more than 0, not {value}")


@attrs.frozen
class Simulation:
    """Asks for random behaviours instead of all: `traces` of them, up to `depth` states each.

    With a `file_prefix`, each behaviour is written to `<prefix>_<worker>_<number>`, which
    `read_simulations` reads.
    """

    traces: int = attrs.field(validator=_positive)
    depth: int = attrs.field(default=100, validator=_positive)
    seed: int | None = None
    file_prefix: Path | None = None


@attrs.frozen
class Job:
    """One run of TLC: which model, how hard to try, and what to write.

    `work_dir` is where TLC keeps its states while it runs; without one, a temporary folder is used
    and removed. A checkpoint outlives the run only in a `work_dir`. `library` names folders in
    which extended modules are looked for, besides the module's own. `check_deadlock` makes a state
    without a successor a violation.
    """

    module: Path
    config: Path
    workers: int | None = attrs.field(default=None, validator=_positive)
    memory_mb: int | None = attrs.field(default=None, validator=_positive)
    work_dir: Path | None = None
    time_limit_s: float | None = attrs.field(default=None, validator=_positive)
    check_deadlock: bool = False
    coverage: bool = False
    dump: Path | None = None
    simulate: Simulation | None = None
    library: tuple[Path, ...] = ()
    recover: Path | None = None
    checkpoint_minutes: int | None = attrs.field(default=None, validator=_positive)

    def __attrs_post_init__(self) -> None:
        if self.simulate is not None and self.dump is not None:
            raise JobError("a simulation has no state graph to dump: leave out one of the two")

    @property
    def dump_file(self) -> Path | None:
        """The file the graph is written to: TLC adds `.dot` to a name that lacks it."""
        if self.dump is None or self.dump.name.endswith(".dot"):
            return self.dump
        return self.dump.with_name(self.dump.name + ".dot")


def check_files(job: Job) -> None:
    """Raise `JobError`, naming the file, if an input is missing or an output has no folder."""
    for path, what in ((job.module, "module"), (job.config, "configuration")):
        if not path.is_file():
            raise JobError(f"the {what} {path} does not exist")
    if job.module.suffix != ".tla":
        raise JobError(f"the module {job.module} is not a .tla file")
    if job.recover is not None and not job.recover.is_dir():
        raise JobError(f"the checkpoint {job.recover} to recover from is not a folder")
    for folder in job.library:
        if not folder.is_dir():
            raise JobError(f"the library folder {folder} does not exist")
    _check_output(job.dump_file, "dump")
    _check_output(job.simulate.file_prefix if job.simulate else None, "simulation file")


def _check_output(path: Path | None, what: str) -> None:
    if path is None:
        return
    folder = path.absolute().parent
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise JobError(f"the {what} {path} cannot be written: {folder} is no writable folder")
    if path.is_dir():
        raise JobError(f"the {what} {path} cannot be written: it is a folder")
    if what == "simulation file" and "," in str(path.absolute()):
        raise JobError(f"TLC takes no comma in the name of a {what}: {path.absolute()}")


def command_line(job: Job, java: Path, jar: Path, run_dir: Path) -> list[str]:
    """Build the command that performs the job, to be started in the module's folder.

    TLC finds a spec's other modules beside it only by a relative path. `run_dir` must be this run's
    own: TLC unpacks its standard modules into Java's temporary folder, and runs side by side would
    race there.
    """
    return [
        str(java),
        *_java_options(job, run_dir),
        "-cp",
        str(jar),
        "tlc2.TLC",
        *_options(job, run_dir),
    ]


def _java_options(job: Job, run_dir: Path) -> list[str]:
    options = [
        "-XX:+UseParallelGC",
        # Without this, TLC 2.15 hangs for ever when a worker runs out of memory.
        "-XX:+ExitOnOutOfMemoryError",
        "-XX:-UsePerfData",
        # TLC writes numbers by locale; they are parsed.
        "-Duser.language=en",
        "-Duser.country=US",
        "-Dfile.encoding=UTF-8",
        f"-Djava.io.tmpdir={tmp_dir(run_dir)}",
    ]
    if job.memory_mb is not None:
        options.append(f"-Xmx{job.memory_mb}m")
    if job.library:
        folders = os.pathsep.join(str(folder.absolute()) for folder in job.library)
        options.append(f"-DTLA-Library={folders}")
    return options


def _options(job: Job, run_dir: Path) -> list[str]:
    options = ["-tool", "-metadir", str(meta_dir(run_dir)), "-config", str(job.config.absolute())]
    options += ["-workers", _workers(job)]
    if not job.check_deadlock:
        # TLC's -deadlock switches the check off.
        options.append("-deadlock")
    if job.coverage:
        options += ["-coverage", "1"]
    if job.dump is not None:
        options += ["-dump", "dot,actionlabels", str(job.dump.absolute())]
    if job.checkpoint_minutes is not None:
        options += ["-checkpoint", str(job.checkpoint_minutes)]
    if job.recover is not None:
        options += ["-recover", str(job.recover.absolute())]
    if job.simulate is not None:
        options += _simulation_options(job.simulate)
    return [*options, job.module.name]


def _workers(job: Job) -> str:
    if job.workers is not None:
        return str(job.workers)
    # A seed replays a simulation only with one worker. Otherwise one per core that this process may
    # use; TLC 2.15 does not know the `auto` of newer versions.
    return "1" if job.simulate is not None else str(len(os.sched_getaffinity(0)))


def _simulation_options(simulation: Simulation) -> list[str]:
    what = f"num={simulation.traces}"
    if simulation.file_prefix is not None:
        what = f"file={simulation.file_prefix.absolute()},{what}"
    options = ["-simulate", what, "-depth", str(simulation.depth)]
    if simulation.seed is not None:
        options += ["-seed", str(simulation.seed)]
    return options


def tmp_dir(run_dir: Path) -> Path:
    """Give the folder of a run in which Java keeps temporary files."""
    return run_dir / "tmp"


def meta_dir(run_dir: Path) -> Path:
    """Give the folder of a run in which TLC keeps states and checkpoints."""
    return run_dir / "states"
