"""`millstream mirror`: copies of a cluster, and what is said of them."""
