"""The course from a terminal: the command `strides`, which is `python -m strides`, too.

    __main__.py     the commands; each loads what it needs, and the help loads nothing
    lab.py          the course in JupyterLab
    handout.py      a unit for the student to work in
    check.py        a saved notebook checked
    work_log.py     the page of a work log
    tutor.py        tools for a learner's assistant, over MCP;  seen.py  what the trace sees of a notebook's answer, for them
    startup.py      what a kernel runs first where there is no Triton
    completion.py   what a shell offers when Tab is pressed

It stands above course_lib, the engine and the grader, and none of them imports it. Students have it, and their copy has no grader.
"""
