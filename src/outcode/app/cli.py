"""The command line: argument parsing and exit codes only; `commands` does the work.

Exit codes: 0 ok, 1 a fault of the program, 2 usage, 3 data or model file, 4 some cells of a study
failed, 5 all of them failed, 130 interrupted, 141 whoever reads the output wants no more.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

try:
    import click
except ImportError:
    print(
        'The command line needs additional packages: pip install "outcode[app]".', file=sys.stderr
    )
    sys.exit(2)

from outcode import __version__
from outcode.app.heartbeat import Heartbeat

#: When the program began; the time of its first command counts from here, imports included.
BEGAN = [time.monotonic()]
UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
TIMES = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


class Quantity(click.ParamType):  # type: ignore[type-arg]  # not generic in older click
    """A number with a unit: ``10m``, ``4GB``."""

    def __init__(self, name: str, units: dict[str, int], example: str, zero: bool = False) -> None:
        self.name, self.units, self.example, self.zero = name, units, example, zero

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return the value in the smallest unit."""
        if not isinstance(value, str):
            return value
        match = re.fullmatch(r"(\d+\.?\d*|\.\d+)\s*([a-z]?)(?:i?b)?", value.strip().lower(), re.A)
        unit = self.units.get(match[2]) if match else None
        if match is None or unit is None or not (self.zero or float(match[1])):
            self.fail(
                f"{value!r} is not a valid {self.name}: write it like {self.example}.", param, ctx
            )
        return float(match[1]) * unit


SEED = click.option(
    "--seed",
    type=click.IntRange(0, 2**32 - 1),
    default=0,
    show_default=True,
    help="Random seed; the same seed gives the same numbers.",
)
DURATION = Quantity("time", TIMES, "30s, 10m or 2h")
BUDGET = Quantity("time", TIMES, "30s, 10m or 2h", zero=True)
BYTES = Quantity("size", UNITS, "500MB or 4GB")


