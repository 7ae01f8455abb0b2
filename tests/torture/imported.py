"""What every command imports, imported once for commands that are forked."""

import pkgutil
from importlib import import_module

import outcode.app.commands

for module in pkgutil.iter_modules(outcode.app.commands.__path__):
    import_module(f"outcode.app.commands.{module.name}")
for name in ("export", "datasets", "persistence", "app.study", "app.report"):
    import_module(f"outcode.{name}")
