"""Recorded histories: formats, judgements, conformance, predicted reorderings."""

if __name__ != "dashpot.traces":  # pragma: no cover
    raise ImportError("import 'dashpot.traces', not 'traces' (run `pip install -e .`)")
