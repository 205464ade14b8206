"""What may happen: searches, verdicts, stories, graphs."""

if __name__ != "dashpot.checker":  # pragma: no cover
    raise ImportError("import 'dashpot.checker', not 'checker' (run `pip install -e .`)")
