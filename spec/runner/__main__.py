"""Makes `python -m spec.runner` the command that `command` describes."""

from spec.runner.command import main

if __name__ == "__main__":
    raise SystemExit(main())
