/*
 * A recorded interface of TIDL-RT for tests. It has the names and fields of TI's SDK, in the order
 * of the newest public generation. It is not a header for a chip; programs for a chip use the SDK's
 * header.
 */
#ifndef ITIDL_RT_H
#define ITIDL_RT_H

#include <stdarg.h>
#include <stdint.h>

#define TIDLRT_STRING_SIZE 512
#define TIDLRT_DIM_MAX 6

enum { TIDLRT_Uint8, TIDLRT_Int8, TIDLRT_Uint16, TIDLRT_Int16, TIDLRT_Uint32, TIDLRT_Int32,
       TIDLRT_Float32, TIDLRT_Uint64, TIDLRT_Int64 };
enum { TIDLRT_LT_NCHW, TIDLRT_LT_NHWC };
enum { TIDLRT_MEM_USERSPACE, TIDLRT_MEM_SHARED, TIDLRT_MEM_NATIVE };

typedef struct {
    int8_t name[TIDLRT_STRING_SIZE];
    int32_t elementType;
    int32_t numDim;
    int32_t dimValues[TIDLRT_DIM_MAX];
    int32_t pitch[TIDLRT_DIM_MAX - 1];
    int32_t padValues[4];
    void *ptr;
    int32_t dataOffset;
    uint32_t layout;
    int32_t zeroPoint;
    float scale;
    uint32_t memType;
    int32_t bufferSize;
} sTIDLRT_Tensor_t;

typedef struct {
    void *netPtr;
    void *ioBufDescPtr;
    int32_t net_capacity;
    int32_t io_capacity;
    int32_t dumpNetInitBackupData;
    int32_t releaseIOTensorsAtCreate;
    int32_t computeChecksum;
    uint32_t flowCtrl;
    float quantRangeExpansionFactor;
    float quantRangeUpdateFactor;
    int targetPriority;
    float maxPreEmptDelay;
    uint32_t coreNum;
    int32_t coreStartIdx;
    int32_t (*TIDLVprintf)(const char *format, va_list arg);
} sTIDLRT_Params_t;

int32_t TIDLRT_setParamsDefault(sTIDLRT_Params_t *params);
int32_t TIDLRT_setTensorDefault(sTIDLRT_Tensor_t *tensor);
int32_t TIDLRT_create(sTIDLRT_Params_t *params, void **handle);
int32_t TIDLRT_invoke(void *handle, sTIDLRT_Tensor_t *in[], sTIDLRT_Tensor_t *out[]);
int32_t TIDLRT_deactivate(void *handle);
int32_t TIDLRT_delete(void *handle);
void *TIDLRT_allocSharedMem(int32_t alignment, int32_t size);
void TIDLRT_freeSharedMem(void *memory);
int32_t TIDLRT_isSharedMem(void *memory);

#endif
