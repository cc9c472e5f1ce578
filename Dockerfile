# A small image that serves (docs/serving.md): CPU torch, the core and the extra serve, compiled at build time.
FROM python:3.11-slim
WORKDIR /opt/multiview
COPY . .
# The index of torch's CPU builds, which PyTorch's page of installation names; without it torch brings CUDA.
ARG TORCH_INDEX
ENV PIP_NO_CACHE_DIR=1 NUMBA_CACHE_DIR=/opt/numba PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1
RUN pip install -c constraints.txt torch ${TORCH_INDEX:+--index-url "$TORCH_INDEX"} \
 && pip install -c constraints.txt '.[serve]' \
 && python -m multiview.warm_up --no-training \
 && chmod -R a+rX /opt/numba && useradd --no-create-home --uid 10001 serve
USER serve
WORKDIR /tmp
EXPOSE 8000
# docker run --read-only --tmpfs /tmp -p 8000:8000 IMAGE
ENTRYPOINT ["python", "-m", "multiview.serve", "--host", "0.0.0.0", "--log", "json"]
