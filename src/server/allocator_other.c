/* Any allocator other than glibc's is left as it is. */
#include "server/memory.h"

void allocator_init(void)
{
}

void allocator_trim(void)
{
}
