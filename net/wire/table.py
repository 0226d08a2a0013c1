"""The table of all APIs for `docs/tables/apis.md`, from what the code serves."""

from __future__ import annotations

from net.wire.apis import VERSIONS, Api, Scope, Served, served_on

_HEAD = (
    "| key | API | broker: advertised | served | controller: advertised | served |\n"
    "| ---: | --- | --- | --- | --- | --- |\n"
)


def table() -> str:
    """Write the table in Markdown."""
    return _HEAD + "".join(_row(api) for api in sorted(VERSIONS))


def _row(api: Api) -> str:
    name = "".join(word.capitalize() for word in api.name.split("_"))
    on = [_versions(served_on(scope, api)) for scope in (Scope.BROKER, Scope.CONTROLLER)]
    return f"| {int(api)} | {name} | {' | '.join(on)} |\n"


def _versions(served: Served | None) -> str:
    if served is None:
        return "- | -"
    return f"{_range(served.min, served.max)} | {_range(served.serves_from, served.serves_to)}"


def _range(low: int, high: int) -> str:
    return str(low) if low == high else f"{low}-{high}"
