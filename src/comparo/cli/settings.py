"""Flags from elsewhere: every one can come from the environment (COMPARO_JUDGE) or from a TOML file.

The command line wins over the environment, the environment over the file. The user must agree to a file that
was not named if it decides what is spent, who is asked or files elsewhere (`Command`). In the file, keys at the top are
for all commands that have such a flag, those in a table named after a command for that command:

    judge = "openai/gpt-6-luna"
    [rank]
    budget = "20n"

A flag that may be repeated takes a list. A judge may be a table with its options, several judges a list of tables:

    [[judge]]
    name = "openai/gpt-6-luna"
    price = "0.15,0.60"
    [[judge]]
    name = "openai/qwen"
    base-url = "http://localhost:8000/v1"
"""

import os
import re
import shlex
import sys
import tomllib
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from copy import copy
from functools import partial
from pathlib import Path, PurePath
from typing import Any

import typer
from typer.core import TyperCommand, TyperOption

from comparo.data.opening import unpacked
from comparo.data.sanitize import visible, without_login

FILE = Path("comparo.toml")
_SECRET = re.compile(r"key|token|secret|password|login", re.IGNORECASE)
EVERY = "comparo.every"  # the key in `Context.meta` that is true for --help-all
UNNAMED = "comparo.unnamed"  # the key in `Context.meta` of the path of a settings file that was not named
HERE = ("local/smollm2", "simulated/soft", "simulated/hard")  # judges that load no model but the embedded one
FREE = ("local", "simulated", "replay")  # providers that cost no money
# What decides where keys and texts go or which answers are lost or trusted, and what is spent on a judge that costs.
GUARDED = "base-url option host behind cache force fresh repair check clear".split()
SPENT = (
    "budget price batch pairs calls all level fail-if-worse not-worse-than propose lineup wording least-mass".split()
)
OF_CHECK = ("judge", "base-url", "option", "price", "calls")  # what `comparo runs` uses with --check only
RUNNING: ContextVar[typer.Context | None] = ContextVar("running", default=None)  # the command that runs


def name_of(option: TyperOption) -> str:
    """The flag's name as a file spells it: base-url."""
    return next(name for name in option.opts if name.startswith("--")).removeprefix("--")


def running() -> typer.Context:
    """The context of the running command."""
    context = RUNNING.get()
    assert context is not None
    return context


def flags_now() -> dict[str, str]:
    """The flag of each parameter of the running command."""
    context = RUNNING.get()
    options = [] if context is None else options_of(context.command)
    flags = {name_of(option).replace("-", "_"): f"--{name_of(option)}" for option in options}
    return flags | {str(option.name): f"--{name_of(option)}" for option in options}


def name_variables(command: TyperCommand) -> None:
    """Let environment variables set the flags of a command: COMPARO_BASE_URL sets --base-url.

    Several judges, wordings or criteria in one variable are separated by |, because names of files have spaces.
    """
    for option in options_of(command):
        option.envvar = f"COMPARO_{name_of(option).replace('-', '_').upper()}"
        option.show_envvar = False
        if option.multiple and name_of(option) in ("judge", "wording", "criterion"):
            option.value_from_envvar = partial(_from_variable, option)  # type: ignore[method-assign]


def _from_variable(option: TyperOption, context: Any) -> list[str] | None:
    text = option.resolve_envvar_value(context)
    return None if text is None else [part.strip() for part in text.split("|")]


def read_settings(commands: Mapping[str, TyperCommand], path: Path) -> dict[str, dict[str, Any]]:
    """The defaults that a TOML file gives to the flags of each command; a key that no command has is an error."""
    try:
        settings = tomllib.loads(unpacked(path).getvalue().decode())
    except RecursionError:
        raise ValueError(f"{path} cannot be read: its brackets are nested too deeply") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not TOML: {error}") from error
    if isinstance(judge := settings.get("judge"), dict) and "name" in judge:
        settings["judge"] = _judges([judge], path)
    elif isinstance(judge, list) and any(isinstance(each, dict) for each in judge):
        settings["judge"] = _judges(judge, path)
    tables = {key: value for key, value in settings.items() if isinstance(value, dict)}
    everywhere = {key: value for key, value in settings.items() if key not in tables}
    defaults: dict[str, dict[str, Any]] = {name: {} for name in commands}
    for table in tables:
        if table not in commands:
            raise ValueError(f"{path}: there is no command [{table}]; there are {', '.join(commands)}")
    unknown = set(everywhere)
    for name, command in commands.items():
        flags = {name_of(option): option for option in options_of(command)}
        for key, value in {**everywhere, **tables.get(name, {})}.items():
            flag = key.replace("_", "-")
            if flag in flags:
                is_one = flags[flag].multiple and not isinstance(value, list)
                defaults[name][str(flags[flag].name)] = [value] if is_one else value
                unknown.discard(key)
            elif key in tables.get(name, {}):
                raise ValueError(f"{path}: comparo {name} has no flag {key!r}; it has {', '.join(sorted(flags))}")
    if unknown:
        raise ValueError(f"{path}: no command has a flag {min(unknown)!r}; see comparo rank --help")
    return defaults


