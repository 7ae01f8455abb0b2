"""What each command does; every function returns the exit code."""

from outcode.app.commands.carding import card
from outcode.app.commands.comparing import compare
from outcode.app.commands.exporting import export_model
from outcode.app.commands.faults import exit_code, sentence
from outcode.app.commands.fitting import fit
from outcode.app.commands.predicting import predict
from outcode.app.commands.showing import code, doctor
from outcode.app.commands.writing import report, reproduce

__all__ = [
    "card",
    "code",
    "compare",
    "doctor",
    "exit_code",
    "export_model",
    "fit",
    "predict",
    "report",
    "reproduce",
    "sentence",
]
