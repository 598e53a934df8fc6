"""The paper's experiments, with its published numbers as data.

One module an experiment: what is run (`plan`), and what is told of it (`section`). `lim2 paper` is the command.
"""
