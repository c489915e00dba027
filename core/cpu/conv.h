/* SPDX-License-Identifier: MIT */
/*
** Convolutions in plain loops.
*/
#ifndef RIDGE_CPU_CONV_H
#define RIDGE_CPU_CONV_H

#include "op/conv.h"

/* conv2d, conv2d_back_data or conv2d_back_weight in f64, any layout and strides. */
rg_status rg_conv2d_direct(const rg_call *call, rg_tensor *const *out) RG_CHECK;

#endif
