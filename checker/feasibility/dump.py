"""Objects from files: manifests, `kubectl get … -o json` dumps, folders of them. Each knows the place it came from.

    dump = read([Path("cluster")]); dump.of("Node")

What cannot be read is a BadInput with file and line. Nothing is guessed of an object but its kind, where a list of a
dump has lost it: by the name of its file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import yaml
from attrs import define, field, frozen

Object = dict[str, Any]

FILE_LIMIT = 512 << 20
"""Bytes of one file."""
OBJECTS_LIMIT = 500_000
ENDINGS = (".json", ".yaml", ".yml")
KINDS = {
    "nodes": "Node",
    "pods": "Pod",
    "pvcs": "PersistentVolumeClaim",
    "pvs": "PersistentVolume",
    "statefulsets": "StatefulSet",
    "deployments": "Deployment",
    "namespaces": "Namespace",
    "services": "Service",
}
"""Words in a file's name or folder → the kind of objects that do not say theirs."""


class BadInput(Exception):
    """An input that cannot be read or meant: where, and what is wrong."""

    def __init__(self, place: str, text: str) -> None:
        super().__init__(f"{place}: {text}" if place else text)
        self.place, self.text = place, text


@frozen(eq=False)
class Item:
    """An object and its place: `cluster/pods.json:12` or `pods.json item 3`."""

    object: Object
    place: str

    @property
    def kind(self) -> str:
        """Its kind."""
        return str(self.object.get("kind", ""))

    @property
    def name(self) -> str:
        """Its name."""
        return str(self.object["metadata"]["name"])

    @property
    def namespace(self) -> str:
        """Its namespace; "" for those of the cluster."""
        return str(self.object["metadata"].get("namespace") or "")


@define(eq=False)
class Dump:
    """All that was read, in the order of the files."""

    items: list[Item] = field(factory=list)

    def of(self, kind: str) -> list[Item]:
        """The objects of a kind."""
        return [item for item in self.items if item.kind == kind]

    def objects(self, kind: str) -> list[Object]:
        """The same, without their places."""
        return [item.object for item in self.of(kind)]


def read(paths: Sequence[Path]) -> Dump:
    """Reads files and folders; BadInput, OSError. An object that is there twice is an error, with both places."""
    dump = Dump()
    for path in paths:
        for file in _files(path):
            dump.items += _objects(file)
            if len(dump.items) > OBJECTS_LIMIT:
                raise BadInput(str(file), f"these are more than {OBJECTS_LIMIT} objects")
    seen: dict[tuple[str, str, str], str] = {}
    for item in dump.items:
        key = item.kind, item.namespace, item.name
        if key in seen:
            where = f"{item.namespace}/{item.name}" if item.namespace else item.name
            raise BadInput(item.place, f"{item.kind} {where} is here a second time; the first is at {seen[key]}")
        seen[key] = item.place
    return dump


def _files(path: Path) -> Iterator[Path]:
    if path.is_dir():
        found = sorted(file for file in path.rglob("*") if file.suffix in ENDINGS and file.is_file())
        if not found:
            raise BadInput(str(path), f"there is no file that ends in {', '.join(ENDINGS)}")
        yield from found
    elif path.exists():
        yield path
    else:
        raise BadInput(str(path), "there is no such file")


def _objects(path: Path) -> Iterable[Item]:
    if path.stat().st_size > FILE_LIMIT:
        raise BadInput(str(path), f"the file has more than {FILE_LIMIT >> 20} MiB")
    data = path.read_bytes()
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise BadInput(f"{path}:{line}", "this is no UTF-8 text") from None
    plain = text.lstrip()
    if path.suffix == ".json" or plain[:1] in ("{", "["):
        documents: Iterable[tuple[Any, int]] = [(_json(path, text), 1)]
    else:
        documents = _yaml(path, text)
    for document, line in documents:
        yield from _items(path, document, line, _guessed(path))


def _json(path: Path, text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        at = re.search(r"byte (\d+)", str(error))
        line = len(text.encode()[: int(at[1])].splitlines()) if at else text.count("\n") + 1
        why = "it breaks off" if "truncated" in str(error) else str(error)
        raise BadInput(f"{path}:{max(line, 1)}", f"this is no JSON: {why}") from None


def _yaml(path: Path, text: str) -> Iterator[tuple[Any, int]]:
    loader = yaml.CSafeLoader(text)
    try:
        while loader.check_node():
            node = loader.get_node()
            if node is not None:
                yield loader.construct_document(node), node.start_mark.line + 1
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark is not None else 1
        raise BadInput(f"{path}:{line}", f"this is no YAML: {getattr(error, 'problem', None) or error}") from None
    finally:
        loader.dispose()


def _guessed(path: Path) -> str:
    for word in (path.stem, path.parent.name):
        for plural, kind in KINDS.items():
            if plural in word.lower():
                return kind
    return ""


def _items(path: Path, document: Any, line: int, kind: str) -> Iterator[Item]:
    place = f"{path}:{line}"
    if document is None:
        return
    if isinstance(document, list):
        for at, one in enumerate(document):
            yield from _items(path, one, line, kind)
            if not isinstance(one, dict):
                raise BadInput(f"{path} item {at}", "this is no object")
        return
    if not isinstance(document, dict):
        raise BadInput(place, "this is no object of Kubernetes")
    said = str(document.get("kind") or "")
    if isinstance(document.get("items"), list) and (said.endswith("List") or not said):
        of = said.removesuffix("List") or kind
        for at, one in enumerate(document["items"]):
            yield _item(one, f"{path} item {at}", of)
        return
    yield _item(document, place, kind)


def _item(one: Any, place: str, kind: str) -> Item:
    if not isinstance(one, dict):
        raise BadInput(place, "this is no object")
    said = one.get("kind") or kind
    if not isinstance(said, str) or not said:
        raise BadInput(place, "the object does not say its kind, and the file's name does not tell it")
    meta = one.get("metadata")
    if not isinstance(meta, dict) or not isinstance(meta.get("name") or meta.get("generateName"), str):
        raise BadInput(place, f"the {said} has no metadata.name")
    name = meta.get("name") or f"{meta['generateName']}*"
    return Item({**one, "kind": said, "metadata": {**meta, "name": name}}, place)
