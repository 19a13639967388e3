#!/bin/sh
# A network for a Cortex-M55, as TVM's examples compile one.
CORE="cortex-m55"
python3 -m tvm.driver.tvmc compile --target=cmsis-nn,c \
    --target-cmsis-nn-mcpu=$CORE \
    --target-c-mcpu=$CORE \
    --executor=aot \
    --pass-config tir.usmp.enable=1 \
    --pass-config relay.FuseOps.max_depth=1 \
    --input-shapes "input.1:[1,49,10,1]" \
    --module-name=keywords \
    --made-up=3 \
    ../net.tflite --output net.tar
