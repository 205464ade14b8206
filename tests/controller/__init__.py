"""Tests of runtime/controller: the engine, the manager, `dashpot run` and `dashpot crd`."""
