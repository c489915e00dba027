/* SPDX-License-Identifier: MIT */
/*
** The compiler at run time, NVRTC: opened late, where it is there.
*/
#ifndef RIDGE_GPU_FUSED_COMPILER_H
#define RIDGE_GPU_FUSED_COMPILER_H

#include <cuda_runtime_api.h>
#include <stddef.h>
#include <stdint.h>

/* Loading code without a driver's function is of CUDA 12.8; the header is a package of its own. */
#if defined(__has_include) && CUDART_VERSION >= 12080
#if __has_include(<nvrtc.h>)
#define RG_HAS_COMPILER 1
#endif
#endif
#ifndef RG_HAS_COMPILER
#define RG_HAS_COMPILER 0
#endif

/* 13000 of 13.0; 0 where it is not open or cannot be.  open: open it first. */
int32_t rg_compiler_version(bool open);

/* '13.0', or why it is not used; opens it. */
const char *rg_compiler_note(void);

/*
** Machine code of a text.
**
** capability   90 of 9.0: the code is for that alone
** code         malloc'd
** why          in words, where the result is false
*/
bool rg_compile(const char *text, int32_t capability, char **code, size_t *bytes, char *why,
                size_t room);

#endif
