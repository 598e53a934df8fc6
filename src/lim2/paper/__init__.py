"""The paper's experiments, with its published numbers as data.

One module per experiment: what is run (`plan`), and its section of the report (`section`). `lim2 paper` is the command.
"""
