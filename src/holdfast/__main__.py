"""`python -m holdfast` is the command `holdfast`."""

from holdfast.runtime.cli.main import run

if __name__ == "__main__":
    run()
