"""From text to a Program, with messages that a person can act on."""

if __name__ != "dashpot.grammar":  # pragma: no cover
    raise ImportError("import 'dashpot.grammar', not 'grammar' (run `pip install -e .`)")
