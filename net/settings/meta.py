"""meta.properties: whose folder this is. Kafka's format, version 1.

A folder is formatted once, before a node first starts. A node whose folder is not formatted, or
belongs to another cluster or node, must not start: it would vote twice, or mix two logs up.
"""

from __future__ import annotations

import functools
import re
import uuid
from collections.abc import Callable, Sequence
from pathlib import PurePosixPath
from typing import Final

import attrs

from net.errors import BadSetting
from net.settings.properties import load_properties, write_properties
from net.uuids import to_text
from protocol.types import NodeId
from storage.checkpoint import read_whole, replace
from storage.disk.jobs import Job
from storage.disk.seam import Disk
from storage.errors import StorageError

META: Final = "meta.properties"
VERSION: Final = "1"

_ID: Final = re.compile(r"[A-Za-z0-9_-]{22}")
_NAMES: Final = ("version", "cluster.id", "node.id", "directory.id")


class BadFolder(BadSetting):
    """A folder that is not formatted, or is somebody else's."""


@attrs.frozen
class Meta:
    """What a formatted folder says of itself."""

    cluster_id: str
    node_id: NodeId
    directory_id: str


def random_id(draw: Callable[[], uuid.UUID] = uuid.uuid4) -> str:
    """Draw an id for a cluster or a folder."""
    while True:
        # A command line would take a leading dash for an option; Kafka draws again, too.
        found = to_text(draw())
        if not found.startswith("-"):
            return found


def check_cluster_id(text: str) -> str:
    """Refuse what is no cluster id."""
    if not _ID.fullmatch(text) or text.startswith("-"):
        raise BadSetting(
            f"cluster id {text!r}: it is 22 characters of A-Z a-z 0-9 _ -, as 16 bytes in base64url"
        )
    return text


def meta_path(folder: str) -> str:
    """Return where a folder's meta.properties is."""
    return str(PurePosixPath(folder) / META)


def format_folder(disk: Disk, folder: str, cluster_id: str, node_id: NodeId) -> Job[Meta]:
    """Format a folder, making it if there is none; durable when the job is done.

    A folder that is formatted for this cluster and node is left as it is. Another one is refused.
    """
    check_cluster_id(cluster_id)
    for missing in _missing_folders(disk, folder):
        disk.make_folder(missing)
        yield functools.partial(disk.fsync_folder, str(PurePosixPath(missing).parent))
    path = meta_path(folder)
    if disk.exists(path):
        return _expect(read_meta(disk, folder), folder, cluster_id, node_id)
    meta = Meta(cluster_id, node_id, random_id())
    values = (VERSION, cluster_id, str(node_id), meta.directory_id)
    text = write_properties(dict(zip(_NAMES, values, strict=True)))
    yield from replace(disk, path, text.encode("utf-8"))
    return meta


def _missing_folders(disk: Disk, folder: str) -> list[str]:
    """List the folders on the way that do not exist, the outermost first."""
    path = PurePosixPath(folder)
    chain = [str(each) for each in (path, *path.parents)]
    return [each for each in reversed(chain) if not disk.is_folder(each)]


def read_meta(disk: Disk, folder: str) -> Meta:
    """Read whose folder this is; `BadFolder` if that cannot be told."""
    path = meta_path(folder)
    if not disk.exists(path):
        raise BadFolder(f"{folder} is not formatted: run `hwmark format --config FILE` first")
    try:
        text = read_whole(disk, path).decode("utf-8")
        found = load_properties(text, path)
    except (UnicodeDecodeError, BadSetting, StorageError) as error:
        raise BadFolder(f"{path} does not read as properties: {error}") from None
    for name in _NAMES[:3]:
        if name not in found:
            raise BadFolder(f"{path} has no {name}")
    if found["version"] != VERSION:
        raise BadFolder(f"{path} has version={found['version']}, where only {VERSION} is known")
    if not re.fullmatch(r"[0-9]{1,10}", found["node.id"]):
        raise BadFolder(f"{path} has node.id={found['node.id']}, which is no number")
    return Meta(found["cluster.id"], int(found["node.id"]), found.get("directory.id", ""))


def check_folders(disk: Disk, folders: Sequence[str], node_id: NodeId) -> tuple[Meta, ...]:
    """Read all folders of a node; they are this node's, and of one and the same cluster."""
    metas = tuple(read_meta(disk, folder) for folder in folders)
    return tuple(
        _expect(meta, folder, metas[0].cluster_id, node_id)
        for meta, folder in zip(metas, folders, strict=True)
    )


def _expect(meta: Meta, folder: str, cluster_id: str, node_id: NodeId) -> Meta:
    if meta.cluster_id != cluster_id:
        raise BadFolder(
            f"{folder} belongs to cluster {meta.cluster_id}, not to {cluster_id}; "
            "use another folder, or that cluster's id"
        )
    if meta.node_id != node_id:
        raise BadFolder(
            f"{folder} belongs to node {meta.node_id}, not to node {node_id}; use another folder"
        )
    return meta
