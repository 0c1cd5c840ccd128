/* Errors with a sentence. */
#ifndef WEIR_OS_DIAG_H
#define WEIR_OS_DIAG_H

#include <weir.h>

/* Fills *why, unless NULL, and returns the error. The second adds what errno says. */
__attribute__((format(printf, 3, 4))) int weir__diag(struct weir_diag *why, int error,
                                                     const char *format, ...);
__attribute__((format(printf, 3, 4))) int weir__diag_errno(struct weir_diag *why, int error,
                                                           const char *format, ...);

#endif
