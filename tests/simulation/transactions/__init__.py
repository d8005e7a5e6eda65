"""Transactions in a world that loses, repeats and delays, and whose coordinator crashes."""
