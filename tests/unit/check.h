/* cmocka, and a closing line that counts. */
#ifndef WEIR_TESTS_CHECK_H
#define WEIR_TESTS_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#define RUN(name, tests)                                                         \
    int main(void)                                                               \
    {                                                                            \
        const int all = (int)(sizeof(tests) / sizeof((tests)[0]));               \
        const int failed = cmocka_run_group_tests_name(name, tests, NULL, NULL); \
                                                                                 \
        (void)printf("%s: %d passed, %d failed\n", name, all - failed, failed);  \
        return failed != 0;                                                      \
    }

#endif
