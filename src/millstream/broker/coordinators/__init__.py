"""The coordinators of groups: machines that live in the partitions of an internal topic."""
