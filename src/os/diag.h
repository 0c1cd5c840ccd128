/* Filling a weir_diag: an error code with a sentence. */
#ifndef WEIR_OS_DIAG_H
#define WEIR_OS_DIAG_H

#include <weir.h>

/* Both fill *why, unless it is NULL, and return the error. The second adds the text of errno. */
__attribute__((format(printf, 3, 4))) int weir__diag(struct weir_diag *why, int error,
                                                     const char *format, ...);
__attribute__((format(printf, 3, 4))) int weir__diag_errno(struct weir_diag *why, int error,
                                                           const char *format, ...);

#endif
