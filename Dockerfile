# A server of one pipeline: docker build --build-arg MODEL=training/english/model-best -t bcrf .
# docker run -p 8000:8000 bcrf
FROM python:3.12-slim@sha256:78387bc3881b8273120a12ebe6c1ab22b018ccc2c9adf565ae1ac9b536e184ea AS build
RUN apt-get update && apt-get install -y --no-install-recommends g++ && rm -rf /var/lib/apt/lists/*
COPY . /src
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels /src

FROM python:3.12-slim@sha256:78387bc3881b8273120a12ebe6c1ab22b018ccc2c9adf565ae1ac9b536e184ea
COPY --from=build /wheels /wheels
RUN pip install --no-cache-dir "$(ls /wheels/*.whl)[serve]" && rm -r /wheels
ARG MODEL
COPY ${MODEL} /model
RUN useradd --system server
USER server
ENV OMP_NUM_THREADS=1
EXPOSE 8000
HEALTHCHECK CMD python -c "import urllib.request as r; r.urlopen('http://localhost:8000/healthz')"
CMD ["python", "-m", "spacy", "bcrf", "serve", "/model", "--host", "0.0.0.0"]
