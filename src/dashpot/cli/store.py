"""`dashpot store`: look after the store of an API server: its size, its past, copies of it, damage."""

from __future__ import annotations

import argparse
import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dashpot.cli import console
from dashpot.cli.parser import positive, size
from dashpot.cli.problem import HOLDS, OUTSIDE, VIOLATED, WRONG, Problem

if TYPE_CHECKING:
    from dashpot.runtime.store.base import Store, StoreStatus

SUMMARY = "look after the store of an API server"
USAGE = "dashpot store status|compact|defrag|snapshot|restore|verify|disarm [FILE] [options]"
DESCRIPTION = """\
  status    sizes, revisions, and whether the quota alarm is raised
  compact   forget what is older than --revision (else than now)
  defrag    give free space back to the disk
  disarm    take the quota alarm back, after compact and defrag
  snapshot  copy the store to the new file FILE
  restore   make a store from FILE, where --data has none yet
  verify    check every row; exit status 1 if something is damaged

The store is that of `dashpot up` with the same --data and --store. One in a directory can be looked at, verified and
copied while its server runs; for the rest the server must be stopped.
"""
EXAMPLE = "  dashpot store status\n  dashpot store snapshot monday.snap --data /var/lib/dashpot"

DATA = Path(".dashpot/cluster")

ACTIONS = ("status", "compact", "defrag", "snapshot", "restore", "verify", "disarm")


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the options of this command."""
    parser.add_argument("action", choices=ACTIONS, metavar="ACTION", help=", ".join(ACTIONS))
    parser.add_argument("file", nargs="?", metavar="FILE", help="the snapshot, for snapshot and restore")
    parser.add_argument("--data", type=Path, default=DATA, metavar="DIR", help=f"that of `up` (default {DATA})")
    parser.add_argument(
        "--store", default="embedded", metavar="STORE", help="embedded (default), embedded:DIR, or etcd://HOST:PORT,…"
    )
    parser.add_argument("--revision", metavar="N", type=positive, help="compact: the oldest that is kept")
    parser.add_argument(
        "--bump", metavar="N", type=positive, default=0, help="restore: go on this many revisions higher"
    )
    parser.add_argument("--quota", metavar="SIZE", type=size, default=2 << 30, help="what the server has (2Gi)")
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text", help="how to print")


def run(args: argparse.Namespace) -> int:
    """Does one of the actions, and says what it did."""
    from dashpot.runtime.store.base import StoreError
    from dashpot.runtime.store.open import parse_target

    if (args.file is None) == (args.action in ("snapshot", "restore")):
        said = "needs the name of a FILE" if args.file is None else "takes no FILE"
        raise Problem(WRONG, f"store {args.action} {said}", f"dashpot {USAGE.partition(' ')[2]}")
    for option, action in (("revision", "compact"), ("bump", "restore")):
        if getattr(args, option) and args.action != action:
            raise Problem(WRONG, f"store {args.action} takes no --{option}: that is for {action}")
    try:
        kind = parse_target(args.store)
    except StoreError as error:
        raise Problem(WRONG, str(error)) from None
    if kind.kind == "memory":
        raise Problem(WRONG, "a store in memory is seen by its server only")
    if kind.kind == "etcd" and args.action in ("restore", "verify"):
        raise Problem(WRONG, f"dashpot cannot {args.action} etcd", "etcd's own tools do that: etcdutl, etcdctl")
    try:
        if kind.kind == "etcd":
            return _Report(args.output).show(*asyncio.run(_served(args)))
        return _Report(args.output).show(*_local(args, Path(kind.path) if kind.path else _folder(args.data)))
    except StoreError as error:
        hint = "status, verify and snapshot work while the server runs; for the rest, stop it" if _used(error) else ""
        raise Problem(OUTSIDE, str(error), hint) from None


def _folder(data: Path) -> Path:
    """`dashpot up` has its store below its data directory; the store's own directory may be named too."""
    return data if (data / "store.db").exists() else data / "store"


def _used(error: Exception) -> bool:
    return "is in use by" in str(error)


