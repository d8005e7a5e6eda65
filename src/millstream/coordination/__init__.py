"""Who is alive and who leads: a tree of znodes, embedded or in a real ZooKeeper, behind one small interface."""
