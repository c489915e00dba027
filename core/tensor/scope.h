/* SPDX-License-Identifier: MIT */
/*
** What tensor.c tells the scope.
*/
#ifndef RIDGE_TENSOR_SCOPE_H
#define RIDGE_TENSOR_SCOPE_H

#include "tensor/tensor.h"

/* List a new tensor in the current scope, which takes a reference. */
rg_status rg_scope_add(rg_tensor *x) RG_CHECK;

#endif
