onnx2c -l 1 -d batch:1 -f run_network net.onnx > net.c
