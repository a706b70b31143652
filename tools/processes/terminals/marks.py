"""How bash is told to mark its prompts and commands (OSC 133), and how a command becomes one line that is typed."""

import re
import shlex

# Of each prompt: how the command before has ended. Nothing of it is handed on to programs, which would mark as well;
# history expansion is off, or a "!" would change what was asked for.
_PROMPT_COMMAND = (
    r"""printf '\033]133;D;%s;{word}\007' "$?"; """
    r"""case "$PS1" in *"B;{word}"*) ;; *) PS1="$PS1"'\[\033]133;B;{word}\007\]';; esac; """
    r"""export -n PROMPT_COMMAND PS0 PS1; set +H"""
)
_PS0 = r"\033]133;C;{word}\007"
_PLAIN = re.compile(r"[^\x00-\x1f\x7f]+")
_OPENING = frozenset(("if", "for", "while", "until", "case", "select", "function"))
_GOES_ON = re.compile(r"<<|[|&\\]\s*$")
_ESCAPED = re.compile(r"[\x00-\x1f\x7f\\']")


def marking_environment(word: str) -> dict[str, str]:
    """Return what bash takes from its environment. word: letters and digits; it tells its marks from any others."""
    return {"PROMPT_COMMAND": _PROMPT_COMMAND.replace("{word}", word), "PS0": _PS0.replace("{word}", word)}


def as_line(command: str) -> str:
    """Return a command as it is typed: one of a single line as it stands; any other as one line that evaluates it.

    A tab would complete a name, a line break would begin a second command. Raises: ValueError for a NUL.
    """
    if "\0" in command:
        raise ValueError("a command with a NUL")
    if _PLAIN.fullmatch(command) and _is_whole(command):
        return f"{command}\r"
    return f"eval $'{_ESCAPED.sub(_escape, command)}'\r"


def _is_whole(command: str) -> bool:
    """Guess whether bash finds its end in this line. Where it does not, it waits for more until the time-out."""
    try:
        words = shlex.split(command)
    except ValueError:
        return False
    opened = bool(words) and words[0] in _OPENING
    pairs = all(command.count(one) == command.count(other) for one, other in ("()", "{}"))
    return pairs and not (opened or _GOES_ON.search(command) or command.count("`") % 2)


def _escape(found: re.Match[str]) -> str:
    character = found[0]
    return {"\n": r"\n", "\t": r"\t"}.get(character) or (
        f"\\{character}" if character in "\\'" else f"\\x{ord(character):02x}"
    )
