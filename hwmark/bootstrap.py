"""Which cluster a command talks to."""

from __future__ import annotations

from typing import Annotated, Final

import typer

ENVIRONMENT: Final = "HWMARK_BOOTSTRAP"

Bootstrap = Annotated[
    str,
    typer.Option(
        "--bootstrap",
        "-b",
        metavar="HOST:PORT,...",
        envvar=ENVIRONMENT,
        help="Brokers to ask first.",
        show_default=False,
    ),
]
