"""`python -m gimbal.run -n 4 train.py ...`: gimbal-run, from the wheel or the path, with Python scripts started by this Python."""

import os
import pathlib
import shutil
import sys


def command(arguments: list) -> list:
    """The command line of gimbal-run for these arguments: this interpreter before a script that no program stands before."""
    for index, argument in enumerate(arguments):
        if argument.startswith("-") and argument != "--":
            continue
        if argument.endswith(".py"):
            return [*arguments[:index], sys.executable, *arguments[index:]]
        if argument == "--" or shutil.which(argument):
            break
    return list(arguments)


def tool(name: str) -> str:
    """The path of one of Gimbal's programs; exits where there is none."""
    inside = pathlib.Path(__file__).parent / "bin" / name
    found = str(inside) if inside.exists() else shutil.which(name)
    if found is None:
        sys.exit(f"gimbal: {name} is neither in the package nor on PATH: install the wheel, or build the project")
    return found


def main() -> None:
    """Becomes gimbal-run."""
    program = tool("gimbal-run")
    os.execv(program, [program, *command(sys.argv[1:])])


if __name__ == "__main__":
    main()
