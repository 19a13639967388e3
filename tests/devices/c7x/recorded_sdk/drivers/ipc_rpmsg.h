/* The part of TI's SDK that the C7x's side uses, as TI's public documents state it. */
#ifndef IPC_RPMSG_H
#define IPC_RPMSG_H

#include <stdint.h>

typedef struct {
    uintptr_t rsv[64];
} RPMessage_Object;

typedef struct {
    uint16_t localEndPt;
    void (*recvCallback)(RPMessage_Object *object, void *argument, void *data, uint16_t length,
                         uint16_t core, uint16_t end_point);
    void *recvCallbackArgs;
} RPMessage_CreateParams;

void RPMessage_CreateParams_init(RPMessage_CreateParams *params);
int32_t RPMessage_construct(RPMessage_Object *object, const RPMessage_CreateParams *params);
void RPMessage_destruct(RPMessage_Object *object);
int32_t RPMessage_announce(uint16_t core, uint16_t end_point, const char *name);
int32_t RPMessage_waitForLinuxReady(uint32_t timeout);
int32_t RPMessage_send(void *data, uint16_t length, uint16_t core, uint16_t end_point,
                       uint16_t own_end_point, uint32_t timeout);
int32_t RPMessage_recv(RPMessage_Object *object, void *data, uint16_t *length, uint16_t *core,
                       uint16_t *end_point, uint32_t timeout);

#endif
