# Compiled as it is: `apply.py` has functions only, and what they work on is compiled elsewhere.
