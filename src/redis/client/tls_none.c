/* TLS for a hiredis without it: always fails. address.c refuses rediss:// before this is called. */
#include <stdio.h>

#include <hiredis/hiredis.h>

#include "redis/client/tls.h"

bool weir__tls_begin(struct redisContext *c, const char *name, char *why, size_t cap)
{
    (void)c, (void)name;
    (void)snprintf(why, cap, "this weir was built with a hiredis that has no TLS");
    return false;
}

int weir__tls_read(struct redisContext *c)
{
    (void)c;
    return REDIS_ERR;
}

int weir__tls_write(struct redisContext *c, int *done)
{
    (void)c;
    *done = 0;
    return REDIS_ERR;
}