def options(*decorators: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return one decorator that adds several options in the order given."""

    def add(function: Any) -> Any:
        for decorator in reversed(decorators):
            function = decorator(function)
        return function

    return add


class Kind(click.ParamType):  # type: ignore[type-arg]  # not generic in older click
    """A column and its kind: ``zip=category``."""

    name = "COLUMN=KIND"

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return the column and its kind."""
        column, equals, kind = str(value).rpartition("=")
        if not equals or not column:
            self.fail(f"{value!r}: write it like zip=category.", param, ctx)
        return column, kind


TEXT = options(
    click.option("--delimiter", help="Delimiter of a text file; detected by default."),
    click.option("--encoding", help="Encoding of a text file, e.g. cp1252; detected by default."),
    click.option("--decimal", help="Decimal mark of numbers, . or ,; detected by default."),
    click.option("--thousands", help="Thousands separator of numbers; detected by default."),
    click.option(
        "--sheet", help="Sheet of a workbook, name or position, or file of a zip archive."
    ),
)
SCALE = click.option(
    "--scale",
    type=click.Choice(["standard", "unit", "none"]),
    default="standard",
    show_default=True,
    help="Scaling of numeric columns, fitted on the training rows: mean 0 and standard deviation "
    "1, the range 0 to 1, or none.",
)
DATA = options(
    click.option(
        "--target",
        "-t",
        help="Column to predict, name or position; default: a column named class, target, ..., "
        "or the last.",
    ),
    TEXT,
    click.option(
        "--drop", multiple=True, metavar="COLUMN", help="Column to ignore; may be repeated."
    ),
    click.option(
        "--keep",
        multiple=True,
        metavar="COLUMN",
        help="Use only the columns given; may be repeated.",
    ),
    click.option(
        "--types",
        multiple=True,
        type=Kind(),
        help="Type of a column: number, category, date or text; may be repeated.",
    ),
    click.option(
        "--sample", type=click.IntRange(10), help="Use a random sample of this many rows."
    ),
    click.option(
        "--bins", type=click.IntRange(2), help="Cut a numeric target into this many classes."
    ),
    click.option(
        "--data-dir",
        type=click.Path(exists=True, file_okay=False),
        envvar="OUTCODE_DATA",
        help="Folder of named data sets with a datasets.json; default: $OUTCODE_DATA.",
    ),
)
REPORT = click.option(
    "--output",
    "-o",
    type=click.Path(dir_okay=False),
    default="report.html",
    show_default=True,
    help="Report file: .html, .md, .json or .csv.",
)


def preset(meaning: str) -> Callable[[Any], Any]:
    """Return the option --preset with what it means for a command."""
    return click.option(
        "--preset",
        type=click.Choice(["quick", "standard", "full"]),
        default="quick",
        show_default=True,
        help=meaning,
    )


RUNNING = options(
    click.option(
        "--n-jobs",
        "-j",
        type=int,
        help="Number of worker processes; default: all cores; 0 runs in this process.",
    ),
    click.option("--time-limit", type=DURATION, help="Stop the study after this time, e.g. 10m."),
    click.option(
        "--cell-timeout", type=DURATION, help="Stop a single run after this time, e.g. 60s."
    ),
    click.option(
        "--memory-limit",
        type=BYTES,
        help="Stop a single run that uses more memory than this, e.g. 4GB.",
    ),
)


@click.group(
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Add --debug to any command to see the traceback of an error.",
)
@click.version_option(__version__, message="outcode %(version)s")
def cli() -> None:
    """Multiclass classification with output codes: compare methods, fit, predict."""


@cli.command()
@click.argument("sources", nargs=-1, metavar="[FILE|NAME]...")
@DATA
@click.option(
    "--methods",
    "-m",
    metavar="NAMES",
    help="Methods to compare, comma-separated, e.g. ovo+likelihood,bch+llw+ls,spoc; `outcode code` "
    "lists the parts of a name.",
)
@preset("Set of methods if --methods is not given, and size of the hyper-parameter grids.")
@click.option(
    "--folds",
    type=click.IntRange(2),
    default=5,
    show_default=True,
    help="Number of cross-validation folds.",
)
@click.option(
    "--repeats",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Number of cross-validation repetitions.",
)
@click.option(
    "--time",
    type=BUDGET,
    default="120s",
    show_default=True,
    help="Time budget; rows, folds and methods are reduced to fit it. 0 means no limit.",
)
@SEED
@SCALE
@RUNNING
@REPORT
@click.option(
    "--store",
    type=click.Path(dir_okay=False),
    help="Database of finished runs; default: the report's name with .db.",
)
@click.option(
    "--cost",
    metavar="absolute|squared|FILE",
    help="Report the cost of errors too: the distance of ordered classes, or a CSV matrix with a "
    "row for each true class.",
)
@click.option(
    "--dry-run", is_flag=True, help="Only estimate the number of runs, the time and the memory."
)
@click.pass_obj
def compare(run: tuple[str, float], /, **choices: Any) -> int:
    """Compare methods on your data and write a report.

    FILE is CSV, TSV, JSON, Excel, Parquet, Feather, ARFF or LIBSVM, optionally compressed (gz, bz2,
    xz, zst, zip), or - for standard input. NAME is a known data set. The default is scikit-learn's
    digits. If a run is interrupted, the same command continues it.
    """
    with Heartbeat():
        from outcode.app import commands

        return commands.compare(*run, **choices)


@cli.command(short_help="Train one method on a file or folder and save the model.")
@click.argument("source", metavar="FILE|FOLDER|PATTERN|NAME")
@DATA
@click.option(
    "--landmarks",
    type=click.IntRange(1),
    help="Train a landmark (Nystrom) machine with this many landmarks; for large data.",
)
@click.option("--dask", metavar="ADDRESS", help="Train on the workers of this scheduler: tcp://...")
@click.option(
    "--method",
    "-m",
    help="Method to train, e.g. ovo+likelihood; default: the tuned classifier. `outcode code` "
    "lists the parts of a name.",
)
@preset("Size of the hyper-parameter grid that is searched.")
@click.option(
    "--folds",
    type=click.IntRange(0),
    default=5,
    show_default=True,
    help="Number of folds of the cross-validated error that is printed; 0 skips it.",
)
@click.option(
    "--store", help="Database of finished runs written by `compare`; its results are reused."
)
@SEED
@SCALE
@click.option("--n-jobs", "-j", type=int, help="Number of threads; all cores by default.")
@click.option(
    "--output",
    "-o",
    type=click.Path(dir_okay=False),
    default="model.oc",
    show_default=True,
    help="Model file.",
)
def fit(**choices: Any) -> int:
    """Train one method on all rows of a file and save the model with its preprocessing.

    A FOLDER or a quoted PATTERN ("rows/*.parquet") of files with the same columns, and a file of
    more than 256 MB, are read block by block: a landmark (Nystrom) machine is trained on all rows.
    If the command is interrupted or stopped by a bad row, the same command continues the work.
    """
    with Heartbeat():
        from outcode.app import commands

        return commands.fit(**choices)


@cli.command(short_help="Predict the rows of a file with a saved model.")
@click.argument("model", type=click.Path(exists=True, dir_okay=False))
@click.argument("rows", metavar="FILE|FOLDER|PATTERN")
@TEXT
@click.option("--proba", is_flag=True, help="Add a column of probabilities for each class.")
@click.option(
    "--set", "coverage", type=click.FloatRange(0, 1, min_open=True, max_open=True), metavar="SHARE",
    help="Add a set of classes that contains the true one with this probability, e.g. 0.9.",
)  # fmt: skip
@click.option("--explain", is_flag=True, help="Add an explanation of each prediction.")
@click.option("--target", "-t", help="Column with the true classes; prints the error.")
@click.option(
    "--output",
    "-o",
    type=click.Path(dir_okay=False),
    help="CSV file to write; default: standard output.",
)
@click.option(
    "--abstain", type=click.FloatRange(0, 1, min_open=True, max_open=True), metavar="ERROR",
    help="Leave a prediction empty unless its confidence keeps the error below this, e.g. 0.05.",
)  # fmt: skip
def predict(**choices: Any) -> int:
    """Predict the rows of FILE, a raw table like the one used for `fit`, with a saved MODEL.

    A FOLDER, a quoted PATTERN, a large file and - for standard input are read block by block, and
    predictions are written as they are made.
    """
    from outcode.app import commands

    return commands.predict(**choices)


@cli.command(short_help="Describe a saved model in Markdown.")
@click.argument("model", type=click.Path(exists=True, dir_okay=False))
@click.option("--store", help="Study database (.db); its leaderboard becomes part of the card.")
@click.option(
    "--output",
    "-o",
    type=click.Path(dir_okay=False),
    help="Markdown file to write; default: standard output.",
)
def card(**choices: Any) -> int:
    """Describe a saved MODEL in Markdown: classes, input, output, held-out errors, limits."""
    from outcode.app import commands

    return commands.card(**choices)


@cli.command(short_help="Write a saved model for ONNX, NumPy or C.")
@click.argument("model", type=click.Path(exists=True, dir_okay=False))
@click.option(
    "--output", "-o", type=click.Path(dir_okay=False), default="model.onnx", show_default=True,
    help="File to write: .onnx, .py (needs only NumPy) or .h (a C header).",
)  # fmt: skip
@click.option("--rows", metavar="FILE", help="Rows to compare on; default: random rows.")
@TEXT
def export(**choices: Any) -> int:
    """Write a saved MODEL as ONNX, Python or C, after comparing it with the model."""
    with Heartbeat():
        from outcode.app import commands

        return commands.export_model(**choices)


@cli.command()
@click.argument("store", type=click.Path(exists=True, dir_okay=False))
@REPORT
def report(**choices: Any) -> int:
    """Write the report of a STORE, the database of finished runs."""
    with Heartbeat():
        from outcode.app import commands

        return commands.report(**choices)


@cli.command(short_help="Reproduce the experiments of a paper, or list the papers.")
@click.argument("paper", required=False)
@click.option("--quick", is_flag=True, help="A reduced version that takes a few minutes at most.")
@click.option(
    "--data-dir", type=click.Path(exists=True, file_okay=False), envvar="OUTCODE_DATA",
    help="Folder of the papers' data sets; default: $OUTCODE_DATA.",
)  # fmt: skip
@click.option("--n-jobs", "-j", type=int, help="Number of worker processes; default: all cores.")
@click.option(
    "--store",
    type=click.Path(dir_okay=False),
    help="Database of finished runs; an interrupted run continues from it.",
)
@click.option(
    "--output",
    "-o",
    type=click.Path(dir_okay=False),
    help="Markdown file to write; default: standard output.",
)
def reproduce(**choices: Any) -> int:
    """Reproduce the experiments of PAPER, its numbers next to ours; by default, list the papers."""
    with Heartbeat():
        from outcode.app import commands

        return commands.reproduce(**choices)


@cli.command(short_help="Show a code matrix and its diagnosis.")
@click.argument("code", metavar="[NAME|FILE]", required=False)
@click.option("--classes", "-k", type=click.IntRange(2, 1000), help="Number of classes.")
@click.option("--data", metavar="FILE|NAME", help="Data set for a code that is learned from data.")
@DATA
@SEED
def code(**choices: Any) -> int:
    """Show a code matrix (a NAME, or a CSV FILE of +1, -1, 0) and its diagnosis.

    Without an argument, list the codes, decoders and machines that make up the name of a method.
    """
    from outcode.app import commands

    return commands.code(**choices)


@cli.command(short_help="Show versions, threads, memory and compiled code.")
def doctor() -> int:
    """Show installed versions, number of threads, free memory and compiled code."""
    from outcode.app import commands

    return commands.doctor()


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and leave with its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    _open_streams()
    debug = "--debug" in given
    given = [argument for argument in given if argument != "--debug"]
    try:
        run = shlex.join(["outcode", *given]), BEGAN.pop() if BEGAN else time.monotonic()
        code = cli.main(given, prog_name="outcode", standalone_mode=False, obj=run)
    except Exception as error:
        if debug:
            raise
        code = _explain(error)
    except KeyboardInterrupt:
        code = _interrupted()
    sys.exit(code or 0)


def _from_interrupt(error: BaseException | None) -> bool:
    """Return whether an error was raised for an interrupt, as some are while modules load."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


def _interrupted() -> int:
    """Say so and return the exit code."""
    click.echo("\nInterrupted.", err=True)
    return 130


def _open_streams() -> None:
    """Open the streams the caller closed, and let no name fail that they cannot show."""
    for name in ("stdin", "stdout", "stderr"):  # in this order, each takes the lowest free number
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "r" if name == "stdin" else "w"))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def _explain(error: Exception) -> int:
    """Say what went wrong in a sentence and return the exit code."""
    if isinstance(error, click.exceptions.Exit):
        return error.exit_code
    if isinstance(error, click.Abort) or _from_interrupt(error):
        return _interrupted()
    if isinstance(error, click.ClickException):
        error.show()
        return error.exit_code
    if "no locator available" in str(error):  # numba's, while our modules are imported
        click.echo(
            "Error: Compiled code cannot be stored: neither the folder of the package nor the "
            "cache of the user is writable. Set NUMBA_CACHE_DIR to a writable folder.",
            err=True,
        )
        return 2
    from outcode.app.commands import exit_code, sentence

    code = exit_code(error)
    click.echo(
        f"Error: {sentence(error)}" if code != 1 else f"Error: {type(error).__name__}: {error}",
        err=True,
    )
    if code == 1:
        click.echo("This is a bug in outcode. Add --debug to see the traceback.", err=True)
    return code
