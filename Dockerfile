# `lim2 serve` as a user without rights, on a root file system that may be read-only. State is in /data.
# This image has a compiler, for the kernels.
FROM python:3.12 AS build
WORKDIR /source
COPY pyproject.toml hatch_build.py README.md LICENSE ./
COPY src ./src
RUN python -m venv /opt/lim2 && /opt/lim2/bin/pip install --no-cache-dir '.[serve,postgres]'

FROM python:3.12-slim
RUN groupadd --gid 10001 lim2 \
    && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin lim2 \
    && install --directory --owner=10001 --group=10001 --mode=0700 /data
COPY --from=build /opt/lim2 /opt/lim2
ENV PATH=/opt/lim2/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    OPENBLAS_NUM_THREADS=1 \
    LIM2_HOST=0.0.0.0 \
    LIM2_PORT=8300 \
    LIM2_SERVE_DATA=/data
USER 10001:10001
VOLUME /data
EXPOSE 8300
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=30s --retries=3 CMD ["python", "-c", "import http.client as h, os, sys; c = h.HTTPConnection('127.0.0.1', int(os.environ['LIM2_PORT']), timeout=2); c.request('GET', '/healthz'); sys.exit(c.getresponse().status != 200)"]
ENTRYPOINT ["lim2", "serve"]
