"""The names of the simulated disk: folders, and the changes to them that are not yet durable.

A folder has the entries that everybody sees and the entries that the medium holds. A change
(create, rename, delete, make or remove a folder) shows at once and waits in one list, in order,
until `fsync_folder` on a folder that it touches makes it durable, together with the earlier changes
it builds on. In a crash an arbitrary subset of the waiting changes survives, applied in order. Each
is atomic. One whose source is not there is skipped, and so is one whose target is taken, except
that a rename replaces a file or an empty folder, whichever has the name then.

That is harsher than the journal of ext4, which keeps their order, and on purpose: nothing above may
rely on more than the seam promises. Nor does `fsync` on a file make its name durable.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from random import Random

import attrs

from storage.disk.simulated_file import SimulatedFile

Entries = dict[str, "SimulatedFile | Folder"]


@attrs.define(eq=False)
class Folder:
    """Names, as everybody sees them and as the medium holds them."""

    entries: Entries = attrs.Factory(dict)
    durable: Entries = attrs.Factory(dict)


Node = SimulatedFile | Folder


@attrs.frozen(eq=False)
class Place:
    """A name in a folder, whether or not there is something of this name."""

    folder: Folder
    name: str

    def node(self) -> Node | None:
        """Return what everybody sees here."""
        return self.folder.entries.get(self.name)


@attrs.frozen(eq=False)
class Change:
    """`node` leaves `source`, if there is one, and appears at `target`, if there is one."""

    node: Node
    source: Place | None
    target: Place | None
    touches: frozenset[Folder]

    def apply(self, entries_of: Callable[[Folder], Entries]) -> None:
        """Do this to a state of the folders, or nothing if it does not fit there."""
        source, target = self.source, self.target
        if source and entries_of(source.folder).get(source.name) is not self.node:
            return
        if target:
            replaced = entries_of(target.folder).get(target.name)
            if replaced and not (source and _may_replace(replaced, self.node, entries_of)):
                return
        elif isinstance(self.node, Folder) and entries_of(self.node):
            return
        if source:
            del entries_of(source.folder)[source.name]
        if target:
            entries_of(target.folder)[target.name] = self.node


def _may_replace(
    replaced: Node | None, node: Node, entries_of: Callable[[Folder], Entries]
) -> bool:
    if isinstance(replaced, Folder):
        return isinstance(node, Folder) and not entries_of(replaced)
    return replaced is None or not isinstance(node, Folder)


class NameTree:
    """All folders from the top. `/a` and `a` are two places, as with a working folder of one's own.

    The top is called `.`, and the folder of absolute paths `/`; both are always there.
    """

    def __init__(self, top: Folder | None = None) -> None:
        if top is None:
            root = Folder()
            top = Folder({"": root}, {"": root})
        self._top = top
        self._waiting: list[Change] = []

    def find(self, path: str) -> Node | None:
        """Return what has this name; an error if a folder on the way there is missing."""
        if path in (".", "/"):
            return self._top if path == "." else self._top.entries[""]
        return self.place(path).node()

    def place(self, path: str) -> Place:
        """Return where a name is or would be; an error if a folder on the way is missing."""
        *folders, name = path.split("/")
        if not name:
            raise failure(errno.ENOENT, path)
        node: Node | None = self._top
        for step in folders:
            node = node.entries.get(step) if isinstance(node, Folder) else node
            if node is None:
                raise failure(errno.ENOENT, path)
        if not isinstance(node, Folder):
            raise failure(errno.ENOTDIR, path)
        return Place(node, name)

    def file(self, path: str) -> SimulatedFile:
        """Return the file of this name, or raise what the system would."""
        node = self.find(path)
        if isinstance(node, SimulatedFile):
            return node
        raise failure(errno.ENOENT if node is None else errno.EISDIR, path)

    def folder(self, path: str) -> Folder:
        """Return the folder of this name, or raise what the system would."""
        node = self.find(path)
        if isinstance(node, Folder):
            return node
        raise failure(errno.ENOENT if node is None else errno.ENOTDIR, path)

    def add(self, path: str, node: Node) -> None:
        """Give something new a name that is free."""
        self._change(node, None, self.place(path))

    def remove(self, path: str) -> None:
        """Take a name away; what had it must be a file or an empty folder."""
        place = self.place(path)
        node = place.node()
        if node is None:
            raise failure(errno.ENOENT, path)
        if isinstance(node, Folder) and node.entries:
            raise failure(errno.ENOTEMPTY, path)
        self._change(node, place, None)

    def rename(self, source: str, target: str) -> None:
        """Move a file or a folder, replacing a file or an empty folder, as the system would."""
        old, new = self.place(source), self.place(target)
        node, replaced = old.node(), new.node()
        if node is None:
            raise failure(errno.ENOENT, source)
        if target.startswith(source + "/"):
            raise failure(errno.EINVAL, source)
        if source.startswith(target + "/"):
            raise failure(errno.ENOTEMPTY, target)
        if node is replaced:
            return
        if not _may_replace(replaced, node, lambda folder: folder.entries):
            raise failure(_refusal(node, replaced), target)
        self._change(node, old, new)

    def sync(self, folder: Folder) -> None:
        """Make what happened in this folder durable, and what that builds on.

        A change that touches two folders needs what came before it in both.
        """
        touched = {folder}
        durable, waiting = [], []
        for change in reversed(self._waiting):
            if change.touches & touched:
                touched |= change.touches
                durable.append(change)
            else:
                waiting.append(change)
        for change in reversed(durable):
            change.apply(lambda folder: folder.durable)
        self._waiting = waiting[::-1]

    def files(self) -> Iterator[tuple[str, SimulatedFile]]:
        """Yield every file with its path, in the order of their names."""
        yield from _files_below(self._top, "")

    def after_crash(self, random: Random, survival: float, torn_sectors: bool) -> NameTree:
        """Return what a crash leaves; a change of names survives with a probability of its own."""
        names: dict[Folder, Entries] = {}

        def entries_of(folder: Folder) -> Entries:
            if folder not in names:
                names[folder] = folder.durable.copy()
            return names[folder]

        name_survival = random.choice((0.0, 0.1, 0.5, 0.9, 1.0))
        for change in self._waiting:
            if random.random() < name_survival:
                change.apply(entries_of)

        def left(folder: Folder) -> Folder:
            entries: Entries = {}
            for name, node in entries_of(folder).items():
                if isinstance(node, Folder):
                    entries[name] = left(node)
                else:
                    entries[name] = node.after_crash(random, survival, torn_sectors)
            return Folder(entries, entries.copy())

        return NameTree(left(self._top))

    def _change(self, node: Node, source: Place | None, target: Place | None) -> None:
        touches = {place.folder for place in (source, target) if place}
        # A folder can only go when it is empty, so its own last changes belong to this one.
        gone = target.node() if target else node
        if isinstance(gone, Folder):
            touches.add(gone)
        change = Change(node, source, target, frozenset(touches))
        change.apply(lambda folder: folder.entries)
        self._waiting.append(change)


def failure(code: int, path: str) -> OSError:
    """Return the error that the system would raise."""
    return OSError(code, os.strerror(code), path)


def _refusal(node: Node, replaced: Node | None) -> int:
    if not isinstance(node, Folder):
        return errno.EISDIR
    return errno.ENOTEMPTY if isinstance(replaced, Folder) else errno.ENOTDIR


def _files_below(folder: Folder, prefix: str) -> Iterator[tuple[str, SimulatedFile]]:
    for name, node in sorted(folder.entries.items()):
        if isinstance(node, Folder):
            yield from _files_below(node, f"{prefix}{name}/")
        else:
            yield prefix + name, node
