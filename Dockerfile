# firmwright with the compilers and emulators of its platforms:
#   docker build --tag firmwright .
#   docker run --rm --volume "$PWD:/work" firmwright build kws.yaml
# The build needs the network for Debian's and Python's packages; runs of the image do not.
FROM python:3.12-slim-bookworm
RUN apt-get update \
    && apt-get install --yes --no-install-recommends \
        avr-libc gcc gcc-arm-none-eabi gcc-avr gcc-riscv64-unknown-elf git make qemu-system-arm qemu-system-misc qemu-user \
    && rm -rf /var/lib/apt/lists/*
COPY . /firmwright
RUN python -m pip install --no-cache-dir /firmwright --constraint /firmwright/constraints.txt
WORKDIR /work
ENTRYPOINT ["firmwright"]
