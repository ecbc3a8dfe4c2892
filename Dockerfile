FROM python:3.12-slim AS build
WORKDIR /build
RUN python -m venv /opt/savepointdb
COPY requirements.lock .
RUN /opt/savepointdb/bin/pip install --no-cache-dir --require-hashes --requirement requirements.lock
COPY . .
RUN /opt/savepointdb/bin/pip install --no-cache-dir --no-deps .

FROM python:3.12-slim
COPY --from=build /opt/savepointdb /opt/savepointdb
RUN useradd --uid 10001 --create-home savepointdb
USER savepointdb
ENV PATH=/opt/savepointdb/bin:$PATH PYTHONUNBUFFERED=1
# For processors like that of the machine that builds the image; on others the service compiles when it first starts.
RUN savepointdb compile
VOLUME /savepoints
EXPOSE 8080
HEALTHCHECK --start-period=120s CMD \
    ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8080/healthz', timeout=3)"]
# All addresses *of the container*, which asks for keys: SAVEPOINTDB_KEYS_FILE, or --allow-anonymous where the port is
# published to the machine itself only (docker-compose.yml).
ENTRYPOINT ["savepointdb"]
CMD ["serve", "--root", "/savepoints", "--host", "0.0.0.0", "--port", "8080"]
