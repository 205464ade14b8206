"""What the library's specs declare as `extern fun`: pure functions over wide values, one module for each spec.

`model.extern.foo.f` is the function of `extern fun f` in `kubernetes.foo`. An object is given as it is kept: its
`json` is the whole object.
"""
