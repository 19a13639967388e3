# firmwright with Debian's compilers and emulators for its platforms:
#   docker build --tag firmwright .
#   docker run --rm --volume "$PWD:/work" firmwright build kws.yaml
# The build needs the network for Debian's and Python's packages; runs of the image do not.
FROM python:3.12-slim-bookworm
RUN { apt-get update --error-on=any \
        || { echo "no network: this image needs Debian's packages; behind a proxy, pass" \
            "--build-arg http_proxy=http://proxy:port to docker build" >&2; exit 1; }; } \
    && apt-get install --yes --no-install-recommends \
        avr-libc clang gcc gcc-arm-none-eabi gcc-avr gcc-riscv64-linux-gnu gcc-riscv64-unknown-elf git \
        libc6-dev libc6-dev-riscv64-cross libnewlib-arm-none-eabi make picolibc-riscv64-unknown-elf \
        qemu-system-arm qemu-system-misc qemu-user \
    && rm -rf /var/lib/apt/lists/*
COPY . /firmwright
RUN python -m pip install --no-cache-dir -r /firmwright/constraints.txt \
    && python -m pip install --no-cache-dir --no-deps /firmwright
WORKDIR /work
ENTRYPOINT ["firmwright"]
