/* SPDX-License-Identifier: MIT */
/*
** What NVIDIA's management library tells of a device at this moment.
*/
#ifndef RIDGE_GPU_NVML_CUH
#define RIDGE_GPU_NVML_CUH

#include "gpu/device.cuh"

/* Clocks, temperature, power and what holds the clock back, as rg_driver wants it (base/base.h).
** Without the library every number is NaN or -1, and `why` says so. */
void rg_gpu_state(int32_t device, rg_device_state *out);

#endif
