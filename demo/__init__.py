"""The demo of `scripts/demo`: a site's activity from producers to tables, with everything that is between, on one machine."""
