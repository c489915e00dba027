/* SPDX-License-Identifier: MIT */
/*
** Kernels that were compiled for chains.
*/
#ifndef RIDGE_GPU_FUSED_KERNEL_CACHE_H
#define RIDGE_GPU_FUSED_KERNEL_CACHE_H

#include "gpu/fused/compiler.h"
#include "gpu/fused/text.h"

/* Why a chain could not be compiled, the first of them, though there is a compiler; else empty. */
const char *rg_fused_failure(void);

#if RG_HAS_COMPILER
/*
** The kernel of a chain on a device, compiled if nobody did so before; NULL where there is no
** compiler, or none that can do it, and where the device's stream is being captured and the kernel
** would have to be loaded first.
*/
cudaKernel_t rg_fused_kernel(int32_t device, const rg_fused_form *form);
#endif

#endif
