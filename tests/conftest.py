"""What all tests share: the option that lets scenario files be written anew."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--rewrite`."""
    parser.addoption(
        "--rewrite",
        action="store_true",
        help="write what really follows into the scenario files, to be reviewed as a diff",
    )
