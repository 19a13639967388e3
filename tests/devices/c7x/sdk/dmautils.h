/*
 * A stand-in for TI's dmautils and cache functions, with the names and the order of calls of its
 * documentation. A transfer is executed when the program waits for it. A call out of order ends the
 * program.
 */
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { DMAUTILSAUTOINC3D_SYNC_1D, DMAUTILSAUTOINC3D_SYNC_2D };
enum { DMAUTILSAUTOINC3D_DFMT_NONE };
enum { DMAUTILSAUTOINC3D_DRUOWNER_DIRECT_TR = 1 };
enum { DMAUTILSAUTOINC3D_ADDRCONVERTMASK_SRCADDR = 1, DMAUTILSAUTOINC3D_ADDRCONVERTMASK_DSTADDR = 2 };
enum { CacheP_TYPE_ALLD = 15 };

typedef struct {
    int32_t numChannels, contextSize, traceLogLevel;
    int32_t (*DmaUtilsVprintf)(const char *format, va_list arguments);
    void *udmaDrvHandle;
} DmaUtilsAutoInc3d_InitParam;

typedef struct {
    uint8_t dmaQueNo, druOwner;
} DmaUtilsAutoInc3d_ChannelInitParam;

typedef struct {
    uint8_t *trMem;
    int32_t trMemSize, numTRs, channelId;
} DmaUtilsAutoInc3d_TrPrepareParam;

typedef struct {
    uint32_t syncType, dmaDfmt;
    struct {
        uint16_t sicnt0, sicnt1, sicnt2, sicnt3, dicnt0, dicnt1, dicnt2, dicnt3;
        int32_t sdim1, sdim2, sdim3, ddim1, ddim2, ddim3;
    } transferDim;
    struct {
        uint8_t *srcPtr, *dstPtr;
    } ioPointers;
} DmaUtilsAutoInc3d_TransferProp;

typedef enum { IDLE, PREPARED, CONVERTED, CONFIGURED, TRIGGERED, DONE } sdk_state;

typedef struct {
    sdk_state state;
    DmaUtilsAutoInc3d_TransferProp moved;
} sdk_transfer;

static int sdk_written_back;

static void sdk_go(uint8_t *memory, sdk_state from, sdk_state to)
{
    sdk_transfer *transfer = (sdk_transfer *)(void *)memory;

    if (transfer->state != from) {
        abort();
    }
    transfer->state = to;
}

static uint8_t *sdk_memory[64];

static void *appUdmaGetObj(void)
{
    return sdk_memory;
}

static int32_t DmaUtilsAutoInc3d_getContextSize(int32_t channels)
{
    return channels * 1344;
}

static int32_t DmaUtilsAutoInc3d_getTrMemReq(int32_t records)
{
    return records * (int32_t)sizeof(sdk_transfer);
}

static int32_t DmaUtilsAutoInc3d_init(void *context, DmaUtilsAutoInc3d_InitParam *given, DmaUtilsAutoInc3d_ChannelInitParam *channels)
{
    (void)context;
    return SDK_FAILS || given->udmaDrvHandle == NULL || channels[0].druOwner != DMAUTILSAUTOINC3D_DRUOWNER_DIRECT_TR;
}

static int32_t DmaUtilsAutoInc3d_prepareTr(DmaUtilsAutoInc3d_TrPrepareParam *record, DmaUtilsAutoInc3d_TransferProp *moved)
{
    sdk_go(record->trMem, IDLE, PREPARED);
    sdk_memory[record->channelId] = record->trMem;
    ((sdk_transfer *)(void *)record->trMem)->moved = *moved;
    sdk_written_back = 0;
    return 0;
}

static int32_t DmaUtilsAutoInc3d_convertTrVirtToPhyAddr(void *context, const DmaUtilsAutoInc3d_TrPrepareParam *record, uint32_t mask)
{
    (void)context;
    sdk_go(record->trMem, PREPARED, mask == 3 ? CONVERTED : IDLE);
    return 0;
}

static void CacheP_wbInv(void *from, uint32_t bytes, uint32_t type)
{
    (void)from;
    sdk_written_back += bytes > 0 && type == CacheP_TYPE_ALLD;
}

static int32_t DmaUtilsAutoInc3d_configure(void *context, int32_t channel, uint8_t *memory, int32_t records)
{
    (void)context;
    sdk_go(memory, CONVERTED, sdk_memory[channel] == memory && records == 1 ? CONFIGURED : IDLE);
    return 0;
}

static int32_t DmaUtilsAutoInc3d_trigger(void *context, int32_t channel)
{
    (void)context;
    sdk_go(sdk_memory[channel], CONFIGURED, sdk_written_back == 2 ? TRIGGERED : IDLE);
    return 0;
}

static void DmaUtilsAutoInc3d_wait(void *context, int32_t channel)
{
    const DmaUtilsAutoInc3d_TransferProp *moved = &((sdk_transfer *)(void *)sdk_memory[channel])->moved;

    (void)context;
    sdk_go(sdk_memory[channel], TRIGGERED, DONE);
    for (int32_t row = 0; row < moved->transferDim.sicnt1; ++row) {
        memcpy(moved->ioPointers.dstPtr + row * moved->transferDim.ddim1,
               moved->ioPointers.srcPtr + row * moved->transferDim.sdim1, moved->transferDim.dicnt0);
    }
}

static int32_t DmaUtilsAutoInc3d_deconfigure(void *context, int32_t channel, uint8_t *memory, int32_t records)
{
    (void)context;
    sdk_go(memory, DONE, sdk_memory[channel] == memory && records == 1 ? IDLE : TRIGGERED);
    return 0;
}