def _local(args: argparse.Namespace, path: Path) -> tuple[str, dict[str, Any]]:
    """What can be done to a directory beside the server, or without one."""
    from dashpot.runtime.store.directory import Directory
    from dashpot.runtime.store.snapshot import peek, restore, save, verify

    directory = Directory(path)
    match args.action:
        case "status":
            return "status", _status(peek(directory, args.quota))
        case "verify":
            report = verify(directory)
            return "verify", {
                "revision": report.revision, "rows": report.rows, "keys": report.keys, "findings": list(report.findings)
            }  # fmt: skip
        case "snapshot":
            return "snapshot", {"file": args.file, "revision": save(directory, Path(args.file))}
        case "restore":
            loaded = restore(Path(args.file), directory, args.bump)
            return "restore", {"data": str(path), "revision": loaded.newest, "keys": len(loaded.heads)}
        case _:
            peek(directory)  # says so where there is no store, rather than to make one
            return asyncio.run(_served(args, path))


async def _served(args: argparse.Namespace, path: Path | None = None) -> tuple[str, dict[str, Any]]:
    """What needs the store itself."""
    from dashpot.runtime.store.open import open_store

    store = await open_store("embedded" if path else args.store, data=path, quota=args.quota)
    try:
        return args.action, await _done(store, args)
    finally:
        await store.close()


async def _done(store: Store, args: argparse.Namespace) -> dict[str, Any]:
    before = await store.status()
    match args.action:
        case "compact":
            if (args.revision or 0) > before.revision:
                raise Problem(WRONG, f"there is no revision {args.revision} yet: the newest is {before.revision}")
            await store.compact(args.revision or before.revision)
        case "defrag":
            await store.defragment()
        case "disarm":
            await store.disarm()
        case "snapshot":
            from dashpot.runtime.store.etcd import EtcdStore

            assert isinstance(store, EtcdStore)
            await store.snapshot(Path(args.file))
            return {"file": args.file, "revision": before.revision}
    return {**_status(await store.status()), "size_before": before.size}


def _status(status: StoreStatus) -> dict[str, Any]:
    from attrs import asdict

    return {**asdict(status), "warnings": list(status.warnings)}


class _Report:
    """Prints what was done, as text or as one JSON document."""

    def __init__(self, output: str) -> None:
        self.output = output

    def show(self, action: str, found: dict[str, Any]) -> int:
        status = VIOLATED if found.get("findings") else HOLDS
        if self.output == "json":
            console.out(json.dumps({"format": 1, "action": action, "status": status, **found}, indent=2))
        else:
            for line in getattr(self, action)(found):
                console.out(line)
        for warning in found.get("warnings", []):
            console.err(f"dashpot: {warning}")
        return status

    def status(self, found: dict[str, Any]) -> list[str]:
        rows = [
            ["backend", found["backend"]],
            ["revision", console.grouped(found["revision"])],
            ["compacted", console.grouped(found["compacted"]) if found["compacted"] else "never"],
            ["keys", console.grouped(found["keys"])],
            ["leases", console.grouped(found["leases"])],
            ["size", f"{_bytes(found['size'])} of {_bytes(found['quota'])}, {_bytes(found['size_in_use'])} in use"],
            ["alarm", "raised" if found["alarm"] else "none"],
        ]
        return console.columns(rows)

    def compact(self, found: dict[str, Any]) -> list[str]:
        return [f"reads are possible from revision {console.grouped(found['compacted'])} on"]

    def defrag(self, found: dict[str, Any]) -> list[str]:
        return [f"{_bytes(found['size_before'])} before, {_bytes(found['size'])} now"]

    def disarm(self, found: dict[str, Any]) -> list[str]:
        return [f"no alarm; {_bytes(found['size'])} of {_bytes(found['quota'])} are used"]

    def snapshot(self, found: dict[str, Any]) -> list[str]:
        return [f"wrote {found['file']}: everything up to revision {console.grouped(found['revision'])}"]

    def restore(self, found: dict[str, Any]) -> list[str]:
        keys, revision = console.plural(found["keys"], "key"), console.grouped(found["revision"])
        return [f"restored {found['data']}: {keys}, revision {revision}"]

    def verify(self, found: dict[str, Any]) -> list[str]:
        if not found["findings"]:
            rows, revision = console.plural(found["rows"], "row"), console.grouped(found["revision"])
            return [f"sound: {rows}, up to revision {revision}"]
        return [*found["findings"], f"{console.plural(len(found['findings']), 'damage')} found"]


def _bytes(number: int) -> str:
    """1536 as "1.5 KiB"."""
    amount, unit = float(number), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if amount < 1024:
            break
        amount, unit = amount / 1024, larger
    return f"{amount:.1f}".removesuffix(".0") + f" {unit}"
