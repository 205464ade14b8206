"""`python -m dashpot`: the command line."""

from dashpot.cli import main

raise SystemExit(main())
