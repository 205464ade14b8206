"""What a control plane is: types, specs, the kernel, the core IR and its backends. Imports no other room."""

if __name__ != "dashpot.model":  # pragma: no cover
    raise ImportError("import 'dashpot.model', not 'model' (run `pip install -e .`)")
