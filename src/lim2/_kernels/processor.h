/* Whether this processor runs code for AVX2 and FMA. */
#pragma once

#if defined(_MSC_VER) && defined(_M_X64)
#include <intrin.h>

static int has_avx2_and_fma(void) {
    int first[4], seventh[4];
    const int fma_and_saved_registers = 1 << 12 | 1 << 27;
    __cpuid(first, 1);
    __cpuidex(seventh, 7, 0);
    if ((first[2] & fma_and_saved_registers) != fma_and_saved_registers || (_xgetbv(0) & 6) != 6)
        return 0;
    return seventh[1] >> 5 & 1;
}
#elif defined(__x86_64__)
static int has_avx2_and_fma(void) {
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}
#else
static int has_avx2_and_fma(void) {
    return 0;
}
#endif
