# The lessons in a container: JupyterLab on port 8888, a user without root, the CPU build of torch.
#     docker build -t ddp-lessons . && docker run --rm -p 127.0.0.1:8888:8888 --shm-size 1g ddp-lessons
# Codespaces (.devcontainer/) and Binder (binder/) use the same requirements.
FROM python:3.12-slim-bookworm

# For lesson 14 (nodes made of namespaces, if the container may create them) and for Jupyter's terminal.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends git iproute2 make procps \
    && rm -rf /var/lib/apt/lists/*

# Not root, because notebook cells can run anything. Binder requires this user id and these variables.
ARG NB_USER=learner
ARG NB_UID=1000
RUN useradd --create-home --uid "${NB_UID}" "${NB_USER}"
ENV USER="${NB_USER}" HOME="/home/${NB_USER}"
WORKDIR /home/${NB_USER}/ddp-lessons
RUN chown "${NB_USER}" .
USER ${NB_USER}

# What changes rarely comes first, so that a change in a lesson installs nothing again. uv knows the index of the CPU build.
ENV VIRTUAL_ENV="/home/${NB_USER}/venv" PATH="/home/${NB_USER}/venv/bin:${PATH}"
ARG TORCH=cpu
COPY --chown=${NB_USER} requirements.txt ./
RUN python -m venv "${VIRTUAL_ENV}" \
    && python -m pip install --no-cache-dir uv \
    && uv pip install --no-cache --compile-bytecode --torch-backend "${TORCH}" -r requirements.txt

COPY --chown=${NB_USER} . .
RUN uv pip install --no-cache --no-deps -e . \
    && python -m ddp_lessons pair

EXPOSE 8888
# Jupyter keeps its token; docker's log shows the address with the token.
CMD ["ddp-lessons", "start", "--jupyter", "--ip", "0.0.0.0", "--port", "8888", "--no-browser"]
