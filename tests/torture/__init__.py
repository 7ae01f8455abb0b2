"""Long attacks on the whole tool, counted: ``make torture``.

A part is a numbered series of cases, each drawn from its number alone, so a run that is stopped
goes on with the next one and a case that failed can be repeated by itself. `docs/reliability.md`
holds what was counted.
"""
