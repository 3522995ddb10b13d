"""The words that a shell offers when Tab is pressed: commands, and units; where nothing fits, it offers files by itself."""

from __future__ import annotations

from collections.abc import Collection

ASK = "strides --complete"
SHELLS = {
    "bash": f"complete -o default -C '{ASK}' strides",
    "zsh": f"autoload -Uz compinit bashcompinit && compinit && bashcompinit && complete -o default -C '{ASK}' strides",
    "fish": f"complete -c strides -a '(COMP_LINE=(commandline -cp) {ASK})'",
}
"""Shell -> the line that its start-up file needs."""


def candidates(line: str, commands: Collection[str]) -> list[str]:
    """Return the completions of the last word of a line such as "strides gr"."""
    *before, begun = f"{line} ".split(" ") if line.endswith(" ") else line.split(" ")
    match [word for word in before if word][1:]:
        case []:
            words: Collection[str] = commands
        case ["completion"]:
            words = SHELLS
        case ["grade"]:
            from grader.__main__ import app

            words = [
                command.name or str(command.callback.__name__)
                for command in app.registered_commands
                if command.callback
            ]
        case ["grade", *_] | ["demo", *_]:
            from course_lib.exercises import UNITS

            words = UNITS
        case _:
            words = ()
    return sorted(word for word in words if word.startswith(begun))
