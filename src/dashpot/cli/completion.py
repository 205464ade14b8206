"""`dashpot completion`: tab completion for bash and zsh, made from the parser itself."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from dashpot.cli import console
from dashpot.cli.problem import HOLDS

SUMMARY = "print a completion script for a shell"
USAGE = "dashpot completion bash|zsh"
DESCRIPTION = "Prints a script that completes commands, options and .loop files."
EXAMPLE = "  source <(dashpot completion bash)\n  dashpot completion zsh > ~/.zfunc/_dashpot"

BASH = """\
# bash completion for dashpot; source it: source <(dashpot completion bash)
_dashpot() {
  local current=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]}
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W "%(commands)s" -- "$current"))
    return
  fi
  local options= words=
  case "$command" in
%(cases)s
  esac
  case "$current" in
    -*) COMPREPLY=($(compgen -W "$options" -- "$current")) ;;
    *)
      [ -n "$words" ] && COMPREPLY=($(compgen -W "$words" -- "$current"))
      compopt -o filenames 2>/dev/null
      COMPREPLY+=($(compgen -f -X '!*.loop' -- "$current") $(compgen -d -- "$current"))
      ;;
  esac
}
complete -F _dashpot dashpot
"""

ZSH = """\
#compdef dashpot
# zsh completion for dashpot; write it to a folder of $fpath under the name _dashpot
_dashpot() {
  local -a commands
  commands=(
%(commands)s
  )
  if (( CURRENT == 2 )); then
    _describe command commands
    return
  fi
  case $words[2] in
%(cases)s
  esac
}
compdef _dashpot dashpot
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the options of this command."""
    parser.add_argument("shell", choices=("bash", "zsh"), help="the shell to complete in")


def run(args: argparse.Namespace) -> int:
    """Prints the script for one shell."""
    console.out(_bash() if args.shell == "bash" else _zsh(), end="")
    return HOLDS


def _commands() -> dict[str, argparse.ArgumentParser]:
    from dashpot.cli.parser import build

    commands = build().commands
    assert commands is not None
    return dict(commands.choices)


def _options(parser: argparse.ArgumentParser) -> Iterator[tuple[str, str, bool]]:
    """(option, help, takes a value) of one command."""
    for action in parser._actions:
        for option in action.option_strings:
            yield option, action.help or "", action.nargs != 0


def _words(parser: argparse.ArgumentParser) -> list[str]:
    return [str(c) for a in parser._actions if not a.option_strings and a.choices for c in a.choices]


def _bash() -> str:
    commands = _commands()
    cases = []
    for name, parser in commands.items():
        options = " ".join(option for option, _, _ in _options(parser))
        cases.append(f'    {name}) options="{options}" words="{" ".join(_words(parser))}" ;;')
    return BASH % {"commands": " ".join(commands), "cases": "\n".join(cases)}


def _zsh() -> str:
    from importlib import import_module

    cases, described = [], []
    for name, parser in _commands().items():
        summary = import_module(f"dashpot.cli.{name}").SUMMARY
        described.append("    " + _quoted(f"{name}:{summary}"))
        specs = [_quoted(f"{o}[{_plain(h)}]{':value:_files' if value else ''}") for o, h, value in _options(parser)]
        words = _words(parser)
        specs.append(_quoted(f"*:word:({' '.join(words)})" if words else "*:file:_files -g '*.loop(-.) *(-/)'"))
        cases.append(f"    {name})\n      _arguments \\\n        " + " \\\n        ".join(specs) + "\n      ;;")
    return ZSH % {"commands": "\n".join(described), "cases": "\n".join(cases)}


def _plain(text: str) -> str:
    return text.replace("[", "(").replace("]", ")").replace(":", ",").replace("%%", "%")


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
