"""Transactions as one log knows them: which are open, which were aborted, and the markers that end them."""
