/* Stands for the SDK's header in tests. */
#include <stddef.h>
