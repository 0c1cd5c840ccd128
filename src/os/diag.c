/* Filling a weir_diag: an error code with a sentence; see diag.h. */
#include "os/diag.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int weir__diag(struct weir_diag *why, int error, const char *format, ...)
{
    va_list list;

    if (!why)
        return error;
    why->column = 0;
    va_start(list, format);
    (void)vsnprintf(why->text, sizeof why->text, format, list);
    va_end(list);
    return error;
}

int weir__diag_errno(struct weir_diag *why, int error, const char *format, ...)
{
    const int cause = errno;
    va_list list;
    size_t len;

    if (!why)
        return error;
    why->column = 0;
    va_start(list, format);
    (void)vsnprintf(why->text, sizeof why->text, format, list);
    va_end(list);
    len = strlen(why->text);
    (void)snprintf(why->text + len, sizeof why->text - len, ": %s", strerror(cause));
    return error;
}
