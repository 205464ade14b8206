"""What does happen: store, API server, scheduler, kubelet, and controllers run from their specs."""

if __name__ != "dashpot.runtime":  # pragma: no cover
    raise ImportError("import 'dashpot.runtime', not 'runtime' (run `pip install -e .`)")