def _judges(tables: list[Any], path: Path) -> list[str]:
    """Tables [judge] as values of --judge: the name, and then the options of that judge."""
    if not all(isinstance(table, dict) and table.get("name") for table in tables):
        raise ValueError(f'{path}: each [[judge]] needs its name, such as name = "openai/gpt-6-luna"')
    written = []
    for table in tables:
        parts = [str(table["name"])]
        for option, value in table.items():
            said = ",".join(map(str, value)) if isinstance(value, list) else value
            if option != "name":
                parts.append(f"{option}={said}")
        if wrong := [part for part in parts if ";" in part]:
            raise ValueError(f"{path}: {wrong[0]!r} in [[judge]] has a semicolon, which separates options")
        written.append("; ".join(parts))
    return written


def settings_file(given: Path | None) -> tuple[Path | None, bool]:
    """The file given, else that named by COMPARO_CONFIG, else comparo.toml in the working folder if there is one.

    The second value says whether it was named.
    """
    if given is None and os.environ.get("COMPARO_CONFIG"):
        given = Path(os.environ["COMPARO_CONFIG"])
    return given or (FILE if FILE.is_file() else None), given is not None


def options_of(command: Any) -> list[TyperOption]:
    """The flags of a command, but for --help."""
    found = []
    for option in command.params:
        names = [name for name in option.opts if name.startswith("--") and name != "--help"]
        if names and isinstance(option, TyperOption):
            found.append(option)
    return found


def command_line(name: str | None = None, context: typer.Context | None = None, **instead: Any) -> str:
    """A shell command with every argument, and every flag that is not at its default, without secrets.

    Values from a TOML file or from a variable such as COMPARO_JUDGE are flags too: the command needs neither. `name`
    names another command, and `instead` replaces the values of some parameters.
    """
    context = context or running()
    arguments, flags = [], []
    for parameter in context.command.params:
        flag = max(parameter.opts, key=len)
        value = instead.get(str(parameter.name), context.params.get(str(parameter.name)))
        values = list(value) if isinstance(value, list | tuple) else [value]
        if value is None or not values or str(value) == str(parameter.default):
            continue
        if parameter.param_type_name == "argument":
            arguments += [str(each) for each in values]
        elif parameter.is_flag:  # type: ignore[attr-defined]
            flags.append(flag)
        else:
            for each in map(_harmless, map(str, values)):
                flags += [f"{flag}={each}"] if each.startswith("-") else [flag, each]
    return shlex.join(["comparo", name or str(context.info_name), *arguments, *flags])


def _harmless(value: str) -> str:
    name, equals, _ = value.partition("=")
    return f"{name}=…" if equals and _SECRET.search(name) and " " not in name else without_login(value)


