/*
 * A stand-in for TI's library in tests. It has the requirements of TI's documents and sources, and
 * the stand-in of a region computes. A network's file is "net <command>". Its description has one
 * line per tensor: "<i or o> <place> <name> <type> <scale> <zero point> <bytes>".
 *
 * At the end, stderr lists handles and shared memory that the program has not released.
 */
#include "itidl_rt.h"

#include <float.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SUCCESS 0
#define INVALID_PARAMETERS (-10)
#define INVALID_DIMENSION (-15)
#define INVALID_VALUE (-16)
#define INVALID_TYPE (-17)
#define MOST 32 /* handles of a process */
#define LINE 128u

int32_t fw_c7x_serve(uint32_t command, uint8_t *memory);

typedef struct {
    char side;
    unsigned place;
    char name[TIDLRT_STRING_SIZE];
    int type;
    float scale;
    int zero_point;
    unsigned bytes;
} described;

typedef struct {
    unsigned command;
    int count;
    described tensors[MOST];
    uint8_t *memory;
} instance;

static instance *instances[MOST];
static void *shared[1024];

static void check_end(void)
{
    for (int i = 0; i < MOST; i++) {
        if (instances[i] != NULL) {
            fprintf(stderr, "TIDL-RT: a handle was not deleted\n");
        }
    }
    for (int i = 0; i < 1024; i++) {
        if (shared[i] != NULL) {
            fprintf(stderr, "TIDL-RT: shared memory was not freed\n");
            return;
        }
    }
}

int32_t TIDLRT_setParamsDefault(sTIDLRT_Params_t *params)
{
    params->netPtr = params->ioBufDescPtr = NULL;
    params->net_capacity = params->io_capacity = 0;
    params->quantRangeExpansionFactor = 1;
    params->quantRangeUpdateFactor = 0;
    params->maxPreEmptDelay = FLT_MAX;
    params->coreNum = 1;
    params->coreStartIdx = 1;
    params->TIDLVprintf = vprintf;
    return SUCCESS;
}

/* Clears neither the name nor the padding, like an older version of TI's function. */
int32_t TIDLRT_setTensorDefault(sTIDLRT_Tensor_t *tensor)
{
    tensor->elementType = tensor->numDim = tensor->dataOffset = tensor->zeroPoint = 0;
    tensor->ptr = NULL;
    tensor->layout = tensor->memType = 0;
    tensor->scale = 1;
    for (int i = 0; i < TIDLRT_DIM_MAX; i++) {
        tensor->dimValues[i] = -1;
    }
    for (int i = 0; i < TIDLRT_DIM_MAX - 1; i++) {
        tensor->pitch[i] = -1;
    }
    return SUCCESS;
}

int32_t TIDLRT_create(sTIDLRT_Params_t *params, void **handle)
{
    static int registered;
    instance *made = calloc(1, sizeof *made);
    char *text = calloc(1, (size_t)params->io_capacity + 1u);
    int slot = 0;
    unsigned bytes = 0;

    if (!registered) {
        registered = 1;
        atexit(check_end);
    }
    while (instances[slot] != NULL) {
        slot++;
    }
    memcpy(text, params->ioBufDescPtr, (size_t)params->io_capacity);
    char *at = text;
    for (char *line = strsep(&at, "\n"); line != NULL && *line != '\0'; line = strsep(&at, "\n")) {
        described *t = &made->tensors[made->count++];
        if (sscanf(line, "%c %u %511s %d %f %d %u", &t->side, &t->place, t->name, &t->type,
                   &t->scale, &t->zero_point, &t->bytes) != 7) {
            return INVALID_PARAMETERS;
        }
        bytes += (t->bytes + LINE - 1u) / LINE * LINE;
    }
    free(text);
    if (params->quantRangeExpansionFactor != 1.0f || made->count == 0 ||
        sscanf(params->netPtr, "net %u\n", &made->command) != 1) {
        return INVALID_PARAMETERS;
    }
    /* The working memory of a region is after its tensors. */
    made->memory = aligned_alloc(LINE, bytes + (1u << 20));
    memset(made->memory, 0xa5, bytes + (1u << 20));
    instances[slot] = made;
    *handle = made;
    return SUCCESS;
}

static instance *find(void *handle)
{
    for (int i = 0; i < MOST; i++) {
        if (handle != NULL && instances[i] == handle) {
            return instances[i];
        }
    }
    fprintf(stderr, "TIDL-RT: a handle is used that there is not\n");
    exit(70);
}

