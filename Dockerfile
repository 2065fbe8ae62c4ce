# CPU:   docker build --tag shiftbench .
# CUDA:  docker build --tag shiftbench:cuda --build-arg EXTRAS=train,studio .      (run it with --gpus all)
# Use:   docker run --rm --user "$(id -u):$(id -g)" --volume "$PWD:/work" shiftbench audit predictions.csv --data table.csv
FROM python:3.12-slim
ARG EXTRAS=studio
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 NUMBA_CACHE_DIR=/tmp/numba MPLCONFIGDIR=/tmp/matplotlib HOME=/tmp
WORKDIR /source
COPY pyproject.toml README.md LICENSE constraints.txt ./
COPY src ./src
RUN pip install --constraint constraints.txt ".[${EXTRAS}]"
WORKDIR /work
USER 1000
ENTRYPOINT ["shiftbench"]
CMD ["--help"]
