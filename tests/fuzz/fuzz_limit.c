/* Fuzzes the grammar of limits: no text may crash it, and a limit that it accepts must print to a
 * text that parses back to the same limit and prints the same. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <weir.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char printed[WEIR_LIMIT_TEXT_MAX], again[WEIR_LIMIT_TEXT_MAX];
    struct weir_limit limit, back;
    struct weir_diag why;
    char *text = malloc(size + 1);

    if (!text)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    if (weir_limit_parse(&limit, text, &why) != 0) {
        if (why.column < 1 || strlen(why.text) >= sizeof why.text)
            abort();
    } else {
        if (weir_limit_print(&limit, printed, sizeof printed) >= sizeof printed)
            abort();
        if (weir_limit_parse(&back, printed, &why) != 0 || memcmp(&limit, &back, sizeof back) != 0)
            abort();
        (void)weir_limit_print(&back, again, sizeof again);
        if (strcmp(printed, again) != 0)
            abort();
    }
    free(text);
    return 0;
}