static sTIDLRT_Tensor_t *match(const described *wanted, sTIDLRT_Tensor_t *tensors[], int count)
{
    for (int i = 0; i < count; i++) {
        if (strcmp((const char *)tensors[i]->name, wanted->name) == 0) {
            return tensors[i];
        }
    }
    return NULL;
}

static int32_t check(const described *wanted, const sTIDLRT_Tensor_t *given)
{
    static const int32_t none[4];
    if (given == NULL) {
        return INVALID_PARAMETERS;
    }
    if (given->elementType != wanted->type || given->layout != TIDLRT_LT_NCHW) {
        return INVALID_TYPE;
    }
    if (given->scale < wanted->scale * 0.999999f || given->scale > wanted->scale * 1.000001f ||
        given->zeroPoint != wanted->zero_point) {
        return INVALID_VALUE;
    }
    if (memcmp(given->padValues, none, sizeof none) != 0 || given->dimValues[0] != -1 ||
        given->pitch[0] != -1 || given->dataOffset != 0) {
        return INVALID_DIMENSION;
    }
    const int is_shared = TIDLRT_isSharedMem(given->ptr);
    return is_shared == (given->memType == TIDLRT_MEM_SHARED) ? SUCCESS : INVALID_PARAMETERS;
}

/* Return the address of a tensor for the stand-in: after tensors of lower places, inputs first. */
static uint8_t *place(const instance *of, const described *wanted)
{
    uint8_t *at = of->memory;
    for (int i = 0; i < of->count; i++) {
        const described *other = &of->tensors[i];
        if ((other->side == wanted->side && other->place < wanted->place) ||
            (other->side == 'i' && wanted->side == 'o')) {
            at += (other->bytes + LINE - 1u) / LINE * LINE;
        }
    }
    return at;
}

int32_t TIDLRT_invoke(void *handle, sTIDLRT_Tensor_t *in[], sTIDLRT_Tensor_t *out[])
{
    const instance *used = find(handle);
    int inputs = 0;

    for (int i = 0; i < used->count; i++) {
        inputs += used->tensors[i].side == 'i';
    }
    for (int copied = 'i'; copied != 0; copied = copied == 'i' ? 'o' : 0) {
        for (int i = 0; i < used->count; i++) {
            const described *wanted = &used->tensors[i];
            const int is_input = wanted->side == 'i';
            sTIDLRT_Tensor_t *given = is_input ? match(wanted, in, inputs)
                                               : match(wanted, out, used->count - inputs);
            const int32_t status = check(wanted, given);
            if (status != SUCCESS) {
                return status;
            }
            if (copied == wanted->side && is_input) {
                memcpy(place(used, wanted), given->ptr, wanted->bytes);
            } else if (copied == wanted->side) {
                memcpy(given->ptr, place(used, wanted), wanted->bytes);
            }
        }
        if (copied == 'i' && fw_c7x_serve(used->command, used->memory) != 0) {
            return -1;
        }
    }
    return SUCCESS;
}

int32_t TIDLRT_deactivate(void *handle)
{
    (void)find(handle);
    return SUCCESS;
}

int32_t TIDLRT_delete(void *handle)
{
    instance *used = find(handle);
    for (int i = 0; i < MOST; i++) {
        if (instances[i] == used) {
            instances[i] = NULL;
        }
    }
    free(used->memory);
    free(used);
    return SUCCESS;
}

void *TIDLRT_allocSharedMem(int32_t alignment, int32_t size)
{
    const size_t unit = (size_t)alignment;
    for (int i = 0; i < 1024; i++) {
        if (shared[i] == NULL) {
            shared[i] = aligned_alloc(unit, ((size_t)size + unit - 1u) / unit * unit);
            memset(shared[i], 0x5a, (size_t)size);
            return shared[i];
        }
    }
    return NULL;
}

void TIDLRT_freeSharedMem(void *memory)
{
    for (int i = 0; i < 1024; i++) {
        if (shared[i] == memory) {
            free(memory);
            shared[i] = NULL;
            return;
        }
    }
    fprintf(stderr, "TIDL-RT: memory is freed that it does not share\n");
    exit(70);
}

int32_t TIDLRT_isSharedMem(void *memory)
{
    for (int i = 0; i < 1024; i++) {
        if (memory != NULL && shared[i] == memory) {
            return 1;
        }
    }
    return 0;
}
