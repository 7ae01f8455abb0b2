"""Support vector machines: ``loops`` is compiled, ``columns`` solves and certifies a column."""
