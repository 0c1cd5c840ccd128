/* A system without prctl: cores are as its limits say. See internal.h. */
#include "server/internal.h"

void cores_forbid(void)
{
}
