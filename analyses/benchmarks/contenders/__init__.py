"""What the collecting benchmark compares: one module a contender, each run in a process of its own.

`job` is what all of them are given; `weights` writes it; `worker` is the process of one contender and `racing`
its other end; `table` says who takes part and what is wanted of us; `figures` makes the rates, ratios and text.
A contender's module has `prepare(job) -> Prepared`. `hugging_face` and `llama_cpp` import nothing of this project, so
that an environment without it can run them.
"""
