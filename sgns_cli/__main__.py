"""`python -m sgns_cli` is `sgns`."""

from sgns_cli.cli import main

raise SystemExit(main())
