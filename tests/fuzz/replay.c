/* Runs a fuzzer's corpus without the fuzzer: every file named on the command line, once. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int main(int argc, char **argv)
{
    static uint8_t bytes[1 << 20];

    for (int i = 1; i < argc; i++) {
        FILE *f = fopen(argv[i], "rb");

        if (!f) {
            perror(argv[i]);
            return 2;
        }
        (void)LLVMFuzzerTestOneInput(bytes, fread(bytes, 1, sizeof bytes, f));
        (void)fclose(f);
    }
    (void)printf("corpus replayed: %d passed, 0 failed\n", argc - 1);
    return argc < 2;
}