class Command(TyperCommand):
    """A command that runs only with settings that the user gave or agreed to.

    comparo.toml in the working folder is read automatically, and may come from elsewhere: a repository, an archive, a
    colleague. The user must agree on a terminal to its servers, judges over the network, models to load by name or
    from a file, options of a judge, address of a voting page, files outside the working folder, and, for a judge that
    costs, what is spent (`decides`); what else it decides is said. Flags, variables and a file named by --config or
    COMPARO_CONFIG need no agreement.
    """

    common: Sequence[str] = ()  # the flags that --help shows; --help-all shows every flag

    def get_params(self, ctx: Any) -> list[Any]:
        """The parameters, with --help-all where --help shows only some of them."""
        params: list[Any] = super().get_params(ctx)
        if not self.common:
            return params
        every = copy(self.get_help_option(ctx))
        every.name, every.opts, every.callback = "help_all", ["--help-all"], _help_all
        every.help = f"Show all {len(options_of(self))} flags."
        return [*params, every]

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help, in one panel if it shows only the `common` flags."""
        every = self.params
        try:
            if self.common and not ctx.meta.get(EVERY):
                self.params = [copy(parameter) for parameter in every]
                for option in options_of(self):
                    option.hidden, option.rich_help_panel = name_of(option) not in self.common, None
            super().format_help(ctx, formatter)
        finally:
            self.params = every

    def get_help_option(self, ctx: Any) -> Any:
        """The flag --help, in the panel of the last flags."""
        option = super().get_help_option(ctx)
        if option is not None:
            option.rich_help_panel = getattr(self.params[-1], "rich_help_panel", None) if self.params else None
            option.metavar = ""
        return option

    def invoke(self, ctx: Any) -> Any:
        """Run the command, after asking about settings of an unnamed file."""
        RUNNING.set(ctx)
        _agree(ctx)
        return super().invoke(ctx)


def _help_all(context: typer.Context, _: Any, asked: bool) -> None:
    if asked:
        context.meta[EVERY] = True
        typer.echo(context.get_help())
        raise typer.Exit


def decides(flag: str, value: Any, spends: bool = False) -> bool:
    """Whether a setting decides who is asked, what is lost, what lies elsewhere or, if the judge `spends`, the costs.

    >>> decides("base-url", "http://localhost"), decides("judge", ["openai/luna"]), decides("judge", "local/smollm2")
    (True, True, False)
    >>> decides("judge", "hf/some/model"), decides("judge", "local/some.gguf "), decides("report", "../x.html")
    (True, True, True)
    >>> decides("out", "run"), decides("out", "/srv/public"), decides("budget", "20n"), decides("budget", "20n", True)
    (False, True, False, True)
    """
    values = [str(each) for each in (value if isinstance(value, list | tuple) else [value])]
    if value is False:  # a switch that is off, as it is by default
        return False
    if flag == "judge":
        return not all(map(_is_harmless, values))
    return flag in GUARDED or (spends and flag in SPENT) or any(map(_is_elsewhere, values))


def _is_harmless(judge: str) -> bool:
    name = judge.strip()
    provider, _, path = name.partition("/")
    return ";" not in name and (name in HERE or (provider == "replay" and not _is_elsewhere(path)))


def _is_elsewhere(value: str) -> bool:
    """Whether a value that is a path, also one with options behind, leads out of the working folder, also by links."""
    try:
        paths = [os.path.realpath(os.path.expanduser(path)) for path in (value, value.partition(";")[0].strip())]
    except ValueError:  # a NUL, which no name of a file has
        return True
    return not all(PurePath(path).is_relative_to(os.path.realpath(".")) for path in paths)


def _agree(context: typer.Context) -> None:
    path: Path | None = context.find_root().meta.get(UNNAMED)
    if path is None:
        return
    given = context.params
    spends = any(judge.strip().partition("/")[0] not in FREE for judge in given.get("judge") or ())
    chosen: dict[str, Any] = {}
    others: dict[str, Any] = {}
    for option in options_of(context.command):
        flag, source = name_of(option), context.get_parameter_source(str(option.name))
        is_used = given.get("is_checked", True) or flag not in OF_CHECK
        if is_used and source is not None and source.name == "DEFAULT_MAP":
            value = given.get(str(option.name))
            (chosen if decides(flag, value, spends) else others)[flag] = value
    if others and ("quiet" in others or not given.get("quiet")):
        said = ", ".join(f"{flag} = {without_login(_written(value)):.60}" for flag, value in others.items())
        typer.echo(visible(f"{path} in this folder, which nobody named, decides {said}"), err=True)
    if not chosen:
        return
    said = visible(", ".join(f"{flag} = {without_login(_written(value))}" for flag, value in chosen.items()))
    if sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty():
        question = f"{path} here decides on money, files elsewhere or where keys and texts go:\n  {said}\nUse that?"
        if typer.confirm(question, default=False, err=True):
            return
        raise ValueError(f"{path} was not agreed to; give --{next(iter(chosen))} yourself, or change the file")
    raise ValueError(
        f"{path} here decides on money, files elsewhere or where keys and texts go ({said}), and nobody named it. "
        f"If that is meant: comparo --config {path} {context.info_name} …; or give --{next(iter(chosen))} yourself"
    )


def _written(value: Any) -> str:
    return ", ".join(map(_written, value)) if isinstance(value, list | tuple) else repr(str(value))
