# The course and its grader in a container, for a machine with an NVIDIA GPU or without: docs/hosted.md says how to run it.
# torch's wheels bring CUDA; the host brings the driver, through the NVIDIA Container Toolkit.
FROM python:3.12-slim

# gcc: Triton compiles its launchers with it. git: `grader doctor` asks it about the secret.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends bubblewrap gcc git libc6-dev make \
    && rm -rf /var/lib/apt/lists/*

RUN useradd --create-home --shell /bin/bash learner && mkdir /course && chown learner /course
USER learner
WORKDIR /course

# cuda, or cpu: a third of the size, for a machine without an NVIDIA GPU
ARG TORCH=cuda
ENV TORCH=$TORCH

# What the course needs, in a layer of its own: a change of the course downloads no torch.
COPY --chown=learner make.py pyproject.toml constraints.txt ./
COPY --chown=learner tritontrace/pyproject.toml tritontrace/
RUN PIP_NO_CACHE_DIR=1 UV_NO_CACHE=1 python3 -c "import make, os; make.make_environment(b := os.environ['TORCH']); make.dependencies('grader', build=b)"

# .venv, as `make lab` sets it up. work/ is made here so that a volume mounted there belongs to the user.
COPY --chown=learner . .
RUN PIP_NO_CACHE_DIR=1 UV_NO_CACHE=1 python3 -c "import make; make.setup('grader')" && mkdir -p work

ENV COURSE_PROGRESS=/course/work/.progress.json
VOLUME /course/work
EXPOSE 8888
CMD ["python3", "make.py", "lab", "--no-browser", "--ip=0.0.0.0"]
