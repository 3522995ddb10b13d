# The course and its grader in a container, for a machine with an NVIDIA GPU or without: docs/hosted.md says how to run it.
# torch's wheels bring CUDA; the host brings the driver, through the NVIDIA Container Toolkit.
ARG BASE=python:3.12-slim
FROM $BASE

# cuda, or cpu: for a machine without an NVIDIA GPU, and a third of the size
ARG TORCH=cuda
ENV TORCH=$TORCH

# git: `grader doctor` asks it about the secret. gcc: Triton compiles what launches a kernel on a GPU with it.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends bubblewrap git make $([ $TORCH = cpu ] || echo gcc libc6-dev) \
    && apt-get clean && rm -rf /var/lib/apt/lists/*

RUN useradd --create-home --shell /bin/bash learner && mkdir /course && chown learner /course
USER learner
WORKDIR /course

# What the course needs, in a layer of its own: a change of the course downloads no torch. Out of it goes what nothing runs here:
# uv, torch's tests in C++, libraries to link with.
COPY --chown=learner make.py pyproject.toml constraints.txt ./
COPY --chown=learner tritontrace/pyproject.toml tritontrace/
RUN PIP_NO_CACHE_DIR=1 UV_NO_CACHE=1 python3 -c "import make, os; make.make_environment(b := os.environ['TORCH']); make.dependencies('grader', build=b)" \
    && .venv/bin/python -m pip uninstall --quiet --yes uv && cd .venv/lib/python3*/site-packages \
    && rm -rf torch/test torch/bin/test_* triton/backends/nvidia/lib/cupti/*.a

# .venv, as `make lab` sets it up. work/ is made here so that a volume mounted there belongs to the user. It is no VOLUME: that
# would lie over the work/ of a clone that is mounted at /course, as a devcontainer's is.
COPY --chown=learner . .
RUN PIP_NO_CACHE_DIR=1 UV_NO_CACHE=1 python3 -c "import make; make.setup('grader')" && mkdir -p work

ENV COURSE_PROGRESS=/course/work/.progress.json
EXPOSE 8888
# JupyterLab itself then is process 1, which `docker stop` speaks to.
CMD [".venv/bin/strides", "lab", "--no-browser", "--ip=0.0.0.0"]
