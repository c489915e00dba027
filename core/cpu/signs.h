/* SPDX-License-Identifier: MIT */
/*
** Fixed signs from a seed, for kernels that need them as bits.
*/
#ifndef RIDGE_CPU_SIGNS_H
#define RIDGE_CPU_SIGNS_H

#include "cpu/cpu.h"

/* The number that a seed tensor holds now. */
uint64_t rg_seed_in(const rg_tensor *x);

/* Write the bits of rg_sign_bits, rg_sign_bytes of them. */
rg_status rg_make_sign_bits(uint64_t seed, int32_t matrix, int64_t rows, int64_t cols,
                            void *to) RG_CHECK;

#endif
